//! Liveness and readiness probes. Neither needs an API key.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, header};
use serde_json::json;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::{error::ApiError, response};
use crate::{server::Response, store::Store};

/// How long the store may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a result is reused: a probe costs a commit.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

pub struct Health {
    store: Arc<Store>,
    draining: AtomicBool,
    /// When the store was last probed, and the result.
    last_probe: Mutex<Option<(Instant, Result<(), ApiError>)>>,
}

impl Health {
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            draining: AtomicBool::new(false),
            last_probe: Mutex::default(),
        }
    }

    /// From now on the service is not ready, so that load balancers send
    /// requests elsewhere.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The process responds.
    pub fn live(&self) -> Response {
        status("alive")
    }

    /// The store can be read and written, and the service is not draining.
    pub async fn ready(&self) -> Result<Response, ApiError> {
        if self.draining.load(Ordering::Relaxed) {
            let message = "the service is shutting down";
            return Err(ApiError::Unavailable(message, Arc::new(Draining)));
        }
        let mut last = self.last_probe.lock().await;
        let recent = last
            .as_ref()
            .filter(|(at, _)| at.elapsed() < PROBE_INTERVAL);
        let result = match recent {
            Some((_, result)) => result.clone(),
            None => {
                let started = Instant::now();
                let result = match timeout(PROBE_TIMEOUT, self.store.ping()).await {
                    Ok(result) => result.map_err(ApiError::from),
                    Err(elapsed) => {
                        let message = "the database does not respond";
                        Err(ApiError::Unavailable(message, Arc::new(elapsed)))
                    }
                };
                last.insert((started, result)).1.clone()
            }
        };
        result.map(|()| status("ready"))
    }
}

fn status(status: &str) -> Response {
    let mut response = response::json(&json!({"status": status}));
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

#[derive(Debug, thiserror::Error)]
#[error("the service is shutting down")]
struct Draining;
