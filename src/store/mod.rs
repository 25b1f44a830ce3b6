//! The storage promise, whatever the database behind it.
//!
//! - A write that returned `Ok` is on disk and survives a power cut.
//! - A read sees every write that was acknowledged before the read began.
//! - Ids are positive, ascending and never given twice.
//! - A write whose caller went away is still carried out, unless it had not
//!   begun.
//! - An animal has one open order at the most, and while it has one, its status
//!   is changed by that order alone.
//! - A named request is carried out once; its record is committed with it.

mod admin;
mod commits;
mod partial;
mod postgres;
mod queue;
mod replay;
mod sqlite;

use std::{error, fmt, io, path::PathBuf, str::FromStr, sync::Arc};

use jiff::Timestamp;

use crate::{
    api_key::{ApiKey, ApiKeyUsage, KeyHash, NewApiKey},
    idempotency::{Idempotent, IdempotentRequest},
    invalid::Invalid,
    order::{self, NewOrder, Order, OrderId, OrderStatus, Transition},
    page::{ListQuery, Page},
    pet::{self, Inventory, NewPet, Pet, PetChange, PetId, PetStatus},
    telemetry::prometheus::Exposition,
};
use postgres::{Postgres, PostgresError};
use sqlite::Sqlite;

pub use admin::{backup, check, copy, export, import};
pub use partial::Partial;
pub use postgres::PostgresUrl;

/// Where the data lives: the scheme picks the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(Box<PostgresUrl>),
}

impl FromStr for DatabaseUrl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() && !path.starts_with(':') => {
                Ok(Self::Sqlite(path.strip_prefix("//").unwrap_or(path).into()))
            }
            None if PostgresUrl::SCHEMES.iter().any(|s| text.starts_with(s)) => {
                Ok(Self::Postgres(Box::new(text.parse()?)))
            }
            _ => {
                let reason = "must be sqlite: and a file's path, or postgres:// and the rest of \
                              a server's address";
                Err(Invalid::new("database", reason))
            }
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

/// The text of an address that could not be read, as it may be shown. Where in
/// it a password may be, nobody knows: so of one that may have any, no more than
/// how it begins.
pub fn without_password(text: &str) -> String {
    if !text.contains(['@', '=', '?']) {
        return text.into();
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let scheme = scheme.filter(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    scheme.map_or("…".into(), |scheme| format!("{scheme}://…"))
}

/// What a process wants of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves requests; on an embedded database there is one such process.
    Service,
    /// Does one thing beside a running service and ends.
    Tool,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    pub role: Role,
    /// Whether to make the database where there is none.
    pub create: bool,
    /// How many writes may wait; one more is refused.
    pub write_queue: usize,
}

impl Options {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            create: true,
            write_queue: 4096,
        }
    }
}

/// Why a store cannot be opened. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no database at {0}; `petstore serve` and `petstore keys create` make one")]
    Missing(PathBuf),
    #[error("{0} is not a petstore database; name another file, or move this one away")]
    NotAPetstore(PathBuf),
    #[error(
        "{place} was written by a newer petstore (schema {found}, this one knows {known}); \
         run that version or a newer one"
    )]
    Newer {
        place: String,
        found: i64,
        known: i64,
    },
    #[error(
        "{place} is from an older petstore (schema {found}, this one knows {known}); `petstore \
         serve` brings it up to date"
    )]
    Older {
        place: String,
        found: i64,
        known: i64,
    },
    #[error("{0} is already served by another process; stop that one first, or name another file")]
    InUse(PathBuf),
    #[error("cannot open {path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error("cannot open {path}: {cause}")]
    Database {
        path: PathBuf,
        cause: rusqlite::Error,
    },
    #[error("cannot use {server}: {cause}")]
    Postgres {
        server: String,
        cause: PostgresError,
    },
    #[error(
        "cannot use {server}: names need a database in UTF8, this one is in {encoding}; make one \
         with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding { server: String, encoding: String },
    #[error("cannot use {server}: {cause}")]
    Tls { server: String, cause: io::Error },
}

type Cause = Arc<dyn error::Error + Send + Sync>;

/// Why a call to the store did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Too much is waiting already. Nothing was changed.
    #[error("too many requests are waiting for the store")]
    Overloaded,
    /// The database cannot do it now. Nothing was changed.
    #[error("the database is unavailable: {0}")]
    Unavailable(Cause),
    /// The write may or may not survive.
    #[error("the outcome of a write is unknown: {0}")]
    OutcomeUnknown(Cause),
    /// The program is at fault. Nothing was changed.
    #[error("the store failed: {0}")]
    Internal(Cause),
}

/// How far a store has come: what was read stays true while it stands.
///
/// It is raised before a write is acknowledged, so who takes it first and reads
/// then has read every write that it counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Version {
    /// Commits that added something. What is added has the highest id.
    pub added: u64,
    /// Commits that changed what was there.
    pub changed: u64,
}

/// The animals, orders and keys, on one of the databases.
#[derive(Debug)]
pub enum Store {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Store {
    pub async fn open(url: &DatabaseUrl, options: &Options) -> Result<Self, OpenError> {
        match url {
            DatabaseUrl::Sqlite(path) => Sqlite::open(path, options).map(Self::Sqlite),
            DatabaseUrl::Postgres(url) => {
                let opened = Postgres::open(url, options).await?;
                Ok(Self::Postgres(Box::new(opened)))
            }
        }
    }

    /// Finishes the writes that are waiting and closes the database.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(db) => db.close().await,
            Self::Postgres(db) => db.close().await,
        }
    }

    /// Says whether the store can be read and written now.
    pub async fn ping(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(db) => db.ping().await,
            Self::Postgres(db) => db.ping().await,
        }
    }

    /// How far the store has come, if only this process changes it.
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Sqlite(db) => Some(db.version()),
            Self::Postgres(_) => None,
        }
    }

    /// Tells what was counted while it was open.
    pub fn expose(&self, text: &mut Exposition) {
        match self {
            Self::Sqlite(db) => db.expose(text),
            Self::Postgres(db) => db.expose(text),
        }
    }

    /// Stores a pet and returns it with its new id.
    pub async fn pet_create(
        &self,
        new: NewPet,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_create(new, named).await,
            Self::Postgres(db) => db.pet_create(new, named).await,
        }
    }

    /// Changes a pet, if it is as `expected`, and returns it.
    pub async fn pet_update(
        &self,
        id: PetId,
        change: PetChange,
        expected: impl Fn(&Pet) -> bool + Send + 'static,
    ) -> Result<Result<Pet, pet::Rejection>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_update(id, change, expected).await,
            Self::Postgres(db) => db.pet_update(id, change, expected).await,
        }
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_get(id).await,
            Self::Postgres(db) => db.pet_get(id).await,
        }
    }

    /// Lists pets by ascending id.
    pub async fn pet_list(&self, query: ListQuery<PetStatus>) -> Result<Page<Pet>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_list(query).await,
            Self::Postgres(db) => db.pet_list(query).await,
        }
    }

    /// Counts the pets by their status. Its cost does not grow with them.
    pub async fn pet_inventory(&self) -> Result<Inventory, Error> {
        match self {
            Self::Sqlite(db) => db.pet_inventory().await,
            Self::Postgres(db) => db.pet_inventory().await,
        }
    }

    /// Places an order on a pet that is available, which is pending then.
    pub async fn order_place(
        &self,
        new: NewOrder,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<Order, order::Rejection>>, Error> {
        match self {
            Self::Sqlite(db) => db.order_place(new, named).await,
            Self::Postgres(db) => db.order_place(new, named).await,
        }
    }

    /// Completes or cancels an open order, and with it changes its pet. One
    /// whose hold has lapsed cannot be completed any more.
    pub async fn order_close(
        &self,
        id: OrderId,
        close: Transition,
        now: Timestamp,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<Order, order::Rejection>>, Error> {
        match self {
            Self::Sqlite(db) => db.order_close(id, close, now, named).await,
            Self::Postgres(db) => db.order_close(id, close, now, named).await,
        }
    }

    /// Cancels some of the orders whose hold has lapsed, and says how many: 0
    /// if there are no more.
    pub async fn order_lapse(&self, now: Timestamp) -> Result<u64, Error> {
        match self {
            Self::Sqlite(db) => db.order_lapse(now).await,
            Self::Postgres(db) => db.order_lapse(now).await,
        }
    }

    pub async fn order_get(&self, id: OrderId) -> Result<Option<Order>, Error> {
        match self {
            Self::Sqlite(db) => db.order_get(id).await,
            Self::Postgres(db) => db.order_get(id).await,
        }
    }

    /// Lists orders by ascending id.
    pub async fn order_list(&self, query: ListQuery<OrderStatus>) -> Result<Page<Order>, Error> {
        match self {
            Self::Sqlite(db) => db.order_list(query).await,
            Self::Postgres(db) => db.order_list(query).await,
        }
    }

    /// Stores a key under its hash and returns it with its new id.
    pub async fn key_create(&self, new: NewApiKey, hash: KeyHash) -> Result<ApiKey, Error> {
        match self {
            Self::Sqlite(db) => db.key_create(new, hash).await,
            Self::Postgres(db) => db.key_create(new, hash).await,
        }
    }

    /// Lists every key, the revoked and expired ones too, by ascending id.
    pub async fn key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        match self {
            Self::Sqlite(db) => db.key_list().await,
            Self::Postgres(db) => db.key_list().await,
        }
    }

    /// Revokes a key and returns it as it was before, or `None` if there is
    /// no such key. The time of a first revocation stays.
    pub async fn key_revoke(&self, id: i64, now: Timestamp) -> Result<Option<ApiKey>, Error> {
        match self {
            Self::Sqlite(db) => db.key_revoke(id, now).await,
            Self::Postgres(db) => db.key_revoke(id, now).await,
        }
    }

    /// Notes how keys were used.
    pub async fn key_used(&self, used: Vec<ApiKeyUsage>) -> Result<(), Error> {
        match self {
            Self::Sqlite(db) => db.key_used(used).await,
            Self::Postgres(db) => db.key_used(used).await,
        }
    }

    /// Forgets some of the names that requests had before that time, and says
    /// how many: 0 if there are no more.
    pub async fn named_forget(&self, before: Timestamp) -> Result<u64, Error> {
        match self {
            Self::Sqlite(db) => db.named_forget(before).await,
            Self::Postgres(db) => db.named_forget(before).await,
        }
    }
}
