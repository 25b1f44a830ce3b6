//! Metrics of the dispatcher.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;

use super::LOCK;
use domain::webhook::{WebhookId, schedule::Outcome};
use telemetry::metrics::{Counter, Gauge};

/// The maximum number of webhooks whose lag is exported: more would be too many time series.
const MAX_LAGS: usize = 20;

#[derive(Debug, Default)]
pub struct Metrics {
    pub attempts_in_flight: Gauge,
    pub attempts: Attempts,
    pub deliveries: Deliveries,
    lags: Mutex<HashMap<WebhookId, Arc<Lag>>>,
}

/// Attempts by outcome.
#[derive(Debug, Default)]
pub struct Attempts {
    pub delivered: Counter,
    pub failed: Counter,
    pub gone: Counter,
}

impl Attempts {
    pub fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => self.delivered.increment(),
            Outcome::Failed { .. } => self.failed.increment(),
            Outcome::Gone => self.gone.increment(),
        }
    }
}

/// The outcome of a delivery, after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Delivered,
    /// Scheduled for a retry.
    Retrying,
    /// Given up.
    Failed,
}

/// Counts events by outcome.
#[derive(Debug, Default)]
pub struct Deliveries {
    pub delivered: Counter,
    pub retrying: Counter,
    pub failed: Counter,
}

impl Deliveries {
    pub fn count(&self, outcome: DeliveryOutcome) {
        match outcome {
            DeliveryOutcome::Delivered => self.delivered.increment(),
            DeliveryOutcome::Retrying => self.retrying.increment(),
            DeliveryOutcome::Failed => self.failed.increment(),
        }
    }
}

/// The time of the oldest event that a webhook has not handled.
#[derive(Debug, Default)]
pub struct Lag(Mutex<Option<Timestamp>>);

impl Lag {
    pub fn set(&self, oldest: Option<Timestamp>) {
        *self.0.lock().expect(LOCK) = oldest;
    }

    fn seconds(&self, now: Timestamp) -> f64 {
        let oldest = *self.0.lock().expect(LOCK);
        oldest.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0))
    }
}

impl Metrics {
    /// Exports the lags of these webhooks.
    pub fn set_leased(&self, leased: HashMap<WebhookId, Arc<Lag>>) {
        *self.lags.lock().expect(LOCK) = leased;
    }

    pub fn leased(&self) -> usize {
        self.lags.lock().expect(LOCK).len()
    }

    /// Returns the webhooks that lag most, each with its lag in seconds.
    pub fn lags(&self, now: Timestamp) -> Vec<(WebhookId, f64)> {
        let leased = self.lags.lock().expect(LOCK);
        let mut lags: Vec<_> = leased
            .iter()
            .map(|(id, lag)| (*id, lag.seconds(now)))
            .collect();
        lags.sort_by(|(id, lag), (other_id, other)| {
            other.total_cmp(lag).then(id.get().cmp(&other_id.get()))
        });
        lags.truncate(MAX_LAGS);
        lags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lags_of_the_twenty_slowest_are_exported() {
        let metrics = Metrics::default();
        let second = |second| Timestamp::constant(second, 0);
        let lag = |id: i64| {
            let lag = Lag::default();
            lag.set((id != 7).then(|| second(id)));
            (WebhookId::from_store(id), Arc::new(lag))
        };
        metrics.set_leased((1..=30).map(lag).collect());
        assert_eq!(metrics.leased(), 30);
        let lags = metrics.lags(second(20));
        let shown: Vec<_> = lags.iter().map(|(id, lag)| (id.get(), *lag)).collect();
        // The clock may be behind that of the replica that made the event.
        let expected: Vec<_> = (1..20)
            .filter(|id| *id != 7)
            .map(|id| (id, 20.0 - id as f64))
            .chain([(7, 0.0), (20, 0.0)])
            .collect();
        assert_eq!(shown, expected);
    }
}
