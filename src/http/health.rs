//! Whether the service lives, and whether it is ready: for those who look after
//! it. Neither needs a key.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{HeaderValue, header};
use serde_json::json;
use tokio::time::timeout;

use super::{Answer, App, error::ApiError, render};

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process answers.
pub fn alive() -> Answer {
    status("alive")
}

/// The store answers, for reading and for writing, and the service is not about
/// to stop.
pub async fn ready(app: &App) -> Result<Answer, ApiError> {
    if app.stopping.load(Ordering::Relaxed) {
        let message = "the service is stopping";
        return Err(ApiError::Unavailable(message, Arc::new(Stopping)));
    }
    match timeout(PATIENCE, app.store.ping()).await {
        Ok(answered) => answered?,
        Err(late) => {
            let message = "the storage does not answer";
            return Err(ApiError::Unavailable(message, Arc::new(late)));
        }
    }
    Ok(status("ready"))
}

fn status(word: &str) -> Answer {
    let mut answer = render::plain(&json!({"status": word}));
    let no_store = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, no_store);
    answer
}

#[derive(Debug, thiserror::Error)]
#[error("the service is stopping")]
struct Stopping;
