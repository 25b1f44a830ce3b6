-- The table of the peers with SQL of their own: Fastify and FastAPI.
-- The index on status contains the rowid, so a filtered page is one range scan.
PRAGMA journal_mode = WAL;
CREATE TABLE pets (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    categoryId INTEGER NOT NULL,
    status TEXT CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;
CREATE INDEX pets_by_status ON pets (status);
