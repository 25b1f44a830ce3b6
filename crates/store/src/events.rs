//! The event log: pages of it and of its parts, which are the events of one resource or of one
//! batch and are found by an index.

use tokio::sync::watch;

use super::{
    Error, Store,
    error::MissingRow,
    sales::{AppliedLog, OrderChanges},
    table::Value,
};
use domain::{
    event::{Event, EventId, EventRetention, Gone, LogPart},
    page::Sort,
};

statements! {
    PURGED_THROUGH() = "SELECT purged_through FROM event_log WHERE id = 1";
}

/// A page of the log, or of a part of it.
#[derive(Debug, PartialEq, Eq)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// The newest event of the whole log, if a part was read in ascending order. If fewer events
    /// were read than requested, the part has no others up to this one.
    pub newest: Option<EventId>,
}

impl EventPage {
    pub(super) fn of_log(events: Vec<Event>) -> Self {
        Self {
            events,
            newest: None,
        }
    }
}

/// Returns the values of the indexed columns.
pub(super) fn index_key(part: LogPart) -> Vec<Value<'static>> {
    match part {
        LogPart::Subject(subject) => {
            let (id, letters) = subject.key();
            vec![Value::Int(id), Value::text(letters)]
        }
        LogPart::Batch(id) => vec![Value::text(id.as_str().to_string())],
    }
}

impl Store {
    /// Returns the source of all events: a URN with a random UUID of this store.
    pub fn event_source(&self) -> &str {
        on_database!(self, db => db.event_source())
    }

    /// Returns a receiver of the head of the event log: the last sequence number up to which
    /// the order of events is final. No event appears at or before it later. On PostgreSQL it
    /// moves while it has receivers ([`poll_event_head`](Self::poll_event_head)), or by
    /// [`event_sync`](Self::event_sync). It restarts from 0 on another server, after a
    /// failover: only reading tells whether a position is still valid.
    pub fn event_head(&self) -> watch::Receiver<i64> {
        on_database!(self, db => db.event_head())
    }

    /// Moves the head past every change that was acknowledged before the call, unless a
    /// transaction that was left open holds it back.
    pub async fn event_sync(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(db) => db.event_sync().await,
        }
    }

    /// Returns the newest event up to the head.
    pub async fn event_newest(&self) -> Result<Option<Event>, Error> {
        on_database!(self, db => db.event_newest().await)
    }

    /// Reads up to `limit` events after a position, up to the head; without a position, from
    /// the oldest event that is kept. In descending order, reads those before the position;
    /// without one, from the head.
    pub async fn event_read(
        &self,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        on_database!(self, db => db.event_read(after, sort, limit).await)
    }

    /// Works like [`event_read`](Self::event_read), for a part of the log if there is one. The cost
    /// is independent of the rest of the log.
    pub async fn event_read_part(
        &self,
        part: Option<LogPart>,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<EventPage, Gone>, Error> {
        let Some(part) = part else {
            let read = self.event_read(after, sort, limit).await?;
            return Ok(read.map(EventPage::of_log));
        };
        on_database!(self, db => db.event_read_part(part, after, sort, limit).await)
    }

    /// Returns the changes of orders that were not applied, also those that are not yet stable, so
    /// that a client sees its own.
    pub(super) async fn order_changes(
        &self,
        applied: Option<AppliedLog>,
    ) -> Result<OrderChanges, Error> {
        on_database!(self, db => db.order_changes(applied).await)
    }

    /// Deletes a batch of the oldest events that need not be kept. Returns the number deleted;
    /// 0 if none are left.
    pub async fn event_purge(&self, retention: EventRetention) -> Result<u64, Error> {
        on_database!(self, db => db.event_purge(retention).await)
    }

    /// Returns the sequence number of the last event that was purged; 0 if none was.
    pub async fn event_purged_through(&self) -> Result<i64, Error> {
        let through = self.find(&PURGED_THROUGH, Vec::new()).await?;
        Ok(through.ok_or(MissingRow)?)
    }

    /// Polls the server and advances the head while it has receivers. On SQLite the writer does
    /// that. Never returns.
    pub async fn poll_event_head(&self) {
        match self {
            Self::Sqlite(_) => std::future::pending().await,
            Self::Postgres(db) => db.poll_event_head().await,
        }
    }

    /// Returns the event with this id; `None` if the log does not have it.
    pub async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        on_database!(self, db => db.event_get(id).await)
    }
}
