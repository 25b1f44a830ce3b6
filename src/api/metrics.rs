//! What the API counts.

use std::{sync::OnceLock, time::Duration};

use super::{
    error::{ApiError, AuthFailure, StreamLimit},
    operations::Operation,
    rate_limit::LimitKind,
};
use crate::telemetry::metrics::{Counter, Histogram};

/// Every status that can be recorded, including 499.
const STATUSES: std::ops::Range<u16> = 100..600;

#[derive(Debug)]
pub struct Metrics {
    /// By operation and status. A flat table, so that finding one costs an
    /// addition; a histogram is allocated when the first request needs it.
    durations: Box<[OnceLock<Histogram>]>,
    /// Requests rejected with 401, by reason.
    auth_failures: [Counter; AuthFailure::ALL.len()],
    pub rate_limited_keys: Counter,
    pub rate_limited_addresses: Counter,
    /// Requests that were rejected because too many were in flight or queued.
    pub shed: Counter,
    /// Streams and long polls that were rejected, by whose limit was reached.
    rejected_streams: [Counter; StreamLimit::ALL.len()],
}

impl Default for Metrics {
    fn default() -> Self {
        // One more row, for requests that are for no operation.
        let rows = Operation::ALL.len() + 1;
        Self {
            durations: (0..rows * STATUSES.len())
                .map(|_| OnceLock::new())
                .collect(),
            auth_failures: Default::default(),
            rate_limited_keys: Counter::default(),
            rate_limited_addresses: Counter::default(),
            shed: Counter::default(),
            rejected_streams: Default::default(),
        }
    }
}

impl Metrics {
    pub fn record_request(&self, operation: Option<Operation>, status: u16, duration: Duration) {
        let row = operation.map_or(Operation::ALL.len(), |operation| operation as usize);
        if STATUSES.contains(&status) {
            let column = usize::from(status - STATUSES.start);
            let histogram = &self.durations[row * STATUSES.len() + column];
            histogram
                .get_or_init(Histogram::durations)
                .observe_duration(duration);
        }
    }

    pub fn record_error(&self, error: &ApiError) {
        match error {
            ApiError::Unauthorized(failure) => self.auth_failures[*failure as usize].increment(),
            ApiError::RateLimited { kind, .. } => match kind {
                LimitKind::ApiKey => self.rate_limited_keys.increment(),
                LimitKind::Address => self.rate_limited_addresses.increment(),
            },
            ApiError::TooManyStreams { limit, .. } => {
                self.rejected_streams[*limit as usize].increment();
            }
            ApiError::Overloaded | ApiError::TooManyTests => self.shed.increment(),
            _ => {}
        }
    }

    /// The requests rejected with 401 so far, by reason.
    pub fn auth_failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AuthFailure::ALL.into_iter().map(|failure| {
            let reason = match failure {
                AuthFailure::Missing => "missing",
                AuthFailure::Repeated => "repeated",
                AuthFailure::Malformed => "malformed",
                AuthFailure::Unknown => "unknown",
                AuthFailure::Revoked => "revoked",
                AuthFailure::Expired => "expired",
            };
            (reason, self.auth_failures[failure as usize].get())
        })
    }

    /// The streams and long polls rejected so far, by whose limit was reached.
    pub fn rejected_streams(&self) -> impl Iterator<Item = (&'static str, u64)> {
        StreamLimit::ALL.into_iter().map(|limit| {
            let whose = match limit {
                StreamLimit::ApiKey => "api_key",
                StreamLimit::Address => "address",
                StreamLimit::All => "all",
            };
            (whose, self.rejected_streams[limit as usize].get())
        })
    }

    /// The durations of all requests so far, by operation and status.
    pub fn durations(&self) -> impl Iterator<Item = (Option<Operation>, u16, &Histogram)> {
        self.durations
            .iter()
            .enumerate()
            .filter_map(|(index, histogram)| {
                let (row, column) = (index / STATUSES.len(), index % STATUSES.len());
                let operation = Operation::ALL.get(row).copied();
                Some((operation, STATUSES.start + column as u16, histogram.get()?))
            })
    }
}
