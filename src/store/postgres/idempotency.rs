//! IdempotentRequest requests on PostgreSQL: the statement that carries some out looks for
//! their records first, and writes them.
//!
//! Two statements that run at once cannot both write one: the second is undone
//! as a whole, and finds the record when it is run again.

use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};

use super::{
    super::Error,
    NoRow, Postgres,
    batch::Change,
    pool::{Parameters, Pool, Sql},
    unreadable,
};
use crate::idempotency::IdempotentRequest;

/// What lets a name be there only once.
const PRIMARY_KEY: &str = "named_requests_pkey";

/// A statement that makes changes of a kind, each once for a name. It starts
/// with what is asked: for each change in turn its time, API key, name, request
/// (the parameters `$1` to `$4`; the last three null if it has no name), and the
/// columns of its kind. `fresh` is those of them that were not carried out
/// before.
///
/// `$done` are common table expressions, the last of them `done` with the
/// `place` of each change that was made, an `id`, and the columns that the
/// statement gives at last; `$refusal` is the outcome of any other change.
/// Names are written in one order, so that no two statements wait for each
/// other's.
macro_rules! changes {
    ($columns:literal from $parameters:literal, $done:literal, $refusal:literal) => {
        concat!(
            "WITH asked AS MATERIALIZED (
                 SELECT * FROM unnest($1, $2, $3, $4, ",
            $parameters,
            ") WITH ORDINALITY AS asked (at, api_key_id, request_name, request, ",
            $columns,
            ", place)
             ), known AS MATERIALIZED (
                 SELECT asked.place, named.fingerprint, named.outcome, named.item
                 FROM asked JOIN named_requests AS named
                 ON named.api_key_id = asked.api_key_id AND named.name = asked.request_name
             ), fresh AS MATERIALIZED (
                 SELECT * FROM asked WHERE place NOT IN (SELECT place FROM known)
             ), ",
            $done,
            ", decided AS MATERIALIZED (
                 SELECT fresh.*, done.id AS item,
                        CASE WHEN done.id IS NOT NULL THEN 'done' ELSE ",
            $refusal,
            " END AS outcome
                 FROM fresh LEFT JOIN done ON done.place = fresh.place
             ), recorded AS (
                 INSERT INTO named_requests (api_key_id, name, request, outcome, item, created_at)
                 SELECT api_key_id, request_name, request, outcome, item, at FROM decided
                 WHERE request_name IS NOT NULL ORDER BY api_key_id, request_name
             )
             SELECT known.request, coalesce(known.outcome, decided.outcome),
                    coalesce(known.item, decided.item), done.*
             FROM asked LEFT JOIN known ON known.place = asked.place
             LEFT JOIN decided ON decided.place = asked.place
             LEFT JOIN done ON done.place = asked.place
             ORDER BY asked.place"
        )
    };
}
pub(super) use changes;

/// Runs a statement that `changes!` has made; `rest` are the parameters of its
/// kind, an array each.
pub async fn run<C: Change>(
    pool: &Pool,
    sql: &'static Sql,
    changes: &[&C],
    at: fn(&C) -> Timestamp,
    rest: Parameters<'_>,
) -> Result<Option<Vec<Row>>, Error> {
    let named = || changes.iter().map(|change| change.named());
    let at: Vec<_> = changes.iter().map(|c| at(c).as_microsecond()).collect();
    let keys: Vec<_> = named().map(|n| n.map(|n| n.api_key_id)).collect();
    let names: Vec<_> = named().map(|n| n.map(|n| n.key.as_str())).collect();
    let request = |named: &IdempotentRequest| named.fingerprint.to_vec();
    let requests: Vec<_> = named().map(|n| n.map(request)).collect();
    let first: Parameters = &[&at, &keys, &names, &requests];
    let parameters = [first, rest].concat();
    pool.write_unless_there(sql, &parameters, PRIMARY_KEY).await
}

static FORGET: Sql = Sql {
    text: "WITH old AS (
               SELECT api_key_id, name FROM named_requests WHERE created_at < $1
               ORDER BY created_at LIMIT 1000 FOR UPDATE SKIP LOCKED
           ), gone AS (
               DELETE FROM named_requests USING old
               WHERE (named_requests.api_key_id, named_requests.name)
                   = (old.api_key_id, old.name)
               RETURNING 1
           )
           SELECT count(*) FROM gone",
    types: &[Type::INT8],
};

impl Postgres {
    pub async fn named_forget(&self, before: Timestamp) -> Result<u64, Error> {
        let before = before.as_microsecond();
        count(&self.chores.write(&FORGET, &[&before]).await?)
    }
}

/// The number that a statement gives as its only column.
pub fn count(rows: &[Row]) -> Result<u64, Error> {
    let row = rows.first().ok_or_else(|| unreadable(NoRow))?;
    Ok(row.get::<_, i64>(0) as u64)
}
