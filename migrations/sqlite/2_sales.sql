-- When the hold on the animal lapses; null if it does not.
ALTER TABLE orders ADD COLUMN expires_at INTEGER;

CREATE INDEX orders_lapsing ON orders (expires_at) WHERE status = 'placed' AND expires_at IS NOT NULL;

-- How many animals there are of each status, in one row. Triggers keep it, so
-- that it is right whoever changes an animal.
CREATE TABLE inventory (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    available INTEGER NOT NULL,
    pending   INTEGER NOT NULL,
    sold      INTEGER NOT NULL
) STRICT;

INSERT INTO inventory
SELECT 1,
       (SELECT count(*) FROM pets WHERE status = 'available'),
       (SELECT count(*) FROM pets WHERE status = 'pending'),
       (SELECT count(*) FROM pets WHERE status = 'sold');

CREATE TRIGGER pets_count_added AFTER INSERT ON pets WHEN NEW.status IS NOT NULL BEGIN
    UPDATE inventory SET
        available = available + (NEW.status = 'available'),
        pending = pending + (NEW.status = 'pending'),
        sold = sold + (NEW.status = 'sold')
    WHERE id = 1;
END;

CREATE TRIGGER pets_count_changed AFTER UPDATE OF status ON pets WHEN NEW.status IS NOT OLD.status BEGIN
    UPDATE inventory SET
        available = available + (NEW.status IS 'available') - (OLD.status IS 'available'),
        pending = pending + (NEW.status IS 'pending') - (OLD.status IS 'pending'),
        sold = sold + (NEW.status IS 'sold') - (OLD.status IS 'sold')
    WHERE id = 1;
END;

CREATE TRIGGER pets_count_removed AFTER DELETE ON pets WHEN OLD.status IS NOT NULL BEGIN
    UPDATE inventory SET
        available = available - (OLD.status = 'available'),
        pending = pending - (OLD.status = 'pending'),
        sold = sold - (OLD.status = 'sold')
    WHERE id = 1;
END;

-- Requests that clients named, so that sending one again does not do it again:
-- the hash of the request, what became of it, and the id of what it made or
-- changed.
CREATE TABLE named_requests (
    api_key_id INTEGER NOT NULL REFERENCES api_keys (id),
    name       TEXT    NOT NULL,
    request    BLOB    NOT NULL CHECK (length(request) = 32),
    outcome    TEXT    NOT NULL,
    item       INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (api_key_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX named_requests_by_age ON named_requests (created_at);
