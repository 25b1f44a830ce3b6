//! Single-flight: concurrent callers share one run of an operation and its result.

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    task::JoinError,
    time::{Instant, sleep_until},
};

const LOCK: &str = "no thread panics while holding the lock";

/// Runs one operation at a time, for all callers that wait for it.
///
/// A caller joins a *flight*: the callers that share a run. The flight is open to others
/// until its operation starts, so its result is never older than the call. Callers that
/// arrive later join the next flight, which waits until the current one has ended.
///
/// The first caller of a flight is its leader and runs the operation that it brought. If the
/// leader is cancelled or panics, the next caller in line becomes the leader.
#[derive(Debug, Clone)]
pub struct SingleFlight<T>(Arc<Flights<T>>);

#[derive(Debug)]
struct Flights<T> {
    /// The maximum age of a run, from its start, at which later callers share it.
    max_age: Duration,
    /// The minimum time between the starts of two runs.
    min_interval: Duration,
    /// Its only permit is taken while an operation runs.
    idle: Semaphore,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// The flight that callers join. Its operation has not started.
    next: Option<Arc<Flight<T>>>,
    /// The start of the last run.
    started: Option<Instant>,
    /// The flight of the last run, while a caller or `reusable` keeps it.
    last: Weak<Flight<T>>,
    /// Keeps the last result in memory, if callers reuse it.
    reusable: Option<Arc<Flight<T>>>,
}

#[derive(Debug)]
struct Flight<T> {
    /// Its only permit makes its holder the leader. Closed once there is a result, which
    /// wakes all followers.
    leader: Semaphore,
    result: OnceLock<T>,
}

/// The role of a caller in its flight.
pub enum Turn<T> {
    /// The caller runs the operation.
    Leader(Leader<T>),
    /// The caller shares the result of the leader.
    Follower(T),
}

/// Leads a flight. If it is dropped before it has finished, the next caller leads.
pub struct Leader<T> {
    flights: Arc<Flights<T>>,
    flight: Arc<Flight<T>>,
}

impl<T> SingleFlight<T> {
    /// Creates an instance that also shares a run with callers that arrive up to `max_age` after
    /// its start.
    pub fn reusing(max_age: Duration) -> Self {
        Self::with(max_age, Duration::ZERO)
    }

    /// Creates an instance that leaves at least `min_interval` between the starts of two runs.
    pub fn spaced(min_interval: Duration) -> Self {
        Self::with(Duration::ZERO, min_interval)
    }

    fn with(max_age: Duration, min_interval: Duration) -> Self {
        Self(Arc::new(Flights {
            max_age,
            min_interval,
            idle: Semaphore::new(1),
            state: Mutex::new(State {
                next: None,
                started: None,
                last: Weak::new(),
                reusable: None,
            }),
        }))
    }
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self::with(Duration::ZERO, Duration::ZERO)
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Waits for the result of a run that started after `called`, or to lead one. The time of
    /// the call is earlier than now if the caller has waited for something else since.
    pub async fn join(&self, called: Instant) -> Turn<T> {
        let flights = &*self.0;
        let flight = flights.open_flight(called);
        let Ok(leader) = flight.leader.acquire().await else {
            let result = flight.result.get().cloned();
            return Turn::Follower(result.expect("a flight is closed with a result"));
        };
        let idle = flights.idle.acquire().await.expect("it is never closed");
        let last_start = flights.state.lock().expect(LOCK).started;
        if let Some(last_start) = last_start
            && !flights.min_interval.is_zero()
        {
            sleep_until(last_start + flights.min_interval).await;
        }
        flights.start(&flight);
        leader.forget();
        idle.forget();
        Turn::Leader(Leader {
            flights: self.0.clone(),
            flight,
        })
    }

    /// Runs the operation as part of the leader, so a leader that is cancelled cancels it, and
    /// the next caller runs its own.
    pub async fn run(&self, operation: impl Future<Output = T>) -> T {
        match self.join(Instant::now()).await {
            Turn::Leader(leader) => leader.finish(operation.await),
            Turn::Follower(result) => result,
        }
    }

    /// Runs the operation in a task of its own, which continues if the leader is cancelled: a
    /// client that disconnects does not cancel what others wait for. Returns an error if the
    /// operation of this caller panics.
    pub async fn spawn<F>(&self, operation: impl FnOnce() -> F) -> Result<T, JoinError>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + Sync + 'static,
    {
        match self.join(Instant::now()).await {
            Turn::Leader(leader) => {
                let operation = operation();
                tokio::spawn(async move { leader.finish(operation.await) }).await
            }
            Turn::Follower(result) => Ok(result),
        }
    }
}

impl<T> Flights<T> {
    /// Returns the last flight if it is recent enough, or else the next one.
    fn open_flight(&self, called: Instant) -> Arc<Flight<T>> {
        let mut state = self.state.lock().expect(LOCK);
        let is_recent = |started| started > called || called - started < self.max_age;
        if state.started.is_some_and(is_recent)
            && let Some(last) = state.last.upgrade()
        {
            return last;
        }
        let next = state.next.get_or_insert_with(|| {
            Arc::new(Flight {
                leader: Semaphore::new(1),
                result: OnceLock::new(),
            })
        });
        next.clone()
    }

    /// Closes a flight to callers that arrive from now on.
    fn start(&self, flight: &Arc<Flight<T>>) {
        let mut state = self.state.lock().expect(LOCK);
        state.next.take_if(|next| Arc::ptr_eq(next, flight));
        state.started = Some(Instant::now());
        state.last = Arc::downgrade(flight);
        if !self.max_age.is_zero() {
            state.reusable = Some(flight.clone());
        }
    }
}

impl<T: Clone> Leader<T> {
    /// Gives the result to all callers of the flight, and returns it.
    pub fn finish(self, result: T) -> T {
        let result = self.flight.result.get_or_init(|| result).clone();
        self.flight.leader.close();
        result
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        self.flight.leader.add_permits(1);
        self.flights.idle.add_permits(1);
    }
}

#[cfg(test)]
mod tests;
