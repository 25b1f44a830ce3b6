//! The shutdown signal of a server's connections.

use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
};

use tokio::sync::Notify;

/// Tells every connection that the server is shutting down.
#[derive(Debug, Default)]
pub struct ShutdownSignal {
    started: AtomicBool,
    waiters: Notify,
}

impl ShutdownSignal {
    pub fn start(&self) {
        self.started.store(true, Ordering::Release);
        self.waiters.notify_waiters();
    }

    /// Completes when the shutdown starts.
    ///
    /// Await it in one task only, and not inside a combinator that swaps wakers
    /// (such as `FuturesUnordered`): the waker is registered once, on the first
    /// poll. `Notify` alone would take a lock that all connections share on
    /// every poll.
    pub async fn started(&self) {
        let mut notified = pin!(self.waiters.notified());
        let mut registered = false;
        poll_fn(|cx| {
            if !registered {
                registered = notified.as_mut().poll(cx).is_pending();
            }
            if self.started.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
