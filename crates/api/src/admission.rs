//! Admission control: load shedding before a request's body is read, and a separate
//! limit for slow bodies.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::{Instant, timeout, timeout_at};

use super::{context::Wait, error::ApiError};

/// The time after which a request with a slow body gives up its in-flight permit.
const SLOW_BODY: Duration = Duration::from_millis(100);

/// Limits on concurrent requests, and the timeout of their bodies.
#[derive(Debug, Clone)]
pub struct AdmissionLimits {
    /// Authorized requests in flight. Any further request is shed immediately: a queue would hold
    /// memory, and respond too late.
    pub max_in_flight: usize,
    /// Requests that wait for a slow body. They do not count as in flight.
    pub max_slow_bodies: usize,
    pub body_timeout: Duration,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            max_in_flight: 4096,
            max_slow_bodies: 2048,
            body_timeout: Duration::from_secs(30),
        }
    }
}

pub struct Admission {
    in_flight: Permits,
    slow_bodies: Permits,
    body_timeout: Duration,
}

impl Admission {
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            in_flight: Permits::new(limits.max_in_flight),
            slow_bodies: Permits::new(limits.max_slow_bodies),
            body_timeout: limits.body_timeout,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.taken.load(Relaxed)
    }

    /// Admits a request, or sheds it if too many are in flight.
    pub fn admit(&self) -> Result<InFlight<'_>, ApiError> {
        Ok(InFlight {
            admission: self,
            permit: Some(self.in_flight.acquire()?),
        })
    }
}

/// A semaphore without waiters, which therefore needs no lock.
struct Permits {
    max: usize,
    taken: AtomicUsize,
}

struct Permit<'a>(&'a AtomicUsize);

impl Permits {
    fn new(max: usize) -> Self {
        Self {
            max,
            taken: AtomicUsize::new(0),
        }
    }

    fn acquire(&self) -> Result<Permit<'_>, ApiError> {
        let taken = self.taken.fetch_add(1, Relaxed);
        let permit = Permit(&self.taken);
        if taken < self.max {
            Ok(permit)
        } else {
            Err(ApiError::TOO_MANY_REQUESTS)
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A request in flight. Dropping it releases its permit.
pub struct InFlight<'a> {
    admission: &'a Admission,
    permit: Option<Permit<'a>>,
}

impl InFlight<'_> {
    /// Releases the permit. From then on, the request does not count as in flight.
    pub fn release(&mut self) {
        self.permit = None;
    }

    /// Waits for a request body. While a slow client sends it, others may use
    /// the in-flight permit.
    pub async fn receive<T>(
        &mut self,
        body: impl Future<Output = T>,
        wait: &mut Wait,
    ) -> Result<T, ApiError> {
        self.receive_within(Duration::ZERO, body, wait).await
    }

    /// Waits for a request body that may take longer than others by `grace`.
    pub async fn receive_within<T>(
        &mut self,
        grace: Duration,
        body: impl Future<Output = T>,
        wait: &mut Wait,
    ) -> Result<T, ApiError> {
        let started = Instant::now();
        *wait = Wait::Since(started.into_std());
        let mut body = pin!(body);
        let mut received = timeout_at(started + SLOW_BODY, &mut body).await;
        if received.is_err() {
            let _slow = self.admission.slow_bodies.acquire()?;
            self.permit = None;
            received = timeout(self.admission.body_timeout + grace, body).await;
        }
        wait.end();
        if self.permit.is_none() {
            self.permit = Some(self.admission.in_flight.acquire()?);
        }
        received.map_err(|_| ApiError::RequestTimeout("body: not received in time"))
    }
}
