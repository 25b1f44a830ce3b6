//! Moving a store from an SQLite file to a PostgreSQL server, as it is: ids,
//! keys and orders are kept.

use std::{error::Error, path::Path, pin::pin};

use bytes::BytesMut;
use rusqlite::{Connection, types::Value};
use tokio_postgres::{
    Transaction,
    binary_copy::BinaryCopyInWriter,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::super::{
    OpenError, PostgresError,
    postgres::{self, PostgresUrl},
    sqlite,
};

/// Why nothing was copied, unless it is unconfirmed: the target is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the target is not empty: {table} has {rows} rows; name an empty database")]
    NotEmpty { table: &'static str, rows: i64 },
    #[error("cannot read the file: {0}")]
    Read(#[from] rusqlite::Error),
    #[error("cannot write to the server: {0}")]
    Write(PostgresError),
    #[error(
        "the server did not confirm the copy; see whether the animals are there and on its \
         standbys before you go on, and keep the file"
    )]
    Unconfirmed,
}

impl From<tokio_postgres::Error> for CopyError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Write(error.into())
    }
}

struct Table {
    name: &'static str,
    columns: &'static str,
    types: &'static [Type],
}

/// In an order in which what is referred to comes first.
static TABLES: [Table; 4] = [
    Table {
        name: "pets",
        columns: "id, name, category_id, status",
        types: &[Type::INT8, Type::TEXT, Type::INT8, Type::TEXT],
    },
    Table {
        name: "orders",
        columns: "id, pet_id, status, created_at, updated_at, expires_at",
        types: &[
            Type::INT8,
            Type::INT8,
            Type::TEXT,
            Type::INT8,
            Type::INT8,
            Type::INT8,
        ],
    },
    Table {
        name: "api_keys",
        columns: "id, hash, name, scopes, created_at, last_used_at, expires_at, revoked_at, \
                  deprecated_calls, deprecated_at",
        types: &[
            Type::INT8,
            Type::BYTEA,
            Type::TEXT,
            Type::TEXT,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::INT8,
        ],
    },
    Table {
        name: "named_requests",
        columns: "api_key_id, name, request, outcome, item, created_at",
        types: &[
            Type::INT8,
            Type::TEXT,
            Type::BYTEA,
            Type::TEXT,
            Type::INT8,
            Type::INT8,
        ],
    },
];

/// What PostgreSQL notes of orders in the animals' rows.
const HOLD: &str = "UPDATE pets SET held = true FROM orders
                    WHERE orders.pet_id = pets.id AND orders.status = 'placed'";

/// Copies everything or nothing, and gives how many rows there were: animals,
/// orders, keys and names of requests. `progress` is told how many of how many are done.
///
/// The file must not be served meanwhile, and the target must be empty.
pub async fn copy(
    from: &Path,
    to: &PostgresUrl,
    mut progress: impl FnMut(u64, u64),
) -> Result<[u64; 4], CopyError> {
    let (source, _lock) = sqlite::open_to_copy(from)?;
    // One state of the file, whoever changes keys in it meanwhile.
    source.execute_batch("BEGIN")?;
    let (mut client, warnings) = postgres::open_alone(to).await?;
    let target = client.transaction().await?;
    let mut counts = [0; 4];
    for (table, count) in TABLES.iter().zip(&mut counts) {
        let name = table.name;
        // Others may write from the next moment on.
        target
            .batch_execute(&format!("LOCK {name} IN EXCLUSIVE MODE"))
            .await?;
        let sql = format!("SELECT count(*) FROM {name}");
        match target.query_one(&sql, &[]).await?.get(0) {
            0 => *count = source.query_row(&sql, [], |row| row.get::<_, i64>(0))? as u64,
            rows => return Err(CopyError::NotEmpty { table: name, rows }),
        }
    }
    let total = counts.iter().sum();
    let mut done = 0;
    for table in &TABLES {
        let step = |rows| progress(done + rows, total);
        done += copy_table(&source, &target, table, step).await?;
        keep_ids(&source, &target, table.name).await?;
    }
    target.execute(HOLD, &[]).await?;
    match postgres::is_confirmed(target, &warnings).await {
        true => Ok(counts),
        false => Err(CopyError::Unconfirmed),
    }
}

async fn copy_table(
    source: &Connection,
    target: &Transaction<'_>,
    table: &Table,
    mut progress: impl FnMut(u64),
) -> Result<u64, CopyError> {
    const STEP: u64 = 1000;
    let Table { name, columns, .. } = table;
    let sink = target
        .copy_in(&format!("COPY {name} ({columns}) FROM STDIN BINARY"))
        .await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, table.types));
    let mut select = source.prepare(&format!("SELECT {columns} FROM {name} ORDER BY 1"))?;
    let mut rows = select.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let cells = (0..table.types.len()).map(|column| row.get(column).map(Cell));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        writer.as_mut().write_raw(cells).await?;
        count += 1;
        if count % STEP == 0 {
            progress(count);
        }
    }
    writer.as_mut().finish().await?;
    progress(count);
    Ok(count)
}

/// Ids that were given once are not given again, not even those of rows that
/// are gone.
async fn keep_ids(
    source: &Connection,
    target: &Transaction<'_>,
    table: &str,
) -> Result<(), CopyError> {
    let last = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1";
    let last: i64 = source.query_row(last, [table], |row| row.get(0))?;
    if last > 0 {
        let set = format!("SELECT setval(pg_get_serial_sequence('{table}', 'id'), $1)");
        target.query_one(&set, &[&last]).await?;
    }
    Ok(())
}

/// A value of one database on its way to the other.
#[derive(Debug)]
struct Cell(Value);

impl ToSql for Cell {
    fn to_sql(
        &self,
        r#type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) => number.to_sql(r#type, out),
            Value::Real(number) => number.to_sql(r#type, out),
            Value::Text(text) => text.to_sql(r#type, out),
            Value::Blob(bytes) => bytes.to_sql(r#type, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
