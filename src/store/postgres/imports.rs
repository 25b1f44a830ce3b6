//! Records of imports on PostgreSQL.

use jiff::SignedDuration;

use super::{super::error::Error, Postgres, now_micros, pool::Parameters};
use crate::import::{ImportId, MAX_REMEMBERED};

statements! {
    FORGET(Bytes) = "DELETE FROM imports WHERE digest = $1";
    PURGE(Int, Int) = format!(
        "DELETE FROM imports WHERE updated_at < {} - $1
             OR digest IN (SELECT digest FROM imports ORDER BY updated_at DESC OFFSET $2)
         RETURNING 1",
        now_micros()
    );
}

impl Postgres {
    pub(in super::super) async fn import_forget(&self, id: ImportId) -> Result<(), Error> {
        let forgotten = self.background.write(&FORGET, &[&id.0.as_slice()]).await;
        forgotten.map(drop)
    }

    pub(in super::super) async fn import_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let retention = self.max_age(retention);
        let parameters: Parameters = &[&retention, &MAX_REMEMBERED];
        let purged = self.background.write(&PURGE, parameters).await?;
        Ok(purged.len() as u64)
    }
}
