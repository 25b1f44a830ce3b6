//! A thread for the blocking part of a backup: one at a time, at a lower priority.

use std::{
    io, panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use system::priority;
use tokio::sync::{Semaphore, oneshot};

#[derive(Debug, Clone)]
pub struct Worker {
    /// Held by the thread that works.
    turn: Arc<Semaphore>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    pub fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            stop: Arc::default(),
        }
    }

    /// Runs blocking work, which ends early once its argument is true. Fails if there is no thread
    /// for it, or if it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<AtomicBool>) -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.turn.clone().acquire_owned().await;
        let turn = turn.map_err(io::Error::other)?;
        let stop = self.stop.clone();
        let (sender, result) = oneshot::channel();
        let run = move || {
            if let Err(error) = priority::lower() {
                tracing::warn!(%error, "lowering the priority of a thread failed");
            }
            let done = panic::catch_unwind(panic::AssertUnwindSafe(|| work(&stop)));
            // Dropped here if nothing waits for it, which deletes an incomplete file.
            let _ = sender.send(done.ok());
            drop(turn);
        };
        thread::Builder::new().name("backup".into()).spawn(run)?;
        let done = result.await.ok().flatten();
        done.ok_or_else(|| io::Error::other("it panicked"))
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Ends the work in progress, and waits for it.
    pub async fn stop(&self) {
        self.stop.store(true, Relaxed);
        let _ = self.turn.acquire().await;
    }
}
