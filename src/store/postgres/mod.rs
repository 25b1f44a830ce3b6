//! The store on a PostgreSQL server, which any number of replicas share: the
//! statements and their rows.

mod migrate;
mod pool;
mod url;
mod writer;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::timeout;
use tokio_postgres::{Client, Row, types::Type};

use super::{Error, OpenError, Options, Role};
use crate::{
    key::{Key, KeyHash, KeyName, NewKey, Scopes},
    order::{Order, OrderStatus},
    page::{Filter, ListQuery, Page},
    pet::{NewPet, Pet, PetId, PetName, PetStatus},
};
use pool::{Pool, Sql};
use url::Server;
use writer::Writer;

pub use url::{PostgresUrl, Trouble};

/// Connections to a PostgreSQL server.
#[derive(Debug)]
pub struct Postgres {
    pool: Pool,
    /// Apart, so that a write that waits holds up no reading.
    key_writes: Pool,
    writer: Writer,
}

/// How long the schema may take, with the waiting for another replica that
/// changes it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many connections a replica reads over.
const READERS: usize = 4;

/// Opens a connection to a database, after its schema is up to date, with the
/// count of the server's warnings.
pub async fn open_to_copy(url: &PostgresUrl) -> Result<(Client, Arc<AtomicU64>), OpenError> {
    let (_, client, warnings) = prepare(url).await?;
    Ok((client, warnings))
}

async fn prepare(url: &PostgresUrl) -> Result<(Server, Client, Arc<AtomicU64>), OpenError> {
    let shown = url.to_string();
    let server = Server::new(url).map_err(|cause| OpenError::Tls {
        server: shown.clone(),
        cause,
    })?;
    let failed = |cause| OpenError::Postgres {
        server: shown.clone(),
        cause,
    };
    let (mut client, warnings) = pool::connect(&server).await.map_err(failed)?;
    let migrated = timeout(PATIENCE, migrate::migrate(&mut client, &shown)).await;
    migrated.map_err(|late| failed(late.into()))??;
    Ok((server, client, warnings))
}

impl Postgres {
    pub async fn open(url: &PostgresUrl, options: &Options) -> Result<Self, OpenError> {
        let (server, ..) = prepare(url).await?;
        let readers = match options.role {
            Role::Service => READERS,
            Role::Tool => 1,
        };
        Ok(Self {
            pool: Pool::new(&server, readers),
            key_writes: Pool::new(&server, 1),
            writer: Writer::start(&server, options.write_queue),
        })
    }

    pub async fn close(&self) {
        self.writer.close().await;
    }

    pub async fn pet_create(&self, new: NewPet) -> Result<Pet, Error> {
        self.writer.create(new).await
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        let rows = self.pool.read(&PET, &[&id.get()]).await?;
        rows.first().map(pet).transpose()
    }

    pub async fn pet_list(&self, query: ListQuery<PetStatus>) -> Result<Page<Pet>, Error> {
        self.list(&PETS, query, pet, |pet| pet.id.get()).await
    }

    pub async fn order_list(&self, query: ListQuery<OrderStatus>) -> Result<Page<Order>, Error> {
        self.list(&ORDERS, query, order, |order| order.id).await
    }

    /// Reads one page by ascending id, and one item more to see whether it
    /// goes on.
    async fn list<S: Filter, T>(
        &self,
        [all, filtered]: &'static [Sql; 2],
        query: ListQuery<S>,
        item: fn(&Row) -> Result<T, Error>,
        id: fn(&T) -> i64,
    ) -> Result<Page<T>, Error> {
        let (after, limit) = (query.after.id(), i64::from(query.limit.get()) + 1);
        let rows = match query.status.map(S::as_str) {
            None => self.pool.read(all, &[&after, &limit]).await,
            Some(status) => self.pool.read(filtered, &[&after, &limit, &status]).await,
        };
        let items = rows?.iter().map(item).collect::<Result<_, _>>()?;
        Ok(Page::from_surplus(items, query.limit, id))
    }

    pub async fn key_create(&self, new: NewKey, hash: KeyHash) -> Result<Key, Error> {
        let (created, expires) = (
            new.created_at.as_microsecond(),
            new.expires_at.map(Timestamp::as_microsecond),
        );
        let (hash, name) = (hash.as_bytes().as_slice(), new.name.as_str());
        let scopes = new.scopes.to_string();
        let rows = self
            .key_writes
            .write(&KEY_CREATE, &[&hash, &name, &scopes, &created, &expires])
            .await?;
        rows.first().map_or(Err(unreadable(NoRow)), key)
    }

    pub async fn key_list(&self) -> Result<Vec<(KeyHash, Key)>, Error> {
        let rows = self.pool.read(&KEYS, &[]).await?;
        rows.iter()
            .map(|row| {
                let hash: &[u8] = row.get(7);
                let hash = hash.try_into().map_err(unreadable)?;
                Ok((KeyHash::from_store(hash), key(row)?))
            })
            .collect()
    }

    pub async fn key_revoke(&self, id: i64, now: Timestamp) -> Result<Option<Key>, Error> {
        let rows = self
            .key_writes
            .write(&KEY_REVOKE, &[&id, &now.as_microsecond()])
            .await?;
        rows.first().map(key).transpose()
    }

    pub async fn key_used(&self, used: Vec<(i64, Timestamp)>) -> Result<(), Error> {
        let (ids, times): (Vec<_>, Vec<_>) = used
            .into_iter()
            .map(|(id, time)| (id, time.as_microsecond()))
            .unzip();
        self.key_writes.write(&KEY_USED, &[&ids, &times]).await?;
        Ok(())
    }
}

static PET: Sql = Sql {
    text: "SELECT id, name, category_id, status FROM pets WHERE id = $1",
    types: &[Type::INT8],
};

/// Without a status, and with one.
static PETS: [Sql; 2] = [
    Sql {
        text: "SELECT id, name, category_id, status FROM pets
               WHERE id > $1 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8],
    },
    Sql {
        text: "SELECT id, name, category_id, status FROM pets
               WHERE id > $1 AND status = $3 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8, Type::TEXT],
    },
];

/// Without a status, and with one.
static ORDERS: [Sql; 2] = [
    Sql {
        text: "SELECT id, pet_id, status, created_at, updated_at FROM orders
               WHERE id > $1 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8],
    },
    Sql {
        text: "SELECT id, pet_id, status, created_at, updated_at FROM orders
               WHERE id > $1 AND status = $3 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8, Type::TEXT],
    },
];

static KEYS: Sql = Sql {
    text: "SELECT id, name, scopes, created_at, last_used_at, expires_at, revoked_at, hash
           FROM api_keys ORDER BY id",
    types: &[],
};

static KEY_CREATE: Sql = Sql {
    text: "INSERT INTO api_keys (hash, name, scopes, created_at, expires_at)
           VALUES ($1, $2, $3, $4, $5)
           RETURNING id, name, scopes, created_at, last_used_at, expires_at, revoked_at",
    types: &[Type::BYTEA, Type::TEXT, Type::TEXT, Type::INT8, Type::INT8],
};

/// Gives the key as it was before.
static KEY_REVOKE: Sql = Sql {
    text: "WITH before AS (SELECT * FROM api_keys WHERE id = $1 FOR UPDATE)
           UPDATE api_keys SET revoked_at = coalesce(api_keys.revoked_at, $2)
           FROM before WHERE api_keys.id = before.id
           RETURNING before.id, before.name, before.scopes, before.created_at,
                     before.last_used_at, before.expires_at, before.revoked_at",
    types: &[Type::INT8, Type::INT8],
};

static KEY_USED: Sql = Sql {
    text: "UPDATE api_keys SET last_used_at = greatest(last_used_at, used.time)
           FROM unnest($1, $2) AS used (id, time) WHERE api_keys.id = used.id",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY],
};

fn pet(row: &Row) -> Result<Pet, Error> {
    let status: Option<&str> = row.get(3);
    Ok(Pet {
        id: PetId::from_store(row.get(0)),
        name: PetName::from_store(row.get(1)),
        category_id: row.get(2),
        status: status
            .map(PetStatus::parse)
            .transpose()
            .map_err(unreadable)?,
    })
}

fn order(row: &Row) -> Result<Order, Error> {
    Ok(Order {
        id: row.get(0),
        pet_id: PetId::from_store(row.get(1)),
        status: OrderStatus::parse(row.get(2)).map_err(unreadable)?,
        created_at: time(row.get(3))?,
        updated_at: time(row.get(4))?,
    })
}

fn key(row: &Row) -> Result<Key, Error> {
    let optional_time = |column: usize| row.get::<_, Option<i64>>(column).map(time).transpose();
    Ok(Key {
        id: row.get(0),
        name: KeyName::from_store(row.get(1)),
        scopes: Scopes::from_store(row.get(2)),
        created_at: time(row.get(3))?,
        last_used_at: optional_time(4)?,
        expires_at: optional_time(5)?,
        revoked_at: optional_time(6)?,
    })
}

fn time(microseconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_microsecond(microseconds).map_err(unreadable)
}

#[derive(Debug, thiserror::Error)]
#[error("an insert gave no row")]
struct NoRow;

/// A stored value that this program would not have stored.
fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Internal(Arc::new(cause))
}
