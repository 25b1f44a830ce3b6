//! Waiting for something that must happen.

use std::{
    thread,
    time::{Duration, Instant},
};

/// The longest wait for something that must happen. A safety net, not a performance
/// requirement: it is far more than a busy machine needs.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// Polls until the closure returns a value.
#[track_caller]
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(started.elapsed() < TIMEOUT, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Polls an asynchronous condition until it holds. The intervals grow: a condition is often a
/// request, and those of many tests would keep the machine busy.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        let mut interval = Duration::from_millis(5);
        while !condition().await {
            tokio::time::sleep(interval).await;
            interval = (2 * interval).min(Duration::from_millis(50));
        }
    };
    let polled = tokio::time::timeout(TIMEOUT, polling).await;
    polled.unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}
