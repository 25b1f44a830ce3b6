-- Animals cannot be changed while they are counted.
LOCK TABLE pets IN SHARE ROW EXCLUSIVE MODE;

-- How many animals there are of each status: the sums over all rows. A session
-- adds to a row of its own, or nearly so, and waits for no other session.
-- Triggers keep it, so that it is right whoever changes an animal.
CREATE TABLE inventory (
    shard     int    PRIMARY KEY,
    available bigint NOT NULL,
    pending   bigint NOT NULL,
    sold      bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO inventory
SELECT 0,
       count(*) FILTER (WHERE status = 'available'),
       count(*) FILTER (WHERE status = 'pending'),
       count(*) FILTER (WHERE status = 'sold')
FROM pets;

CREATE FUNCTION count_pets() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    change inventory;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE inventory SET available = 0, pending = 0, sold = 0;
        RETURN NULL;
    ELSIF TG_OP = 'INSERT' THEN
        SELECT 0,
               count(*) FILTER (WHERE status = 'available'),
               count(*) FILTER (WHERE status = 'pending'),
               count(*) FILTER (WHERE status = 'sold')
        INTO change FROM added;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT 0,
               -count(*) FILTER (WHERE status = 'available'),
               -count(*) FILTER (WHERE status = 'pending'),
               -count(*) FILTER (WHERE status = 'sold')
        INTO change FROM removed;
    ELSE
        SELECT 0,
               coalesce(sum(number) FILTER (WHERE status = 'available'), 0),
               coalesce(sum(number) FILTER (WHERE status = 'pending'), 0),
               coalesce(sum(number) FILTER (WHERE status = 'sold'), 0)
        INTO change
        FROM (SELECT status, 1 AS number FROM added
              UNION ALL SELECT status, -1 FROM removed) AS both_sides;
    END IF;
    IF (change.available, change.pending, change.sold) <> (0, 0, 0) THEN
        INSERT INTO inventory AS kept
        VALUES (pg_backend_pid() % 64, change.available, change.pending, change.sold)
        ON CONFLICT (shard) DO UPDATE SET
            available = kept.available + excluded.available,
            pending = kept.pending + excluded.pending,
            sold = kept.sold + excluded.sold;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER pets_count_added AFTER INSERT ON pets
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_pets();

CREATE TRIGGER pets_count_changed AFTER UPDATE ON pets
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_pets();

CREATE TRIGGER pets_count_truncated AFTER TRUNCATE ON pets
    FOR EACH STATEMENT EXECUTE FUNCTION count_pets();

CREATE TRIGGER pets_count_removed AFTER DELETE ON pets
    REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_pets();

-- Requests that clients named, so that sending one again does not do it again:
-- the hash of the request, what became of it, and the id of what it made or
-- changed.
CREATE TABLE named_requests (
    api_key_id bigint NOT NULL REFERENCES api_keys (id),
    name       text   NOT NULL,
    request    bytea  NOT NULL CHECK (length(request) = 32),
    outcome    text   NOT NULL,
    item       bigint,
    created_at bigint NOT NULL,
    PRIMARY KEY (api_key_id, name)
);

CREATE INDEX named_requests_by_age ON named_requests (created_at);

-- When the hold on the animal lapses; null if it does not.
ALTER TABLE orders ADD COLUMN expires_at bigint;

CREATE INDEX orders_lapsing ON orders (expires_at) WHERE status = 'placed' AND expires_at IS NOT NULL;

-- Whether an open order holds the animal. It stands in the animal's own row,
-- because a change that has waited for that row looks at it once more, but at
-- no other table.
ALTER TABLE pets ADD COLUMN held boolean NOT NULL DEFAULT false;
UPDATE pets SET held = true FROM orders WHERE orders.pet_id = pets.id AND orders.status = 'placed';
