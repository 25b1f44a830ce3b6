//! Recognises servers that speak the protocol of PostgreSQL and do not keep its promises.
//!
//! The order of events, table locks and the validity of cached responses depend on the locks
//! (`pg_locks`) and the snapshots of one primary. An engine that spreads a database over several
//! nodes shows each of them only its own, and would break these promises without an error.

use tokio_postgres::{Client, types::Type};

use super::{super::error::OpenError, migrate::created};

/// The oldest major version that is supported. Before it, a prepared transaction does not keep
/// its virtual transaction id, by which the watermark knows it.
const MIN_MAJOR_VERSION: u32 = 14;

/// Fails if the server or the database cannot have a store. Nothing is changed.
pub(super) async fn check(client: &Client, server: &str) -> Result<(), OpenError> {
    let failed = OpenError::postgres(server);
    // Nothing is prepared outside a transaction: a pooler may run each statement
    // in another session. Other engines may not know what later statements read.
    let rows = client.query_typed("SELECT version()", &[]).await;
    let version: String = rows.map_err(failed)?[0].get(0);
    if let Some(engine) = distributed_engine(&version) {
        return Err(OpenError::Distributed {
            server: server.into(),
            engine,
        });
    }
    if major_version(&version).is_some_and(|major| major < MIN_MAJOR_VERSION) {
        return Err(OpenError::OldServer {
            server: server.into(),
            version,
            oldest: MIN_MAJOR_VERSION,
        });
    }
    let select = "SELECT current_setting('server_encoding'),
                         to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL";
    let rows = client.query_typed(select, &[]).await.map_err(failed)?;
    let encoding: String = rows[0].get(0);
    if encoding != "UTF8" {
        return Err(OpenError::Encoding {
            server: server.into(),
            encoding,
        });
    }
    let has_citus = rows[0].get(1);
    if has_citus {
        reject_distributed_tables(client, server).await?;
    }
    Ok(())
}

/// Fails if Citus manages a table of ours. Without that, all tables are on the coordinator, which
/// is a PostgreSQL server.
async fn reject_distributed_tables(client: &Client, server: &str) -> Result<(), OpenError> {
    let select = "SELECT relname::text FROM pg_catalog.pg_dist_partition
                  JOIN pg_catalog.pg_class ON pg_class.oid = logicalrelid
                  WHERE relname = ANY($1) AND pg_table_is_visible(logicalrelid)
                  ORDER BY 1 LIMIT 1";
    let tables: Vec<_> = created("TABLE").collect();
    let rows = client
        .query_typed(select, &[(&tables, Type::TEXT_ARRAY)])
        .await
        .map_err(OpenError::postgres(server))?;
    match rows.first() {
        Some(row) => Err(OpenError::DistributedTable {
            server: server.into(),
            table: row.get(0),
        }),
        None => Ok(()),
    }
}

/// Returns the name of a distributed engine by its `version()`.
fn distributed_engine(version: &str) -> Option<&'static str> {
    if version.starts_with("CockroachDB ") {
        Some("CockroachDB")
    } else if version.contains("-YB-") {
        Some("YugabyteDB")
    } else {
        None
    }
}

/// Returns the major version in a `version()` of PostgreSQL, or `None` in one of another form.
fn major_version(version: &str) -> Option<u32> {
    let number = version.strip_prefix("PostgreSQL ")?;
    let digits = number.find(|c: char| !c.is_ascii_digit())?;
    number[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that the engines print.
    #[test]
    fn engines_are_recognised_by_their_version() {
        for (version, engine, major) in [
            (
                "CockroachDB CCL v24.3.5 (x86_64-pc-linux-gnu, built 2025/02/03 17:28:15, go1.22.8)",
                Some("CockroachDB"),
                None,
            ),
            (
                "CockroachDB OSS v21.1.1 (x86_64-apple-darwin19, built 2021/05/24, go1.15.11)",
                Some("CockroachDB"),
                None,
            ),
            (
                "PostgreSQL 11.2-YB-2.21.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang, 64-bit",
                Some("YugabyteDB"),
                Some(11),
            ),
            (
                "PostgreSQL 15.12-YB-2025.2.3.2-b0 on x86_64-pc-linux-gnu, compiled by clang",
                Some("YugabyteDB"),
                Some(15),
            ),
            (
                "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc",
                None,
                Some(15),
            ),
            ("PostgreSQL 19beta1 on x86_64-pc-linux-gnu", None, Some(19)),
            ("PostgreSQL 9.6.24 on x86_64-pc-linux-gnu", None, Some(9)),
            ("Another engine 3", None, None),
        ] {
            assert_eq!(distributed_engine(version), engine, "{version}");
            assert_eq!(major_version(version), major, "{version}");
        }
    }
}
