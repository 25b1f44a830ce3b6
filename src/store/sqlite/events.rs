//! The event log on SQLite. There is one writer, so the order of sequence numbers is the
//! order of commits.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use tokio::sync::watch;

use super::{super::error::Error, Sqlite, read_row, writer::Effect};
use crate::{
    category::Category,
    event::{Event, EventId, EventRetention, EventType, Gone},
    order::Order,
    page::{Sort, Status},
    pet::Pet,
};

/// Events deleted in one transaction. Other writes wait for it.
const PURGE_BATCH_SIZE: i64 = 500;

// OR ROLLBACK: see the statements of pets. No constraint ever fails.
const INSERT_PET: &str = "INSERT OR ROLLBACK INTO events
     (at, type, api_key_id, resource_id, name, category_id, status)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Of a pet as it is stored.
const INSERT_STORED_PET: &str = "INSERT OR ROLLBACK INTO events
     (at, type, api_key_id, resource_id, name, category_id, status)
     SELECT ?1, 'pet.updated', ?2, id, name, category_id, status FROM pets WHERE id = ?3";

const INSERT_ORDER: &str = "INSERT OR ROLLBACK INTO events
     (at, type, api_key_id, resource_id, status, pet_id, created_at, updated_at, expires_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const INSERT_CATEGORY: &str = "INSERT OR ROLLBACK INTO events
     (at, type, api_key_id, resource_id, name) VALUES (?1, ?2, ?3, ?4, ?5)";

const NEWEST: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events ORDER BY sequence DESC LIMIT 1"
);

const READ: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events WHERE sequence >= coalesce(?1, 0) ORDER BY sequence LIMIT ?2"
);

const READ_DESC: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events WHERE sequence <= coalesce(?1, 9223372036854775807)
     ORDER BY sequence DESC LIMIT ?2"
);

const GET: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events WHERE sequence = ?1"
);

const PURGED_THROUGH: &str = "SELECT purged_through FROM event_log";

/// The last of the oldest events that are to be purged: those before the first that must
/// be kept.
const PURGEABLE: &str = "WITH newest AS (SELECT max(sequence) AS sequence FROM events),
     oldest AS (
         SELECT sequence, at FROM events WHERE sequence < (SELECT sequence FROM newest)
         ORDER BY sequence LIMIT ?3)
     SELECT max(sequence) FROM oldest WHERE sequence < coalesce((
         SELECT min(sequence) FROM oldest
         WHERE at >= ?1 AND sequence > (SELECT sequence FROM newest) - ?2
     ), 9223372036854775807)";

/// Who makes a change, and when.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Origin {
    /// `None` if the service makes it.
    pub(in super::super) api_key_id: Option<i64>,
    pub(in super::super) at: Timestamp,
}

pub(super) fn log_pet(
    db: &Connection,
    origin: Origin,
    kind: EventType,
    pet: &Pet,
) -> rusqlite::Result<()> {
    db.prepare_cached(INSERT_PET)?.execute(params![
        origin.at.as_microsecond(),
        kind.as_str(),
        origin.api_key_id,
        pet.id.get(),
        pet.name.as_str(),
        pet.category_id,
        pet.status.map(Status::as_str)
    ])?;
    Ok(())
}

/// Logs that an order has changed its pet, unless that was deleted.
pub(super) fn log_pet_of_order(
    db: &Connection,
    origin: Origin,
    order: &Order,
) -> rusqlite::Result<()> {
    db.prepare_cached(INSERT_STORED_PET)?.execute(params![
        origin.at.as_microsecond(),
        origin.api_key_id,
        order.pet_id.get()
    ])?;
    Ok(())
}

pub(super) fn log_order(db: &Connection, origin: Origin, order: &Order) -> rusqlite::Result<()> {
    db.prepare_cached(INSERT_ORDER)?.execute(params![
        origin.at.as_microsecond(),
        EventType::of_order(order.status).as_str(),
        origin.api_key_id,
        order.id.get(),
        order.status.as_str(),
        order.pet_id.get(),
        order.created_at.as_microsecond(),
        order.updated_at.as_microsecond(),
        order.expires_at.map(Timestamp::as_microsecond)
    ])?;
    Ok(())
}

pub(super) fn log_category(
    db: &Connection,
    origin: Origin,
    kind: EventType,
    category: &Category,
) -> rusqlite::Result<()> {
    db.prepare_cached(INSERT_CATEGORY)?.execute(params![
        origin.at.as_microsecond(),
        kind.as_str(),
        origin.api_key_id,
        category.id.get(),
        category.name.as_str()
    ])?;
    Ok(())
}

/// The sequence number of the newest event; 0 if there is none.
pub(super) fn last_sequence(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT coalesce(max(sequence), 0) FROM events")?
        .query_row([], |row| row.get(0))
}

/// Reads the source of all events.
pub(super) fn source(db: &Connection) -> rusqlite::Result<String> {
    db.query_row("SELECT source FROM event_log", [], |row| row.get(0))
}

impl Sqlite {
    pub(in super::super) fn event_source(&self) -> &str {
        &self.event_source
    }

    pub(in super::super) fn event_head(&self) -> watch::Receiver<i64> {
        self.writer.event_head()
    }

    pub(in super::super) async fn event_newest(&self) -> Result<Option<Event>, Error> {
        let newest = |db: &Connection| {
            let mut select = db.prepare_cached(NEWEST)?;
            let mut newest = select.query_map([], read_row::<Event>)?;
            newest.next().transpose()
        };
        self.readers.run(newest).await
    }

    pub(in super::super) async fn event_read(
        &self,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        let read = move |db: &Connection| {
            let (start, limit) = EventId::read_range(after, limit);
            let snapshot = db.unchecked_transaction()?;
            let mut select = snapshot.prepare_cached(match sort {
                Sort::Asc => READ,
                Sort::Desc => READ_DESC,
            })?;
            let events = select.query_map(params![start, limit], read_row::<Event>)?;
            let mut events: Vec<_> = events.collect::<Result<_, _>>()?;
            let Some(id) = after else {
                return Ok(Ok(events));
            };
            let purged = snapshot
                .prepare_cached(PURGED_THROUGH)?
                .query_row([], |row| row.get(0));
            Ok(id.verify(&mut events, purged?).map(|()| events))
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        let get = move |db: &Connection| {
            let mut select = db.prepare_cached(GET)?;
            let mut found = select.query_map([id.sequence], read_row::<Event>)?;
            found.next().transpose()
        };
        let found = self.readers.run(get).await?;
        Ok(found.filter(|event| event.id() == id))
    }

    pub(in super::super) async fn event_purged_through(&self) -> Result<i64, Error> {
        let read = |db: &Connection| {
            db.prepare_cached(PURGED_THROUGH)?
                .query_row([], |row| row.get(0))
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn event_purge(
        &self,
        retention: EventRetention,
    ) -> Result<u64, Error> {
        let before = self.retained_since(retention.age).as_microsecond();
        let max = i64::try_from(retention.count).unwrap_or(i64::MAX);
        let last = move |db: &Connection| {
            db.prepare_cached(PURGEABLE)?
                .query_row([before, max, PURGE_BATCH_SIZE], |row| row.get(0))
        };
        let Some(last) = self.readers.run(last).await? else {
            return Ok(0);
        };
        let purge = move |db: &Connection| {
            let last: i64 = last;
            let purged = db
                .prepare_cached("DELETE FROM events WHERE sequence <= ?1")?
                .execute([last])?;
            db.prepare_cached("UPDATE event_log SET purged_through = max(purged_through, ?1)")?
                .execute([last])?;
            Ok(purged as u64)
        };
        self.writer.run(|_| Effect::None, purge).await
    }
}
