//! Records of imports on SQLite.

use jiff::SignedDuration;
use rusqlite::Connection;

use super::{super::error::Error, Sqlite};
use crate::import::{ImportId, MAX_REMEMBERED};

statements! {
    FORGET(Bytes) = "DELETE FROM imports WHERE digest = $1";
    PURGE(Int, Int) = "DELETE FROM imports WHERE updated_at < $1 OR digest IN (
         SELECT digest FROM imports ORDER BY updated_at DESC LIMIT -1 OFFSET $2)";
}

impl Sqlite {
    pub(in super::super) async fn import_forget(&self, id: ImportId) -> Result<(), Error> {
        self.writer.run(move |db| forget_import(db, id)).await
    }

    pub(in super::super) async fn import_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let before = self.retained_since(retention).as_microsecond();
        self.writer
            .run(move |db| {
                let mut purge = db.prepare_cached(PURGE.text())?;
                Ok(purge.execute([before, MAX_REMEMBERED])? as u64)
            })
            .await
    }
}

pub(in super::super) fn forget_import(db: &Connection, id: ImportId) -> rusqlite::Result<()> {
    let mut forget = db.prepare_cached(FORGET.text())?;
    forget.execute([id.0.as_slice()]).map(drop)
}
