//! Counters, gauges and histograms, cheap enough for the hot path: an update is
//! one or two relaxed atomic additions.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

/// A value that only goes up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds one until the guard is dropped.
    pub fn track(&self) -> GaugeGuard<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self)
    }

    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub struct GaugeGuard<'a>(&'a Gauge);

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A distribution of values over fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and one for values above the last bound.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// The number of observed units in one exported unit.
    scale: f64,
}

impl Histogram {
    /// Creates a histogram of durations, kept in microseconds and exported in seconds.
    pub fn durations() -> Self {
        const MICROSECONDS: &[u64] = &[
            100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
            1_000_000, 2_500_000, 5_000_000, 10_000_000,
        ];
        Self::new(MICROSECONDS, 1e6)
    }

    /// Creates a histogram of numbers of items.
    pub fn sizes() -> Self {
        Self::new(&[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], 1.0)
    }

    fn new(bounds: &'static [u64], scale: f64) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::default()).collect(),
            sum: AtomicU64::default(),
            scale,
        }
    }

    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_micros() as u64);
    }

    /// The upper bound of each bucket, in exported units, with its count; `None`
    /// for the last one, which has no bound.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        self.counts.iter().enumerate().map(|(bucket, count)| {
            let bound = self
                .bounds
                .get(bucket)
                .map(|bound| *bound as f64 / self.scale);
            (bound, count.load(Ordering::Relaxed))
        })
    }

    /// The sum of all values, in exported units.
    pub(super) fn sum(&self) -> f64 {
        self.sum.load(Ordering::Relaxed) as f64 / self.scale
    }
}
