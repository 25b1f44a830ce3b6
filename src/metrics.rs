//! Counting while the service runs, and writing it down as Prometheus reads it.

use std::{
    fmt::{Display, Write},
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many there are of something.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Counts one more, until what is given back is dropped.
    pub fn enter(&self) -> Inside<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Inside(self)
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub struct Inside<'a>(&'a Gauge);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often something was how large, in whole units.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and one for what is beyond.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// How many units make one of what is shown.
    scale: f64,
}

impl Histogram {
    /// Of times, in microseconds.
    pub fn of_times() -> Self {
        const BOUNDS: &[u64] = &[
            100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
            1_000_000, 2_500_000, 5_000_000, 10_000_000,
        ];
        Self::new(BOUNDS, 1e6)
    }

    /// Of numbers of things.
    pub fn of_counts() -> Self {
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

    pub fn observe_time(&self, time: Duration) {
        self.observe(time.as_micros() as u64);
    }
}

pub type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// The text that is given to Prometheus.
#[derive(Default)]
pub struct Exposition(String);

impl Exposition {
    pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    pub fn into_text(self) -> String {
        self.0
    }

    /// What the next samples are of.
    pub fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        Family { name, text: self }
    }

    /// A family with one number.
    pub fn number(&mut self, name: &'static str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.0, "{line}");
    }
}

pub struct Family<'a> {
    name: &'static str,
    text: &'a mut Exposition,
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels, value: impl Display) {
        self.part("", labels, value);
    }

    pub fn histogram(&mut self, labels: Labels, histogram: &Histogram) {
        let mut all = 0;
        for (number, count) in histogram.counts.iter().enumerate() {
            all += count.load(Ordering::Relaxed);
            let bound = match histogram.bounds.get(number) {
                Some(bound) => (*bound as f64 / histogram.scale).to_string(),
                None => "+Inf".into(),
            };
            self.part("_bucket", &[labels, &[("le", &bound)]].concat(), all);
        }
        let sum = histogram.sum.load(Ordering::Relaxed) as f64 / histogram.scale;
        self.part("_sum", labels, sum);
        self.part("_count", labels, all);
    }

    /// The values of labels are names and numbers of ours: nothing in them has
    /// to be escaped.
    fn part(&mut self, part: &str, labels: Labels, value: impl Display) {
        let name = self.name;
        if labels.is_empty() {
            return self.text.line(format_args!("{name}{part} {value}"));
        }
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        let labels = labels.join(",");
        self.text
            .line(format_args!("{name}{part}{{{labels}}} {value}"));
    }
}
