//! Named requests on PostgreSQL: one statement looks for the record, carries
//! the request out, and writes the record.
//!
//! Two that run at once cannot both write it: the second is undone as a whole,
//! and finds the record when it is run again.

use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};

use super::{
    super::{
        Error,
        record::{self, Outcome},
    },
    NoRow, Postgres,
    pool::{Parameters, Sql},
    unreadable,
};
use crate::named::{Named, Once};

/// A statement that is carried out once for a name. Its parameters `$1` to
/// `$4` are the API key, the name, the request and the time; the first three are
/// null for a request without a name.
///
/// `$done` is a common table expression of that name with an `id`, which does
/// nothing if `known` has a row; `$refusal` is the outcome if it has no row.
/// The columns of a row: the request of that name, the outcome, the item, then
/// those of `done`.
macro_rules! once {
    ($done:literal, $refusal:literal) => {
        concat!(
            "WITH known AS (
                 SELECT request, outcome, item FROM named_requests
                 WHERE api_key_id = $1 AND name = $2
             ), ",
            $done,
            ", decided AS (
                 SELECT CASE WHEN EXISTS (SELECT FROM done) THEN 'done' ELSE ",
            $refusal,
            " END AS outcome
             ), recorded AS (
                 INSERT INTO named_requests
                     (api_key_id, name, request, outcome, item, created_at)
                 SELECT $1, $2, $3, outcome, (SELECT id FROM done), $4 FROM decided
                 WHERE $1 IS NOT NULL AND NOT EXISTS (SELECT FROM known)
             )
             SELECT known.request, coalesce(known.outcome, decided.outcome),
                    coalesce(known.item, done.id), done.*
             FROM decided LEFT JOIN known ON true LEFT JOIN done ON true"
        )
    };
}
pub(super) use once;

/// What lets a name be there only once.
const PRIMARY_KEY: &str = "named_requests_pkey";

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
    /// Runs a statement that `once!` has made, with the parameters that follow
    /// its first four. Gives its outcome and the row with the rest of it.
    pub(super) async fn once(
        &self,
        sql: &'static Sql,
        named: Option<&Named>,
        now: Timestamp,
        rest: Parameters<'_>,
    ) -> Result<Once<(Outcome, Row)>, Error> {
        let api_key_id = named.map(|named| named.api_key_id);
        let name = named.map(|named| named.name.as_str());
        let request = named.map(|named| named.request.as_slice());
        let now = now.as_microsecond();
        let first: Parameters = &[&api_key_id, &name, &request, &now];
        let parameters = [first, rest].concat();
        let row = loop {
            // Only somebody who had the same name before can be in the way, so
            // the second time the name is known.
            let written = self
                .writes
                .write_unless_there(sql, &parameters, PRIMARY_KEY);
            if let Some(row) = written.await? {
                break row;
            }
        };
        let before: Option<&[u8]> = row.get(0);
        if before.is_some() && before != request {
            return Ok(Once::OtherRequest);
        }
        let before = before.is_some();
        let outcome = record::outcome(row.get(1), row.get(2)).map_err(unreadable)?;
        Ok(match before {
            true => Once::Before((outcome, row)),
            false => Once::Now((outcome, row)),
        })
    }

    pub async fn named_forget(&self, before: Timestamp) -> Result<u64, Error> {
        let rows = self
            .chores
            .write(&FORGET, &[&before.as_microsecond()])
            .await?;
        count(&rows)
    }
}

/// The number that a statement gives as its only column.
pub fn count(rows: &[Row]) -> Result<u64, Error> {
    let row = rows.first().ok_or_else(|| unreadable(NoRow))?;
    Ok(row.get::<_, i64>(0) as u64)
}
