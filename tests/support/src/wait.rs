//! Waiting for something that must happen.

use std::{
    thread,
    time::{Duration, Instant},
};

/// The longest wait for something that must happen. A safety net, not a performance
/// requirement: it is far more than a busy machine needs.
pub const TIMEOUT: Duration = Duration::from_secs(300);

const INTERVAL: Duration = Duration::from_millis(10);

/// Polls until the closure returns a value.
#[track_caller]
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(started.elapsed() < TIMEOUT, "timed out waiting for {what}");
        thread::sleep(INTERVAL);
    }
}

/// Polls an asynchronous condition until it holds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !condition().await {
            tokio::time::sleep(INTERVAL).await;
        }
    };
    let polled = tokio::time::timeout(TIMEOUT, polling).await;
    polled.unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}
