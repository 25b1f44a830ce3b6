//! The store on a PostgreSQL server, which any number of replicas share: the
//! statements and their rows.

mod migrate;
mod named;
mod orders;
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
    named::{Named, Once},
    order,
    page::{Filter, ListQuery, Page},
    pet::{Inventory, NewPet, Pet, PetChange, PetId, PetName, PetStatus, Refused},
};
use named::changes;
use orders::{Closing, Place};
use pool::{Parameters, Pool, Sql};
use url::Server;
use writer::{Change, Writer};

pub use url::{PostgresUrl, Trouble};

/// Connections to a PostgreSQL server.
#[derive(Debug)]
pub struct Postgres {
    /// To read over. Writes go over others, so that one that waits holds up no
    /// reading.
    pool: Pool,
    updates: Pool,
    /// For what the service does on its own, and for keys.
    chores: Pool,
    creates: Writer<Create>,
    places: Writer<Place>,
    closings: Writer<Closing>,
}

/// How long the schema may take, with the waiting for another replica that
/// changes it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often an update is tried while others change the same animal: each time
/// one of them succeeds.
const UPDATE_TRIES: usize = 100;

/// How many connections a replica reads over.
const READERS: usize = 4;

/// A pet to be created.
#[derive(Debug)]
struct Create {
    new: NewPet,
    named: Option<Named>,
}

impl Change for Create {
    // It never is: there is no subject.
    const REFUSED_AFTER: order::Refused = order::Refused::NoSuchPet;

    fn subject(&self) -> Option<i64> {
        None
    }

    fn named(&self) -> Option<&Named> {
        self.named.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let pets = || changes.iter().map(|change| &change.new);
        let names: Vec<_> = pets().map(|pet| pet.name.as_str()).collect();
        let categories: Vec<_> = pets().map(|pet| pet.category_id).collect();
        let status = |pet: &NewPet| pet.status.map(PetStatus::as_str);
        let statuses: Vec<_> = pets().map(status).collect();
        let rest: Parameters = &[&names, &categories, &statuses];
        if changes.iter().all(|change| change.named.is_none()) {
            return pool.write(&CREATE, rest).await.map(Some);
        }
        let at = |change: &Self| {
            change
                .named
                .as_ref()
                .map_or(Timestamp::UNIX_EPOCH, |n| n.at)
        };
        named::run(pool, &CREATE_NAMED, changes, at, rest).await
    }
}

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
            updates: Pool::new(&server, 1),
            chores: Pool::new(&server, 1),
            creates: Writer::start(&server, options.write_queue),
            places: Writer::start(&server, options.write_queue),
            closings: Writer::start(&server, options.write_queue),
        })
    }

    pub async fn close(&self) {
        tokio::join!(
            self.creates.close(),
            self.places.close(),
            self.closings.close()
        );
    }

    pub async fn pet_create(&self, new: NewPet, named: Option<Named>) -> Result<Once<Pet>, Error> {
        let created = self
            .creates
            .make(Create {
                new: new.clone(),
                named,
            })
            .await?;
        created.try_map(|(outcome, _)| match outcome {
            Ok(id) => Ok(new.with_id(PetId::from_store(id))),
            Err(_) => Err(unreadable(NoRow)),
        })
    }

    /// Changes the pet if it still is as it was read, or looks again.
    pub async fn pet_update(
        &self,
        id: PetId,
        change: PetChange,
        expected: impl Fn(&Pet) -> bool,
    ) -> Result<Result<Pet, Refused>, Error> {
        for _ in 0..UPDATE_TRIES {
            let rows = self.pool.read(&PET_HELD, &[&id.get()]).await?;
            let Some(row) = rows.first() else {
                return Ok(Err(Refused::NoSuchPet));
            };
            let (before, held) = (pet(row)?, row.get::<_, bool>(4));
            if !expected(&before) {
                return Ok(Err(Refused::Outdated));
            }
            let after = change.apply(&before);
            if after == before {
                return Ok(Ok(after));
            }
            if after.status != before.status && held {
                return Ok(Err(Refused::Reserved));
            }
            let [(old_name, old_status), (name, status)] =
                [&before, &after].map(|pet| (pet.name.as_str(), pet.status.map(PetStatus::as_str)));
            let (old_category, category) = (before.category_id, after.category_id);
            let changed = self
                .updates
                .write(
                    &UPDATE,
                    &[
                        &id.get(),
                        &old_name,
                        &old_category,
                        &old_status,
                        &held,
                        &name,
                        &category,
                        &status,
                    ],
                )
                .await?;
            if !changed.is_empty() {
                return Ok(Ok(after));
            }
        }
        Err(Error::Unavailable(Arc::new(Contended)))
    }

    pub async fn pet_inventory(&self) -> Result<Inventory, Error> {
        let rows = self.pool.read(&INVENTORY, &[]).await?;
        let row = rows.first().ok_or_else(|| unreadable(NoRow))?;
        Ok(Inventory {
            available: row.get(0),
            pending: row.get(1),
            sold: row.get(2),
        })
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        let rows = self.pool.read(&PET, &[&id.get()]).await?;
        rows.first().map(pet).transpose()
    }

    pub async fn pet_list(&self, query: ListQuery<PetStatus>) -> Result<Page<Pet>, Error> {
        self.list(&PETS, query, pet, |pet| pet.id.get()).await
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
            .chores
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
            .chores
            .write(&KEY_REVOKE, &[&id, &now.as_microsecond()])
            .await?;
        rows.first().map(key).transpose()
    }

    pub async fn key_used(&self, used: Vec<(i64, Timestamp)>) -> Result<(), Error> {
        let (ids, times): (Vec<_>, Vec<_>) = used
            .into_iter()
            .map(|(id, time)| (id, time.as_microsecond()))
            .unzip();
        self.chores.write(&KEY_USED, &[&ids, &times]).await?;
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

/// The rows are inserted, and their ids come back, in the order of the arrays.
static CREATE: Sql = Sql {
    text: "INSERT INTO pets (name, category_id, status)
           SELECT name, category_id, status
           FROM unnest($1, $2, $3) WITH ORDINALITY AS new (name, category_id, status, place)
           ORDER BY place
           RETURNING NULL::bytea, 'done', id",
    types: &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY],
};

/// The same if some of them have names. Ids ascend, so they are in the order of
/// the rows.
static CREATE_NAMED: Sql = Sql {
    text: changes!(
        "name, category_id, status" from "$5, $6, $7",
        "made AS (
             INSERT INTO pets (name, category_id, status)
             SELECT name, category_id, status FROM fresh ORDER BY place
             RETURNING id
         ), done AS (
             SELECT place, id
             FROM (SELECT id, row_number() OVER (ORDER BY id) FROM made) AS made
             JOIN (SELECT place, row_number() OVER (ORDER BY place) FROM fresh) AS new
             USING (row_number)
         )",
        "NULL"
    ),
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

static PET_HELD: Sql = Sql {
    text: "SELECT id, name, category_id, status, held FROM pets WHERE id = $1",
    types: &[Type::INT8],
};

static UPDATE: Sql = Sql {
    text: "UPDATE pets SET name = $6, category_id = $7, status = $8
           WHERE id = $1 AND name = $2 AND category_id = $3
           AND status IS NOT DISTINCT FROM $4 AND held = $5
           RETURNING id",
    types: &[
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::BOOL,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
    ],
};

static INVENTORY: Sql = Sql {
    text: "SELECT sum(available)::bigint, sum(pending)::bigint, sum(sold)::bigint FROM inventory",
    types: &[],
};

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

fn key(row: &Row) -> Result<Key, Error> {
    Ok(Key {
        id: row.get(0),
        name: KeyName::from_store(row.get(1)),
        scopes: Scopes::from_store(row.get(2)),
        created_at: time(row.get(3))?,
        last_used_at: optional_time(row.get(4))?,
        expires_at: optional_time(row.get(5))?,
        revoked_at: optional_time(row.get(6))?,
    })
}

fn time(microseconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_microsecond(microseconds).map_err(unreadable)
}

fn optional_time(microseconds: Option<i64>) -> Result<Option<Timestamp>, Error> {
    microseconds.map(time).transpose()
}

#[derive(Debug, thiserror::Error)]
#[error("others change the same animal all the time")]
struct Contended;

#[derive(Debug, thiserror::Error)]
#[error("a statement gave no row where there must be one")]
struct NoRow;

/// A stored value that this program would not have stored.
fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Internal(Arc::new(cause))
}
