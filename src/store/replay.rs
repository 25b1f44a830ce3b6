//! How the outcome of an idempotent request is recorded: the id of the resource that it
//! created or changed, or the code of its rejection. The rest of a replayed response is
//! derived from the request and from fields that never change.

use crate::idempotency::RecordedRejection;

pub(super) type Outcome<R> = Result<i64, R>;

/// The stored code of a request that succeeded. The SQL of the PostgreSQL store
/// writes it too.
macro_rules! succeeded {
    () => {
        "succeeded"
    };
}

/// The columns `outcome` and `resource_id`.
pub(super) fn to_columns<R: RecordedRejection>(outcome: Outcome<R>) -> (&'static str, Option<i64>) {
    match outcome {
        Ok(resource_id) => (succeeded!(), Some(resource_id)),
        Err(rejection) => (rejection.code(), None),
    }
}

/// The inverse of [`to_columns`].
pub(super) fn from_columns<R: RecordedRejection>(
    outcome: &str,
    resource_id: Option<i64>,
) -> Result<Outcome<R>, UnknownOutcome> {
    match (outcome, resource_id) {
        (succeeded!(), Some(resource_id)) => Ok(Ok(resource_id)),
        _ => match R::from_code(outcome) {
            Some(rejection) => Ok(Err(rejection)),
            None => Err(UnknownOutcome(outcome.into())),
        },
    }
}

#[derive(Debug, thiserror::Error)]
#[error("unknown outcome {0:?} in idempotency_keys; was it written by a newer version?")]
pub(super) struct UnknownOutcome(String);
