//! Logs a persistent failure once instead of on every attempt.

use std::fmt::Display;

/// Logs when a recurring activity starts to fail and when it recovers, but not
/// every failure in between.
pub struct ErrorLatch {
    activity: &'static str,
    failing: bool,
}

impl ErrorLatch {
    pub fn new(activity: &'static str) -> Self {
        Self {
            activity,
            failing: false,
        }
    }

    pub fn observe<T, E: Display>(&mut self, result: Result<T, E>) {
        let activity = self.activity;
        match result {
            Err(error) if !self.failing => tracing::warn!(%error, "{activity} failed"),
            Ok(_) if self.failing => tracing::info!("{activity} recovered"),
            _ => return,
        }
        self.failing = !self.failing;
    }
}
