-- The table of the peers that bring their own SQL: Fastify and FastAPI.
-- The index on status holds the id too, so a filtered page is one range of it.
PRAGMA journal_mode = WAL;
CREATE TABLE pets (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    categoryId INTEGER NOT NULL,
    status TEXT CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;
CREATE INDEX pets_by_status ON pets (status);
