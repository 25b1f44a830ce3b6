//! Idempotency keys on PostgreSQL: the statement that executes a batch of changes
//! first looks up their keys, and records them.
//!
//! Two concurrent statements cannot both record a key. The second one violates
//! the primary key and is rolled back as a whole; when it is run again, it finds
//! the record.

use std::sync::Arc;

use jiff::SignedDuration;
use tokio_postgres::{Row, types::Type};

use super::{
    super::{
        error::Error,
        replay::{self, Outcome},
        rows::Columns,
    },
    Postgres,
    pool::{Parameters, Pool, Sql},
    read_count,
    writer::BatchedWrite,
};
use crate::idempotency::{IdempotentRequest, RecordedRejection};

const PRIMARY_KEY: &str = "idempotency_keys_pkey";

/// The time of the transaction, in microseconds since the Unix epoch. It is the
/// server's: those of the replicas may differ.
macro_rules! now_micros {
    () => {
        "(extract(epoch FROM now()) * 1000000)::bigint"
    };
}

/// For the `FROM` clause of a statement all of whose changes are made by one API key: tells
/// the triggers that log them. The parameter is its id.
macro_rules! changed_by_key {
    ($parameter:literal) => {
        concat!(
            "set_config('petstore.api_key', ",
            $parameter,
            "::text, true) AS changed_by_key"
        )
    };
}

/// Likewise, for a statement that sets `changed_by` of every row that it changes.
macro_rules! changed_by_row {
    () => {
        "set_config('petstore.api_key', 'row', true) AS changed_by_row"
    };
}

/// A duration as the databases store it.
pub(super) fn microseconds(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A statement that executes a batch of changes, each once per idempotency key.
///
/// Parameters `$1` to `$3` are arrays with the API key id, idempotency key and
/// fingerprint of each change; the last two are null without a key. The columns of the kind
/// follow. The statement sets `changed_by` of every row that it changes. It starts with
/// three common table expressions: `requested`, the changes with their `ordinal`; `known`,
/// the recorded outcomes of those that were executed before; and `pending`, the others.
///
/// `$execute` are further expressions, the last of which is `executed`: the
/// `ordinal` of each change that was made, the `id` of its resource, and the
/// columns of `$result`. `$rejection` is the outcome of any other pending change: null,
/// and not recorded, if another transaction has locked the row that decides it.
/// Keys are recorded in sorted order, so that concurrent statements cannot
/// deadlock on them.
macro_rules! batch_sql {
    (
        columns: $columns:expr, parameters: $parameters:literal,
        execute: $execute:expr, rejection: $rejection:expr
        $(, result: $result:expr)?
    ) => {
        concat!(
            "WITH requested AS MATERIALIZED (
                 SELECT requested.* FROM unnest($1, $2, $3, ",
            $parameters,
            ") WITH ORDINALITY
                 AS requested (api_key_id, idempotency_key, fingerprint, ",
            $columns,
            ", ordinal), ",
            changed_by_row!(),
            "
             ), known AS MATERIALIZED (
                 SELECT requested.ordinal, record.fingerprint, record.outcome,
                        record.resource_id
                 FROM requested JOIN idempotency_keys AS record
                 ON record.api_key_id = requested.api_key_id
                    AND record.key = requested.idempotency_key
             ), pending AS MATERIALIZED (
                 SELECT * FROM requested WHERE ordinal NOT IN (SELECT ordinal FROM known)
             ), ",
            $execute,
            ", decided AS MATERIALIZED (
                 SELECT pending.*, executed.id AS resource_id,
                        CASE WHEN executed.id IS NOT NULL THEN '",
            succeeded!(),
            "' ELSE ",
            $rejection,
            " END AS outcome
                 FROM pending LEFT JOIN executed ON executed.ordinal = pending.ordinal
             ), recorded AS (
                 INSERT INTO idempotency_keys (",
            idempotency_key_columns!(),
            ")
                 SELECT api_key_id, idempotency_key, fingerprint, outcome, resource_id, ",
            now_micros!(),
            " FROM decided
                 WHERE idempotency_key IS NOT NULL AND outcome IS NOT NULL
                 ORDER BY api_key_id, idempotency_key
             )
             SELECT known.fingerprint, coalesce(known.outcome, decided.outcome),
                    coalesce(known.resource_id, decided.resource_id)",
            $(", ", $result,)?
            " FROM requested
             LEFT JOIN known ON known.ordinal = requested.ordinal
             LEFT JOIN decided ON decided.ordinal = requested.ordinal
             LEFT JOIN executed ON executed.ordinal = requested.ordinal
             ORDER BY requested.ordinal"
        )
    };
}

/// The types of the parameters of a `batch_sql!` statement.
macro_rules! batch_types {
    ($($own:ident),*) => {
        &[
            Type::INT8_ARRAY,
            Type::TEXT_ARRAY,
            Type::BYTEA_ARRAY,
            $(Type::$own),*
        ]
    };
}

/// Runs a `batch_sql!` statement. `own` are the parameters of its kind, an array
/// each.
pub(super) async fn run<C: BatchedWrite>(
    pool: &Pool,
    sql: &'static Sql,
    changes: &[&C],
    own: Parameters<'_>,
) -> Result<Option<Vec<Row>>, Error> {
    let requests = || changes.iter().map(|change| change.idempotency());
    let api_keys: Vec<_> = changes.iter().map(|change| change.api_key_id()).collect();
    let keys: Vec<_> = requests().map(|r| r.map(|r| r.key.as_str())).collect();
    let fingerprint = |request: &IdempotentRequest| request.fingerprint.to_vec();
    let fingerprints: Vec<_> = requests().map(|r| r.map(fingerprint)).collect();
    let common: Parameters = &[&api_keys, &keys, &fingerprints];
    let parameters = [common, own].concat();
    pool.write_unless_conflict(sql, &parameters, PRIMARY_KEY)
        .await
}

/// A common table expression that records the outcome of a change that is not batched, if
/// the request has an idempotency key. Parameters `$1` to `$3` are the API key id, the key
/// and the fingerprint; `$outcome` is an expression with the columns `outcome` and `id`.
macro_rules! record {
    ($outcome:literal) => {
        concat!(
            "recorded AS (
                 INSERT INTO idempotency_keys (",
            idempotency_key_columns!(),
            ") SELECT $1, $2, $3, outcome, id, ",
            now_micros!(),
            " FROM ",
            $outcome,
            " WHERE $2 IS NOT NULL
             )"
        )
    };
}

/// The types of the parameters of a statement with `record!`.
macro_rules! recorded_types {
    ($($own:ident),*) => {
        &[Type::INT8, Type::TEXT, Type::BYTEA, $(Type::$own),*]
    };
}

/// Runs a statement with `record!`. Returns `None`, with nothing changed, if a concurrent
/// transaction recorded the idempotency key first.
pub(super) async fn run_recorded(
    pool: &Pool,
    sql: &'static Sql,
    request: Option<&IdempotentRequest>,
    own: Parameters<'_>,
) -> Result<Option<Vec<Row>>, Error> {
    let common: Parameters = &[
        &request.map(|request| request.api_key_id),
        &request.map(|request| request.key.as_str()),
        &request.map(|request| request.fingerprint.as_slice()),
    ];
    let parameters = [common, own].concat();
    pool.write_unless_conflict(sql, &parameters, PRIMARY_KEY)
        .await
}

static FIND: Sql = Sql {
    text: "SELECT fingerprint, outcome, resource_id FROM idempotency_keys
           WHERE api_key_id = $1 AND key = $2",
    types: &[Type::INT8, Type::TEXT],
};

/// Concurrent replicas skip each other's rows.
static PURGE: Sql = Sql {
    text: concat!(
        "WITH old AS (
               SELECT api_key_id, key FROM idempotency_keys WHERE created_at < ",
        now_micros!(),
        " - $1
               ORDER BY created_at LIMIT 1000 FOR UPDATE SKIP LOCKED
           ), deleted AS (
               DELETE FROM idempotency_keys USING old
               WHERE (idempotency_keys.api_key_id, idempotency_keys.key)
                   = (old.api_key_id, old.key)
               RETURNING 1
           )
           SELECT count(*) FROM deleted"
    ),
    types: &[Type::INT8],
};

impl Postgres {
    /// Finds the recorded outcome of a request; `Some(None)` if its key belongs to another.
    pub(super) async fn idempotency_find<R: RecordedRejection>(
        &self,
        request: &IdempotentRequest,
    ) -> Result<Option<Option<Outcome<R>>>, Error> {
        let parameters: Parameters = &[&request.api_key_id, &request.key.as_str()];
        let rows = self.reads.read(&FIND, parameters).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let mut columns = Columns::of(row);
        if columns.hash()? != request.fingerprint {
            return Ok(Some(None));
        }
        let (outcome, resource_id) = (columns.text()?, columns.optional_int()?);
        let outcome = replay::from_columns(outcome, resource_id);
        outcome
            .map(|outcome| Some(Some(outcome)))
            .map_err(|unknown| Error::Internal(Arc::new(unknown)))
    }

    pub(in super::super) async fn idempotency_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let retention = self.max_age(retention);
        read_count(&self.background.write(&PURGE, &[&retention]).await?)
    }
}
