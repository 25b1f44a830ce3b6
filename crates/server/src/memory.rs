//! The memory that the requests and responses of all connections may hold.
//!
//! A client decides for how long its request and its response stay in memory: it may send
//! slowly, read slowly, or close the flow-control window of HTTP/2. A limit for each
//! connection multiplies with their number, so all connections share one budget. Beyond
//! it, those that hold most are closed (see `Connections::enforce_memory_budget`).

use std::sync::{Arc, atomic::Ordering::Relaxed};

use tokio::sync::Notify;

use super::Metrics;

/// Each connection is charged in units of this size, and has the first unit for free: a
/// counter that all connections change with every request would be contended.
const UNIT: usize = 16 << 10;

pub struct MemoryBudget {
    limit: usize,
    /// Counts the memory in use.
    metrics: Arc<Metrics>,
    exceeded: Notify,
}

impl MemoryBudget {
    pub fn new(limit: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            limit,
            metrics,
            exceeded: Notify::new(),
        }
    }

    /// The charge for a connection that holds this many bytes.
    pub fn charge(held: usize) -> usize {
        held - held % UNIT
    }

    /// Charges a connection for the difference between what it held and what it holds.
    pub fn change(&self, before: usize, after: usize) {
        let used = &self.metrics.held_bytes;
        let added = Self::charge(after) as i64 - Self::charge(before) as i64;
        // Another change of the same connection may be counted first, so the sum can be negative.
        if added != 0 && used.fetch_add(added, Relaxed) + added > self.limit as i64 {
            self.exceeded.notify_one();
        }
    }

    /// Returns true if connections hold twice the budget: clients send requests faster than the
    /// connections that were reset release their memory.
    pub fn is_far_exceeded(&self) -> bool {
        self.metrics.held_bytes.load(Relaxed) > 2 * self.limit as i64
    }

    /// Completes when the budget has been exceeded.
    pub async fn exceeded(&self) {
        self.exceeded.notified().await;
    }

    pub fn limit(&self) -> usize {
        self.limit
    }
}
