//! Writes that complete even if their client has disconnected.

use std::sync::Arc;

use super::error::ApiError;

/// Executes a write. The permit is held until it is committed, even if the client disconnects.
pub async fn run_to_end<T: Send + 'static>(
    permit: impl Send + 'static,
    executed: impl Future<Output = Result<T, store::Error>> + Send + 'static,
) -> Result<T, ApiError> {
    let task = tokio::spawn(async move {
        let _permit = permit;
        executed.await
    });
    let joined = task.await;
    Ok(joined.map_err(|panic| ApiError::Internal(Arc::new(panic)))??)
}
