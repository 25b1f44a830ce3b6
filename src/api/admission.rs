//! Admission control: load shedding before a request's body is read, and a separate
//! limit for slow bodies.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{context::Wait, error::ApiError};

/// How long a body may take before its request gives up its in-flight permit.
const SLOW_BODY: Duration = Duration::from_millis(100);

/// How many requests are served at a time, and how long their bodies may take.
#[derive(Debug, Clone)]
pub struct AdmissionLimits {
    /// Authorized requests in flight. One more is shed at once: a queue would
    /// hold memory, and respond too late.
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
    in_flight: Semaphore,
    slow_bodies: Semaphore,
    limits: AdmissionLimits,
}

impl Admission {
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            in_flight: Semaphore::new(limits.max_in_flight),
            slow_bodies: Semaphore::new(limits.max_slow_bodies),
            limits,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.limits.max_in_flight - self.in_flight.available_permits()
    }

    /// Admits a request, or sheds it if too many are in flight.
    pub fn admit(&self) -> Result<InFlight<'_>, ApiError> {
        Ok(InFlight {
            admission: self,
            permit: Some(self.acquire()?),
        })
    }

    fn acquire(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.in_flight
            .try_acquire()
            .map_err(|_| ApiError::Overloaded)
    }
}

/// A request in flight, until it is dropped.
pub struct InFlight<'a> {
    admission: &'a Admission,
    permit: Option<SemaphorePermit<'a>>,
}

impl InFlight<'_> {
    /// From now on the request does not count as in flight.
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
        *wait = Wait::Since(Instant::now());
        let mut body = pin!(body);
        let mut received = timeout(SLOW_BODY, &mut body).await;
        if received.is_err() {
            let slow = self.admission.slow_bodies.try_acquire();
            let _slow = slow.map_err(|_| ApiError::Overloaded)?;
            self.permit = None;
            received = timeout(self.admission.limits.body_timeout, body).await;
        }
        wait.end();
        if self.permit.is_none() {
            self.permit = Some(self.admission.acquire()?);
        }
        received.map_err(|_| ApiError::RequestTimeout("body: not received in time"))
    }
}
