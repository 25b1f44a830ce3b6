//! The store on an SQLite file: the statements and their rows.

mod named;
mod open;
mod orders;
mod reader;
mod writer;

use std::{fs::File, path::Path, sync::Arc};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params, types::Type};

use super::{Error, OpenError, Options, Role, Version};
use crate::{
    key::{Key, KeyHash, KeyName, NewKey, Scopes},
    named::{Named, Once},
    page::{Filter, ListQuery, Page},
    pet::{Inventory, NewPet, Pet, PetChange, PetId, PetName, PetStatus, Refused},
};
use named::once;
use reader::Readers;
use writer::{Effect, Writer};

/// An open SQLite file: one thread that writes, a few that read.
#[derive(Debug)]
pub struct Sqlite {
    writer: Writer,
    readers: Readers,
    /// Held by the one process that serves the file, until all else is closed.
    _lock: Option<File>,
}

/// Opens a file that nobody serves, to read all of it. The lock keeps it so.
pub fn open_to_copy(path: &Path) -> Result<(Connection, Option<File>), OpenError> {
    let options = Options {
        create: false,
        ..Options::new(Role::Service)
    };
    let (path, lock) = open::prepare(path, &options)?;
    let db = open::connect_read_only(&path);
    let db = db.map_err(|cause| OpenError::Database { path, cause })?;
    Ok((db, lock))
}

impl Sqlite {
    pub fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let (path, lock) = open::prepare(path, options)?;
        let database = |cause| OpenError::Database {
            path: path.clone(),
            cause,
        };
        let db = open::connect(&path, options.role).map_err(database)?;
        open::refuse_newer(&db, &path)?;
        Ok(Self {
            writer: Writer::start(db, &path, options),
            readers: Readers::start(&path, reader_count(options.role)).map_err(database)?,
            _lock: lock,
        })
    }

    /// Readers go first, so that the writer's connection is the last one: it
    /// moves the log into the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub fn version(&self) -> Version {
        self.writer.version()
    }

    pub async fn pet_create(&self, new: NewPet, named: Option<Named>) -> Result<Once<Pet>, Error> {
        if named.is_none() {
            let create = move |db: &Connection| pet_create(db, new).map(Once::Now);
            return self.writer.run_statement(|_| Effect::Adds, create).await;
        }
        let effect = |created: &Once<Pet>| match created {
            Once::Now(_) => Effect::Adds,
            _ => Effect::Unseen,
        };
        let create = move |db: &Connection| {
            let work = |db: &Connection| pet_create(db, new.clone());
            let outcome = |pet: &Pet| Ok(pet.id.get());
            once(db, named.as_ref(), work, outcome, |_, outcome| {
                let id = outcome.map_err(|_| rusqlite::Error::QueryReturnedNoRows)?;
                Ok(new.clone().with_id(PetId::from_store(id)))
            })
        };
        self.writer.run(effect, create).await
    }

    pub async fn pet_update(
        &self,
        id: PetId,
        change: PetChange,
        expected: impl Fn(&Pet) -> bool + Send + 'static,
    ) -> Result<Result<Pet, Refused>, Error> {
        let update = move |db: &Connection| {
            let unchanged = |answer| Ok((Effect::Unseen, answer));
            let Some(before) = pet_get(db, id)? else {
                return unchanged(Err(Refused::NoSuchPet));
            };
            if !expected(&before) {
                return unchanged(Err(Refused::Outdated));
            }
            let after = change.apply(&before);
            if after == before {
                return unchanged(Ok(after));
            }
            if after.status != before.status && orders::is_held(db, id)? {
                return unchanged(Err(Refused::Reserved));
            }
            db.prepare_cached(
                "UPDATE pets SET name = ?2, category_id = ?3, status = ?4 WHERE id = ?1",
            )?
            .execute(params![
                id.get(),
                after.name.as_str(),
                after.category_id,
                after.status.map(PetStatus::as_str)
            ])?;
            Ok((Effect::Changes, Ok(after)))
        };
        let (_, answer) = self.writer.run(|(effect, _)| *effect, update).await?;
        Ok(answer)
    }

    pub async fn pet_inventory(&self) -> Result<Inventory, Error> {
        self.readers
            .run(|db| {
                let select = "SELECT available, pending, sold FROM inventory";
                db.prepare_cached(select)?.query_row([], |row| {
                    Ok(Inventory {
                        available: row.get(0)?,
                        pending: row.get(1)?,
                        sold: row.get(2)?,
                    })
                })
            })
            .await
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        self.readers.run(move |db| pet_get(db, id)).await
    }

    pub async fn pet_list(&self, query: ListQuery<PetStatus>) -> Result<Page<Pet>, Error> {
        let select = "SELECT id, name, category_id, status FROM pets";
        self.readers
            .run(move |db| list(db, select, query, pet, |pet| pet.id.get()))
            .await
    }

    pub async fn key_create(&self, new: NewKey, hash: KeyHash) -> Result<Key, Error> {
        self.writer
            .run(
                |_| Effect::Unseen,
                move |db| {
                    db.execute(
                        "INSERT INTO api_keys (hash, name, scopes, created_at, expires_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                        params![
                            hash.as_bytes(),
                            new.name.as_str(),
                            new.scopes.to_string(),
                            new.created_at.as_microsecond(),
                            new.expires_at.map(Timestamp::as_microsecond)
                        ],
                    )?;
                    key_by_id(db, db.last_insert_rowid())
                },
            )
            .await
    }

    pub async fn key_list(&self) -> Result<Vec<(KeyHash, Key)>, Error> {
        self.readers
            .run(|db| {
                db.prepare_cached(&format!("SELECT {KEY}, hash FROM api_keys ORDER BY id"))?
                    .query_map([], |row| Ok((KeyHash::from_store(row.get(7)?), key(row)?)))?
                    .collect()
            })
            .await
    }

    pub async fn key_revoke(&self, id: i64, now: Timestamp) -> Result<Option<Key>, Error> {
        self.writer
            .run(
                |_| Effect::Unseen,
                move |db| {
                    let Some(key) = key_by_id(db, id).optional()? else {
                        return Ok(None);
                    };
                    db.execute(
                        "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
                        params![id, now.as_microsecond()],
                    )?;
                    Ok(Some(key))
                },
            )
            .await
    }

    pub async fn key_used(&self, used: Vec<(i64, Timestamp)>) -> Result<(), Error> {
        self.writer
            .run(
                |_| Effect::Unseen,
                move |db| {
                    let mut update = db.prepare_cached(
                        "UPDATE api_keys SET last_used_at = max(?2, coalesce(last_used_at, ?2))
                     WHERE id = ?1",
                    )?;
                    for (id, time) in used {
                        update.execute(params![id, time.as_microsecond()])?;
                    }
                    Ok(())
                },
            )
            .await
    }

    /// Whether there is something for the writer to do at that time.
    async fn is_there(&self, sql: &'static str, time: i64) -> Result<bool, Error> {
        self.readers
            .run(move |db| db.prepare_cached(sql)?.query_row([time], |row| row.get(0)))
            .await
    }
}

fn pet_create(db: &Connection, new: NewPet) -> rusqlite::Result<Pet> {
    db.prepare_cached("INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)")?
        .execute(params![
            new.name.as_str(),
            new.category_id,
            new.status.map(PetStatus::as_str)
        ])?;
    Ok(new.with_id(PetId::from_store(db.last_insert_rowid())))
}

fn pet_get(db: &Connection, id: PetId) -> rusqlite::Result<Option<Pet>> {
    db.prepare_cached("SELECT id, name, category_id, status FROM pets WHERE id = ?1")?
        .query_row([id.get()], pet)
        .optional()
}

/// Reads one page by ascending id, and one item more to see whether it goes on.
fn list<S: Filter, T>(
    db: &Connection,
    select: &str,
    query: ListQuery<S>,
    row: fn(&Row) -> rusqlite::Result<T>,
    id: fn(&T) -> i64,
) -> rusqlite::Result<Page<T>> {
    let filter = query.status.map_or("", |_| "status = ?3 AND");
    let mut statement = db.prepare_cached(&format!(
        "{select} WHERE {filter} id > ?1 ORDER BY id LIMIT ?2"
    ))?;
    statement.raw_bind_parameter(1, query.after.id())?;
    statement.raw_bind_parameter(2, u16::from(query.limit.get()) + 1)?;
    if let Some(status) = query.status {
        statement.raw_bind_parameter(3, status.as_str())?;
    }
    let items = statement
        .raw_query()
        .mapped(row)
        .collect::<Result<_, _>>()?;
    Ok(Page::from_surplus(items, query.limit, id))
}

fn pet(row: &Row) -> rusqlite::Result<Pet> {
    Ok(Pet {
        id: PetId::from_store(row.get(0)?),
        name: PetName::from_store(row.get_ref(1)?.as_str()?),
        category_id: row.get(2)?,
        status: match row.get_ref(3)?.as_str_or_null()? {
            Some(status) => Some(PetStatus::parse(status).map_err(|e| unreadable(3, e))?),
            None => None,
        },
    })
}

const KEY: &str = "id, name, scopes, created_at, last_used_at, expires_at, revoked_at";

fn key(row: &Row) -> rusqlite::Result<Key> {
    Ok(Key {
        id: row.get(0)?,
        name: KeyName::from_store(row.get(1)?),
        scopes: Scopes::from_store(row.get_ref(2)?.as_str()?),
        created_at: time(row, 3)?,
        last_used_at: optional_time(row, 4)?,
        expires_at: optional_time(row, 5)?,
        revoked_at: optional_time(row, 6)?,
    })
}

fn key_by_id(db: &Connection, id: i64) -> rusqlite::Result<Key> {
    db.query_row(
        &format!("SELECT {KEY} FROM api_keys WHERE id = ?1"),
        [id],
        key,
    )
}

fn time(row: &Row, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|e| unreadable(column, e))
}

fn optional_time(row: &Row, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    match row.get_ref(column)?.as_i64_or_null()? {
        Some(_) => time(row, column).map(Some),
        None => Ok(None),
    }
}

/// A stored value that this program would not have stored.
fn unreadable(
    column: usize,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(cause))
}

/// Sorts a failure: did the disk, the file or memory fail, or a statement of
/// this program?
fn failure(cause: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::*;
    match cause.sqlite_error_code() {
        Some(
            DatabaseBusy
            | DatabaseLocked
            | OutOfMemory
            | ReadOnly
            | SystemIoFailure
            | DatabaseCorrupt
            | DiskFull
            | CannotOpen
            | FileLockingProtocolFailed
            | NotADatabase,
        ) => Error::Unavailable(Arc::new(cause)),
        _ => Error::Internal(Arc::new(cause)),
    }
}

fn reader_count(role: Role) -> usize {
    match role {
        Role::Tool => 1,
        Role::Service => std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)),
    }
}
