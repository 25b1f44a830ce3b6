//! The clock of the database server, as this process knows it. Replicas schedule deliveries for
//! each other, so all of them follow this clock instead of their own.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    /// The lead of the server's clock over the system clock, in microseconds.
    ahead: AtomicI64,
}

impl ServerClock {
    /// Compares the clocks. The server has read its own, in microseconds since the Unix
    /// epoch, after `sent` and before `received`.
    pub(crate) fn observe(&self, sent: Timestamp, server: i64, received: Timestamp) {
        let sent = sent.as_microsecond();
        let received = received.as_microsecond();
        let nearest = server.clamp(sent, received.max(sent));
        let ahead = server.saturating_sub(nearest);
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    pub(crate) fn offset(&self) -> SignedDuration {
        SignedDuration::from_micros(self.ahead.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks that agree do not differ, however long the response takes.
    #[test]
    fn clocks_are_compared() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let clock = ServerClock::default();
        for (server, ahead) in [(100, 0), (105, 0), (109, 0), (90, -10), (119, 10)] {
            clock.observe(second(100), server * 1_000_000, second(109));
            assert_eq!(clock.offset(), SignedDuration::from_secs(ahead), "{server}");
        }
        // The system clock was set back in between.
        clock.observe(second(100), 100_000_000, second(50));
        assert_eq!(clock.offset(), SignedDuration::ZERO);
    }
}
