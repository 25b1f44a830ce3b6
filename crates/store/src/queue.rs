//! Bounded queues in front of the database (backpressure), and waiting for the
//! result of what was queued.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::oneshot;

use super::error::{Cause, Error};

/// Queues a message, or fails at once if the queue is full or closed.
pub(super) fn try_enqueue<M>(queue: &Sender<M>, message: M) -> Result<(), Error> {
    queue.try_send(message).map_err(|e| match e {
        TrySendError::Full(_) => Error::Overloaded,
        TrySendError::Disconnected(_) => Error::Unavailable(Arc::new(StoreClosed)),
    })
}

/// Waits for a result. `on_dropped` and `on_timeout` are the errors if the
/// worker ends without one, or takes longer than `limit`.
pub(super) async fn wait<T>(
    result: oneshot::Receiver<Result<T, Error>>,
    limit: Duration,
    on_dropped: fn(Cause) -> Error,
    on_timeout: fn(Cause) -> Error,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, result).await {
        Ok(Ok(result)) => result,
        Ok(Err(dropped)) => Err(on_dropped(Arc::new(dropped))),
        Err(elapsed) => Err(on_timeout(Arc::new(elapsed))),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
pub(super) struct StoreClosed;
