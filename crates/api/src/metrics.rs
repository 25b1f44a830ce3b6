//! Metrics of the API.

use std::{sync::OnceLock, time::Duration};

use super::{
    error::{ApiError, AuthFailure, StreamLimit},
    operation::{MAX_OPERATIONS, Operation},
    rate_limit::LimitKind,
};
use telemetry::metrics::{Counter, Histogram};

/// Every status that can be recorded, including 499.
const STATUSES: std::ops::Range<u16> = 100..600;

#[derive(Debug)]
struct ByOperation([OnceLock<Durations>; MAX_OPERATIONS + 1]);

impl Default for ByOperation {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

/// The durations of the requests for an operation. It is allocated by the first request that
/// needs it, and so is each histogram.
#[derive(Debug)]
struct Durations {
    operation: Option<&'static Operation>,
    by_status: Box<[OnceLock<Histogram>]>,
}

impl Durations {
    fn new(operation: Option<&'static Operation>) -> Self {
        Self {
            operation,
            by_status: STATUSES.map(|_| OnceLock::new()).collect(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Metrics {
    /// The durations by operation. The last row is for requests that match no operation.
    durations: ByOperation,
    /// Requests rejected with 401, by reason.
    auth_failures: [Counter; AuthFailure::ALL.len()],
    pub rate_limited_keys: Counter,
    pub rate_limited_addresses: Counter,
    /// Requests that were rejected because a limit on work in flight was reached.
    pub shed: Counter,
    /// Streams and long polls that were rejected, by the limit that was reached.
    rejected_streams: [Counter; StreamLimit::ALL.len()],
}

impl Metrics {
    pub fn record_request(
        &self,
        operation: Option<&'static Operation>,
        status: u16,
        duration: Duration,
    ) {
        let row = operation.map_or(MAX_OPERATIONS, |operation| operation.number);
        if STATUSES.contains(&status) {
            let durations = self.durations.0[row].get_or_init(|| Durations::new(operation));
            durations.by_status[usize::from(status - STATUSES.start)]
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
            ApiError::Overloaded(_) => self.shed.increment(),
            _ => {}
        }
    }

    /// Returns the number of requests rejected with 401 so far, by reason.
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

    /// Returns the number of streams and long polls rejected so far, by the limit that was
    /// reached.
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

    /// Returns the durations of all requests so far, by operation and status.
    pub fn durations(&self) -> impl Iterator<Item = (Option<&'static Operation>, u16, &Histogram)> {
        let rows = self.durations.0.iter().filter_map(OnceLock::get);
        rows.flat_map(|row| {
            let histograms = STATUSES.zip(&row.by_status);
            histograms
                .filter_map(|(status, histogram)| Some((row.operation, status, histogram.get()?)))
        })
    }
}
