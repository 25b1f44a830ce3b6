-- Marks the file as a petstore's ("PETS"), so that no other SQLite database is
-- taken for one.
PRAGMA application_id = 1346720851;

-- AUTOINCREMENT: an id is never given twice, even after its row is gone.
-- Ids stay below 2^53, so that JavaScript reads them exactly.
CREATE TABLE pets (
    id          INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    name        TEXT    NOT NULL,
    category_id INTEGER NOT NULL,
    status      TEXT    CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;

CREATE INDEX pets_by_status ON pets (status, id) WHERE status IS NOT NULL;

-- Times are microseconds since 1970, UTC.
CREATE TABLE orders (
    id         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    pet_id     INTEGER NOT NULL REFERENCES pets (id),
    status     TEXT    NOT NULL CHECK (status IN ('placed', 'completed', 'cancelled')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX orders_by_status ON orders (status, id);

-- An animal is promised to one buyer at a time.
CREATE UNIQUE INDEX orders_open ON orders (pet_id) WHERE status = 'placed';

CREATE TABLE api_keys (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;
