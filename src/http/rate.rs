//! How many requests a client may send in a time: the limit, the count against
//! it, and what the client is told.
//!
//! A limit is held by the generic cell rate algorithm: all of it may be used at
//! once, and then it comes back bit by bit. So the state of a client is one
//! number, and a request costs one compare-and-swap.

use std::{
    convert::Infallible,
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use http::{HeaderName, HeaderValue};
use quick_cache::sync::Cache;

use super::{Response, error::ApiError};
use crate::{
    invalid::{Invalid, quoted},
    page::decimal,
};

/// So many requests in so many seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    requests: u32,
    seconds: u32,
}

impl RateLimit {
    const MAX_REQUESTS: u32 = 1_000_000;
    const MAX_SECONDS: u32 = 24 * 3600;

    /// What an address may send without a valid key, unless told otherwise.
    pub const FAILED_AUTH: Self = Self {
        requests: 60,
        seconds: 60,
    };

    /// How long it takes for one request to come back, in nanoseconds.
    fn step(self) -> u64 {
        u64::from(self.seconds) * SECOND / u64::from(self.requests)
    }
}

const SECOND: u64 = 1_000_000_000;

impl FromStr for RateLimit {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (requests, time) = text.split_once('/')?;
            let unit = time.char_indices().next_back()?;
            let (number, unit) = match unit {
                (number, 's') => (&time[..number], 1),
                (number, 'm') => (&time[..number], 60),
                (number, 'h') => (&time[..number], 3600),
                _ => return None,
            };
            let number = if number.is_empty() { "1" } else { number };
            let within = |number: i64, most: u32| {
                let number = u32::try_from(number).ok()?;
                (1..=most).contains(&number).then_some(number)
            };
            Some(Self {
                requests: within(decimal(requests)?, Self::MAX_REQUESTS)?,
                seconds: within(decimal(number)?.checked_mul(unit)?, Self::MAX_SECONDS)?,
            })
        };
        read().ok_or_else(|| {
            let (most, got) = (Self::MAX_REQUESTS, quoted(text));
            let reason = format!(
                "must be a number of requests from 1 to {most}, a slash and a time from 1s to 24h, \
                 such as 600/60s, 10/s or 1000/1h; got {got}"
            );
            Invalid::new("limit", reason)
        })
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}s", self.requests, self.seconds)
    }
}

/// How much of a limit is used: when all of it will be there again, in
/// nanoseconds from the start of the limiter.
#[derive(Debug, Default)]
pub struct Level(AtomicU64);

/// Holds clients to a limit.
pub struct Limiter {
    limit: RateLimit,
    /// The time of day may be set, so it is not what counts.
    start: Instant,
}

impl Limiter {
    pub fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            start: Instant::now(),
        }
    }

    /// Counts a request, if it is within the limit.
    pub fn take(&self, level: &Level, at: Instant) -> Quota {
        let (step, most, now) = self.place(at);
        let after = |level: u64| level.max(now) + step;
        let fits = |level| Some(after(level)).filter(|level| *level <= most);
        let taken = level.0.fetch_update(Relaxed, Relaxed, fits);
        let (left, wait) = match taken {
            Ok(before) => {
                let room = most - after(before);
                (room / step, step - room % step)
            }
            Err(before) => (0, after(before) - most),
        };
        Quota {
            limit: self.limit,
            granted: taken.is_ok(),
            left,
            wait: wait.div_ceil(SECOND),
        }
    }

    /// Whether a request would be within the limit.
    fn has_room(&self, level: &Level, at: Instant) -> bool {
        let (step, most, now) = self.place(at);
        level.0.load(Relaxed).max(now) + step <= most
    }

    /// What a request adds to a level, how far that may rise, and where it is
    /// if nothing is used.
    fn place(&self, at: Instant) -> (u64, u64, u64) {
        let step = self.limit.step();
        let now = at.saturating_duration_since(self.start).as_nanos();
        let now = u64::try_from(now).expect("the service does not run for centuries");
        (step, now + step * u64::from(self.limit.requests), now)
    }
}

/// How a client stands with its limit after a request.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    limit: RateLimit,
    granted: bool,
    /// How many more may come at once.
    left: u64,
    /// Seconds until there is one more, rounded up, so never 0.
    wait: u64,
}

/// What a limit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    Key,
    /// One that sends requests without a valid key.
    Address,
}

impl Quota {
    /// Refuses a request that was beyond the limit.
    pub fn check(&self, limited: Limited) -> Result<(), ApiError> {
        if self.granted {
            return Ok(());
        }
        Err(ApiError::RateLimited {
            limited,
            limit: self.limit,
            retry_after: self.wait,
        })
    }

    /// Tells a client how it stands, as draft-ietf-httpapi-ratelimit-headers-11
    /// has it.
    pub fn mark(&self, answer: &mut Response) {
        let header = |text: String| HeaderValue::try_from(text).expect("plain ASCII");
        let RateLimit { requests, seconds } = self.limit;
        let policy = header(format!("\"default\";q={requests};w={seconds}"));
        let Self { left, wait, .. } = self;
        let mut current = header(format!("\"default\";r={left};t={wait}"));
        // It changes with each answer, so HTTP/2 need not remember it.
        current.set_sensitive(true);
        answer.headers_mut().insert(RATELIMIT_POLICY, policy);
        answer.headers_mut().insert(RATELIMIT, current);
    }
}

const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// How many addresses are remembered.
const ADDRESSES: usize = 16384;

/// Those who have sent requests without a valid key, by address.
///
/// Of more addresses than there is room for, those that come seldom are
/// forgotten and begin anew. Who has that many is not held by this limit; what
/// it protects is bounded without it too, only less tightly.
pub struct Strangers {
    limiter: Limiter,
    levels: Cache<IpAddr, Arc<Level>>,
}

impl Strangers {
    pub fn new(limit: RateLimit) -> Self {
        Self {
            limiter: Limiter::new(limit),
            levels: Cache::new(ADDRESSES),
        }
    }

    /// Whether the address may still be wrong.
    pub fn may_err(&self, client: IpAddr, at: Instant) -> bool {
        let level = self.levels.get(&network(client));
        level.is_none_or(|level| self.limiter.has_room(&level, at))
    }

    /// Counts a request that is refused, and says what it is refused with.
    pub fn refuse(&self, client: IpAddr, at: Instant, refused: ApiError) -> ApiError {
        let new = || Ok::<_, Infallible>(Arc::default());
        let Ok(level) = self.levels.get_or_insert_with(&network(client), new);
        let quota = self.limiter.take(&level, at);
        quota.check(Limited::Address).err().unwrap_or(refused)
    }
}

/// The address, or the part of it that a client cannot choose by itself: of
/// IPv6 it is given 64 bits.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests;
