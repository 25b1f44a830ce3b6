//! The watermark of the event log: the number up to which the order of events is final.
//!
//! Numbers are drawn before commit, so a transaction in progress may still add an event before
//! one that is already visible. A transaction that has drawn a number holds ROW EXCLUSIVE on
//! the table until it has ended and is visible. So a poll (1) reads the last number drawn, and
//! then (2) reads which transactions hold that lock. Once all of them are over, every number
//! up to that one has been committed or will never be used. No writer waits.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// The maximum number of pending numbers. More are not needed: those before the last one are
/// stable with it at the latest.
const MAX_PENDING: usize = 16;

/// The transactions that hold the lock, by `pg_locks.virtualtransaction`, with the process
/// id of the server's session. A prepared transaction has no session any more, but keeps its
/// virtual transaction id (since PostgreSQL 14) until the server crashes.
pub(super) type Holders = HashMap<String, Option<i64>>;

#[derive(Debug, Default)]
pub(super) struct Watermark {
    /// The server that all of this was read from, and its last start or crash. After a
    /// failover, another server may give the same numbers to other events; after a crash,
    /// a prepared transaction has another virtual transaction id.
    pub(super) server: i64,
    /// The last number drawn, as read last.
    pub(super) last: i64,
    /// Every number up to this one is stable.
    pub(super) stable: i64,
    /// Numbers that wait for transactions, in ascending order.
    pending: VecDeque<PendingNumber>,
}

#[derive(Debug)]
struct PendingNumber {
    last: i64,
    since: Instant,
    holders: Holders,
}

impl Watermark {
    /// Step 1. `stable` is a number up to which everything is known to be stable. Returns
    /// whether step 2 has to follow.
    pub(super) fn begin(&mut self, server: i64, last: i64, stable: i64) -> bool {
        // Numbers never go backwards, unless this is another server, or the sequence was
        // reset: what is known here is no longer valid.
        if server != self.server || last < self.last {
            *self = Self {
                server,
                stable: stable.min(last),
                ..Self::default()
            };
        }
        self.last = last;
        last > self.stable || !self.pending.is_empty()
    }

    /// Step 2.
    pub(super) fn finish(&mut self, holders: &Holders, now: Instant) {
        for PendingNumber { holders: left, .. } in &mut self.pending {
            left.retain(|holder, _| holders.contains_key(holder));
        }
        let newest = self.pending.back();
        let is_new = newest.is_none_or(|newest| newest.last < self.last);
        if is_new && self.last > self.stable && self.pending.len() < MAX_PENDING {
            self.pending.push_back(PendingNumber {
                last: self.last,
                since: now,
                holders: holders.clone(),
            });
        }
        // If a later one has no holders left, neither have those before it.
        while self
            .pending
            .front()
            .is_some_and(|oldest| oldest.holders.is_empty())
        {
            self.stable = self.pending.pop_front().map_or(0, |oldest| oldest.last);
        }
    }

    /// Returns how long the oldest pending number has been unstable, and a session that holds
    /// it back; `None` for a prepared transaction.
    pub(super) fn lag(&self, now: Instant) -> Option<(Duration, Option<i64>)> {
        let oldest = self.pending.front()?;
        let pid = oldest.holders.values().flatten().next();
        Some((now.duration_since(oldest.since), pid.copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: i64 = 1;

    fn poll(watermark: &mut Watermark, server: i64, last: i64, holders: &[&str]) -> i64 {
        if watermark.begin(server, last, 0) {
            let holders = holders.iter().map(|holder| (holder.to_string(), None));
            watermark.finish(&holders.collect(), Instant::now());
        }
        watermark.stable
    }

    #[test]
    fn numbers_are_stable_once_their_holders_are_gone() {
        let mut watermark = Watermark::default();
        assert_eq!(poll(&mut watermark, SERVER, 5, &[]), 5);
        assert_eq!(poll(&mut watermark, SERVER, 7, &["3/1"]), 5);
        assert_eq!(poll(&mut watermark, SERVER, 9, &["3/1", "4/1"]), 5);
        // The first transaction is over. The second may have drawn 8 or 9, not 7.
        assert_eq!(poll(&mut watermark, SERVER, 9, &["4/1", "5/1"]), 7);
        assert_eq!(poll(&mut watermark, SERVER, 9, &["4/2", "5/1"]), 9);
        assert!(!watermark.begin(SERVER, 9, 0));
    }

    #[test]
    fn what_others_know_to_be_stable_is_known_from_the_start() {
        let mut watermark = Watermark::default();
        assert!(watermark.begin(SERVER, 9, 7));
        let holders = HashMap::from([("3/1".into(), None)]);
        watermark.finish(&holders, Instant::now());
        assert_eq!(watermark.stable, 7);
        assert_eq!(poll(&mut watermark, SERVER, 9, &[]), 9);
        // The log was reset.
        assert!(!watermark.begin(SERVER, 2, 7));
        assert_eq!(watermark.stable, 2);
    }

    #[test]
    fn nothing_is_stable_on_another_server() {
        let mut watermark = Watermark::default();
        assert_eq!(poll(&mut watermark, SERVER, 5, &[]), 5);
        assert_eq!(poll(&mut watermark, SERVER + 1, 4, &["3/1"]), 0);
        assert_eq!(poll(&mut watermark, SERVER + 1, 6, &["3/1"]), 0);
        assert_eq!(poll(&mut watermark, SERVER + 1, 6, &[]), 6);
    }

    #[test]
    fn an_open_transaction_does_not_fill_memory() {
        let mut watermark = Watermark::default();
        for last in 1..1000 {
            assert_eq!(poll(&mut watermark, SERVER, last, &["3/1"]), 0);
        }
        assert_eq!(watermark.pending.len(), MAX_PENDING);
        assert_eq!(poll(&mut watermark, SERVER, 1000, &[]), 16);
        assert_eq!(poll(&mut watermark, SERVER, 1000, &[]), 1000);
    }
}
