//! The handler of batches of changes of pets.

use std::borrow::Cow;

use serde::Serialize;

use super::{
    batch_limits::{admit, charge},
    detached::run_to_end,
    error::{ApiError, ErrorBody},
    pets::RESERVED,
    preconditions::has_tag,
    request::ApiRequest,
    response,
    state::Api,
};
use domain::{
    json::Object,
    pet::{
        Pet, PetId, PetRejection,
        batch::{
            Action, BatchChange, BatchId, BatchOutcome, BatchRejection, BatchRequest,
            ChangeOutcome, PetBatch, RequestedChange,
        },
    },
};
use server::Response;

pub async fn change_pets(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let body = request.large_json().await?;
    // Taken only now, so that a slow client does not keep others out.
    let permit = admit(api)?;
    let object = Object::parse(&body)?;
    let batch = read_batch(&request, &object)?;
    let idempotency = request.parse_idempotency_key(|| Cow::Borrowed(&*body))?;
    request.preconditions().evaluate_post(false)?;
    charge(api, &mut request, batch.changes.len())?;
    let targets: Vec<_> = batch.changes.iter().map(ChangeTarget::of).collect();
    let store = api.store.clone();
    let api_key_id = request.api_key_id();
    let batch = PetBatch {
        id: batch.id.unwrap_or_else(BatchId::random),
        import: batch.import,
        is_atomic: batch.is_atomic,
        changes: read_changes(&request, batch.changes),
        matches: |tags, pet: &Pet| has_tag(tags.as_bytes(), &response::etag(pet)),
    };
    let executed = async move { store.pet_batch(api_key_id, batch, idempotency).await };
    let result = run_to_end(permit, executed).await?;
    response::idempotent(result, |outcome| match outcome {
        Ok(outcome) => respond(&outcome, &targets),
        Err(BatchRejection::Change { index, outcome }) => {
            let reason = targets[index].error(&outcome);
            let reason = Box::new(reason.expect("a rejection has a reason"));
            ApiError::BatchRejected(index, reason).response()
        }
        Err(BatchRejection::Stopped(stopped)) => ApiError::ImportStopped(stopped).response(),
    })
}

/// Reads the batch without its pets.
fn read_batch<'b>(
    request: &ApiRequest<'_>,
    object: &Object<'b>,
) -> Result<BatchRequest<'b>, ApiError> {
    let unknown = request.unknown(object, BatchRequest::MEMBERS);
    let batch = match (BatchRequest::parse(object), unknown) {
        (Ok(batch), None) => batch,
        (Ok(_), Some(unknown)) => return Err(ApiError::InvalidBody(unknown)),
        (Err(invalid), None) => return Err(ApiError::InvalidBody(invalid.to_string())),
        (Err(invalid), Some(unknown)) => {
            return Err(ApiError::InvalidBody(format!("{invalid}; {unknown}")));
        }
    };
    for (index, change) in batch.changes.iter().enumerate() {
        if let Some(unknown) = request.unknown(&change.object, change.action.members()) {
            let message = format!("changes[{index}]: {unknown}");
            return Err(ApiError::InvalidBody(message));
        }
    }
    Ok(batch)
}

fn read_changes(request: &ApiRequest<'_>, changes: Vec<RequestedChange<'_>>) -> Vec<BatchChange> {
    let changes = changes.into_iter().map(|change| {
        if let (Some(first), Some(id)) = (change.repeats, change.action.id()) {
            let id = id.get();
            return BatchChange::Invalid(format!(
                "id: pet {id} is already changed by changes[{first}]; a batch changes a pet once"
            ));
        }
        let read = match change.action {
            Action::Create(new) => request.read_members(&new).map(BatchChange::Create),
            Action::Update {
                id,
                change,
                expected,
                if_match,
            } => request.read_members(&change).and_then(|change| {
                let expected = expected.map(|expected| request.read_members(&expected));
                let expected = expected.transpose().map(|it| it.map(Box::new));
                Ok(BatchChange::Update {
                    id,
                    change,
                    expected: expected.map_err(|reason| format!("expected: {reason}"))?,
                    if_match: if_match.map(Cow::into_owned),
                })
            }),
            Action::Delete { id, if_match } => Ok(BatchChange::Delete {
                id,
                if_match: if_match.map(Cow::into_owned),
            }),
        };
        read.unwrap_or_else(BatchChange::Invalid)
    });
    changes.collect()
}

/// The parts of a change that its result depends on.
#[derive(Debug, Clone, Copy)]
struct ChangeTarget {
    id: Option<PetId>,
    is_deletion: bool,
}

impl ChangeTarget {
    fn of(change: &RequestedChange<'_>) -> Self {
        Self {
            id: change.action.id(),
            is_deletion: matches!(change.action, Action::Delete { .. }),
        }
    }

    /// Returns the error of a change that was rejected: the same as that of the operation that
    /// makes it by itself.
    fn error(self, outcome: &ChangeOutcome) -> Option<ApiError> {
        match outcome {
            ChangeOutcome::Rejected(PetRejection::Reserved) if self.is_deletion => {
                Some(ApiError::PetReserved(RESERVED))
            }
            ChangeOutcome::Rejected(rejection) => Some(rejection.clone().into()),
            ChangeOutcome::Invalid(message) => Some(ApiError::InvalidBody(message.clone())),
            ChangeOutcome::Created(_) | ChangeOutcome::Updated | ChangeOutcome::Deleted => None,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchBody<'a> {
    batch_id: &'a str,
    results: Vec<ResultBody<'a>>,
}

#[derive(Serialize)]
struct ResultBody<'a> {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<PetId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorBody<'a>>,
}

fn respond(outcome: &BatchOutcome, targets: &[ChangeTarget]) -> Response {
    let outcomes = || outcome.changes.iter().zip(targets);
    let errors: Vec<_> = outcomes().map(|(it, target)| target.error(it)).collect();
    let results = outcomes().zip(&errors).map(|((outcome, target), error)| {
        let (status, id) = match (error, outcome) {
            (Some(error), _) => (error.body().status, target.id),
            (None, ChangeOutcome::Created(id)) => (201, Some(*id)),
            (None, ChangeOutcome::Deleted) => (204, target.id),
            (None, _) => (200, target.id),
        };
        ResultBody {
            status,
            id,
            error: error.as_ref().map(ApiError::body),
        }
    });
    response::json(&BatchBody {
        batch_id: outcome.id.as_str(),
        results: results.collect(),
    })
}
