//! The handler that undoes batches and imports.

use std::sync::Arc;

use serde::Serialize;

use super::{
    error::{ApiError, NO_SUCH_BATCH},
    path::PathId,
    pet_batches::CHANGES_PER_REQUEST,
    request::ApiRequest,
    response,
    state::Api,
};
use domain::pet::{
    PetId,
    batch::BatchId,
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
    let permit = api.batches.clone().try_acquire_owned();
    let permit = permit.map_err(|_| ApiError::TooManyBatches)?;
    let plan = api.store.undo_plan(&id, undo.below).await?;
    let plan = plan.ok_or(ApiError::NotFound(NO_SUCH_BATCH))?;
    request.preconditions().evaluate_post(false)?;
    let requests = plan.undos.len().div_ceil(CHANGES_PER_REQUEST);
    request.charge_as(api.keys(), requests as u32)?;
    let store = api.store.clone();
    let api_key_id = request.api_key_id();
    // As for a batch, it counts until it is done.
    let executed = tokio::spawn(async move {
        let _permit = permit;
        store.undo(api_key_id, plan, idempotency).await
    });
    let executed = executed.await;
    let result = executed.map_err(|panic| ApiError::Internal(Arc::new(panic)))??;
    response::idempotent(result, |outcome| response::json(&UndoBody::of(&outcome)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UndoBody<'a> {
    batch_id: &'a str,
    undone: usize,
    kept: Vec<KeptBody>,
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
            next: outcome.next.map(|next| next.to_string()),
        }
    }
}
