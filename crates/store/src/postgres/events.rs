//! Reads and purges the event log on PostgreSQL, up to its head (see `event_head`).

use std::sync::Arc;

use super::{
    super::{
        error::Error,
        event_row::EventRow,
        events::{EventPage, index_key},
        sales::{AppliedLog, LogIdentity, OrderChanges},
        table::{OuterJoin, Record, Value, columns, columns_of},
    },
    Postgres, as_sql,
    event_head::{SERVER, StableHead, head},
    now_micros,
    pool::Parameters,
    read_first,
};
use domain::{
    event::{Event, EventId, EventRetention, Gone, LogPart},
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
        let verified = id.verify_first(&mut events, purged_through);
        Ok(on_server(is_same_server, verified)?.map(|()| events))
    }

    pub(crate) async fn event_read_part(
        &self,
        part: LogPart,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<EventPage, Gone>, Error> {
        let StableHead { server, head } = self.events.stable();
        let statement = match (&part, sort) {
            (LogPart::Subject(_), Sort::Asc) => &READ_SUBJECT,
            (LogPart::Subject(_), Sort::Desc) => &READ_SUBJECT_DESC,
            (LogPart::Batch(_), Sort::Asc) => &READ_BATCH,
            (LogPart::Batch(_), Sort::Desc) => &READ_BATCH_DESC,
        };
        let start = after.map_or(Value::Null, |id| Value::Int(id.sequence));
        let [server, head, limit] = [server, head, limit as i64].map(Value::Int);
        let mut parameters = vec![server, head, start, limit];
        parameters.extend(index_key(part));
        let rows = self.reads.read(statement, &as_sql(&parameters)).await?;
        let (is_same_server, purged_through): (bool, i64) = read_first(&rows)?;
        let mut found = None;
        let mut newest = None;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            let (_, _, joined) = <(bool, i64, OuterJoin<(i64, Event), i64>)>::from_row(row)?;
            match joined.0 {
                Some((POSITION, event)) => found = Some(event),
                Some((NEWEST_EVENT, event)) => newest = Some(event),
                Some((_, event)) => events.push(event),
                None => {}
            }
        }
        if let Some(id) = after
            && let Err(gone) = on_server(is_same_server, id.verify(found.as_ref(), purged_through))?
        {
            return Ok(Err(gone));
        }
        Ok(Ok(EventPage {
            events,
            newest: newest.map(|event| event.id()),
        }))
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

    pub(crate) async fn order_changes(
        &self,
        applied: Option<AppliedLog>,
    ) -> Result<OrderChanges, Error> {
        let position = applied.as_ref().map(|log| log.position);
        for _ in 0..2 {
            self.event_poll().await?;
            let StableHead { server, head } = self.events.stable();
            let start = position.map(|id| id.sequence);
            let examined = OrderChanges::MAX_EXAMINED;
            let parameters: Parameters = &[&server, &head, &start, &examined];
            let rows = self.reads.read(&READ_ORDERS, parameters).await?;
            let ((is_same_server, purged_through), (unlogged, last)): ((bool, i64), (i64, i64)) =
                read_first(&rows)?;
            // The connection may lead to another server since the poll.
            if !is_same_server {
                continue;
            }
            let mut found = None;
            let mut stable = EventId::START;
            let mut numbers = Vec::new();
            for row in &rows {
                type Facts = ((bool, i64), (i64, i64));
                let (_, joined) = <(Facts, OuterJoin<(i64, Event), i64>)>::from_row(row)?;
                match joined.0 {
                    Some((POSITION, event)) => found = Some(event),
                    Some((NEWEST_EVENT, event)) => stable = event.id(),
                    Some((_, event)) => numbers.push(event.sequence),
                    None => {}
                }
            }
            let log = LogIdentity(server, unlogged);
            let known = applied.as_ref().filter(|applied| {
                let position = applied.position;
                applied.identity == log
                    && position.verify(found.as_ref(), purged_through).is_ok()
                    && last - position.sequence <= examined
            });
            let events = match known {
                Some(applied) => self.new_events(applied, &numbers, server).await?,
                None => None,
            };
            numbers.retain(|number| *number > stable.sequence);
            return Ok(OrderChanges {
                log,
                stable,
                ahead: numbers,
                events,
            });
        }
        Err(Error::Unavailable(Arc::new(OtherServer)))
    }

    /// Reads those of the events with these numbers that were not applied. Returns `None` if they
    /// are too many, or some are missing.
    async fn new_events(
        &self,
        applied: &AppliedLog,
        numbers: &[i64],
        server: i64,
    ) -> Result<Option<Vec<Event>>, Error> {
        let new = numbers.iter().filter(|it| !applied.ahead.contains(it));
        let new: Vec<i64> = new.copied().collect();
        if new.is_empty() {
            return Ok(Some(Vec::new()));
        }
        if new.len() > OrderChanges::MAX_EVENTS {
            return Ok(None);
        }
        let rows = self.reads.read(&GET_MANY, &[&server, &new]).await?;
        let events = rows.iter().map(Event::from_row);
        let events: Vec<Event> = events.collect::<Result<_, _>>()?;
        Ok((events.len() == new.len()).then_some(events))
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

/// Returns the verification of a position. During a failover, a connection may still lead to the
/// old server, which does not know the position.
fn on_server(is_same: bool, verified: Result<(), Gone>) -> Result<Result<(), Gone>, Error> {
    match verified {
        Err(Gone::Unknown) if !is_same => Err(Error::Unavailable(Arc::new(OtherServer))),
        verified => Ok(verified),
    }
}

/// The roles of the events that a read of a part of the log returns: the event of its position,
/// the newest event up to the head, and those of the part.
const POSITION: i64 = 1;
const NEWEST_EVENT: i64 = 2;
const OF_PART: i64 = 3;

const SUBJECT: &str = "resource_id = $5 AND substr(type, 1, 3) = $6";
const BATCH: &str = "batch_id = $5";

/// Returns a statement like [`READ`] or [`READ_DESC`] for the events with a condition. The third
/// column is the role of an event.
fn read_part(condition: &str, sort: Sort) -> String {
    let head = head();
    let columns = columns::<EventRow>();
    let (newest, range, order) = match sort {
        Sort::Asc => (
            format!(
                "UNION ALL (
                     SELECT {NEWEST_EVENT}::bigint, {columns} FROM events
                     WHERE sequence > purged_through AND sequence <= {head}
                     ORDER BY sequence DESC LIMIT 1
                 )"
            ),
            format!("sequence > greatest($3, purged_through) AND sequence <= {head}"),
            "ASC",
        ),
        Sort::Desc => (
            String::new(),
            format!("sequence > purged_through AND sequence < coalesce($3, {head} + 1)"),
            "DESC",
        ),
    };
    format!(
        "SELECT {SERVER} = $1, purged_through, part.role, {} FROM event_log LEFT JOIN LATERAL (
             SELECT {POSITION}::bigint AS role, {columns} FROM events WHERE sequence = $3
             {newest}
             UNION ALL (
                 SELECT {OF_PART}::bigint, {columns} FROM events WHERE {condition} AND {range}
                 ORDER BY sequence {order} LIMIT $4
             )
         ) AS part ON true WHERE event_log.id = 1",
        columns_of::<EventRow>("part")
    )
}

statements! {
    READ_SUBJECT(Int, Int, Int, Int, Int, Text) = read_part(SUBJECT, Sort::Asc);
    READ_SUBJECT_DESC(Int, Int, Int, Int, Int, Text) = read_part(SUBJECT, Sort::Desc);
    READ_BATCH(Int, Int, Int, Int, Text) = read_part(BATCH, Sort::Asc);
    READ_BATCH_DESC(Int, Int, Int, Int, Text) = read_part(BATCH, Sort::Desc);
    NEWEST(Int, Int) = format!(
        "SELECT {} FROM events WHERE sequence <= {} ORDER BY sequence DESC LIMIT 1",
        columns::<EventRow>(),
        head()
    );
    /// Like [`READ_SUBJECT`], for the events about orders after the position `$3`, or after the
    /// head without one, among the next `$4`, also those beyond the head: only their numbers,
    /// because most are known. The third and fourth columns are the number of changes of orders
    /// that are not in the log, and the last number in it.
    READ_ORDERS(Int, Int, Int, Int) = format!(
        "SELECT {SERVER} = $1, purged_through, unlogged_order_changes,
                (SELECT coalesce(max(sequence), 0) FROM events), part.role, {part}
         FROM event_log LEFT JOIN LATERAL (
             SELECT {POSITION}::bigint AS role, {columns} FROM events WHERE sequence = $3
             UNION ALL (
                 SELECT {NEWEST_EVENT}::bigint, {columns} FROM events
                 WHERE sequence > purged_through AND sequence <= {head}
                 ORDER BY sequence DESC LIMIT 1
             )
             UNION ALL (
                 SELECT {OF_PART}::bigint, sequence, 0, type, NULL, 0, false, '', NULL, NULL
                 FROM events
                 WHERE sequence > greatest(coalesce($3, {head}), purged_through)
                     AND sequence <= coalesce($3, {head}) + $4 AND substr(type, 1, 3) = 'ord'
                 ORDER BY sequence
             )
         ) AS part ON true WHERE event_log.id = 1",
        part = columns_of::<EventRow>("part"),
        columns = columns::<EventRow>(),
        head = head(),
    );
    /// The events with these numbers, if this is server `$1`.
    GET_MANY(Int, Ints) = format!(
        "SELECT {} FROM events WHERE sequence = ANY($2) AND {SERVER} = $1 ORDER BY sequence",
        columns::<EventRow>()
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
