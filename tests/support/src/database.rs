//! A fresh database for each test, and ways to interfere with it.

use std::{
    io::Write,
    path::PathBuf,
    process::{Child, Stdio},
};

use rusqlite::{Connection, types::Value};
use tempfile::TempDir;

use crate::{Backend, TIMEOUT, postgres::shared, wait_for};

/// The database of one test.
pub enum Database {
    Sqlite(TempDir),
    Postgres(String),
}

impl Database {
    pub fn new(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite | Backend::Tls => Self::Sqlite(tempfile::tempdir().unwrap()),
            Backend::Postgres => Self::Postgres(shared().create_database()),
        }
    }

    /// The URL that petstore knows it by.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(dir) => format!("sqlite:{}", database_file(dir).display()),
            Self::Postgres(name) => shared().url(name),
        }
    }

    /// Runs SQL statements on a connection of its own, beside the service.
    pub fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(dir) => connect(dir).execute_batch(sql).unwrap(),
            Self::Postgres(name) => drop(shared().psql(name, sql)),
        }
    }

    /// Runs a query that returns a single text or number.
    pub fn query(&self, sql: &str) -> String {
        match self {
            Self::Sqlite(dir) => match connect(dir).query_row(sql, [], |row| row.get(0)) {
                Ok(Value::Text(text)) => text,
                Ok(Value::Integer(number)) => number.to_string(),
                other => panic!("{sql}: {other:?}"),
            },
            Self::Postgres(name) => shared().psql(name, sql),
        }
    }

    /// Blocks writes to `pets` by all others until the lock is dropped.
    pub fn lock(&self) -> Lock {
        match self {
            Self::Sqlite(dir) => {
                let db = connect(dir);
                db.execute_batch("BEGIN IMMEDIATE").unwrap();
                Lock::Sqlite(db)
            }
            Self::Postgres(name) => {
                let mut psql = shared().psql_command(name);
                // Longer than any test; the session ends with the lock.
                let lock = "BEGIN; LOCK pets IN EXCLUSIVE MODE; SELECT pg_sleep(3600)";
                let child = psql
                    .arg(lock)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                let locked = "SELECT count(*) FROM pg_locks
                            WHERE relation = 'pets'::regclass AND mode = 'ExclusiveLock' AND granted";
                wait_for("the lock", || {
                    (shared().psql(name, locked) != "0").then_some(())
                });
                Lock::Postgres(child.unwrap(), name.clone())
            }
        }
    }

    /// Corrupts the SQLite files, or cuts off PostgreSQL, under the running service.
    pub fn destroy(&self) {
        match self {
            Self::Sqlite(dir) => {
                for name in ["petstore.db-wal", "petstore.db"] {
                    let path = dir.path().join(name);
                    let size = std::fs::metadata(&path).unwrap().len();
                    let mut file = std::fs::File::options().write(true).open(path).unwrap();
                    file.write_all(&vec![0xff; size as usize]).unwrap();
                }
            }
            Self::Postgres(name) => {
                let deny = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
                shared().psql("postgres", &deny);
                terminate_sessions(name, "petstore");
            }
        }
    }
}

fn connect(dir: &TempDir) -> Connection {
    let db = Connection::open(database_file(dir)).unwrap();
    db.busy_timeout(TIMEOUT).unwrap();
    db
}

fn database_file(dir: &TempDir) -> PathBuf {
    dir.path().join("petstore.db")
}

/// Terminates all sessions of an application.
fn terminate_sessions(database: &str, application: &str) {
    let terminate = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = '{database}' AND application_name = '{application}'"
    );
    shared().psql("postgres", &terminate);
}

/// Holds a write lock.
pub enum Lock {
    /// The connection holds the transaction open.
    Sqlite(Connection),
    Postgres(Child, String),
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Self::Postgres(psql, database) = self {
            terminate_sessions(database, "psql");
            psql.wait().unwrap();
        }
    }
}
