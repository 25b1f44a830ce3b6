//! Stores on new databases.

use std::sync::Arc;

use store::{Options, Role, Store};
use support::{Backend, CommandResult, Database, command};
use tokio_postgres::NoTls;

/// The id of the API key that every store of this suite has.
pub const API_KEY: i64 = 1;

/// A store with an API key, and its database.
pub struct TestStore {
    // Fields drop in this order: the store before its database.
    pub store: Arc<Store>,
    pub database: Database,
}

impl TestStore {
    pub async fn open(backend: Backend) -> Self {
        let database = new_database(backend).await;
        Self {
            store: Arc::new(open(&database.url(), Role::Cli).await),
            database,
        }
    }

    /// Opens the store once more, as another replica or command does.
    pub async fn open_again(&self) -> Store {
        open(&self.database.url(), Role::Cli).await
    }
}

/// Creates a database that has a store with an API key.
pub async fn new_database(backend: Backend) -> Database {
    let database = Database::new(backend);
    create_store(&database.url()).await;
    database
}

/// Creates a store with an API key, and closes it.
pub async fn create_store(url: &str) {
    let options = Options {
        create: true,
        ..Options::new(Role::Cli)
    };
    open_with(url, &options).await.close().await;
    insert_key(url).await;
}

/// Inserts a key beside the store, so that the event log stays empty.
async fn insert_key(url: &str) {
    let hash = "0f".repeat(32);
    let insert = "INSERT INTO api_keys (name, scopes, created_at, hash) VALUES ('test', '', 0,";
    match url.strip_prefix("sqlite:") {
        Some(file) => {
            let db = rusqlite::Connection::open(file).unwrap();
            db.execute_batch(&format!("{insert} x'{hash}')")).unwrap();
        }
        None => {
            let insert = format!("{insert} decode('{hash}', 'hex'))");
            connect(url).await.batch_execute(&insert).await.unwrap();
        }
    }
}

pub async fn open(url: &str, role: Role) -> Store {
    open_with(url, &Options::new(role)).await
}

pub async fn open_with(url: &str, options: &Options) -> Store {
    Store::open(&url.parse().unwrap(), options).await.unwrap()
}

/// A session of another program with a PostgreSQL database.
pub async fn connect(url: &str) -> tokio_postgres::Client {
    let (session, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    session
}

/// Runs a command on stores.
pub fn petstore(arguments: &[&str]) -> CommandResult {
    CommandResult::of(command(env!("CARGO_BIN_EXE_petstore")).args(arguments))
}
