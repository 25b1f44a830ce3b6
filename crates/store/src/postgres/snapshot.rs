//! The version of the store: a number for the server's current snapshot.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::{
    super::{Version, error::Error},
    connect::Connector,
    pool::{LOCK, Pool},
    read_first,
};

statements! {
    SNAPSHOT() = "SELECT concat_ws(' ', pg_current_snapshot(), pg_backend_pid(),
                                   pg_postmaster_start_time())
                  WHERE NOT pg_is_in_recovery()";
}

/// Numbers the snapshots of the server in the order in which they were seen.
///
/// A snapshot determines which transactions are visible: those below its upper bound, without
/// those that it lists as in progress. Equal snapshots therefore see the same rows. A
/// commit is part of every snapshot that is taken after it was acknowledged, and a
/// transaction that only reads changes none. What was read after a snapshot was taken is
/// still valid if the snapshot has not changed: the set of visible transactions only grows,
/// so the read saw exactly that one.
///
/// Transaction ids may be used again after a crash or on a promoted standby, so the number
/// also changes with the session and the start of the server. A standby does not list the
/// transactions in progress: it has no number.
#[derive(Debug)]
pub(super) struct SnapshotNumber {
    /// One connection, because another session would get another number.
    pub(super) pool: Pool,
    last: Mutex<String>,
    number: AtomicU64,
}

impl SnapshotNumber {
    pub(super) fn new(connector: &Connector) -> Self {
        Self {
            pool: Pool::new(connector, 1),
            last: Mutex::default(),
            number: AtomicU64::new(0),
        }
    }

    /// Returns the number of the last snapshot that was seen.
    pub(super) fn last_known(&self) -> Version {
        let number = self.number.load(Ordering::Acquire);
        Version {
            inserts: number,
            updates: number,
        }
    }

    /// Returns the number of the current snapshot.
    pub(super) async fn current(&self) -> Result<Version, Error> {
        let rows = self.pool.read(&SNAPSHOT, &[]).await?;
        let snapshot: String = read_first(&rows)?;
        let mut last = self.last.lock().expect(LOCK);
        if *last != snapshot {
            *last = snapshot;
            self.number.fetch_add(1, Ordering::Release);
        }
        Ok(self.last_known())
    }
}
