


SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;


CREATE FUNCTION public.add_words() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
BEGIN
    INSERT INTO pet_words (word, pet_id)
    SELECT unnest(string_to_array(search_words, ' ')), id FROM new_rows;
    RETURN NULL;
END
$$;



CREATE FUNCTION public.change_words() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
BEGIN
    DELETE FROM pet_words
    WHERE pet_id = OLD.id AND word = ANY (string_to_array(OLD.search_words, ' '));
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO pet_words (word, pet_id)
        SELECT unnest(string_to_array(NEW.search_words, ' ')), NEW.id;
    END IF;
    RETURN NULL;
END
$$;



CREATE FUNCTION public.count_rows() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
DECLARE
    change counts;
    sign int := CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END;
    locked_shard int;
BEGIN
    IF TG_OP = 'TRUNCATE' AND TG_TABLE_NAME = 'pets' THEN
        UPDATE counts SET pets = 0, pets_available = 0, pets_pending = 0, pets_sold = 0;
        RETURN NULL;
    ELSIF TG_OP = 'TRUNCATE' THEN
        UPDATE counts SET orders_placed = 0, orders_completed = 0, orders_cancelled = 0,
                          orders_returned = 0;
        RETURN NULL;
    ELSIF TG_OP = 'UPDATE' THEN
        SELECT 0, 0,
               coalesce(sum(delta) FILTER (WHERE status = 'available'), 0),
               coalesce(sum(delta) FILTER (WHERE status = 'pending'), 0),
               coalesce(sum(delta) FILTER (WHERE status = 'sold'), 0),
               coalesce(sum(delta) FILTER (WHERE status = 'placed'), 0),
               coalesce(sum(delta) FILTER (WHERE status = 'completed'), 0),
               coalesce(sum(delta) FILTER (WHERE status = 'cancelled'), 0),
               coalesce(sum(delta) FILTER (WHERE status = 'returned'), 0)
        INTO change
        FROM (SELECT status, 1 AS delta FROM new_rows
              UNION ALL SELECT status, -1 FROM old_rows) AS deltas;
    ELSE
        SELECT 0,
               sign * count(*) FILTER (WHERE TG_TABLE_NAME = 'pets'),
               sign * count(*) FILTER (WHERE status = 'available'),
               sign * count(*) FILTER (WHERE status = 'pending'),
               sign * count(*) FILTER (WHERE status = 'sold'),
               sign * count(*) FILTER (WHERE status = 'placed'),
               sign * count(*) FILTER (WHERE status = 'completed'),
               sign * count(*) FILTER (WHERE status = 'cancelled'),
               sign * count(*) FILTER (WHERE status = 'returned')
        INTO change
        FROM changed_rows;
    END IF;
    IF change <> (0, 0, 0, 0, 0, 0, 0, 0, 0)::counts THEN
        locked_shard := lock_counts();
        UPDATE counts
        SET pets = pets + change.pets,
            pets_available = pets_available + change.pets_available,
            pets_pending = pets_pending + change.pets_pending,
            pets_sold = pets_sold + change.pets_sold,
            orders_placed = orders_placed + change.orders_placed,
            orders_completed = orders_completed + change.orders_completed,
            orders_cancelled = orders_cancelled + change.orders_cancelled,
            orders_returned = orders_returned + change.orders_returned
        WHERE shard = locked_shard;
    END IF;
    RETURN NULL;
END
$$;



CREATE FUNCTION public.count_unlogged() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
BEGIN
    UPDATE event_log SET unlogged_order_changes = unlogged_order_changes + 1;
    RETURN NULL;
END
$$;



CREATE FUNCTION public.count_webhooks() RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('webhooks'::regclass::oid::bigint);
    RETURN (SELECT count(*) FROM webhooks);
END
$$;



CREATE FUNCTION public.is_date(value text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $_$
    SELECT CASE WHEN value ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN value::date IS NOT NULL
                ELSE value IS NULL END
$_$;



CREATE FUNCTION public.is_metadata(value text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $_$
    SELECT jsonb_typeof(value::jsonb) = 'object'
        AND NOT jsonb_path_exists(value::jsonb, 'strict $.* ? (@.type() <> "string")')
$_$;



CREATE FUNCTION public.lock_counts() RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
DECLARE
    own_shard int := pg_backend_pid() % 64;
    free_shard int;
BEGIN
    SELECT shard INTO free_shard FROM counts
    WHERE shard = own_shard FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        SELECT shard INTO free_shard FROM counts
        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    RETURN coalesce(free_shard, own_shard);
END
$$;



CREATE FUNCTION public.log_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $_$
DECLARE
    now_micros bigint := extract(epoch FROM now()) * 1000000;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO events (at, type, resource_id, is_row, data)
        SELECT now_micros, replace(TG_ARGV[0], '%', coalesce(data ->> 'status', '')), id, true, data
        FROM (SELECT id, logged_row(to_jsonb(new_rows)) AS data FROM new_rows) AS after
        ORDER BY id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO events (at, type, resource_id, is_row, data)
        SELECT now_micros,
               replace(TG_ARGV[0], '%', CASE data ->> 'status' WHEN old_data ->> 'status'
                                        THEN 'updated' ELSE coalesce(data ->> 'status', '') END),
               id, true, data
        FROM (SELECT id, logged_row(to_jsonb(new_rows)) AS data FROM new_rows) AS after
        JOIN (SELECT id, logged_row(to_jsonb(old_rows)) AS old_data FROM old_rows) AS before
            USING (id)
        WHERE data <> old_data
        ORDER BY id;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO events (at, type, resource_id, is_row, data)
        SELECT now_micros, TG_ARGV[0], id, true, logged_row(to_jsonb(old_rows))
        FROM old_rows ORDER BY id;
        IF TG_TABLE_NAME = 'pets' THEN
            PERFORM record_deletion(to_jsonb(old_rows), now_micros) FROM old_rows;
        END IF;
    ELSE
        IF TG_TABLE_NAME = 'pets' THEN
            PERFORM record_deletion(to_jsonb(pets), now_micros) FROM pets;
        END IF;
        EXECUTE format(
            'INSERT INTO events (at, type, resource_id, is_row, data)
             SELECT $1, $2, id, true, logged_row(to_jsonb(old)) FROM %I AS old ORDER BY id',
            TG_TABLE_NAME)
        USING now_micros, TG_ARGV[0];
    END IF;
    RETURN NULL;
END
$_$;



CREATE FUNCTION public.logged_row(data jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT data - '{buyer_name,buyer_address,buyer_contact}'::text[]
$$;



CREATE FUNCTION public.record_deletion(pet jsonb, at bigint) RETURNS void
    LANGUAGE sql
    SET search_path TO '$user', 'public'
    AS $$
    INSERT INTO deleted_pets
    SELECT (jsonb_populate_record(
        NULL::deleted_pets, pet || jsonb_build_object('deleted_at', at))).*
    ON CONFLICT (id) DO UPDATE SET (
        deleted_at, name, category_id, breed, sex, birth_date, color, microchip, acquired_on,
        source_name, source_address, source_licence
    ) = (
        excluded.deleted_at, excluded.name, excluded.category_id, excluded.breed, excluded.sex,
        excluded.birth_date, excluded.color, excluded.microchip, excluded.acquired_on,
        excluded.source_name, excluded.source_address, excluded.source_licence
    )
$$;



CREATE FUNCTION public.reject_new_id() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'the id of a row of % cannot be changed', TG_TABLE_NAME;
END
$$;



CREATE FUNCTION public.remove_all_words() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
BEGIN
    TRUNCATE pet_words;
    RETURN NULL;
END
$$;



CREATE FUNCTION public.remove_photos() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public'
    AS $$
DECLARE
    now_micros bigint := extract(epoch FROM now()) * 1000000;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE photos SET removed_at = now_micros WHERE removed_at IS NULL;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE photos SET removed_at = now_micros
        WHERE pet_id = OLD.id AND removed_at IS NULL;
    ELSE
        UPDATE photos SET removed_at = now_micros
        WHERE pet_id = OLD.id AND removed_at IS NULL AND id NOT IN (
            SELECT (photo ->> 'id')::bigint
            FROM jsonb_array_elements(coalesce(NEW.photos, '[]')::jsonb) AS photo);
    END IF;
    RETURN NULL;
END
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;


CREATE TABLE public.api_keys (
    id bigint NOT NULL,
    hash bytea NOT NULL,
    name text NOT NULL,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    last_used_at bigint,
    expires_at bigint,
    revoked_at bigint,
    deprecated_calls bigint DEFAULT 0 NOT NULL,
    last_deprecated_call_at bigint,
    successor bigint,
    invitation_scopes text,
    invitation_invited_by bigint,
    invitation_expires_at bigint,
    invitation_replaces bigint,
    CONSTRAINT api_keys_hash_check CHECK ((length(hash) = 32))
);



ALTER TABLE public.api_keys ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.api_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



CREATE TABLE public.categories (
    id bigint NOT NULL,
    name text NOT NULL,
    folded_name text NOT NULL COLLATE pg_catalog."C"
);



CREATE TABLE public.counts (
    shard integer NOT NULL,
    pets bigint DEFAULT 0 NOT NULL,
    pets_available bigint DEFAULT 0 NOT NULL,
    pets_pending bigint DEFAULT 0 NOT NULL,
    pets_sold bigint DEFAULT 0 NOT NULL,
    orders_placed bigint DEFAULT 0 NOT NULL,
    orders_completed bigint DEFAULT 0 NOT NULL,
    orders_cancelled bigint DEFAULT 0 NOT NULL,
    orders_returned bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');



CREATE TABLE public.deleted_pets (
    id bigint NOT NULL,
    deleted_at bigint NOT NULL,
    name text NOT NULL,
    category_id bigint NOT NULL,
    breed text,
    sex text,
    birth_date text,
    color text,
    microchip text COLLATE pg_catalog."C",
    acquired_on text COLLATE pg_catalog."C",
    source_name text,
    source_address text,
    source_licence text,
    CONSTRAINT deleted_pets_acquired_on_check CHECK (public.is_date(acquired_on)),
    CONSTRAINT deleted_pets_birth_date_check CHECK (public.is_date(birth_date)),
    CONSTRAINT deleted_pets_sex_check CHECK ((sex = ANY (ARRAY['male'::text, 'female'::text, 'unknown'::text])))
);



CREATE TABLE public.event_log (
    id integer NOT NULL,
    source text NOT NULL,
    purged_through bigint DEFAULT 0 NOT NULL,
    stable_through bigint DEFAULT 0 NOT NULL,
    unlogged_order_changes bigint DEFAULT 0 NOT NULL,
    CONSTRAINT event_log_id_check CHECK ((id = 1))
);



CREATE TABLE public.events (
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    type text NOT NULL,
    api_key_id bigint,
    resource_id bigint NOT NULL,
    is_row boolean DEFAULT false NOT NULL,
    data text NOT NULL,
    batch_id text,
    before text
);



ALTER TABLE public.events ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



CREATE TABLE public.idempotency_keys (
    api_key_id bigint NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    outcome text NOT NULL,
    resource_id bigint,
    created_at bigint NOT NULL,
    results text,
    CONSTRAINT idempotency_keys_fingerprint_check CHECK ((length(fingerprint) = 32))
);



CREATE TABLE public.imports (
    digest bytea NOT NULL,
    batch_id text NOT NULL,
    last_known_id bigint NOT NULL,
    row_count bigint,
    records bigint NOT NULL,
    added bigint NOT NULL,
    changed bigint NOT NULL,
    updated_at bigint NOT NULL,
    finished_at bigint,
    undo text,
    kept bigint NOT NULL,
    CONSTRAINT imports_digest_check CHECK ((length(digest) = 32)),
    CONSTRAINT imports_undo_check CHECK ((undo = ANY (ARRAY['started'::text, 'finished'::text])))
);



CREATE TABLE public.orders (
    id bigint NOT NULL,
    pet_id bigint NOT NULL,
    status text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    expires_at bigint,
    completed_at bigint,
    buyer_name text,
    buyer_address text,
    buyer_contact text,
    price_amount bigint,
    price_currency text,
    reference text,
    completed_by bigint,
    category_id bigint,
    returned_at bigint,
    CONSTRAINT orders_check CHECK (((price_amount IS NULL) = (price_currency IS NULL))),
    CONSTRAINT orders_id_check CHECK (((id >= 1) AND (id <= '9007199254740991'::bigint))),
    CONSTRAINT orders_price_amount_check CHECK (((price_amount >= 0) AND (price_amount <= '1000000000000'::bigint))),
    CONSTRAINT orders_price_currency_check CHECK ((price_currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT orders_status_check CHECK ((status = ANY (ARRAY['placed'::text, 'completed'::text, 'cancelled'::text, 'returned'::text])))
);



ALTER TABLE public.orders ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.orders_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



CREATE TABLE public.pet_words (
    word text NOT NULL COLLATE pg_catalog."C",
    pet_id bigint NOT NULL
);



CREATE TABLE public.pets (
    id bigint NOT NULL,
    name text NOT NULL,
    search_name text NOT NULL COLLATE pg_catalog."C",
    search_words text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    category_id bigint NOT NULL,
    status text,
    breed text,
    sex text,
    birth_date text,
    color text,
    microchip text COLLATE pg_catalog."C",
    price_amount bigint,
    price_currency text,
    description text,
    notes text,
    location text,
    acquired_on text COLLATE pg_catalog."C",
    source_name text,
    source_address text,
    source_licence text,
    metadata text,
    photos text,
    CONSTRAINT pets_acquired_on_check CHECK (public.is_date(acquired_on)),
    CONSTRAINT pets_birth_date_check CHECK (public.is_date(birth_date)),
    CONSTRAINT pets_check CHECK (((price_amount IS NULL) = (price_currency IS NULL))),
    CONSTRAINT pets_id_check CHECK (((id >= 1) AND (id <= '9007199254740991'::bigint))),
    CONSTRAINT pets_metadata_check CHECK (public.is_metadata(metadata)),
    CONSTRAINT pets_microchip_check CHECK ((microchip ~ '^([0-9]{9}|[0-9]{10}|[0-9]{15})$'::text)),
    CONSTRAINT pets_price_amount_check CHECK (((price_amount >= 0) AND (price_amount <= '1000000000000'::bigint))),
    CONSTRAINT pets_price_currency_check CHECK ((price_currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT pets_sex_check CHECK ((sex = ANY (ARRAY['male'::text, 'female'::text, 'unknown'::text]))),
    CONSTRAINT pets_status_check CHECK ((status = ANY (ARRAY['available'::text, 'pending'::text, 'sold'::text])))
);



ALTER TABLE public.pets ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pets_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



CREATE TABLE public.photo_parts (
    photo_id bigint NOT NULL,
    kind text NOT NULL,
    part bigint NOT NULL,
    bytes bytea NOT NULL,
    CONSTRAINT photo_parts_bytes_check CHECK (((length(bytes) >= 1) AND (length(bytes) <= 65536))),
    CONSTRAINT photo_parts_kind_check CHECK ((kind = ANY (ARRAY['thumb'::text, 'full'::text])))
);
ALTER TABLE ONLY public.photo_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;



CREATE TABLE public.photos (
    id bigint NOT NULL,
    pet_id bigint NOT NULL,
    width bigint NOT NULL,
    height bigint NOT NULL,
    sha256 bytea NOT NULL,
    thumb_size bigint NOT NULL,
    full_size bigint NOT NULL,
    created_at bigint NOT NULL,
    removed_at bigint,
    CONSTRAINT photos_id_check CHECK (((id >= 1) AND (id <= '9007199254740991'::bigint))),
    CONSTRAINT photos_sha256_check CHECK ((length(sha256) = 32))
);



ALTER TABLE public.photos ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.photos_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



CREATE TABLE public.schema_version (
    version integer NOT NULL,
    min_compatible_version integer NOT NULL
);



CREATE TABLE public.settings (
    id bigint NOT NULL,
    name text,
    address text,
    receipt_text text,
    currency text,
    CONSTRAINT settings_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT settings_id_check CHECK ((id = 1))
);



CREATE TABLE public.webhook_deliveries (
    webhook_id bigint NOT NULL,
    sequence bigint NOT NULL,
    event_id text NOT NULL,
    state text NOT NULL,
    attempts bigint NOT NULL,
    last_attempt_at bigint NOT NULL,
    status bigint,
    error text NOT NULL,
    next_attempt_at bigint,
    CONSTRAINT webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['retrying'::text, 'failed'::text])))
);



CREATE TABLE public.webhooks (
    id bigint NOT NULL,
    url text NOT NULL,
    types text NOT NULL,
    description text,
    state text NOT NULL,
    disabled_reason text,
    api_key_id bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    secret text NOT NULL,
    previous_secret text,
    previous_secret_expires_at bigint,
    secret_request text,
    "position" text NOT NULL,
    consecutive_failures bigint DEFAULT 0 NOT NULL,
    failing_since bigint,
    paused_until bigint,
    revision bigint DEFAULT 1 NOT NULL,
    epoch bigint DEFAULT 1 NOT NULL,
    lease_owner text,
    lease_expires_at bigint,
    CONSTRAINT webhooks_id_check CHECK (((id >= 1) AND (id <= '9007199254740991'::bigint))),
    CONSTRAINT webhooks_state_check CHECK ((state = ANY (ARRAY['enabled'::text, 'disabled'::text])))
)
WITH (fillfactor='50');



ALTER TABLE public.webhooks ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.webhooks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



INSERT INTO public.api_keys VALUES (1, '\x4888502ca7e10b4c14e5ac42352e6ddb552a53e24db10bcff607d6d7bd0500ed', 'owner', 'pets:read pets:write orders:read orders:write webhooks:read webhooks:write keys:read keys:write store:write', 1795078089305229, 1795078090459497, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.api_keys VALUES (3, '\xd67150d58d3b0952cf814f0a0ebf609a335724f4736cdde8f95be457114658b2', 'mirror', 'pets:read', 1795078100617955, NULL, 1795078102768577, NULL, 0, NULL, 5, NULL, NULL, NULL, NULL);
INSERT INTO public.api_keys VALUES (5, '\x039d3c7391e4800011b5c2dd4be1657c161276b266b330edad05dd1d37ee0f7e', 'mirror', 'pets:read', 1795078102768577, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.api_keys VALUES (4, '\x0d64527b64941e8306f0b79114b5fa53efb847d2b71aea5eea435acb38ea9cfe', 'lost', 'pets:read', 1795078100914740, NULL, NULL, 1795078104504839, 0, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.api_keys VALUES (2, '\xf97689b2e62b6fd9bd952e1390bd4b62709acc16d1546928c4466a8c0e6587b1', 'web shop', 'pets:read', 1795078100084404, NULL, 4102358400000000, 1795078104945629, 0, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.api_keys VALUES (6, '\x88eaf7153df98688e9c2a3dcd1ab889dd8bb89016136a47994c7169d653de685', 'Ada', 'keys:claim', 1795078104711957, 1795078105023156, 1795164504711957, 1795078104945629, 0, NULL, NULL, 'pets:read', 1, NULL, 2);
INSERT INTO public.api_keys VALUES (8, '\xcfe19fed4dfcfea15d47b05382416a7bbaf35ab995abc82d24dd70e6a6e6ddae', 'Bob', 'keys:claim', 1795078105227355, NULL, 1795164505227355, NULL, 0, NULL, NULL, 'pets:read', 1, 4102358400000000, NULL);
INSERT INTO public.api_keys VALUES (7, '\x4c79cb1e6a61e079029f2190d2a578c062fe2a9b4578118215f6d7c532884ea8', 'Ada', 'pets:read', 1795078104945629, 1795078105493121, NULL, NULL, 1, 1795078105493121, NULL, NULL, NULL, NULL, NULL);



INSERT INTO public.categories VALUES (1, 'Dogs', 'dogs');
INSERT INTO public.categories VALUES (2, 'Turtles', 'turtles');



INSERT INTO public.counts VALUES (0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (2, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (3, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (4, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (5, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (6, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (7, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (8, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (10, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (12, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (13, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (14, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (15, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (16, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (18, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (19, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (20, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (21, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (22, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (23, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (24, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (25, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (26, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (28, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (29, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (30, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (31, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (32, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (33, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (34, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (35, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (36, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (37, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (38, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (39, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (17, 1, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (27, 3, 2, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (11, 0, -2, 2, 0, 2, 0, 0, 1);
INSERT INTO public.counts VALUES (9, 1, 1, -2, 2, -2, 2, 1, 0);
INSERT INTO public.counts VALUES (40, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (41, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (42, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (43, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (44, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (45, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (46, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (47, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (48, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (49, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (50, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (52, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (53, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (54, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (56, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (57, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (58, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (59, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (60, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (61, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (62, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (63, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (51, 2, 2, 0, 0, 0, 0, 0, 0);
INSERT INTO public.counts VALUES (55, 0, -1, 1, 0, 1, 0, 0, 0);



INSERT INTO public.deleted_pets VALUES (7, 1795078092192199, 'Stripes', 2, 'Greek tortoise', 'female', '2019-05-01', 'olive', '276098106654321', '2026-01-15', 'Jan Novák', 'Polní 3, Brno', 'CZ 17');



INSERT INTO public.event_log VALUES (1, 'urn:uuid:c0f091c6-8f64-4bd1-81f7-f8a162fd066b', 0, 51, 0);



INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (1, 1795078089579346, 'key.created', NULL, 1, false, '{"id":1,"name":"owner","scopes":["pets:read","pets:write","orders:read","orders:write","webhooks:read","webhooks:write","keys:read","keys:write","store:write"],"createdAt":"2026-11-19T08:48:09.305229Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (2, 1795078090415925, 'category.updated', 1, 1, false, '{"id":1,"name":"Dogs"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (3, 1795078090523660, 'category.updated', 1, 2, false, '{"id":2,"name":"Turtles"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (4, 1795078090644257, 'category.updated', 1, 3, false, '{"id":3,"name":"Fish"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (5, 1795078090707325, 'category.deleted', 1, 3, false, '{"id":3,"name":"Fish"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (6, 1795078090785927, 'pet.created', 1, 1, false, '{"id":1,"name":"Żółw 🐢","categoryId":2,"status":"available","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106123456","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"}}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (7, 1795078091039101, 'pet.created', 1, 2, false, '{"id":2,"name":"Rex","categoryId":1}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (8, 1795078091291135, 'pet.created', 1, 3, false, '{"id":3,"name":"Bella","categoryId":1,"status":"available"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (9, 1795078091439090, 'pet.created', 1, 4, false, '{"id":4,"name":"Max","categoryId":1,"status":"available"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (10, 1795078091492515, 'pet.created', 1, 5, false, '{"id":5,"name":"Luna","categoryId":1,"status":"available"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (11, 1795078091570016, 'pet.created', 1, 6, false, '{"id":6,"name":"Tom","categoryId":1,"status":"available"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (12, 1795078091659621, 'pet.created', 1, 7, false, '{"id":7,"name":"Stripes","categoryId":2,"status":"available","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106654321","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"}}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (13, 1795078092192199, 'pet.deleted', 1, 7, false, '{"id":7,"name":"Stripes","categoryId":2,"status":"available","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106654321","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"}}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (14, 1795078092579219, 'pet.updated', 1, 1, false, '{"id":1,"name":"Żółw 🐢","categoryId":2,"status":"available","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106123456","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"},"photos":[{"id":1,"width":24,"height":16,"digest":"iN5MfBENsQ-t"}]}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (15, 1795078092811522, 'pet.updated', 1, 1, false, '{"id":1,"name":"Żółw 🐢","categoryId":2,"status":"available","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106123456","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"},"photos":[{"id":1,"width":24,"height":16,"digest":"iN5MfBENsQ-t"},{"id":2,"width":24,"height":16,"digest":"NbD-fZvxBWzY"}]}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (16, 1795078092975297, 'pet.updated', 1, 1, false, '{"id":1,"name":"Żółw 🐢","categoryId":2,"status":"available","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106123456","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"},"photos":[{"id":1,"width":24,"height":16,"digest":"iN5MfBENsQ-t"}]}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (17, 1795078093147278, 'pet.created', 1, 8, false, '{"id":8,"name":"Nemo","categoryId":3}', 'delivery-7', NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (18, 1795078093147278, 'pet.updated', 1, 2, false, '{"id":2,"name":"Rex","categoryId":1,"color":"black"}', 'delivery-7', '{"id":2,"name":"Rex","categoryId":1}');
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (19, 1795078093335477, 'pet.created', 1, 9, false, '{"id":9,"name":"Dory","categoryId":3}', 'delivery-8', NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (20, 1795078093843810, 'pet.deleted', 1, 9, false, '{"id":9,"name":"Dory","categoryId":3}', 'undo-delivery-8', NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (21, 1795078095935866, 'order.placed', 1, 1, false, '{"id":1,"petId":3,"status":"placed","createdAt":"2026-11-19T08:48:15.935866Z","updatedAt":"2026-11-19T08:48:15.935866Z","expiresAt":"2026-11-19T09:48:15.935866Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (22, 1795078095935866, 'pet.updated', 1, 3, false, '{"id":3,"name":"Bella","categoryId":1,"status":"pending"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (23, 1795078096631637, 'order.completed', 1, 1, false, '{"id":1,"petId":3,"status":"completed","createdAt":"2026-11-19T08:48:15.935866Z","updatedAt":"2026-11-19T08:48:16.631637Z","expiresAt":"2026-11-19T09:48:15.935866Z","completedAt":"2026-11-19T08:48:16.631637Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (24, 1795078096631637, 'pet.updated', 1, 3, false, '{"id":3,"name":"Bella","categoryId":1,"status":"sold"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (25, 1795078097027873, 'order.placed', 1, 2, false, '{"id":2,"petId":4,"status":"placed","createdAt":"2026-11-19T08:48:17.027873Z","updatedAt":"2026-11-19T08:48:17.027873Z","expiresAt":"2026-11-19T09:48:17.027873Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (26, 1795078097027873, 'pet.updated', 1, 4, false, '{"id":4,"name":"Max","categoryId":1,"status":"pending"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (27, 1795078097267881, 'order.cancelled', 1, 2, false, '{"id":2,"petId":4,"status":"cancelled","createdAt":"2026-11-19T08:48:17.027873Z","updatedAt":"2026-11-19T08:48:17.267881Z","expiresAt":"2026-11-19T09:48:17.027873Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (28, 1795078097267881, 'pet.updated', 1, 4, false, '{"id":4,"name":"Max","categoryId":1,"status":"available"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (29, 1795078097463350, 'order.placed', 1, 3, false, '{"id":3,"petId":5,"status":"placed","createdAt":"2026-11-19T08:48:17.46335Z","updatedAt":"2026-11-19T08:48:17.46335Z","expiresAt":"2026-11-19T09:48:17.46335Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (30, 1795078097463350, 'pet.updated', 1, 5, false, '{"id":5,"name":"Luna","categoryId":1,"status":"pending"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (31, 1795078097707372, 'order.completed', 1, 3, false, '{"id":3,"petId":5,"status":"completed","createdAt":"2026-11-19T08:48:17.46335Z","updatedAt":"2026-11-19T08:48:17.707372Z","expiresAt":"2026-11-19T09:48:17.46335Z","completedAt":"2026-11-19T08:48:17.707372Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (32, 1795078097707372, 'pet.updated', 1, 5, false, '{"id":5,"name":"Luna","categoryId":1,"status":"sold"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (35, 1795078098492024, 'order.placed', 1, 4, false, '{"id":4,"petId":1,"status":"placed","createdAt":"2026-11-19T08:48:18.492024Z","updatedAt":"2026-11-19T08:48:18.492024Z","expiresAt":"2026-11-19T09:48:18.492024Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (36, 1795078098492024, 'pet.updated', 1, 1, false, '{"id":1,"name":"Żółw 🐢","categoryId":2,"status":"pending","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106123456","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"},"photos":[{"id":1,"width":24,"height":16,"digest":"iN5MfBENsQ-t"}]}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (39, 1795078100084404, 'key.created', 1, 2, false, '{"id":2,"name":"web shop","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:20.084404Z","expiresAt":"2099-12-31T00:00:00Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (41, 1795078100914740, 'key.created', 1, 4, false, '{"id":4,"name":"lost","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:20.91474Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (46, 1795078104945629, 'key.revoked', 6, 6, false, '{"id":6,"name":"Ada","scopes":["keys:claim"],"createdAt":"2026-11-19T08:48:24.711957Z","expiresAt":"2026-11-20T08:48:24.711957Z","revokedAt":"2026-11-19T08:48:24.945629Z","invitation":{"scopes":["pets:read"],"invitedBy":1,"replaces":2}}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (47, 1795078104945629, 'key.revoked', 6, 2, false, '{"id":2,"name":"web shop","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:20.084404Z","expiresAt":"2099-12-31T00:00:00Z","revokedAt":"2026-11-19T08:48:24.945629Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (48, 1795078104945629, 'key.created', 6, 7, false, '{"id":7,"name":"Ada","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:24.945629Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (33, 1795078098210601, 'order.returned', 1, 3, false, '{"id":3,"petId":5,"status":"returned","createdAt":"2026-11-19T08:48:17.46335Z","updatedAt":"2026-11-19T08:48:18.210601Z","expiresAt":"2026-11-19T09:48:17.46335Z","completedAt":"2026-11-19T08:48:17.707372Z","returnedAt":"2026-11-19T08:48:18.210601Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (34, 1795078098210601, 'pet.updated', 1, 5, false, '{"id":5,"name":"Luna","categoryId":1,"status":"available"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (37, 1795078098900349, 'order.completed', 1, 4, false, '{"id":4,"petId":1,"status":"completed","createdAt":"2026-11-19T08:48:18.492024Z","updatedAt":"2026-11-19T08:48:18.900349Z","expiresAt":"2026-11-19T09:48:18.492024Z","completedAt":"2026-11-19T08:48:18.900349Z","price":{"amount":9900,"currency":"EUR"},"reference":"R-17"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (38, 1795078098900349, 'pet.updated', 1, 1, false, '{"id":1,"name":"Żółw 🐢","categoryId":2,"status":"sold","breed":"Greek tortoise","sex":"female","birthDate":"2019-05-01","color":"olive","microchip":"276098106123456","price":{"amount":14500,"currency":"EUR"},"description":"Likes dandelions.\nShy.","notes":"Hibernates.","location":"Room 2","acquiredOn":"2026-01-15","source":{"name":"Jan Novák","address":"Polní 3, Brno","licence":"CZ 17"},"metadata":{"box":"7","cites":"A"},"photos":[{"id":1,"width":24,"height":16,"digest":"iN5MfBENsQ-t"}]}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (40, 1795078100617955, 'key.created', 1, 3, false, '{"id":3,"name":"mirror","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:20.617955Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (42, 1795078102768577, 'key.rotated', NULL, 3, false, '{"id":3,"name":"mirror","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:20.617955Z","expiresAt":"2026-11-19T08:48:22.768577Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (43, 1795078102768577, 'key.created', NULL, 5, false, '{"id":5,"name":"mirror","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:22.768577Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (44, 1795078104504839, 'key.revoked', NULL, 4, false, '{"id":4,"name":"lost","scopes":["pets:read"],"createdAt":"2026-11-19T08:48:20.91474Z","revokedAt":"2026-11-19T08:48:24.504839Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (45, 1795078104711957, 'key.created', 1, 6, false, '{"id":6,"name":"Ada","scopes":["keys:claim"],"createdAt":"2026-11-19T08:48:24.711957Z","expiresAt":"2026-11-20T08:48:24.711957Z","invitation":{"scopes":["pets:read"],"invitedBy":1,"replaces":2}}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (49, 1795078105227355, 'key.created', 1, 8, false, '{"id":8,"name":"Bob","scopes":["keys:claim"],"createdAt":"2026-11-19T08:48:25.227355Z","expiresAt":"2026-11-20T08:48:25.227355Z","invitation":{"scopes":["pets:read"],"expiresAt":"2099-12-31T00:00:00Z","invitedBy":1}}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (50, 1795078109150627, 'order.placed', 1, 5, false, '{"id":5,"petId":6,"status":"placed","createdAt":"2026-11-19T08:48:29.150627Z","updatedAt":"2026-11-19T08:48:29.150627Z"}', NULL, NULL);
INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES (51, 1795078109150627, 'pet.updated', 1, 6, false, '{"id":6,"name":"Tom","categoryId":1,"status":"pending"}', NULL, NULL);



INSERT INTO public.idempotency_keys VALUES (1, 'golden', '\x8feed6f855095bfd9d552de72c5e76f833bbdce0cdf5527f5239a0418c7a193d', 'succeeded', 1, 1795078090785927, NULL);
INSERT INTO public.idempotency_keys VALUES (1, 'photo-0', '\x62e35ea5f6e13dd3714ca020e777e5b452e0d7d147619d695568c009685efddf', 'succeeded', 1, 1795078092579219, '{"id":1,"width":24,"height":16,"digest":"iN5MfBENsQ-t"}');
INSERT INTO public.idempotency_keys VALUES (1, 'photo-1', '\xb9787651554f4d75bff6479d90b01e1a6634cd12412b318d1fbba8d299425854', 'succeeded', 2, 1795078092811522, '{"id":2,"width":24,"height":16,"digest":"NbD-fZvxBWzY"}');
INSERT INTO public.idempotency_keys VALUES (1, 'batch', '\x9663310d2ef710272fc5ab5a611bb91b60cec3ed3c28c37579a5e040d2c45ff0', 'succeeded', 0, 1795078093147278, '{"id":"delivery-7","changes":[{"created":8},"updated"]}');
INSERT INTO public.idempotency_keys VALUES (1, 'rotation', '\x4beb69dcf05722bb04338045a2d3125824876a6b1f5831c3ee405d6780572baa', 'succeeded', 3, 1795078095354565, NULL);



INSERT INTO public.imports VALUES ('\x9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'delivery-7', 0, 2, 2, 1, 1, 1795078093147278, 1795078093147278, NULL, 0);
INSERT INTO public.imports VALUES ('\x0000000000000000000000000000000000000000000000000000000000000000', 'delivery-8', 0, 3, 1, 1, 0, 1795078093843810, NULL, 'finished', 0);



INSERT INTO public.orders VALUES (1, 3, 'completed', 1795078095935866, 1795078096631637, 1795081695935866, 1795078096631637, 'Ada', 'Hafen 4', 'ada@example.com', 9900, 'EUR', 'R-17', 1, 1, NULL);
INSERT INTO public.orders VALUES (2, 4, 'cancelled', 1795078097027873, 1795078097267881, 1795081697027873, NULL, 'Ada', 'Hafen 4', 'ada@example.com', 9900, 'EUR', 'R-17', NULL, NULL, NULL);
INSERT INTO public.orders VALUES (3, 5, 'returned', 1795078097463350, 1795078098210601, 1795081697463350, 1795078097707372, 'Ada', 'Hafen 4', 'ada@example.com', 9900, 'EUR', 'R-17', 1, 1, 1795078098210601);
INSERT INTO public.orders VALUES (4, 1, 'completed', 1795078098492024, 1795078098900349, 1795081698492024, 1795078098900349, 'Ada', 'Hafen 4', 'ada@example.com', 9900, 'EUR', 'R-17', 1, 2, NULL);
INSERT INTO public.orders VALUES (5, 6, 'placed', 1795078109150627, 1795078109150627, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);



INSERT INTO public.pet_words VALUES ('zołw', 1);
INSERT INTO public.pet_words VALUES ('greek', 1);
INSERT INTO public.pet_words VALUES ('tortoise', 1);
INSERT INTO public.pet_words VALUES ('276098106123456', 1);
INSERT INTO public.pet_words VALUES ('rex', 2);
INSERT INTO public.pet_words VALUES ('bella', 3);
INSERT INTO public.pet_words VALUES ('max', 4);
INSERT INTO public.pet_words VALUES ('luna', 5);
INSERT INTO public.pet_words VALUES ('tom', 6);
INSERT INTO public.pet_words VALUES ('nemo', 8);



INSERT INTO public.pets VALUES (2, 'Rex', 'rex', 'rex', 1, NULL, NULL, NULL, NULL, 'black', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.pets VALUES (8, 'Nemo', 'nemo', 'nemo', 3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.pets VALUES (3, 'Bella', 'bella', 'bella', 1, 'sold', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.pets VALUES (4, 'Max', 'max', 'max', 1, 'available', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.pets VALUES (5, 'Luna', 'luna', 'luna', 1, 'available', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.pets VALUES (1, 'Żółw 🐢', 'żółw 🐢', 'zołw greek tortoise 276098106123456', 2, 'sold', 'Greek tortoise', 'female', '2019-05-01', 'olive', '276098106123456', 14500, 'EUR', 'Likes dandelions.
Shy.', 'Hibernates.', 'Room 2', '2026-01-15', 'Jan Novák', 'Polní 3, Brno', 'CZ 17', '{"box":"7","cites":"A"}', '[{"id":1,"width":24,"height":16,"digest":"iN5MfBENsQ-t"}]');
INSERT INTO public.pets VALUES (6, 'Tom', 'tom', 'tom', 1, 'pending', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);



INSERT INTO public.photo_parts VALUES (1, 'thumb', 0, '\xffd8ffe000104a46494600010200000100010000ffc00011080010001803011100021101031101ffdb00430008050607060508070607090808090c130c0c0b0b0c1811120e131c181d1d1b181b1a1f232c251f212a211a1b2634272a2e2f3132311e25363a36303a2c303130ffdb0043010809090c0a0c170c0c1730201b203030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100030101010101010101010000000000000102030405060708090a0bffc400b51100020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda000c03010002110311003f0067da16e92ce39eeed628c09232982cb284dc0425c7ca50637630dcc8bc676824215a8de71776f5beaa4a72b7d9b5d49ae78af8796efb5ddba3525374aa53b49a76e57aeaeedf2f35db4d3baba4d479747aa63da3c96b0b88e478ff00e3e5a79a6489260db77fa82db47cccd861b09c7271d1cd3588e5768b6dd93527a2beeafcdff6ebbc5a92b4ad688b0dee4ea493ddf32516f9b4beb2bf2a4aeec9a7eebdad6b8d9ef52d6d4437766b6b1242cd2c88b8fb5025997a0460015573c8e54af0c78e3752538a74395afe5959ebcb7d756adab69592e569ad12bed5e8c955e7ba5cf2bb6fdd69fbca3a3e6bb7aa4ddf752e6d2e94b2cd73e717f2cdb2f9ac678cb3852aceb8246429254955dedc0e581247556a6a942514f9b99c55ba3bc9464deae16f34a0a375a46495ef150fab53838daed72d95d2b5dab37eebbee96a9c9c75eb6d1bd36bf6890ce9f68b185c0591e40cd3c658b8da814029907ee95c619b3b715c6b1b5ea50f7a6a32b3b2b35b43965add72cacd37a3bbe54927cd7e48e3153a71a74d461cf2b72a6934d35cb676bab36ef7bead2835a355fcdbb491ed62b991668ecdc181a62c8622ac1b6618f2bfbb6c9da4739c670328d0a5269c929f3be8ae9c96a9be5e58dbde6b963cc9afb26f2e48f2d0a764f9936f99a5a35a2f757c5afbc9593578b9cb9aff00ffd9');
INSERT INTO public.photo_parts VALUES (1, 'full', 0, '\xffd8ffe000104a46494600010200000100010000ffc00011080010001803011100021101031101ffdb0043000604040504040605050506060607090e0909080809120d0d0a0e1512161615121414171a211c17181f1914141d271d1f2223252525161c292c28242b21242524ffdb00430106060609080911090911241814182424242424242424242424242424242424242424242424242424242424242424242424242424242424242424242424242424ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100030101010101010101010000000000000102030405060708090a0bffc400b51100020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda000c03010002110311003f0061bc4bf8f4f8ae2fec218544b118f0ce93ac7bc0b7320f91a35c6ec61b2665e33b1494a96228735483e66f5baba9c6a4eda72f2de326b9e11f8391393e977a4b0d56752542ad1b49a6d723bbd5a937c9cf76e324d35749a8f2fbad5d46fa7c9359dbc8229a5887fa635d5c5c47045701f69931c105b60f9dd8861e5b36de580ebe69ac5a8cad16e52e58b8cdbb46eb557e677d5f2bbc64a514a564a2d6097b3a956517bb5351849f3fbb7d677e58a8f34ac9a7eebf86cd2632e7538f4fb216f7ba747650c76cef3cd1a60df062ec83216360032248dcaf28cb9573c79d2ad29c22f0dcb25fc92b3d546faddca36d5c92b25cae2d2b28dfa315879c6b3a974bda4aedbb45a95e4a368cb9b9a4f549caff001465cda5d05d2e6f3ed064311b35f3ddae622ce10a3c898246e0849425177b70bf3302cc3bb134551a738a7cfcee09c53b2937251937aba76b5df3455351725eec2518df4c7d3faa52838daee3c8a2b992e5bb4a327683e65ac63ef45c9c3de57bdb5f50363f6a94dcc7f6ad36ddd42cb24a1deea22cd200b1aa8062054e3615db86607662b82399e26b61bdfa9184f96568da49694f965add724ecd37a4aef9528a7cca5c10ccd52a31a54a30a7ed256e44d269c5a515176bc6cdb5272bda4d2a6d5a2d5533ea114b258c37b324f169f286b57b82f1b42518388f0edca1f29b2db18739c67039e9e168c9c5ca2a7ed256d1369cd59c5be4e58f2fbd25c90e74d6bca7554f670e4c351b2973a937cd24959c6ea3eeab736af9d271525784aa4f9dbfffd9');
INSERT INTO public.photo_parts VALUES (2, 'thumb', 0, '\xffd8ffe000104a46494600010200000100010000ffc00011080010001803011100021101031101ffdb00430008050607060508070607090808090c130c0c0b0b0c1811120e131c181d1d1b181b1a1f232c251f212a211a1b2634272a2e2f3132311e25363a36303a2c303130ffdb0043010809090c0a0c170c0c1730201b203030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100030101010101010101010000000000000102030405060708090a0bffc400b51100020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda000c03010002110311003f006ea0b2db6e86eee631f609736e823f942306672c8af8e0202ca790b90063e62a9e2e093a94a2daa9eeebbad2d64f58eb28b51b2d5a6d5ecd3ef551d58baad3a69aebe4bdd9269a77d6f1d2fcc92767a8fd304777e5b430aac31c0f08923cc98c046112177e70636c8c609ddc8ea33c44eb53a8e6e69f36ad6e9ddb5af2a5ccecdc9257927cbcd7d8e19ca952af28ddc6aa97b9f168f48ece09796ada69ea92561f717290eaadfda51a154c08e6126e51891d999c84196642ff00291f302dced63bbaf9295487eed5dcf46acaed27185e294ac95f55bb53d12bc51c8e157da29e0eee164efcd77656b59b93ba4eea5f6a16b45f2ab15fcf16b25b0b4bcb7baf34732dbdb068e290953839073bfa28242a945e46d20561e8528c5529ad63ba776dd949ab3d3a479928c5b7adb9b993975d6ab46bd4f6ae9b9295db527cb68ecdb51bb516b793bc945dbde4ace2b468206315b5cc4f7317fad489a386292e30cab10c381e582abd17e6f98920fddcb13c956a54936e306f4beee2b9a4db5cb7d744b54d36926fa95636a90a52a09bdaef9f9968e3752d949eaadccb5495a328b64e97933059208e4128952689e58b94cef60fbc32b15dc4a86e028700e096a542ca2a8d3b4b46f5d2ed69a72a6aee29da3249cb96ef48c6f3470f5142159536a6ef68a7a356849e9adb4767a3d64d26acadffd9');
INSERT INTO public.photo_parts VALUES (2, 'full', 0, '\xffd8ffe000104a46494600010200000100010000ffc00011080010001803011100021101031101ffdb0043000604040504040605050506060607090e0909080809120d0d0a0e1512161615121414171a211c17181f1914141d271d1f2223252525161c292c28242b21242524ffdb00430106060609080911090911241814182424242424242424242424242424242424242424242424242424242424242424242424242424242424242424242424242424ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100030101010101010101010000000000000102030405060708090a0bffc400b51100020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda000c03010002110311003f0066a8935887b6bdbc847f664fbad235888411b877919e347c702356743921372a8c618cd1cc20a2ead184a51abee6bab4ad6b296b1d650718d96b24daba4e2fd4555d783aed3a4a49eeb5f757bb24e2d37249f3434bf3a49da5a92e8eb0ea1e53dbdba25bc56d25b2cb096976e163658623249ced313646305b7e1872cb9e32ad7a756551d44f9f571d1a69b92b3e551e6767294526e49f2f35ef63cdab52850c4ce3771aca56a6bdf6e32d21771708ab74d64d493f7928a511f757d1daeb4dfdad146c91e162b859b7a0c4aecef29118cb346d20dacb8605ce76b1ddddece8d5a76a51e69546d3568dda8b8d3bc529a51574dc776aa59249c228e074abfb58d4c0733a768cafcca4f9572d926e6ee93ba92f8a9dad16e2b95551762c25b25b2d46cef7ce1f35c5ad9ab4304a59180604313e670aaac4229894ee1b5945e0b094231546a2d61ab52bb93b293567a6ca3cea308b72bc9ae6e6529f7e2b1143135bdbba4e519a949a9cb92d1d9c9a8ddc62d7c5395e4a0edef25670d9496b68c60b4bd824bc847efa381e2b7825bc2195215db2aaf9419549da9f3e58b107eee18d54eb56ab36dc29c9e8def282e6936d72dddf44b54d36926ddb98af1b55a746586527a46ed54e68dd38b6a5b293578db9d3ba49a84a0d9663d4ae5d525b78661309d2e20926879881f35849bc3abb28725439da1448a0e0b352c272c631c3d1b49d9cb576526b4d39138f33826d46494a5c8db568c54b3c360eb469d3aea938d4776a317a34d4272d35b2b3b3766af3924d595bffd9');



INSERT INTO public.photos VALUES (1, 1, 24, 16, '\x88de4c7c110db10fad9696082adbbfa6a8069cec16dde284cc342addd1281e87', 1117, 1188, 1795078092579219, NULL);
INSERT INTO public.photos VALUES (2, 1, 24, 16, '\x35b0fe7d9bf1056cd828439c1364c7177e0178b0a636ad54932c397f5e2167ca', 1121, 1188, 1795078092811522, 1795078092975297);



INSERT INTO public.schema_version VALUES (1, 1);



INSERT INTO public.settings VALUES (1, 'Żółw & Co', 'Marktplatz 1
12345 Altstadt', 'Thank you!', 'EUR');



INSERT INTO public.webhook_deliveries VALUES (1, 23, 'evt_AQAAAAAAAAAXuMYwpKQcZ9NPuOZW', 'retrying', 1, 1795078097215707, 500, 'unsuccessful_status', 1795078101770707);
INSERT INTO public.webhook_deliveries VALUES (2, 23, 'evt_AQAAAAAAAAAXuMYwpKQcZ9NPuOZW', 'retrying', 1, 1795078097375828, 500, 'unsuccessful_status', 1795078103215828);
INSERT INTO public.webhook_deliveries VALUES (1, 25, 'evt_AQAAAAAAAAAZIseBSY0B40aI0bfk', 'retrying', 1, 1795078097464209, 500, 'unsuccessful_status', 1795078102624209);
INSERT INTO public.webhook_deliveries VALUES (2, 25, 'evt_AQAAAAAAAAAZIseBSY0B40aI0bfk', 'retrying', 1, 1795078097567753, 500, 'unsuccessful_status', 1795078102992753);
INSERT INTO public.webhook_deliveries VALUES (1, 29, 'evt_AQAAAAAAAAAdW-_9mSVWG-hjQkXO', 'retrying', 1, 1795078097761569, 500, 'unsuccessful_status', 1795078103201569);
INSERT INTO public.webhook_deliveries VALUES (2, 29, 'evt_AQAAAAAAAAAdW-_9mSVWG-hjQkXO', 'retrying', 1, 1795078097865793, 500, 'unsuccessful_status', 1795078103460793);
INSERT INTO public.webhook_deliveries VALUES (1, 21, 'evt_AQAAAAAAAAAVGiazorWztfsh2D4g', 'failed', 1, 1795078096928043, 500, 'unsuccessful_status', NULL);
INSERT INTO public.webhook_deliveries VALUES (2, 21, 'evt_AQAAAAAAAAAVGiazorWztfsh2D4g', 'failed', 1, 1795078096928501, 500, 'unsuccessful_status', NULL);



INSERT INTO public.webhooks VALUES (1, 'http://127.0.0.1:43803/till', 'order.placed order.completed', 'Till', 'disabled', 'requested', 1, 1795078094207294, 1795078099440765, 'whsec_BE7R0nnNdBJi9fejsNr9wzeIV66NcJj0DSsFc1+4fNQ=', NULL, NULL, NULL, 'evt_AQAAAAAAAAAeR96TQQNutK7ttaly', 5, 1795078096928043, 1795078103772969, 2, 2, NULL, NULL);
INSERT INTO public.webhooks VALUES (2, 'http://127.0.0.1:43803/shop', 'order.placed order.completed', 'Till', 'disabled', 'requested', 1, 1795078094540445, 1795078099826833, 'whsec_jn5spWFhOyNmHOwr6jJ7atsNSFlUAWrOGMqM9/IursM=', NULL, NULL, NULL, 'evt_AQAAAAAAAAAeR96TQQNutK7ttaly', 5, 1795078096928501, 1795078103674697, 2, 2, NULL, NULL);
INSERT INTO public.webhooks VALUES (3, 'http://127.0.0.1:43803/quiet', 'category.deleted', NULL, 'enabled', NULL, 1, 1795078094914616, 1795078095354565, 'whsec_fBz10GqoCR4Y35yWzNeMhZv6yeLr8aKMQLgGJxNjgfY=', 'whsec_kFVcNUDlrwLZJa3KXBznXaxsWu9FFlvNhOvLqXv7CXk=', 1795164495354565, '1 rotation', 'evt_AQAAAAAAAAAz7HHWA4CFXuoqErxW', 0, NULL, NULL, 2, 1, NULL, NULL);



SELECT pg_catalog.setval('public.api_keys_id_seq', 8, true);



SELECT pg_catalog.setval('public.events_sequence_seq', 51, true);



SELECT pg_catalog.setval('public.orders_id_seq', 5, true);



SELECT pg_catalog.setval('public.pets_id_seq', 9, true);



SELECT pg_catalog.setval('public.photos_id_seq', 2, true);



SELECT pg_catalog.setval('public.webhooks_id_seq', 3, true);



ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.categories
    ADD CONSTRAINT categories_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.counts
    ADD CONSTRAINT counts_pkey PRIMARY KEY (shard);



ALTER TABLE ONLY public.deleted_pets
    ADD CONSTRAINT deleted_pets_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.event_log
    ADD CONSTRAINT event_log_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (sequence);



ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (api_key_id, key);



ALTER TABLE ONLY public.imports
    ADD CONSTRAINT imports_pkey PRIMARY KEY (digest);



ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.pet_words
    ADD CONSTRAINT pet_words_pkey PRIMARY KEY (word, pet_id);



ALTER TABLE ONLY public.pets
    ADD CONSTRAINT pets_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.photo_parts
    ADD CONSTRAINT photo_parts_pkey PRIMARY KEY (photo_id, kind, part);



ALTER TABLE ONLY public.photos
    ADD CONSTRAINT photos_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (id);



ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (webhook_id, sequence);



ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);



CREATE UNIQUE INDEX api_keys_hash_key ON public.api_keys USING btree (hash);



CREATE UNIQUE INDEX categories_folded_name_key ON public.categories USING btree (folded_name);



CREATE INDEX deleted_pets_acquired_on_id_idx ON public.deleted_pets USING btree (acquired_on, id) WHERE (acquired_on IS NOT NULL);



CREATE INDEX deleted_pets_deleted_at_idx ON public.deleted_pets USING btree (deleted_at);



CREATE INDEX events_batch_id_idx ON public.events USING btree (batch_id, sequence) WHERE (batch_id IS NOT NULL);



CREATE INDEX events_subject_idx ON public.events USING btree (resource_id, substr(type, 1, 3), sequence);



CREATE INDEX idempotency_keys_created_at_idx ON public.idempotency_keys USING btree (created_at);



CREATE UNIQUE INDEX orders_active_pet_id_key ON public.orders USING btree (pet_id) WHERE (status = ANY (ARRAY['placed'::text, 'completed'::text]));



CREATE INDEX orders_completed_at_idx ON public.orders USING btree (completed_at, id) INCLUDE (category_id, completed_by, price_amount, price_currency) WHERE (completed_at IS NOT NULL);



CREATE INDEX orders_expires_at_idx ON public.orders USING btree (expires_at) WHERE ((status = 'placed'::text) AND (expires_at IS NOT NULL));



CREATE INDEX orders_pet_id_id_idx ON public.orders USING btree (pet_id, id);



CREATE INDEX orders_returned_at_idx ON public.orders USING btree (returned_at, id) INCLUDE (category_id, completed_by, price_amount, price_currency) WHERE (returned_at IS NOT NULL);



CREATE INDEX orders_status_id_idx ON public.orders USING btree (status, id);



CREATE INDEX pets_acquired_on_id_idx ON public.pets USING btree (acquired_on, id) WHERE (acquired_on IS NOT NULL);



CREATE INDEX pets_category_id_id_idx ON public.pets USING btree (category_id, id) WHERE (status IS NULL);



CREATE INDEX pets_category_id_status_id_idx ON public.pets USING btree (category_id, status, id) WHERE (status IS NOT NULL);



CREATE INDEX pets_microchip_id_idx ON public.pets USING btree (microchip, id) WHERE (microchip IS NOT NULL);



CREATE INDEX pets_search_name_id_idx ON public.pets USING btree (search_name, id);



CREATE INDEX pets_status_id_idx ON public.pets USING btree (status, id) WHERE (status IS NOT NULL);



CREATE UNIQUE INDEX pets_unsold_microchip_key ON public.pets USING btree (microchip) WHERE ((microchip IS NOT NULL) AND (status IS DISTINCT FROM 'sold'::text));



CREATE INDEX photos_pet_id_idx ON public.photos USING btree (pet_id) WHERE (removed_at IS NULL);



CREATE INDEX photos_removed_at_idx ON public.photos USING btree (removed_at) WHERE (removed_at IS NOT NULL);



CREATE INDEX webhook_deliveries_last_attempt_at_idx ON public.webhook_deliveries USING btree (last_attempt_at) WHERE (state = 'failed'::text);



CREATE INDEX webhook_deliveries_next_attempt_at_idx ON public.webhook_deliveries USING btree (webhook_id, next_attempt_at) WHERE (state = 'retrying'::text);



CREATE TRIGGER count_deleted AFTER DELETE ON public.orders REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER count_deleted AFTER DELETE ON public.pets REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER count_inserted AFTER INSERT ON public.orders REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER count_inserted AFTER INSERT ON public.pets REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER count_truncated AFTER TRUNCATE ON public.orders FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER count_truncated AFTER TRUNCATE ON public.pets FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER count_unlogged AFTER DELETE OR TRUNCATE ON public.orders FOR EACH STATEMENT EXECUTE FUNCTION public.count_unlogged();



CREATE TRIGGER count_updated AFTER UPDATE ON public.orders REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER count_updated AFTER UPDATE ON public.pets REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.count_rows();



CREATE TRIGGER log_deleted AFTER DELETE ON public.categories REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('category.deleted');



CREATE TRIGGER log_deleted AFTER DELETE ON public.pets REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('pet.deleted');



CREATE TRIGGER log_inserted AFTER INSERT ON public.categories REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('category.updated');



CREATE TRIGGER log_inserted AFTER INSERT ON public.orders REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('order.%');



CREATE TRIGGER log_inserted AFTER INSERT ON public.pets REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('pet.created');



CREATE TRIGGER log_truncated BEFORE TRUNCATE ON public.categories FOR EACH STATEMENT EXECUTE FUNCTION public.log_change('category.deleted');



CREATE TRIGGER log_truncated BEFORE TRUNCATE ON public.pets FOR EACH STATEMENT EXECUTE FUNCTION public.log_change('pet.deleted');



CREATE TRIGGER log_updated AFTER UPDATE ON public.categories REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('category.updated');



CREATE TRIGGER log_updated AFTER UPDATE ON public.orders REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('order.%');



CREATE TRIGGER log_updated AFTER UPDATE ON public.pets REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN ((current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION public.log_change('pet.updated');



CREATE TRIGGER photos_deleted AFTER DELETE ON public.pets FOR EACH ROW WHEN (((old.photos IS NOT NULL) AND (current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION public.remove_photos();



CREATE TRIGGER photos_truncated AFTER TRUNCATE ON public.pets FOR EACH STATEMENT EXECUTE FUNCTION public.remove_photos();



CREATE TRIGGER photos_updated AFTER UPDATE OF photos ON public.pets FOR EACH ROW WHEN (((old.photos IS NOT NULL) AND (new.photos IS DISTINCT FROM old.photos) AND (current_setting('petstore.logs'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION public.remove_photos();



CREATE TRIGGER reject_new_id BEFORE UPDATE OF id ON public.categories FOR EACH ROW WHEN ((new.id <> old.id)) EXECUTE FUNCTION public.reject_new_id();



CREATE TRIGGER reject_new_id BEFORE UPDATE OF id ON public.orders FOR EACH ROW WHEN ((new.id <> old.id)) EXECUTE FUNCTION public.reject_new_id();



CREATE TRIGGER reject_new_id BEFORE UPDATE OF id ON public.pets FOR EACH ROW WHEN ((new.id <> old.id)) EXECUTE FUNCTION public.reject_new_id();



CREATE TRIGGER words_deleted AFTER DELETE ON public.pets FOR EACH ROW EXECUTE FUNCTION public.change_words();



CREATE TRIGGER words_inserted AFTER INSERT ON public.pets REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION public.add_words();



CREATE TRIGGER words_truncated AFTER TRUNCATE ON public.pets FOR EACH STATEMENT EXECUTE FUNCTION public.remove_all_words();



CREATE TRIGGER words_updated AFTER UPDATE OF search_words ON public.pets FOR EACH ROW WHEN ((new.search_words <> old.search_words)) EXECUTE FUNCTION public.change_words();



ALTER TABLE ONLY public.photo_parts
    ADD CONSTRAINT photo_parts_photo_id_fkey FOREIGN KEY (photo_id) REFERENCES public.photos(id) ON DELETE CASCADE;



ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;




