//! Rate limits by the generic cell rate algorithm (GCRA).
//!
//! A client may use its whole quota at once; it is then replenished at a constant
//! rate. The state of a client is one number, its theoretical arrival time, and
//! a request costs one compare-and-swap.

use std::{
    convert::Infallible,
    fmt,
    net::IpAddr,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use quick_cache::sync::Cache;

use domain::{
    invalid::{Invalid, quoted},
    page::parse_positive_decimal,
};
use server::client_network;

/// A number of requests per window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    requests: u32,
    seconds: u32,
}

impl RateLimit {
    const MAX_REQUESTS: u32 = 1_000_000;
    const MAX_SECONDS: u32 = 24 * 3600;

    /// The default for requests without a valid API key, per address.
    pub const FAILED_AUTH: Self = Self {
        requests: 60,
        seconds: 60,
    };

    /// The limit on new hosts for which the contract is written.
    pub const NEW_HOSTS: Self = Self {
        requests: 20,
        seconds: 20,
    };

    /// Returns the emission interval: the time until one request is replenished, in nanoseconds.
    fn interval(self) -> u64 {
        u64::from(self.seconds) * NANOS_PER_SECOND / u64::from(self.requests)
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl FromStr for RateLimit {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (requests, time) = text.split_once('/')?;
            let (unit_at, unit) = time.char_indices().next_back()?;
            let unit_seconds = match unit {
                's' => 1,
                'm' => 60,
                'h' => 3600,
                _ => return None,
            };
            let units = if unit_at == 0 { "1" } else { &time[..unit_at] };
            let within = |number: i64, most: u32| {
                let number = u32::try_from(number).ok();
                number.filter(|number| (1..=most).contains(number))
            };
            Some(Self {
                requests: within(parse_positive_decimal(requests)?, Self::MAX_REQUESTS)?,
                seconds: within(
                    parse_positive_decimal(units)?.checked_mul(unit_seconds)?,
                    Self::MAX_SECONDS,
                )?,
            })
        };
        read().ok_or_else(|| {
            let most = Self::MAX_REQUESTS;
            let got = quoted(text);
            let reason = format!(
                "must be REQUESTS/WINDOW with 1 to {most} requests and a window of 1s to 24h, such as \
                 600/60s, 10/s or 1000/1h; got {got}"
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

/// A client's theoretical arrival time: the time at which its whole quota is available again, in
/// nanoseconds since the limiter was created.
#[derive(Debug, Default)]
pub struct ArrivalTime(AtomicU64);

/// Enforces a rate limit.
#[derive(Debug)]
pub struct Limiter {
    limit: RateLimit,
    /// Monotonic, because the wall clock can jump.
    epoch: Instant,
}

impl Limiter {
    pub fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            epoch: Instant::now(),
        }
    }

    /// Charges a request that arrived at a time, if it is within the limit.
    pub fn charge(&self, arrival: &ArrivalTime, at: Instant) -> Quota {
        let quota = self.charge_at(arrival, at, 1);
        if quota.granted {
            return quota;
        }
        // Requests that arrived later may have been charged before this one.
        self.charge_at(arrival, at.max(Instant::now()), 1)
    }

    /// Charges a request once more, because it counts as `count` others, too. One that counts for
    /// more than the limit uses up the whole quota.
    pub fn charge_more(&self, arrival: &ArrivalTime, at: Instant, count: u32) -> Quota {
        let count = u64::from(count.min(self.limit.requests - 1));
        self.charge_at(arrival, at.max(Instant::now()), count)
    }

    /// Charges work beyond that of a request, as long as this leaves half of the quota for
    /// requests. Otherwise returns the time until it does.
    pub fn charge_extra(&self, arrival: &ArrivalTime, at: Instant) -> Result<(), Duration> {
        let mut window = self.window(at);
        window.end -= window.interval * u64::from(self.limit.requests / 2);
        match window.charge(arrival, 1) {
            Ok(_) => Ok(()),
            Err(next) => Err(Duration::from_nanos(next - window.end)),
        }
    }

    fn charge_at(&self, arrival: &ArrivalTime, at: Instant, count: u64) -> Quota {
        let window = self.window(at);
        let charged = window.charge(arrival, count);
        let Window { interval, end, .. } = window;
        let (remaining, wait) = match charged {
            Ok(next) => {
                let budget = end - next;
                (budget / interval, interval - budget % interval)
            }
            Err(next) => (0, next - end),
        };
        Quota {
            limit: self.limit,
            granted: charged.is_ok(),
            remaining,
            retry_after: wait.div_ceil(NANOS_PER_SECOND),
        }
    }

    /// Returns true if a request would be within the limit.
    fn has_budget(&self, arrival: &ArrivalTime, at: Instant) -> bool {
        let Window { interval, now, end } = self.window(at);
        arrival.0.load(Relaxed).max(now) + interval <= end
    }

    fn window(&self, at: Instant) -> Window {
        let interval = self.limit.interval();
        let nanos = at.saturating_duration_since(self.epoch).as_nanos();
        let now = u64::try_from(nanos).expect("the service does not run for centuries");
        Window {
            interval,
            now,
            end: now + interval * u64::from(self.limit.requests),
        }
    }
}

/// The times that decide whether a request conforms, in nanoseconds since the limiter's epoch.
struct Window {
    interval: u64,
    now: u64,
    /// The latest theoretical arrival time that conforms to the limit.
    end: u64,
}

impl Window {
    /// Charges requests if they conform. Returns the theoretical arrival time after them, as an
    /// error if they do not conform.
    fn charge(&self, arrival: &ArrivalTime, count: u64) -> Result<u64, u64> {
        let next = |arrival: u64| arrival.max(self.now) + count * self.interval;
        let conforming = |arrival| Some(next(arrival)).filter(|next| *next <= self.end);
        let charged = arrival.0.fetch_update(Relaxed, Relaxed, conforming);
        charged.map(next).map_err(next)
    }
}

/// A client's quota after a request.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    pub limit: RateLimit,
    pub granted: bool,
    /// Requests that may be sent immediately.
    remaining: u64,
    /// Seconds until one more request is available, rounded up, so never 0.
    pub retry_after: u64,
}

/// The kind of client that a rate limit applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    ApiKey,
    /// An address that sends requests without a valid API key.
    Address,
}

impl Quota {
    /// Sets the headers of draft-ietf-httpapi-ratelimit-headers-11.
    pub fn set_headers(&self, headers: &mut HeaderMap) {
        let value = |text: String| HeaderValue::try_from(text).expect("printable ASCII");
        let RateLimit { requests, seconds } = self.limit;
        let Self {
            remaining,
            retry_after,
            ..
        } = self;
        let policy = value(format!("\"default\";q={requests};w={seconds}"));
        let mut current = value(format!("\"default\";r={remaining};t={retry_after}"));
        // Differs in every response, so keep it out of HPACK's dynamic table.
        current.set_sensitive(true);
        headers.insert(RATELIMIT_POLICY, policy);
        headers.insert(RATELIMIT, current);
    }
}

const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The maximum number of addresses that are tracked.
const MAX_ADDRESSES: usize = 16384;

/// Limits requests without a valid API key, per address.
///
/// Beyond [`MAX_ADDRESSES`], the least recently used addresses are evicted and start
/// over. This limit does not stop an attacker with more addresses than that; database
/// reads are then bounded by the key cache's minimum refresh interval alone.
pub struct FailedAuthLimiter {
    limiter: Limiter,
    arrivals: Cache<IpAddr, Arc<ArrivalTime>>,
}

impl FailedAuthLimiter {
    pub fn new(limit: RateLimit) -> Self {
        Self {
            limiter: Limiter::new(limit),
            arrivals: Cache::new(MAX_ADDRESSES),
        }
    }

    /// Returns true if one more failure of the address is within the limit.
    pub fn has_budget(&self, client: IpAddr, at: Instant) -> bool {
        let arrival = self.arrivals.get(&client_network(client));
        arrival.is_none_or(|arrival| self.limiter.has_budget(&arrival, at))
    }

    /// Charges a failure to the address.
    pub fn charge(&self, client: IpAddr, at: Instant) -> Quota {
        let new = || Ok::<_, Infallible>(Arc::default());
        let Ok(arrival) = self
            .arrivals
            .get_or_insert_with(&client_network(client), new);
        self.limiter.charge(&arrival, at)
    }
}

#[cfg(test)]
mod tests;
