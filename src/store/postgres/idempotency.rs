//! Idempotency keys on PostgreSQL.

use jiff::SignedDuration;

use super::{super::error::Error, Postgres, now_micros, read_count};

statements! {
    /// Concurrent replicas skip each other's rows.
    PURGE(Int) = format!(
        "WITH old AS (
             SELECT api_key_id, key FROM idempotency_keys WHERE created_at < {} - $1
             ORDER BY created_at LIMIT 1000 FOR UPDATE SKIP LOCKED
         ), deleted AS (
             DELETE FROM idempotency_keys USING old
             WHERE (idempotency_keys.api_key_id, idempotency_keys.key)
                 = (old.api_key_id, old.key)
             RETURNING 1
         )
         SELECT count(*) FROM deleted",
        now_micros()
    );
}

impl Postgres {
    pub(in super::super) async fn idempotency_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let retention = self.max_age(retention);
        read_count(&self.background.write(&PURGE, &[&retention]).await?)
    }
}
