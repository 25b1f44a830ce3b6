//! Limits on batches and undos: each may take as much memory and time as a thousand requests.

use tokio::sync::OwnedSemaphorePermit;

use super::{error::ApiError, request::ApiRequest, state::Api};

/// The number of changes that count as one request.
const CHANGES_PER_REQUEST: usize = 100;

/// Admits a batch or an undo, unless too many are in progress.
pub fn admit(api: &Api) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = api.batches.clone().try_acquire_owned();
    permit.map_err(|_| ApiError::TOO_MANY_BATCHES)
}

/// Charges the changes of a batch or an undo to the rate limit.
pub fn charge(api: &Api, request: &mut ApiRequest<'_>, changes: usize) -> Result<(), ApiError> {
    request.charge_as(api.keys(), changes.div_ceil(CHANGES_PER_REQUEST) as u32)
}
