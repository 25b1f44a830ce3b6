//! A fresh database for each test, and ways to interfere with it.

use std::{
    io::Write,
    path::PathBuf,
    process::{Child, Stdio},
    sync::OnceLock,
    time::Duration,
};

use petstore::store::DatabaseUrl;
use tempfile::TempDir;

use crate::{harness::Backend, postgres::Cluster};

/// The PostgreSQL server that all tests share; each has its own database.
pub static CLUSTER: OnceLock<Cluster> = OnceLock::new();

fn cluster() -> &'static Cluster {
    CLUSTER.get().expect("PostgreSQL is running")
}

/// The database of one test.
pub enum Database {
    Sqlite(TempDir),
    Postgres(String),
}

impl Database {
    pub fn new(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite | Backend::Tls => Self::Sqlite(tempfile::tempdir().unwrap()),
            Backend::Postgres => Self::Postgres(cluster().create_database()),
        }
    }

    pub fn url(&self) -> DatabaseUrl {
        match self {
            Self::Sqlite(dir) => DatabaseUrl::Sqlite(database_file(dir)),
            Self::Postgres(name) => cluster().url(name).parse().unwrap(),
        }
    }

    /// Runs SQL statements on a connection of its own, beside the service.
    pub fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(dir) => {
                let db = rusqlite::Connection::open(database_file(dir)).unwrap();
                db.busy_timeout(Duration::from_secs(10)).unwrap();
                db.execute_batch(sql).unwrap();
            }
            Self::Postgres(name) => drop(cluster().psql(name, sql)),
        }
    }

    /// Runs a query that returns a single text value.
    pub fn query(&self, sql: &str) -> String {
        match self {
            Self::Sqlite(dir) => {
                let db = rusqlite::Connection::open(database_file(dir)).unwrap();
                db.query_row(sql, [], |row| row.get(0)).unwrap()
            }
            Self::Postgres(name) => cluster().psql(name, sql),
        }
    }

    /// Blocks writes to `pets` by all others until the lock is dropped.
    pub fn lock(&self) -> Lock {
        match self {
            Self::Sqlite(dir) => {
                let db = rusqlite::Connection::open(database_file(dir)).unwrap();
                db.execute_batch("BEGIN IMMEDIATE").unwrap();
                Lock::Sqlite(db)
            }
            Self::Postgres(name) => {
                let mut psql = cluster().psql_command(name);
                let lock = "BEGIN; LOCK pets IN EXCLUSIVE MODE; SELECT pg_sleep(60)";
                let child = psql
                    .arg(lock)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                let locked = "SELECT count(*) FROM pg_locks
                            WHERE relation = 'pets'::regclass AND mode = 'ExclusiveLock' AND granted";
                let mut tries = 0..1000;
                while cluster().psql(name, locked) == "0" {
                    tries.next().expect("the lock is granted");
                    std::thread::sleep(Duration::from_millis(10));
                }
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
                cluster().psql("postgres", &deny);
                terminate_sessions(name, "petstore");
            }
        }
    }
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
    cluster().psql("postgres", &terminate);
}

/// Holds a write lock.
pub enum Lock {
    Sqlite(#[expect(dead_code, reason = "holds the transaction open")] rusqlite::Connection),
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
