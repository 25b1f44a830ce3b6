//! Single-flight: concurrent callers share one run of an operation and its result.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Mutex,
    task::JoinError,
    time::{Instant, sleep_until},
};

/// Runs an operation once at a time. However many call while a run is in flight, they
/// wait for it and one more.
pub struct SingleFlight<T> {
    /// How long a result is reused.
    max_age: Duration,
    /// The minimum time between the starts of two runs.
    min_interval: Duration,
    /// When the last run started, and its result. Locked while one is in flight.
    last: Arc<Mutex<Option<(Instant, T)>>>,
}

impl<T: Clone + Send + 'static> SingleFlight<T> {
    /// A result is reused for a while.
    pub fn reusing(max_age: Duration) -> Self {
        Self::new(max_age, Duration::ZERO)
    }

    /// Runs start at intervals.
    pub fn spaced(min_interval: Duration) -> Self {
        Self::new(Duration::ZERO, min_interval)
    }

    fn new(max_age: Duration, min_interval: Duration) -> Self {
        Self {
            max_age,
            min_interval,
            last: Arc::default(),
        }
    }

    /// The result of a run that started after this call, or within the maximum age
    /// before it. It is an error if the operation panics.
    pub async fn run(
        &self,
        operation: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        let called = Instant::now();
        let mut last = self.last.clone().lock_owned().await;
        if let Some((started, result)) = &*last {
            if *started >= called || called - *started < self.max_age {
                return Ok(result.clone());
            }
            sleep_until(*started + self.min_interval).await;
        }
        // A task of its own: a client that disconnects must not cancel what others
        // wait for.
        let run = tokio::spawn(async move {
            let started = Instant::now();
            let result = operation.await;
            last.insert((started, result)).1.clone()
        });
        run.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{FutureExt, future::join_all};
    use tokio::sync::Semaphore;

    use super::*;

    /// Probes that end when they are allowed to, and return their number.
    struct Probes {
        shared: SingleFlight<&'static str>,
        started: Arc<AtomicUsize>,
        may_end: Arc<Semaphore>,
    }

    impl Probes {
        fn new(interval: Duration) -> Self {
            Self {
                shared: SingleFlight::reusing(interval),
                started: Arc::default(),
                may_end: Arc::new(Semaphore::new(0)),
            }
        }

        async fn ask(&self) -> &'static str {
            let (started, may_end) = (self.started.clone(), self.may_end.clone());
            let probe = async move {
                let number = started.fetch_add(1, Ordering::Relaxed);
                may_end.acquire().await.unwrap().forget();
                ["first", "second", "later"][number.min(2)]
            };
            self.shared.run(probe).await.unwrap()
        }

        async fn wait_until_started(&self, count: usize) {
            while self.started.load(Ordering::Relaxed) < count {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn all_who_ask_during_a_probe_share_the_next_one() {
        let probes = Probes::new(Duration::ZERO);
        let late = async {
            probes.wait_until_started(1).await;
            join_all((0..20).map(|_| probes.ask())).await
        };
        let release = async {
            probes.wait_until_started(1).await;
            tokio::task::yield_now().await;
            probes.may_end.add_permits(100);
        };
        let (first, late, ()) = tokio::join!(probes.ask(), late, release);
        assert_eq!((first, late), ("first", vec!["second"; 20]));
        assert_eq!(probes.started.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_probe_outlives_the_client_that_started_it() {
        let probes = Probes::new(Duration::MAX);
        assert_eq!(probes.ask().now_or_never(), None);
        probes.wait_until_started(1).await;
        probes.may_end.add_permits(1);
        assert_eq!(probes.ask().await, "first");
    }

    #[tokio::test]
    async fn a_recent_result_is_reused() {
        for (interval, last) in [(Duration::MAX, "first"), (Duration::ZERO, "second")] {
            let probes = Probes::new(interval);
            probes.may_end.add_permits(2);
            assert_eq!(probes.ask().await, "first");
            assert_eq!(probes.ask().await, last);
        }
    }
}
