//! The version of the store, for cache validation.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::Version;

/// Counts the commits that changed rows that may be cached. Only the writer thread advances
/// it.
#[derive(Debug, Default)]
pub(super) struct VersionCounter {
    inserts: AtomicU64,
    updates: AtomicU64,
}

impl VersionCounter {
    pub(super) fn get(&self) -> Version {
        Version {
            inserts: self.inserts.load(Ordering::Acquire),
            updates: self.updates.load(Ordering::Acquire),
        }
    }

    pub(super) fn advance(&self, has_inserts: bool, has_updates: bool) {
        if has_inserts {
            self.inserts.fetch_add(1, Ordering::Release);
        }
        if has_updates {
            self.updates.fetch_add(1, Ordering::Release);
        }
    }
}
