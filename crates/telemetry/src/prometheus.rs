//! The Prometheus text exposition format, version 0.0.4.

use std::fmt::{Display, Write};

use super::metrics::Histogram;

pub type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// The text of a scrape, built one metric family after the other.
#[derive(Default)]
pub struct Exposition(String);

impl Exposition {
    pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    pub fn into_text(self) -> String {
        self.0
    }

    /// Adds a counter with one sample and no labels.
    pub fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.counters(name, help).sample(&[], value);
    }

    /// Adds a gauge with one sample and no labels.
    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.gauges(name, help).sample(&[], value);
    }

    pub fn counters(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    pub fn gauges(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    pub fn histograms(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        Family { name, text: self }
    }

    fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.0, "{line}");
    }
}

/// The samples of one metric, which differ in their labels.
pub struct Family<'a> {
    name: &'static str,
    text: &'a mut Exposition,
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels, value: impl Display) {
        self.line("", labels, value);
    }

    pub fn histogram(&mut self, labels: Labels, histogram: &Histogram) {
        let mut cumulative = 0;
        for (bound, count) in histogram.buckets() {
            cumulative += count;
            let bound = bound.map_or("+Inf".into(), |bound| bound.to_string());
            self.line("_bucket", &[labels, &[("le", &bound)]].concat(), cumulative);
        }
        self.line("_sum", labels, histogram.sum());
        self.line("_count", labels, cumulative);
    }

    /// Label values need no escaping: they are our own names and numbers.
    fn line(&mut self, suffix: &str, labels: Labels, value: impl Display) {
        let name = self.name;
        if labels.is_empty() {
            return self.text.line(format_args!("{name}{suffix} {value}"));
        }
        let pairs: Vec<_> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        let labels = pairs.join(",");
        self.text
            .line(format_args!("{name}{suffix}{{{labels}}} {value}"));
    }
}
