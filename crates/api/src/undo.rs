//! The handler that undoes batches and imports.

use serde::Serialize;

use super::{
    batch_limits::{admit, charge},
    detached::run_to_end,
    error::{ApiError, NO_SUCH_BATCH},
    path::PathId,
    request::ApiRequest,
    response,
    state::Api,
};
use domain::{
    pet::{PetId, batch::BatchId},
    undo::{KeptReason, UndoOutcome, UndoRequest},
};
use server::Response;

pub async fn undo_batch(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<BatchId>,
) -> Result<Response, ApiError> {
    let (undo, idempotency) = request.json_with_idempotency_key::<UndoRequest>().await?;
    let id = id?;
    let permit = admit(api)?;
    let plan = api
        .store
        .undo_plan(&id, undo.below)
        .await?
        .ok_or(ApiError::NotFound(NO_SUCH_BATCH))?;
    request.preconditions().evaluate_post(false)?;
    charge(api, &mut request, plan.len())?;
    let store = api.store.clone();
    let api_key_id = request.api_key_id();
    let undone = async move { store.undo(api_key_id, plan, idempotency).await };
    let result = run_to_end(permit, undone).await?;
    response::idempotent(result, |outcome| response::json(&UndoBody::of(&outcome)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UndoBody<'a> {
    batch_id: &'a str,
    undone: usize,
    kept: Vec<KeptBody>,
    categories: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged_photos: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
struct KeptBody {
    id: PetId,
    reason: &'static str,
    message: String,
}

impl<'a> UndoBody<'a> {
    fn of(outcome: &'a UndoOutcome) -> Self {
        let kept = outcome.kept.iter().map(|kept| {
            let reason = match kept.reason {
                KeptReason::Changed => "changed",
                KeptReason::Deleted => "deleted",
                KeptReason::Ordered => "ordered",
                KeptReason::MicrochipTaken(_) => "microchip_taken",
            };
            KeptBody {
                id: kept.id,
                reason,
                message: kept.reason.to_string(),
            }
        });
        Self {
            batch_id: outcome.id.as_str(),
            undone: outcome.undone,
            kept: kept.collect(),
            categories: outcome.categories,
            purged: Some(outcome.purged).filter(|purged| *purged > 0),
            purged_photos: Some(outcome.purged_photos).filter(|purged| *purged > 0),
            next: outcome.next.map(|next| next.to_string()),
        }
    }
}
