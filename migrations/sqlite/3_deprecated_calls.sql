-- Who still calls operations that are going to be removed, and since when not.
ALTER TABLE api_keys ADD COLUMN deprecated_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN deprecated_at INTEGER;
