//! The progress of an HTTP/1.1 connection in its current request.

use std::sync::atomic::{AtomicU32, Ordering};

use http::StatusCode;

/// The state of an HTTP/1.1 connection's current request, shared by the service
/// and the stream: two bits of phase, three flags, and the number of requests.
#[derive(Debug, Default)]
pub struct RequestState(AtomicU32);

impl RequestState {
    /// No byte of the next request has arrived.
    pub const IDLE: u32 = 0;
    /// A part of a request head has arrived.
    pub const HEAD: u32 = 1;
    /// The service has the request.
    pub const BUSY: u32 = 2;
    pub const PHASE: u32 = 3;
    /// The last request was rejected; its client may still be sending.
    pub const REJECTED: u32 = 4;
    /// The service has responded, and no byte of the response is written yet.
    pub const RESPONSE_READY: u32 = 8;
    /// HTTP/2: the stream cannot tell requests apart.
    const MULTIPLEXED: u32 = 16;
    const ONE_REQUEST: u32 = 32;

    pub fn set_multiplexed(&self) {
        self.0
            .store(Self::BUSY | Self::MULTIPLEXED, Ordering::Relaxed);
    }

    pub fn is_multiplexed(&self) -> bool {
        self.get() & Self::MULTIPLEXED != 0
    }

    pub fn begin(&self) {
        let flags = Self::PHASE | Self::REJECTED | Self::RESPONSE_READY;
        let next = (self.get() & !flags).wrapping_add(Self::ONE_REQUEST);
        self.0.store(next | Self::BUSY, Ordering::Relaxed);
    }

    pub fn end(&self, status: StatusCode) {
        let rejected = match status.as_u16() {
            400.. => Self::REJECTED,
            _ => 0,
        };
        self.set_phase(Self::IDLE | Self::RESPONSE_READY | rejected);
    }

    /// Returns true if the client has not sent a single byte yet.
    pub fn is_untouched(&self) -> bool {
        self.get() == Self::IDLE
    }

    /// Returns true if the client waits for the answer to a request that the service does not
    /// have yet: its first one, or one that has arrived in part.
    pub fn is_unanswered(&self) -> bool {
        self.is_untouched() || self.get() & Self::PHASE == Self::HEAD
    }

    pub fn is_idle(&self) -> bool {
        self.get() & Self::PHASE == Self::IDLE
    }

    pub fn is_busy(&self) -> bool {
        self.get() & Self::PHASE == Self::BUSY
    }

    pub fn is_rejected(&self) -> bool {
        self.get() & Self::REJECTED != 0
    }

    /// Returns true if hyper's next write comes from the service: its response, or `100
    /// Continue` while the service reads the body.
    pub fn expects_write(&self) -> bool {
        let state = self.get();
        state & Self::PHASE == Self::BUSY || state & Self::RESPONSE_READY != 0
    }

    pub fn response_started(&self) {
        let state = self.get();
        if state & Self::RESPONSE_READY != 0 {
            self.0
                .store(state & !Self::RESPONSE_READY, Ordering::Relaxed);
        }
    }

    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set_phase(&self, phase: u32) {
        self.0
            .store(self.get() & !Self::PHASE | phase, Ordering::Relaxed);
    }
}
