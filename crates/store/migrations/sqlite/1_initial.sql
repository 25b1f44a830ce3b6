-- "PETS" in ASCII. Identifies the file as a petstore database, so that no
-- other SQLite database is mistaken for one.
PRAGMA application_id = 1346720851;

-- A choice is checked by OR: for IN with more than two values, SQLite would build a
-- temporary index in every statement that sets one.
--
-- AUTOINCREMENT: ids are never reused, not even after a row is deleted.
-- Ids stay below 2^53 so that JavaScript represents them exactly.
-- search_name: the start of the name, case-folded by the program, for searches.
-- search_words: the words of the name, the breed and the microchip, simplified by the program:
-- distinct, of letters and digits only, separated by blanks.
-- birth_date and acquired_on: YYYY-MM-DD. price_amount: in the smallest unit of the currency.
-- metadata: a JSON object of strings.
-- photos: those that are shown, in their order, as JSON:
-- [{"id":7,"width":1600,"height":1200,"digest":"q83vEjRWeJq8"}].
CREATE TABLE pets (
    id             INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    name           TEXT    NOT NULL,
    search_name    TEXT    NOT NULL,
    search_words   TEXT    NOT NULL DEFAULT '',
    category_id    INTEGER NOT NULL,
    status         TEXT    CHECK (status = 'available' OR status = 'pending' OR status = 'sold'),
    breed          TEXT,
    sex            TEXT    CHECK (sex = 'male' OR sex = 'female' OR sex = 'unknown'),
    birth_date     TEXT,
    color          TEXT,
    microchip      TEXT,
    price_amount   INTEGER CHECK (price_amount BETWEEN 0 AND 1000000000000),
    price_currency TEXT,
    description    TEXT,
    notes          TEXT,
    location       TEXT,
    acquired_on    TEXT,
    source_name    TEXT,
    source_address TEXT,
    source_licence TEXT,
    metadata       TEXT,
    photos         TEXT,
    CHECK ((price_amount IS NULL) = (price_currency IS NULL))
) STRICT;

-- Keyset pagination of pets by status, by category and by name. An index ends with the
-- rowid, which is the id.
CREATE INDEX pets_status_idx ON pets (status) WHERE status IS NOT NULL;
CREATE INDEX pets_category_id_idx ON pets (category_id);
CREATE INDEX pets_search_name_idx ON pets (search_name);

-- Finds pets by their microchip, which is unique among those that are not sold.
CREATE INDEX pets_microchip_idx ON pets (microchip) WHERE microchip IS NOT NULL;
CREATE UNIQUE INDEX pets_unsold_microchip_key ON pets (microchip)
    WHERE microchip IS NOT NULL AND status IS NOT 'sold';

-- The words of search_words, to find pets by the start of a word. Triggers maintain them, so they
-- are complete whichever program sets search_words.
CREATE TABLE pet_words (
    word   TEXT    NOT NULL,
    pet_id INTEGER NOT NULL,
    PRIMARY KEY (word, pet_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER add_words AFTER INSERT ON pets WHEN NEW.search_words <> '' BEGIN
    INSERT INTO pet_words (word, pet_id)
    SELECT value, NEW.id FROM json_each('["' || replace(NEW.search_words, ' ', '","') || '"]');
END;

CREATE TRIGGER change_words AFTER UPDATE OF search_words ON pets
WHEN NEW.search_words <> OLD.search_words BEGIN
    DELETE FROM pet_words WHERE pet_id = OLD.id AND word IN (
        SELECT value FROM json_each('["' || replace(OLD.search_words, ' ', '","') || '"]'));
    INSERT INTO pet_words (word, pet_id)
    SELECT value, NEW.id FROM json_each('["' || replace(NEW.search_words, ' ', '","') || '"]')
    WHERE value <> '';
END;

CREATE TRIGGER remove_words AFTER DELETE ON pets WHEN OLD.search_words <> '' BEGIN
    DELETE FROM pet_words WHERE pet_id = OLD.id AND word IN (
        SELECT value FROM json_each('["' || replace(OLD.search_words, ' ', '","') || '"]'));
END;

-- The photos of pets, without their bytes. removed_at: null while the pet shows the photo; it is
-- deleted some time afterwards. sha256: of the large image, followed by the small one.
-- pet_id: no foreign key, because a photo outlives its pet for a while.
CREATE TABLE photos (
    id         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    pet_id     INTEGER NOT NULL,
    width      INTEGER NOT NULL,
    height     INTEGER NOT NULL,
    sha256     BLOB    NOT NULL CHECK (length(sha256) = 32),
    thumb_size INTEGER NOT NULL,
    full_size  INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;

CREATE INDEX photos_pet_id_idx ON photos (pet_id) WHERE removed_at IS NULL;
CREATE INDEX photos_removed_at_idx ON photos (removed_at) WHERE removed_at IS NOT NULL;

-- The JPEG files, in parts of 64 KiB, so that a response needs no more memory than a part.
CREATE TABLE photo_parts (
    photo_id INTEGER NOT NULL REFERENCES photos (id) ON DELETE CASCADE,
    kind     TEXT    NOT NULL CHECK (kind = 'thumb' OR kind = 'full'),
    part     INTEGER NOT NULL,
    bytes    BLOB    NOT NULL CHECK (length(bytes) BETWEEN 1 AND 65536),
    PRIMARY KEY (photo_id, kind, part)
) STRICT;

-- Marks photos that pets no longer show as removed, so that they are purged. The service does that
-- itself, by its own clock; these triggers are for other programs.
CREATE TRIGGER remove_photos AFTER DELETE ON pets WHEN OLD.photos IS NOT NULL BEGIN
    UPDATE photos SET removed_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    WHERE pet_id = OLD.id AND removed_at IS NULL;
END;

CREATE TRIGGER change_photos AFTER UPDATE OF photos ON pets
WHEN OLD.photos IS NOT NULL AND NEW.photos IS NOT OLD.photos BEGIN
    UPDATE photos SET removed_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    WHERE pet_id = OLD.id AND removed_at IS NULL AND id NOT IN (
        SELECT json_extract(value, '$.id') FROM json_each(coalesce(NEW.photos, '[]')));
END;

-- The data that the register of animals needs of pets that were deleted. The row of a deletion
-- that was undone stays, and does not count while the pet exists.
CREATE TABLE deleted_pets (
    id             INTEGER PRIMARY KEY,
    deleted_at     INTEGER NOT NULL,
    name           TEXT    NOT NULL,
    category_id    INTEGER NOT NULL,
    breed          TEXT,
    sex            TEXT    CHECK (sex = 'male' OR sex = 'female' OR sex = 'unknown'),
    birth_date     TEXT,
    color          TEXT,
    microchip      TEXT,
    acquired_on    TEXT,
    source_name    TEXT,
    source_address TEXT,
    source_licence TEXT
) STRICT;

-- The register by the date of acquisition, and the rows that are to be purged.
CREATE INDEX pets_acquired_on_idx ON pets (acquired_on) WHERE acquired_on IS NOT NULL;
CREATE INDEX deleted_pets_acquired_on_idx ON deleted_pets (acquired_on)
    WHERE acquired_on IS NOT NULL;
CREATE INDEX deleted_pets_deleted_at_idx ON deleted_pets (deleted_at);

-- Names of category ids. Pets may have a category id without a name.
-- folded_name: the whole name, case-folded by the program.
CREATE TABLE categories (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL,
    folded_name TEXT    NOT NULL UNIQUE
) STRICT;

-- The settings of the shop: one row, once something is set.
CREATE TABLE settings (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    name         TEXT,
    address      TEXT,
    receipt_text TEXT,
    currency     TEXT
) STRICT;

-- All timestamps are microseconds since the Unix epoch, UTC.
-- pet_id: no foreign key, because an order outlives its pet.
-- expires_at: when the reservation of the pet ends; null if it never does.
-- completed_at: what updated_at was when the order was completed; returned_at: when the pet was
-- returned.
-- completed_by: the API key that completed it. category_id: that of the pet when it was completed.
-- The buyer is personal data. It is stored in these columns and nowhere else.
CREATE TABLE orders (
    id             INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    pet_id         INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'placed' OR status = 'completed'
                                           OR status = 'cancelled' OR status = 'returned'),
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    expires_at     INTEGER,
    completed_at   INTEGER,
    buyer_name     TEXT,
    buyer_address  TEXT,
    buyer_contact  TEXT,
    price_amount   INTEGER CHECK (price_amount BETWEEN 0 AND 1000000000000),
    price_currency TEXT,
    reference      TEXT,
    completed_by   INTEGER,
    category_id    INTEGER,
    returned_at    INTEGER,
    CHECK ((price_amount IS NULL) = (price_currency IS NULL))
) STRICT;

-- Keyset pagination of orders by status and by pet.
CREATE INDEX orders_status_idx ON orders (status);
CREATE INDEX orders_pet_id_idx ON orders (pet_id);

-- A pet has at most one active order: it is sold once, until the sale is returned.
CREATE UNIQUE INDEX orders_active_pet_id_key ON orders (pet_id)
    WHERE status IN ('placed', 'completed');

-- Finds open orders that are due to expire.
CREATE INDEX orders_expires_at_idx ON orders (expires_at)
    WHERE status = 'placed' AND expires_at IS NOT NULL;

-- Sales by the time of completion and of return, with what reports count: they need not read the
-- table.
CREATE INDEX orders_completed_at_idx ON orders
    (completed_at, id, category_id, completed_by, price_amount, price_currency)
    WHERE completed_at IS NOT NULL;
CREATE INDEX orders_returned_at_idx ON orders
    (returned_at, id, category_id, completed_by, price_amount, price_currency)
    WHERE returned_at IS NOT NULL;

-- Number of pets and orders by status, in a single row. Triggers maintain it, so it is
-- correct whichever program changes a pet or an order.
CREATE TABLE counts (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    pets             INTEGER NOT NULL,
    pets_available   INTEGER NOT NULL,
    pets_pending     INTEGER NOT NULL,
    pets_sold        INTEGER NOT NULL,
    orders_placed    INTEGER NOT NULL,
    orders_completed INTEGER NOT NULL,
    orders_cancelled INTEGER NOT NULL,
    orders_returned  INTEGER NOT NULL
) STRICT;

INSERT INTO counts VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0);

CREATE TRIGGER count_pet_inserted AFTER INSERT ON pets BEGIN
    UPDATE counts SET
        pets = pets + 1,
        pets_available = pets_available + (NEW.status IS 'available'),
        pets_pending = pets_pending + (NEW.status IS 'pending'),
        pets_sold = pets_sold + (NEW.status IS 'sold')
    WHERE id = 1;
END;

CREATE TRIGGER count_pet_updated AFTER UPDATE OF status ON pets WHEN NEW.status IS NOT OLD.status BEGIN
    UPDATE counts SET
        pets_available = pets_available + (NEW.status IS 'available') - (OLD.status IS 'available'),
        pets_pending = pets_pending + (NEW.status IS 'pending') - (OLD.status IS 'pending'),
        pets_sold = pets_sold + (NEW.status IS 'sold') - (OLD.status IS 'sold')
    WHERE id = 1;
END;

CREATE TRIGGER count_pet_deleted AFTER DELETE ON pets BEGIN
    UPDATE counts SET
        pets = pets - 1,
        pets_available = pets_available - (OLD.status IS 'available'),
        pets_pending = pets_pending - (OLD.status IS 'pending'),
        pets_sold = pets_sold - (OLD.status IS 'sold')
    WHERE id = 1;
END;

CREATE TRIGGER count_order_inserted AFTER INSERT ON orders BEGIN
    UPDATE counts SET
        orders_placed = orders_placed + (NEW.status = 'placed'),
        orders_completed = orders_completed + (NEW.status = 'completed'),
        orders_cancelled = orders_cancelled + (NEW.status = 'cancelled'),
        orders_returned = orders_returned + (NEW.status = 'returned')
    WHERE id = 1;
END;

CREATE TRIGGER count_order_updated AFTER UPDATE OF status ON orders BEGIN
    UPDATE counts SET
        orders_placed = orders_placed + (NEW.status = 'placed') - (OLD.status = 'placed'),
        orders_completed = orders_completed + (NEW.status = 'completed') - (OLD.status = 'completed'),
        orders_cancelled = orders_cancelled + (NEW.status = 'cancelled') - (OLD.status = 'cancelled'),
        orders_returned = orders_returned + (NEW.status = 'returned') - (OLD.status = 'returned')
    WHERE id = 1;
END;

CREATE TRIGGER count_order_deleted AFTER DELETE ON orders BEGIN
    UPDATE counts SET
        orders_placed = orders_placed - (OLD.status = 'placed'),
        orders_completed = orders_completed - (OLD.status = 'completed'),
        orders_cancelled = orders_cancelled - (OLD.status = 'cancelled'),
        orders_returned = orders_returned - (OLD.status = 'returned')
    WHERE id = 1;
END;

-- The event log: every change of a pet, an order or a category, in the order of the
-- commits. The writer assigns sequence numbers without gaps; the newest event is never
-- purged, so a number is never given twice.
-- api_key_id: the API key that made the change; null if none did.
-- data: the resource after the change, as JSON; before it, if it was deleted.
-- is_row: always 0; on PostgreSQL, changes by other programs are logged.
-- batch_id: the batch or import that made the change; null if none did.
-- before: the resource before an update of a batch, as JSON.
CREATE TABLE events (
    sequence    INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    api_key_id  INTEGER,
    resource_id INTEGER NOT NULL,
    is_row      INTEGER NOT NULL DEFAULT 0,
    data        TEXT    NOT NULL,
    batch_id    TEXT,
    before      TEXT
) STRICT;

-- The history of one resource. The first letters of a type name the kind of resource, because ids
-- are not unique across kinds. An index ends with the sequence number.
CREATE INDEX events_subject_idx ON events (resource_id, substr(type, 1, 3));
CREATE INDEX events_batch_id_idx ON events (batch_id, sequence) WHERE batch_id IS NOT NULL;

-- The identity of the log, a random UUID, the last sequence number that was purged, and the
-- last time that a service is known to have had the store open, in a single row.
CREATE TABLE event_log (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    source         TEXT    NOT NULL,
    purged_through INTEGER NOT NULL DEFAULT 0,
    last_open_at   INTEGER
) STRICT;

INSERT INTO event_log (id, source) VALUES (1, 'urn:uuid:' || lower(
    hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
    || '-' || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2)
    || '-' || hex(randomblob(6))));

-- Only the SHA-256 of a key is stored. The columns of an invitation describe the key that it
-- turns into.
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
    last_deprecated_call_at INTEGER,
    successor               INTEGER,
    invitation_scopes       TEXT,
    invitation_invited_by   INTEGER,
    invitation_expires_at   INTEGER,
    invitation_replaces     INTEGER
) STRICT;

-- Recorded outcomes of requests that carried an Idempotency-Key, so that a
-- retry is replayed instead of executed again. fingerprint is the SHA-256 of
-- the request; resource_id is the resource it created or changed; results are those
-- of a batch, as JSON.
CREATE TABLE idempotency_keys (
    api_key_id  INTEGER NOT NULL REFERENCES api_keys (id),
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    outcome     TEXT    NOT NULL,
    resource_id INTEGER,
    created_at  INTEGER NOT NULL,
    results     TEXT,
    PRIMARY KEY (api_key_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);

-- Imports: how many records of a file are done, so that the same command continues after
-- them, and how many pets were added and changed. digest: see ImportId.
-- batch_id, last_known_id: of the run that is in progress, or was the last (see ImportRun).
-- row_count: of an import over the API, whose records are its changes.
-- finished_at: null if it was interrupted or is running. undo: null unless it was undone.
CREATE TABLE imports (
    digest        BLOB    PRIMARY KEY CHECK (length(digest) = 32),
    batch_id      TEXT    NOT NULL,
    last_known_id INTEGER NOT NULL,
    row_count     INTEGER,
    records       INTEGER NOT NULL,
    added         INTEGER NOT NULL,
    changed       INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    finished_at   INTEGER,
    undo          TEXT    CHECK (undo IN ('started', 'finished')),
    kept          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Receivers of events, with their secrets: deliveries are signed with them.
-- types: names separated by spaces. api_key_id: the API key that created it.
-- position: the id of an event; every event up to it was delivered, skipped, or has a row in
-- webhook_deliveries.
-- paused_until: no attempt is made before. revision, epoch: see
-- StoredWebhook. secret_request: see SigningSecrets.
-- lease_owner, lease_expires_at: always null; PostgreSQL has several replicas.
CREATE TABLE webhooks (
    id                         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 9007199254740991),
    url                        TEXT    NOT NULL,
    types                      TEXT    NOT NULL,
    description                TEXT,
    state                      TEXT    NOT NULL CHECK (state = 'enabled' OR state = 'disabled'),
    disabled_reason            TEXT,
    api_key_id                 INTEGER NOT NULL,
    created_at                 INTEGER NOT NULL,
    updated_at                 INTEGER NOT NULL,
    secret                     TEXT    NOT NULL,
    previous_secret            TEXT,
    previous_secret_expires_at INTEGER,
    secret_request             TEXT,
    position                   TEXT    NOT NULL,
    consecutive_failures       INTEGER NOT NULL DEFAULT 0,
    failing_since              INTEGER,
    paused_until               INTEGER,
    revision                   INTEGER NOT NULL DEFAULT 1,
    epoch                      INTEGER NOT NULL DEFAULT 1,
    lease_owner                TEXT,
    lease_expires_at           INTEGER
) STRICT;

-- Deliveries that have failed at least once. sequence is that of the event.
CREATE TABLE webhook_deliveries (
    webhook_id      INTEGER NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    sequence        INTEGER NOT NULL,
    event_id        TEXT    NOT NULL,
    state           TEXT    NOT NULL CHECK (state = 'retrying' OR state = 'failed'),
    attempts        INTEGER NOT NULL,
    last_attempt_at INTEGER NOT NULL,
    status          INTEGER,
    error           TEXT    NOT NULL,
    next_attempt_at INTEGER,
    PRIMARY KEY (webhook_id, sequence)
) STRICT, WITHOUT ROWID;

-- Finds deliveries that are due, and those that are to be purged.
CREATE INDEX webhook_deliveries_next_attempt_at_idx
    ON webhook_deliveries (webhook_id, next_attempt_at) WHERE state = 'retrying';
CREATE INDEX webhook_deliveries_last_attempt_at_idx
    ON webhook_deliveries (last_attempt_at) WHERE state = 'failed';
