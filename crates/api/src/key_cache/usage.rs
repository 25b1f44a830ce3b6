//! The usage of an API key, which is written back to the database.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
};

use jiff::Timestamp;

use super::super::rate_limit::ArrivalTime;
use domain::api_key::{ApiKey, ApiKeyUsage};
use store::scan_queue::ScanQueue;

/// The resolution of a key's last use, in microseconds.
const LAST_USED_RESOLUTION: i64 = 60_000_000;

/// The usage of a key while this process runs.
#[derive(Debug, Default)]
pub struct Usage {
    /// True if the key was used since the last flush. The flush dates the use, so that requests
    /// need not read the clock.
    used_since_flush: AtomicBool,
    /// Times are in microseconds since 1970; 0 if never.
    last_used: AtomicI64,
    deprecated_calls: AtomicI64,
    /// The number of those calls that are dated, and the time of the last one.
    dated_deprecated_calls: AtomicI64,
    last_deprecated_call: AtomicI64,
    /// The number of those calls that were written to the database.
    flushed_deprecated_calls: AtomicI64,
    pub rate_limit: ArrivalTime,
    pub scans: Arc<ScanQueue>,
}

impl Usage {
    pub fn record_use(&self) {
        if !self.used_since_flush.load(Relaxed) {
            self.used_since_flush.store(true, Relaxed);
        }
    }

    /// Counts a call of a deprecated operation.
    pub fn count_deprecated_call(&self) {
        self.deprecated_calls.fetch_add(1, Relaxed);
    }

    /// Returns the number of calls of deprecated operations.
    pub fn deprecated_calls(&self) -> i64 {
        self.deprecated_calls.load(Relaxed)
    }

    /// Takes over a later use from the database, such as one at another replica.
    pub fn merge_last_used(&self, key: &ApiKey) {
        self.last_used.fetch_max(stored_last_use(key), Relaxed);
    }

    /// Returns the usage to write to the database, if there is any, and counts it as written: if
    /// the write is not awaited to its end, it still takes effect.
    pub fn flush(&self, key: &ApiKey, now: Timestamp) -> Option<ApiKeyUsage> {
        let mut last_used = self.last_used.load(Relaxed);
        if self.used_since_flush.swap(false, Relaxed)
            && now.as_microsecond() - last_used >= LAST_USED_RESOLUTION
        {
            last_used = now.as_microsecond();
            self.last_used.store(last_used, Relaxed);
        }
        let calls = self.deprecated_calls();
        if self.dated_deprecated_calls.swap(calls, Relaxed) != calls {
            self.last_deprecated_call
                .store(now.as_microsecond(), Relaxed);
        }
        let new_calls = calls - self.flushed_deprecated_calls.load(Relaxed);
        if last_used <= stored_last_use(key) && new_calls == 0 {
            return None;
        }
        let last_call = Timestamp::from_microsecond(self.last_deprecated_call.load(Relaxed)).ok();
        let usage = ApiKeyUsage {
            id: key.id,
            last_used_at: Timestamp::from_microsecond(last_used).ok()?,
            deprecated_calls: new_calls,
            last_deprecated_call_at: last_call.filter(|_| new_calls > 0),
        };
        self.flushed_deprecated_calls.fetch_add(new_calls, Relaxed);
        Some(usage)
    }

    /// Counts usage as not written, because the write failed.
    pub fn undo_flush(&self, usage: &ApiKeyUsage) {
        self.flushed_deprecated_calls
            .fetch_sub(usage.deprecated_calls, Relaxed);
    }
}

fn stored_last_use(key: &ApiKey) -> i64 {
    key.last_used_at.map_or(0, Timestamp::as_microsecond)
}
