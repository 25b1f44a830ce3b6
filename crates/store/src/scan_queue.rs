//! Turns to scan: readers of much data wait for each other, so that the read of another client is
//! never queued behind more than one read of a scan.

use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

/// The maximum number of pages of events that are read concurrently with one API key. A page of
/// events is the longest read there is, and a key that requests a thousand must not delay the reads
/// of others.
const MAX_PAGES_AT_A_TIME: usize = 2;

/// A queue of readers that scan: one for each API key, and one for all webhooks. Readers of one
/// queue are served first come, first served, and the queues take turns.
#[derive(Debug)]
pub struct ScanQueue {
    /// Held by the reader at the head of the queue. Only that one waits for the scan of the whole
    /// process, so a long queue has no advantage over a short one.
    pub(super) turn: Mutex<()>,
    /// Limits the number of pages that are read concurrently.
    pages: Semaphore,
    /// Held while a report is made.
    report: Mutex<()>,
}

impl Default for ScanQueue {
    fn default() -> Self {
        Self {
            turn: Mutex::default(),
            pages: Semaphore::new(MAX_PAGES_AT_A_TIME),
            report: Mutex::default(),
        }
    }
}

impl ScanQueue {
    /// Starts to read a page, unless too many are being read with this key.
    pub fn try_read_page(&self) -> Option<SemaphorePermit<'_>> {
        self.pages.try_acquire().ok()
    }

    /// Waits until fewer pages are being read with this key, first come, first served.
    pub async fn read_page(&self) -> SemaphorePermit<'_> {
        let permit = self.pages.acquire().await;
        permit.expect("the semaphore is never closed")
    }

    /// Starts to make a report, unless one is being made with this key.
    pub fn try_make_report(&self) -> Option<MakingReport<'_>> {
        self.report.try_lock().ok().map(MakingReport)
    }

    /// Waits until no report is being made with this key, first come, first served.
    pub async fn make_report(&self) -> MakingReport<'_> {
        MakingReport(self.report.lock().await)
    }
}

/// The permission to make a report, one at a time with each key. Dropping it ends the report.
#[derive(Debug)]
pub struct MakingReport<'a>(#[expect(dead_code, reason = "it is held")] MutexGuard<'a, ()>);

/// The scans of the whole process: one reader at a time.
#[derive(Debug, Default)]
pub struct Scans {
    turn: Mutex<()>,
}

impl Scans {
    /// Waits for a turn to scan.
    pub async fn turn<'a>(&'a self, queue: &'a ScanQueue) -> Turn<'a> {
        Turn {
            _of_queue: queue.turn.lock().await,
            _of_all: self.turn.lock().await,
        }
    }
}

/// A reader's turn to scan. Dropping it ends the turn.
pub struct Turn<'a> {
    _of_queue: MutexGuard<'a, ()>,
    _of_all: MutexGuard<'a, ()>,
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_report_is_made_at_a_time_with_a_key() {
        let [busy, other] = [(); 2].map(|()| ScanQueue::default());
        let making = busy.try_make_report().unwrap();
        assert!(busy.try_make_report().is_none());
        assert!(busy.make_report().now_or_never().is_none());
        assert!(other.try_make_report().is_some());
        drop(making);
        assert!(busy.make_report().now_or_never().is_some());
    }
}
