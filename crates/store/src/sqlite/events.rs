//! The event log on SQLite. There is one writer, so the order of sequence numbers is the
//! order of commits.

use rusqlite::{Connection, params};
use tokio::sync::watch;

use super::{
    super::{
        PURGED_THROUGH,
        error::Error,
        table::{Value, columns},
        tables::EventRow,
    },
    Sqlite, read_row,
};
use domain::{
    event::{Event, EventId, EventRetention, Gone},
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
            Ok(id.verify(&mut events, purged?).map(|()| events))
        };
        self.readers.run(read).await
    }

    pub(crate) async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        let sequence = Value::Int(id.sequence);
        let found: Option<Event> = self.query(&GET, vec![sequence]).await?.pop();
        Ok(found.filter(|event| event.id() == id))
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
