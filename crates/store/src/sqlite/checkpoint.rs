//! Checkpoints: the writer copies the WAL into the database file.
//!
//! SQLite's automatic checkpoint ignores its errors. The writer therefore
//! checkpoints by itself, after it has responded to its callers.

use std::{
    fmt::Display,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use rusqlite::{Connection, DEFAULT_NAME, wal::CheckpointMode};

use super::super::metrics::WalMetrics;
use telemetry::error_latch::ErrorLatch;

/// The growth of the WAL between checkpoints: the same as SQLite's default.
const INTERVAL: i64 = 4 << 20;
/// The pause after a failed checkpoint.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The pause while another process is in the way.
const POSTPONE_DELAY: Duration = Duration::from_millis(100);
/// The header of the WAL, and the one in front of each page in it.
const WAL_HEADER: i64 = 32;
const FRAME_HEADER: i64 = 24;

/// Decides when to checkpoint, and records the result.
pub(super) struct Checkpoints {
    wal: Arc<WalMetrics>,
    /// The size of the WAL at the last attempt.
    last_size: i64,
    /// The time of the next attempt, after a failure or a delay.
    retry_at: Option<Instant>,
    failures: ErrorLatch,
    delays: ErrorLatch,
}

impl Checkpoints {
    pub(super) fn new(wal: Arc<WalMetrics>) -> Self {
        Self {
            wal,
            last_size: 0,
            retry_at: None,
            failures: ErrorLatch::new("checkpoint"),
            delays: ErrorLatch::new("rebuilding the WAL index for a checkpoint"),
        }
    }

    /// Observes the size of the WAL after each commit of the connection.
    pub(super) fn observe(&self, db: &mut Connection) -> rusqlite::Result<()> {
        let frame = frame_size(db)?;
        let wal = self.wal.clone();
        db.wal_hook(Some(move |_: &mut _, frames| {
            wal.size.set(i64::from(frames) * frame);
            Ok(())
        }))
    }

    pub(super) fn is_due(&self) -> bool {
        if let Some(retry_at) = self.retry_at {
            return Instant::now() >= retry_at;
        }
        match self.wal.size.get() {
            // The WAL was reset, and starts again.
            size if size < self.last_size => size >= INTERVAL,
            size => size - self.last_size >= INTERVAL,
        }
    }

    /// Copies as many frames as the readers allow. After an error, the WAL index
    /// must not be used for another checkpoint.
    pub(super) fn run(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let result = checkpoint(db);
        self.last_size = self.wal.size.get();
        self.retry_at = match &result {
            Ok(_) => None,
            Err(_) => Some(Instant::now() + RETRY_DELAY),
        };
        self.wal.checkpoints.increment();
        if result.is_err() {
            self.wal.checkpoint_failures.increment();
        }
        self.wal.failing.store(result.is_err(), Ordering::Relaxed);
        self.failures.observe(result.as_ref());
        self.delays.observe(Ok::<_, &str>(()));
        result.map(drop)
    }

    /// Delays a checkpoint, because another process has the file open, or the disk fails.
    pub(super) fn postpone(&mut self, cause: impl Display) {
        self.delays.observe(Err::<(), _>(cause));
        self.retry_at = Some(Instant::now() + POSTPONE_DELAY);
    }
}

/// Checkpoints without waiting for readers. Returns whether the whole WAL is in the
/// database file now.
pub(super) fn checkpoint(db: &Connection) -> rusqlite::Result<bool> {
    let (frames, copied) = db.wal_checkpoint_v2(DEFAULT_NAME, CheckpointMode::PASSIVE)?;
    Ok(frames == copied)
}

/// Returns the length of the WAL up to its last commit. The bytes after it are stale. Other
/// processes may append to it; this connection must not be in a transaction.
pub(super) fn wal_length(db: &Connection) -> rusqlite::Result<u64> {
    let (frames, _) = db.wal_checkpoint_v2(DEFAULT_NAME, CheckpointMode::NOOP)?;
    let length = match frames {
        0 => 0,
        frames => WAL_HEADER + i64::from(frames) * frame_size(db)?,
    };
    Ok(u64::try_from(length).expect("the database is in WAL mode"))
}

fn frame_size(db: &Connection) -> rusqlite::Result<i64> {
    let page: i64 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(page + FRAME_HEADER)
}
