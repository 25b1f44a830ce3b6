//! Whether the service lives, and whether it is ready: for those who look after
//! it. Neither needs a key.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{HeaderValue, header};
use serde_json::json;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::{App, Response, error::ApiError, render};

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is asked, at the most.
const AGAIN: Duration = Duration::from_millis(500);

/// The process answers.
pub fn alive() -> Response {
    status("alive")
}

/// The store answers, for reading and for writing, and the service is not about
/// to stop.
pub async fn ready(app: &App) -> Result<Response, ApiError> {
    if app.stopping.load(Ordering::Relaxed) {
        let message = "the service is stopping";
        return Err(ApiError::Unavailable(message, Arc::new(Stopping)));
    }
    // Whoever asks more often is told the same again: it costs a commit.
    let mut last = app.pinged.lock().await;
    let known = last.as_ref().filter(|(began, _)| began.elapsed() < AGAIN);
    let outcome = match known {
        Some((_, outcome)) => outcome.clone(),
        None => {
            let began = Instant::now();
            let outcome = match timeout(PATIENCE, app.store.ping()).await {
                Ok(answered) => answered.map_err(ApiError::from),
                Err(late) => {
                    let message = "the storage does not answer";
                    Err(ApiError::Unavailable(message, Arc::new(late)))
                }
            };
            last.insert((began, outcome)).1.clone()
        }
    };
    outcome.map(|()| status("ready"))
}

/// When the store was last asked whether it is ready, and what it said.
pub type Pinged = Mutex<Option<(Instant, Result<(), ApiError>)>>;

fn status(word: &str) -> Response {
    let mut answer = render::plain(&json!({"status": word}));
    let no_store = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, no_store);
    answer
}

#[derive(Debug, thiserror::Error)]
#[error("the service is stopping")]
struct Stopping;
