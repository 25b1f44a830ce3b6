//! Copying a store from an SQLite file to a PostgreSQL server. Ids, the event log, API keys,
//! webhooks with their secrets and positions, idempotency keys and the records of imports are
//! preserved.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    pin::pin,
};

use rusqlite::Connection;
use tokio_postgres::{Transaction, binary_copy::BinaryCopyInWriter, types::Type};

use super::super::{
    error::{OpenError, sqlite_reason},
    event_row::EventRow,
    postgres::{self, PostgresError, PostgresUrl},
    row_keys::TABLE_NAMES,
    sqlite,
    table::{Kind, Row, Table, Value},
};

/// The reason why the copy failed. Unless it is unconfirmed, the target is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("there is no database at {}; name the SQLite file to copy with --from", .0.display())]
    NoSource(PathBuf),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "the target is not empty: its table {table} has rows ({rows}); specify an empty database \
         with --to"
    )]
    NotEmpty { table: &'static str, rows: i64 },
    #[error("cannot read the database file: {}", sqlite_reason(.0))]
    Read(#[from] rusqlite::Error),
    #[error("cannot write to the database server: {0}")]
    Write(PostgresError),
    #[error(
        "the server did not confirm the copy; keep the file, and check that the animals are on \
         the server and its standbys before you continue"
    )]
    Unconfirmed,
}

impl From<tokio_postgres::Error> for CopyError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Write(error.into())
    }
}

/// Returns the tables that are copied, with all of their columns.
fn tables() -> impl Iterator<Item = &'static str> {
    TABLE_NAMES.iter().copied().chain([EventRow::NAME])
}

const PURGED_THROUGH: &str = "SELECT purged_through FROM event_log";

/// Continues the log after its last event. Services that run on the target already forget what they
/// know of its orders.
const CONTINUE_LOG: &str = "UPDATE event_log
    SET purged_through = $1, stable_through = last.sequence,
        unlogged_order_changes = unlogged_order_changes + 1
    FROM (SELECT greatest($1, max(sequence)) AS sequence FROM events) AS last
    RETURNING CASE last.sequence WHEN 0 THEN 0
              ELSE setval('events_sequence_seq', last.sequence) END";

/// Copies everything in one transaction. Returns the number of rows of each table. Calls
/// `progress` with the number of rows copied and in total.
///
/// The file must not be served during the copy, and the target must be empty.
pub async fn copy(
    from: &Path,
    to: &PostgresUrl,
    mut progress: impl FnMut(u64, u64),
) -> Result<BTreeMap<&'static str, u64>, CopyError> {
    let opened = sqlite::open_exclusive_read_only(from);
    let (source, _lock) = opened.map_err(|error| match error {
        OpenError::Missing(path) => CopyError::NoSource(path),
        error => error.into(),
    })?;
    // One snapshot: the command line may change API keys during the copy.
    source.execute_batch("BEGIN")?;
    let (mut client, warnings) = postgres::open_connection(to).await?;
    let target = client.transaction().await?;
    let mut counts = BTreeMap::new();
    for name in tables() {
        // Keeps other writers out until the commit.
        target
            .batch_execute(&format!("LOCK {name} IN EXCLUSIVE MODE"))
            .await?;
        let sql = format!("SELECT count(*) FROM {name}");
        match target.query_one(&sql, &[]).await?.get(0) {
            0 => counts.insert(
                name,
                source.query_row(&sql, [], |row| row.get::<_, i64>(0))? as u64,
            ),
            rows => return Err(CopyError::NotEmpty { table: name, rows }),
        };
    }
    target
        .batch_execute("SET LOCAL petstore.logs = 'on'")
        .await?;
    let total = counts.values().sum();
    let mut done = 0;
    for table in tables() {
        let step = |rows| progress(done + rows, total);
        done += copy_table(&source, &target, table, step).await?;
        advance_sequence(&source, &target, table).await?;
    }
    let purged_through: i64 = source.query_row(PURGED_THROUGH, [], |row| row.get(0))?;
    target.query_one(CONTINUE_LOG, &[&purged_through]).await?;
    if postgres::commit_confirmed(target, &warnings).await {
        Ok(counts)
    } else {
        Err(CopyError::Unconfirmed)
    }
}

async fn copy_table(
    source: &Connection,
    target: &Transaction<'_>,
    table: &str,
    mut progress: impl FnMut(u64),
) -> Result<u64, CopyError> {
    const PROGRESS_INTERVAL: u64 = 1000;
    let mut table_info = source.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = table_info.query_map([table], |row| row.get(0))?;
    let columns = names.collect::<Result<Vec<String>, _>>()?.join(", ");
    let select = format!("SELECT {columns} FROM {table} ORDER BY 1");
    let types: Vec<_> = target
        .prepare(&select)
        .await?
        .columns()
        .iter()
        .map(|column| column.type_().clone())
        .collect();
    let sink = target
        .copy_in(&format!("COPY {table} ({columns}) FROM STDIN BINARY"))
        .await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    let mut select = source.prepare(&select)?;
    let mut rows = select.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let values = types
            .iter()
            .enumerate()
            .map(|(column, r#type)| {
                // A file has integers for both types.
                let kind = if *r#type == Type::BOOL {
                    Kind::Bool
                } else {
                    Kind::Int
                };
                row.value(column, kind).map(Value::into_owned)
            })
            .collect::<Result<Vec<_>, _>>()?;
        writer.as_mut().write_raw(values).await?;
        count += 1;
        if count % PROGRESS_INTERVAL == 0 {
            progress(count);
        }
    }
    writer.as_mut().finish().await?;
    progress(count);
    Ok(count)
}

/// Continues the ids after the last one ever assigned, even if its row was deleted:
/// ids are never reused.
async fn advance_sequence(
    source: &Connection,
    target: &Transaction<'_>,
    table: &str,
) -> Result<(), CopyError> {
    let select = "SELECT max(seq) FROM sqlite_sequence WHERE name = ?1";
    let last: Option<i64> = source.query_row(select, [table], |row| row.get(0))?;
    if let Some(last) = last {
        let sequence = format!("pg_get_serial_sequence('{table}', 'id')");
        // An id that was set by hand may be higher.
        let set = format!("SELECT setval({sequence}, greatest($1, max(id))) FROM {table}");
        target.query_one(&set, &[&last]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that is not copied would be lost without an error.
    #[test]
    fn every_table_is_copied_or_derived() {
        // Counts and words that triggers keep, SQLite's own table, and the row of the log, which
        // has an identity of its own.
        const DERIVED: [&str; 4] = ["counts", "pet_words", "sqlite_sequence", "event_log"];
        let db = sqlite::in_memory().unwrap();
        let mut select = db
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .unwrap();
        let names = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
        for table in names.map(Result::unwrap) {
            let copied = tables().any(|name| name == table);
            assert!(
                copied || DERIVED.contains(&&*table),
                "{table} is not copied"
            );
        }
    }
}
