//! Reads and purges the event log on PostgreSQL, up to its head (see `event_head`).

use std::sync::Arc;

use super::{
    super::{
        error::Error,
        table::{OuterJoin, Record, columns, columns_of},
        tables::EventRow,
    },
    Postgres,
    event_head::{SERVER, StableHead, head},
    now_micros,
    pool::Parameters,
    read_first,
};
use domain::{
    event::{Event, EventId, EventRetention, Gone},
    page::Sort,
};

impl Postgres {
    pub(crate) async fn event_newest(&self) -> Result<Option<Event>, Error> {
        let StableHead { server, head } = self.events.stable();
        let rows = self.reads.read(&NEWEST, &[&server, &head]).await?;
        rows.first().map(Event::from_row).transpose()
    }

    pub(crate) async fn event_read(
        &self,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        let (start, limit) = EventId::read_range(after, limit);
        let StableHead { server, head } = self.events.stable();
        let statement = match sort {
            Sort::Asc => &READ,
            Sort::Desc => &READ_DESC,
        };
        let parameters: Parameters = &[&server, &head, &start, &limit];
        let rows = self.reads.read(statement, parameters).await?;
        let (is_same_server, purged_through): (bool, i64) = read_first(&rows)?;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            let (_, _, event) = <(bool, i64, OuterJoin<_, i64>)>::from_row(row)?;
            events.extend(event.0);
        }
        let Some(id) = after else {
            return Ok(Ok(events));
        };
        match id.verify(&mut events, purged_through) {
            // During a failover, this connection may still lead to the old server.
            Err(Gone::Unknown) if !is_same_server => Err(Error::Unavailable(Arc::new(OtherServer))),
            verified => Ok(verified.map(|()| events)),
        }
    }

    pub(crate) async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        for _ in 0..2 {
            let StableHead { server, .. } = self.events.stable();
            let rows = self.reads.read(&GET, &[&server, &id.sequence]).await?;
            let (is_same_server, event): (_, OuterJoin<Event, i64>) = read_first(&rows)?;
            let event = event.0.filter(|event| event.id() == id);
            if event.is_some() || is_same_server {
                return Ok(event);
            }
            // The connection may lead to another server since the last poll.
            self.event_sync().await?;
        }
        Err(Error::Unavailable(Arc::new(OtherServer)))
    }

    pub(crate) async fn event_purge(&self, retention: EventRetention) -> Result<u64, Error> {
        self.event_sync().await?;
        let StableHead { server, head } = self.events.stable();
        let age = self.max_age(retention.age);
        let count = i64::try_from(retention.count).unwrap_or(i64::MAX);
        self.background
            .write(&SAVE_STABLE, &[&server, &head])
            .await?;
        let parameters: Parameters = &[&server, &head, &age, &count];
        let purged: i64 = read_first(&self.background.write(&PURGE, parameters).await?)?;
        Ok(purged as u64)
    }
}

statements! {
    NEWEST(Int, Int) = format!(
        "SELECT {} FROM events WHERE sequence <= {} ORDER BY sequence DESC LIMIT 1",
        columns::<EventRow>(),
        head()
    );
    /// Returns one row. Its first column is true if this is server `$1`.
    GET(Int, Int) = format!(
        "SELECT this.is_same, {} FROM (SELECT {SERVER} = $1 AS is_same) AS this
         LEFT JOIN events ON sequence = $2",
        columns_of::<EventRow>("events")
    );
    /// Returns at least one row. Its first columns are true if this is server `$1`, and
    /// `purged_through`. The read starts at the event of the position `$3`, even if that is beyond
    /// the head: another replica may know a later head. It skips purged events, because their index
    /// entries remain until a vacuum.
    ///
    /// The walk along the index has no upper bound, and the row of `event_log` is found by its
    /// key: otherwise PostgreSQL expects more rows than there are, sorts them, and compiles the
    /// statement (JIT).
    READ(Int, Int, Int, Int) = format!(
        "SELECT {SERVER} = $1, purged_through, {} FROM event_log LEFT JOIN LATERAL (
             SELECT {} FROM events WHERE sequence >= greatest($3, purged_through + 1)
             ORDER BY sequence LIMIT $4
         ) AS page ON page.sequence <= greatest($3, {}) WHERE event_log.id = 1",
        columns_of::<EventRow>("page"),
        columns::<EventRow>(),
        head()
    );
    /// Like [`READ`], in descending order: from the event of the position `$3`, and without
    /// one, from the head. The events before a position were stable when a client received it.
    READ_DESC(Int, Int, Int, Int) = format!(
        "SELECT {SERVER} = $1, purged_through, {} FROM event_log LEFT JOIN LATERAL (
             SELECT {} FROM events WHERE sequence > purged_through AND sequence <= coalesce($3, {})
             ORDER BY sequence DESC LIMIT $4
         ) AS page ON true WHERE event_log.id = 1",
        columns_of::<EventRow>("page"),
        columns::<EventRow>(),
        head()
    );
    /// Saves the head, so that other replicas, and another server after a failover, know it. Does
    /// nothing if another replica is saving it, and locks nothing if there is nothing to save.
    SAVE_STABLE(Int, Int) = format!(
        "UPDATE event_log SET stable_through = $2 WHERE id = (
             SELECT id FROM event_log WHERE stable_through < $2 AND {SERVER} = $1
             FOR NO KEY UPDATE SKIP LOCKED)"
    );
    /// Keeps the newest event up to the head. One replica purges at a time; nothing is locked
    /// if there is nothing to purge.
    PURGE(Int, Int, Int, Int) = format!(
        "WITH newest AS MATERIALIZED (
             SELECT max(sequence) AS sequence FROM events WHERE sequence <= {}
         ), oldest AS MATERIALIZED (
             SELECT events.sequence, at FROM event_log, newest, LATERAL (
                 SELECT sequence, at FROM events WHERE sequence > purged_through
                 ORDER BY sequence LIMIT 1000
             ) AS events
             WHERE event_log.id = 1 AND events.sequence < newest.sequence
         ), last AS MATERIALIZED (
             SELECT max(sequence) AS sequence FROM oldest
             WHERE sequence < coalesce((
                 SELECT min(oldest.sequence) FROM oldest, newest
                 WHERE at >= {} - $3 AND oldest.sequence > newest.sequence - $4
             ), 9223372036854775807)
         ), log AS MATERIALIZED (
             SELECT purged_through FROM event_log, last
             WHERE event_log.id = 1 AND purged_through < last.sequence
             FOR NO KEY UPDATE OF event_log SKIP LOCKED
         ), purged AS (
             UPDATE event_log SET purged_through = last.sequence FROM log, last
             WHERE event_log.id = 1
         ), deleted AS (
             DELETE FROM events USING log, last
             WHERE events.sequence > log.purged_through AND events.sequence <= last.sequence
             RETURNING 1
         )
         SELECT count(*) FROM deleted",
        head(),
        now_micros()
    );
}

#[derive(Debug, thiserror::Error)]
#[error("this connection leads to another server than the one whose log is read")]
struct OtherServer;
