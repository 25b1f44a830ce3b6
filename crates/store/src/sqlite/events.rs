//! The event log on SQLite. There is one writer, so the order of sequence numbers is the
//! order of commits.

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

use super::{
    super::{
        error::Error,
        event_row::EventRow,
        events::{EventPage, PURGED_THROUGH, index_key},
        sales::{AppliedLog, LogIdentity, OrderChanges},
        table::{Value, columns},
    },
    Sqlite, query, read_row,
};
use domain::{
    event::{Event, EventId, EventRetention, Gone, LogPart},
    page::Sort,
};

/// The maximum number of events deleted in one transaction. Other writes wait for it.
const PURGE_BATCH_SIZE: i64 = 500;

statements! {
    LAST() = "SELECT coalesce(max(sequence), 0) FROM events";
    NEWEST() = format!("SELECT {} FROM events ORDER BY sequence DESC LIMIT 1", columns::<EventRow>());
    READ(Int, Int) = format!(
        "SELECT {} FROM events WHERE sequence >= coalesce($1, 0) ORDER BY sequence LIMIT $2",
        columns::<EventRow>()
    );
    READ_DESC(Int, Int) = format!(
        "SELECT {} FROM events WHERE sequence <= coalesce($1, 9223372036854775807)
         ORDER BY sequence DESC LIMIT $2",
        columns::<EventRow>()
    );
    READ_SUBJECT(Int, Text, Int, Int) = read_part(SUBJECT, AFTER);
    READ_SUBJECT_DESC(Int, Text, Int, Int) = read_part(SUBJECT, BEFORE);
    READ_BATCH(Text, Int, Int) = read_part(BATCH, AFTER);
    READ_BATCH_DESC(Text, Int, Int) = read_part(BATCH, BEFORE);
    /// The events about orders after a position, among those up to another one.
    READ_ORDERS(Int, Int, Int) = format!(
        "SELECT {} FROM events
         WHERE sequence > $1 AND sequence <= $2 AND substr(type, 1, 3) = 'ord'
         ORDER BY sequence LIMIT $3",
        columns::<EventRow>()
    );
    GET(Int) = format!("SELECT {} FROM events WHERE sequence = $1", columns::<EventRow>());
    /// The last event to purge: the one before the first that must be kept.
    PURGEABLE(Int, Int, Int) = "WITH newest AS (SELECT max(sequence) AS sequence FROM events),
         oldest AS (
             SELECT sequence, at FROM events WHERE sequence < (SELECT sequence FROM newest)
             ORDER BY sequence LIMIT ?3)
         SELECT max(sequence) FROM oldest WHERE sequence < coalesce((
             SELECT min(sequence) FROM oldest
             WHERE at >= ?1 AND sequence > (SELECT sequence FROM newest) - ?2
         ), 9223372036854775807)";
    PURGE(Int) = "DELETE FROM events WHERE sequence <= $1";
    SET_PURGED(Int) = "UPDATE event_log SET purged_through = max(purged_through, $1)";
}

const SUBJECT: &str = "resource_id = $id AND substr(type, 1, 3) = $letters";
const BATCH: &str = "batch_id = $batch";
const AFTER: &str = "sequence > coalesce($start, 0) ORDER BY sequence";
const BEFORE: &str = "sequence < coalesce($start, 9223372036854775807) ORDER BY sequence DESC";

fn read_part(part: &str, range: &str) -> String {
    format!(
        "SELECT {} FROM events WHERE {part} AND {range} LIMIT $limit",
        columns::<EventRow>()
    )
}

/// Returns the sequence number of the newest event; 0 if there is none.
pub(super) fn last_sequence(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached(LAST.text())?
        .query_row([], |row| row.get(0))
}

impl Sqlite {
    pub(crate) fn event_source(&self) -> &str {
        &self.event_source
    }

    pub(crate) fn event_head(&self) -> watch::Receiver<i64> {
        self.writer.event_head()
    }

    pub(crate) async fn event_newest(&self) -> Result<Option<Event>, Error> {
        Ok(self.query(&NEWEST, Vec::new()).await?.pop())
    }

    pub(crate) async fn event_read(
        &self,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        let read = move |db: &Connection| {
            let (start, limit) = EventId::read_range(after, limit);
            let snapshot = db.unchecked_transaction()?;
            let sql = match sort {
                Sort::Asc => &READ,
                Sort::Desc => &READ_DESC,
            };
            let mut select = snapshot.prepare_cached(sql.text())?;
            let rows = select.query_map(params![start, limit], read_row::<Event>)?;
            let mut events: Vec<_> = rows.collect::<Result<_, _>>()?;
            let Some(id) = after else {
                return Ok(Ok(events));
            };
            let purged = snapshot
                .prepare_cached(PURGED_THROUGH.text())?
                .query_row([], |row| row.get(0));
            Ok(id.verify_first(&mut events, purged?).map(|()| events))
        };
        self.readers.run(read).await
    }

    pub(crate) async fn event_read_part(
        &self,
        part: LogPart,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<EventPage, Gone>, Error> {
        let read = move |db: &Connection| {
            let sql = match (&part, sort) {
                (LogPart::Subject(_), Sort::Asc) => &READ_SUBJECT,
                (LogPart::Subject(_), Sort::Desc) => &READ_SUBJECT_DESC,
                (LogPart::Batch(_), Sort::Asc) => &READ_BATCH,
                (LogPart::Batch(_), Sort::Desc) => &READ_BATCH_DESC,
            };
            let snapshot = db.unchecked_transaction()?;
            if let Some(id) = after {
                let purged = snapshot
                    .prepare_cached(PURGED_THROUGH.text())?
                    .query_row([], |row| row.get(0));
                let found: Vec<Event> = query(&snapshot, &GET, [Value::Int(id.sequence)])?;
                if let Err(gone) = id.verify(found.first(), purged?) {
                    return Ok(Err(gone));
                }
            }
            let start = after.map_or(Value::Null, |id| Value::Int(id.sequence));
            let mut parameters = index_key(part);
            parameters.extend([start, Value::Int(limit as i64)]);
            let newest = match sort {
                Sort::Asc => query::<Event>(&snapshot, &NEWEST, [])?.pop(),
                Sort::Desc => None,
            };
            Ok(Ok(EventPage {
                events: query(&snapshot, sql, parameters)?,
                newest: newest.map(|event| event.id()),
            }))
        };
        self.readers.run(read).await
    }

    pub(crate) async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        let sequence = Value::Int(id.sequence);
        let found: Option<Event> = self.query(&GET, vec![sequence]).await?.pop();
        Ok(found.filter(|event| event.id() == id))
    }

    pub(crate) async fn order_changes(
        &self,
        applied: Option<AppliedLog>,
    ) -> Result<OrderChanges, Error> {
        // If the file is not open for writing, it can still be read, but not whether another
        // program has changed it.
        let log = self.writer.outside_changes().await.ok();
        let read = move |db: &Connection| {
            let snapshot = db.unchecked_transaction()?;
            let newest = snapshot
                .prepare_cached(NEWEST.text())?
                .query_row([], read_row::<Event>)
                .optional()?;
            let stable = newest.map_or(EventId::START, |event| event.id());
            let unknown = OrderChanges {
                log: log.unwrap_or(LogIdentity::UNKNOWN),
                stable,
                ahead: Vec::new(),
                events: None,
            };
            let Some(after) = applied.filter(|applied| Some(applied.identity) == log) else {
                return Ok(unknown);
            };
            let after = after.position;
            let purged = snapshot
                .prepare_cached(PURGED_THROUGH.text())?
                .query_row([], |row| row.get(0));
            let found = snapshot
                .prepare_cached(GET.text())?
                .query_row([after.sequence], read_row::<Event>)
                .optional()?;
            let end = after.sequence + OrderChanges::MAX_EXAMINED;
            if after.verify(found.as_ref(), purged?).is_err() || stable.sequence > end {
                return Ok(unknown);
            }
            let limit = OrderChanges::MAX_EVENTS as i64;
            let mut select = snapshot.prepare_cached(READ_ORDERS.text())?;
            let rows = select.query_map([after.sequence, end, limit], read_row)?;
            let events: Vec<Event> = rows.collect::<Result<_, _>>()?;
            Ok(OrderChanges {
                events: (events.len() < OrderChanges::MAX_EVENTS).then_some(events),
                ..unknown
            })
        };
        self.readers.run(read).await
    }

    pub(crate) async fn event_purge(&self, retention: EventRetention) -> Result<u64, Error> {
        let before = self.retained_since(retention.age).as_microsecond();
        let max = i64::try_from(retention.count).unwrap_or(i64::MAX);
        let last = move |db: &Connection| {
            db.prepare_cached(PURGEABLE.text())?
                .query_row([before, max, PURGE_BATCH_SIZE], |row| row.get(0))
        };
        let Some(last) = self.readers.run(last).await? else {
            return Ok(0);
        };
        let purge = move |db: &Connection| {
            let last: i64 = last;
            let purged = db.prepare_cached(PURGE.text())?.execute([last])?;
            db.prepare_cached(SET_PURGED.text())?.execute([last])?;
            Ok(purged as u64)
        };
        self.writer.run(purge).await
    }
}
