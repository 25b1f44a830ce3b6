//! What an operator wants to know about a store, without changing anything.

use std::{fs, path::Path};

use jiff::Timestamp;
use rusqlite::Connection;

use super::{
    super::{
        Options, Role, Store,
        api_keys::LIST,
        postgres::{self, PostgresUrl},
        sqlite,
        table::Record,
        tables::ApiKeyRow,
        url::DatabaseUrl,
    },
    check::{CheckError, damaged_pages},
};
use crate::{api_key::ApiKey, import_socket::SocketState};

/// Checking the pages of a larger file takes long.
const MAX_CHECKED_BYTES: u64 = 1 << 30;

/// A store whose schema is current.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub keys: Vec<ApiKey>,
    /// The last change, or use of an API key, that is recorded.
    pub last_change: Option<Timestamp>,
    pub server: Server,
}

/// What only one of the databases has.
#[derive(Debug)]
pub(crate) enum Server {
    Sqlite {
        /// `None` if the file is too large to look.
        is_damaged: Option<bool>,
        wal_bytes: u64,
        /// Whether another process has the file open.
        is_open: bool,
        import_socket: SocketState,
    },
    Postgres {
        now: Timestamp,
    },
}

statements! {
    LAST_CHANGE() = "SELECT max(at)
         FROM (SELECT * FROM (SELECT at FROM events ORDER BY sequence DESC LIMIT 1) AS newest
               UNION ALL SELECT max(created_at) FROM api_keys
               UNION ALL SELECT max(last_used_at) FROM api_keys) AS recorded";
}

/// Inspects a store, live or not. Never creates or migrates one.
pub(crate) async fn inspect(url: &DatabaseUrl) -> Result<Inspected, CheckError> {
    match url {
        DatabaseUrl::Sqlite(path) => {
            let path = sqlite::canonical_path(path)?;
            // Before this process opens it.
            let is_open = sqlite::is_open(&path);
            let import_socket = SocketState::find(&path, is_open).await;
            inspect_file(&path, is_open, import_socket)
        }
        DatabaseUrl::Postgres(url) => inspect_server(url).await,
    }
}

fn inspect_file(
    path: &Path,
    is_open: bool,
    import_socket: SocketState,
) -> Result<Inspected, CheckError> {
    let size = |path: &Path| fs::symlink_metadata(path).map_or(0, |file| file.len());
    let wal_bytes = size(&sqlite::wal_path(path));
    let db = sqlite::open_current(path)?;
    let is_damaged = || damaged_pages(&db, "PRAGMA quick_check(1)").map(|found| !found.is_empty());
    let is_damaged = (size(path) <= MAX_CHECKED_BYTES).then(is_damaged);
    let last_change = last_recorded_change(&db)?;
    Ok(Inspected {
        keys: read_keys(&db)?,
        last_change,
        server: Server::Sqlite {
            is_damaged: is_damaged.transpose()?,
            wal_bytes,
            is_open,
            import_socket,
        },
    })
}

/// Lists every API key of a store, live or not. A file is only read.
pub(crate) async fn list_keys(url: &DatabaseUrl) -> Result<Vec<ApiKey>, CheckError> {
    match url {
        DatabaseUrl::Sqlite(path) => {
            let db = sqlite::open_current(path)?;
            Ok(read_keys(&db)?)
        }
        DatabaseUrl::Postgres(_) => {
            let store = Store::open(url, &Options::new(Role::Command)).await?;
            let keys = store.api_key_list().await?;
            store.close().await;
            Ok(keys.into_iter().map(|(_, key)| key).collect())
        }
    }
}

fn read_keys(db: &Connection) -> rusqlite::Result<Vec<ApiKey>> {
    let mut select = db.prepare(LIST.text())?;
    let keys = select.query_map([], sqlite::read_row::<ApiKeyRow>)?;
    keys.map(|key| key.map(|row| row.key)).collect()
}

/// When something was last changed, or an API key used.
pub(super) fn last_recorded_change(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let at: Option<i64> = db.query_row(LAST_CHANGE.text(), [], |row| row.get(0))?;
    Ok(at.and_then(|at| Timestamp::from_microsecond(at).ok()))
}

async fn inspect_server(url: &PostgresUrl) -> Result<Inspected, CheckError> {
    let client = postgres::open_connection_to_current(url).await?;
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
    let now: i64 = client.query_typed(now, &[]).await?[0].get(0);
    let last_change = client.query_typed(LAST_CHANGE.text(), &[]).await?;
    let last_change: Option<i64> = last_change[0].get(0);
    let keys = client.query_typed(LIST.text(), &[]).await?;
    let keys = keys
        .iter()
        .map(|row| ApiKeyRow::from_row(row).map(|row| row.key));
    let timestamp = |at| Timestamp::from_microsecond(at).ok();
    Ok(Inspected {
        keys: keys.collect::<Result<_, _>>()?,
        last_change: last_change.and_then(timestamp),
        server: Server::Postgres {
            now: timestamp(now).unwrap_or_default(),
        },
    })
}
