-- "PETS" in ASCII. Identifies the file as a petstore database, so that no
-- other SQLite database is mistaken for one.
PRAGMA application_id = 1346720851;

-- AUTOINCREMENT: ids are never reused, not even after a row is deleted.
-- Ids stay below 2^53 so that JavaScript represents them exactly.
CREATE TABLE pets (
    id          INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    name        TEXT    NOT NULL,
    category_id INTEGER NOT NULL,
    status      TEXT    CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;

-- Keyset pagination of pets filtered by status.
CREATE INDEX pets_status_id_idx ON pets (status, id) WHERE status IS NOT NULL;

-- All timestamps are microseconds since the Unix epoch, UTC.
-- expires_at: when the reservation of the pet ends; null if it never does.
CREATE TABLE orders (
    id         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    pet_id     INTEGER NOT NULL REFERENCES pets (id),
    status     TEXT    NOT NULL CHECK (status IN ('placed', 'completed', 'cancelled')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;

CREATE INDEX orders_status_id_idx ON orders (status, id);

-- A pet has at most one open order.
CREATE UNIQUE INDEX orders_open_pet_id_key ON orders (pet_id) WHERE status = 'placed';

-- Finds open orders that are due to expire.
CREATE INDEX orders_expires_at_idx ON orders (expires_at)
    WHERE status = 'placed' AND expires_at IS NOT NULL;

-- Number of pets by status, in a single row. Triggers maintain it, so it is
-- correct whichever program changes a pet.
CREATE TABLE inventory (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    available INTEGER NOT NULL,
    pending   INTEGER NOT NULL,
    sold      INTEGER NOT NULL
) STRICT;

INSERT INTO inventory (id, available, pending, sold) VALUES (1, 0, 0, 0);

CREATE TRIGGER inventory_pet_inserted AFTER INSERT ON pets WHEN NEW.status IS NOT NULL BEGIN
    UPDATE inventory SET
        available = available + (NEW.status = 'available'),
        pending = pending + (NEW.status = 'pending'),
        sold = sold + (NEW.status = 'sold')
    WHERE id = 1;
END;

CREATE TRIGGER inventory_pet_updated AFTER UPDATE OF status ON pets WHEN NEW.status IS NOT OLD.status BEGIN
    UPDATE inventory SET
        available = available + (NEW.status IS 'available') - (OLD.status IS 'available'),
        pending = pending + (NEW.status IS 'pending') - (OLD.status IS 'pending'),
        sold = sold + (NEW.status IS 'sold') - (OLD.status IS 'sold')
    WHERE id = 1;
END;

CREATE TRIGGER inventory_pet_deleted AFTER DELETE ON pets WHEN OLD.status IS NOT NULL BEGIN
    UPDATE inventory SET
        available = available - (OLD.status = 'available'),
        pending = pending - (OLD.status = 'pending'),
        sold = sold - (OLD.status = 'sold')
    WHERE id = 1;
END;

-- Only the SHA-256 of a key is stored.
-- deprecated_calls counts calls of deprecated operations.
CREATE TABLE api_keys (
    id                      INTEGER PRIMARY KEY AUTOINCREMENT,
    hash                    BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    name                    TEXT    NOT NULL,
    scopes                  TEXT    NOT NULL,
    created_at              INTEGER NOT NULL,
    last_used_at            INTEGER,
    expires_at              INTEGER,
    revoked_at              INTEGER,
    deprecated_calls        INTEGER NOT NULL DEFAULT 0,
    last_deprecated_call_at INTEGER
) STRICT;

-- Recorded outcomes of requests that carried an Idempotency-Key, so that a
-- retry is replayed instead of executed again. fingerprint is the SHA-256 of
-- the request; resource_id is the resource it created or changed.
CREATE TABLE idempotency_keys (
    api_key_id  INTEGER NOT NULL REFERENCES api_keys (id),
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    outcome     TEXT    NOT NULL,
    resource_id INTEGER,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (api_key_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);
