//! Handing work to whoever carries it out, and waiting for its answer.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::oneshot;

use super::{Cause, Error};
use crate::telemetry::prometheus::Exposition;

/// Puts a message into a queue, unless it is full or its thread has ended.
pub fn hand_over<M>(queue: &Sender<M>, message: M) -> Result<(), Error> {
    queue.try_send(message).map_err(|e| match e {
        TrySendError::Full(_) => Error::Overloaded,
        TrySendError::Disconnected(_) => Error::Unavailable(Arc::new(Closed)),
    })
}

/// Waits for the answer. `gone` and `late` say what it means if the work ended
/// without one, or takes too long.
pub async fn wait<T>(
    answer: oneshot::Receiver<Result<T, Error>>,
    patience: Duration,
    gone: fn(Cause) -> Error,
    late: fn(Cause) -> Error,
) -> Result<T, Error> {
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Err(gone(Arc::new(error))),
        Err(error) => Err(late(Arc::new(error))),
    }
}

/// Tells how much is waiting.
pub fn expose(text: &mut Exposition, depths: &[(&str, usize)]) {
    let mut family = text.family(
        "petstore_store_queue_depth",
        "gauge",
        "Requests that wait for the store.",
    );
    for (queue, depth) in depths {
        family.sample(&[("queue", queue)], depth);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
pub struct Closed;
