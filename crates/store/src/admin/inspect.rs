//! Inspects a store for an operator, without changing anything.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use super::{
    super::{api_keys::LIST, postgres::ServerClock, sqlite, tables::ApiKeyRow, url::DatabaseUrl},
    check::damaged_pages,
    reader::{ReadError, Reader},
};
use domain::api_key::ApiKey;

/// The size up to which the pages of a file are checked. For a larger file that takes long.
const MAX_CHECKED_BYTES: u64 = 1 << 30;

/// A store whose schema is current.
#[derive(Debug)]
pub struct Inspection {
    pub keys: Vec<ApiKey>,
    /// The last change, or use of an API key, that is recorded.
    pub last_change: Option<Timestamp>,
    pub details: DatabaseDetails,
}

/// Properties that only one of the databases has.
#[derive(Debug)]
pub enum DatabaseDetails {
    Sqlite {
        /// The canonical path.
        path: PathBuf,
        /// The identity of the store, which its backups share.
        event_source: String,
        /// `None` if the file is too large to be checked.
        is_damaged: Option<bool>,
        wal_bytes: u64,
        /// True if another process has the file open.
        is_open: bool,
    },
    Postgres {
        /// The lead of the server's clock over the system clock.
        clock_offset: SignedDuration,
    },
}

statements! {
    LAST_CHANGE() = "SELECT max(at)
         FROM (SELECT * FROM (SELECT at FROM events ORDER BY sequence DESC LIMIT 1) AS newest
               UNION ALL SELECT max(created_at) FROM api_keys
               UNION ALL SELECT max(last_used_at) FROM api_keys) AS recorded";
}

/// Returns the source of the events of a store, which identifies it.
pub(super) fn event_source_of(db: &Connection) -> rusqlite::Result<String> {
    let select = "SELECT source FROM event_log";
    db.query_row(select, [], |row| row.get(0))
}

/// Inspects a store, live or not. Never creates or migrates one.
pub async fn inspect(url: &DatabaseUrl) -> Result<Inspection, ReadError> {
    let (store, details) = match url {
        DatabaseUrl::Sqlite(path) => {
            let path = sqlite::canonical_path(path)?;
            // Checked before this process opens the file.
            let is_open = sqlite::is_open(&path);
            let size = |path: &Path| fs::symlink_metadata(path).map_or(0, |file| file.len());
            let wal_bytes = size(&sqlite::wal_path(&path));
            let db = sqlite::open_current(&path)?;
            let is_damaged = if size(&path) <= MAX_CHECKED_BYTES {
                Some(!damaged_pages(&db, "PRAGMA quick_check(1)")?.is_empty())
            } else {
                None
            };
            let event_source = event_source_of(&db)?;
            let details = DatabaseDetails::Sqlite {
                path,
                event_source,
                is_damaged,
                wal_bytes,
                is_open,
            };
            (Reader::File(db), details)
        }
        DatabaseUrl::Postgres(_) => {
            let store = Reader::open(url).await?;
            let select = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
            let clock = ServerClock::default();
            let sent = Timestamp::now();
            clock.observe(sent, store.one(select).await?, Timestamp::now());
            let clock_offset = clock.offset();
            (store, DatabaseDetails::Postgres { clock_offset })
        }
    };
    Ok(Inspection {
        last_change: store.one(LAST_CHANGE.text()).await?,
        keys: read_keys(&store).await?,
        details,
    })
}

/// Lists every API key of a store, live or not.
pub async fn list_keys(url: &DatabaseUrl) -> Result<Vec<ApiKey>, ReadError> {
    read_keys(&Reader::open(url).await?).await
}

async fn read_keys(store: &Reader) -> Result<Vec<ApiKey>, ReadError> {
    let rows: Vec<ApiKeyRow> = store.all(LIST.text()).await?;
    Ok(rows.into_iter().map(|row| row.key).collect())
}

/// Returns the time of the last recorded change, or use of an API key.
pub(super) fn last_recorded_change(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    db.query_row(LAST_CHANGE.text(), [], sqlite::read_row)
}
