//! Waiting for a row that another transaction has locked.
//!
//! No statement waits for a row lock: `SKIP LOCKED` leaves the row out, and the change
//! is tried again. So a locked row delays only the changes that need it, not the
//! others that share their statement or their connection.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::super::error::Error;

/// How long a change waits for a locked row.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A replica that competes for the row commits within milliseconds.
const MIN_DELAY: Duration = Duration::from_millis(1);
const MAX_DELAY: Duration = Duration::from_millis(50);

/// The wait of one change.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockWait {
    started: Instant,
}

impl LockWait {
    pub(super) fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// When to try again: the longer the row has been locked, the later. Fails if
    /// it has been locked for too long.
    pub(super) fn next_attempt(&self) -> Result<Instant, Error> {
        let waited = self.started.elapsed();
        if waited >= TIMEOUT {
            return Err(Error::Unavailable(Arc::new(RowLocked)));
        }
        Ok(Instant::now() + (waited / 4).clamp(MIN_DELAY, MAX_DELAY))
    }

    /// Sleeps until the next attempt.
    pub(super) async fn pause(&self) -> Result<(), Error> {
        sleep_until(self.next_attempt()?).await;
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the row stayed locked by another transaction for {TIMEOUT:?}")]
struct RowLocked;
