//! Admission and eviction of connections.
//!
//! At the connection limit, a new connection takes the place of one whose address holds more
//! connections than its own address, the longest idle one first. So no address can keep others out
//! with idle or slow connections, and behind a proxy, where all clients share one address, the
//! longest idle connection is evicted. A connection whose request is being served is not.
//!
//! Memory is shared in the same way: if all connections together hold more than the budget, those
//! of the address or principal that holds most are closed, the largest first.
//!
//! If no connection can be evicted, a new one may still ask for the service's health, on one of a
//! few reserved connections: a liveness probe must not restart a service because it is busy.

mod pool;

use std::{
    cmp::Reverse,
    collections::HashMap,
    future::poll_fn,
    mem,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    Limits, Metrics,
    activity::{Activity, Eviction, EvictionReason},
    memory::MemoryBudget,
};
use pool::{Pool, Pools, Room, SLOW_AFTER};

/// The number of connections beyond the limit, on which only health checks are served.
pub const RESERVED_CONNECTIONS: usize = 64;

/// The maximum number of evicted connections that are closed gracefully at a time.
const MAX_CLOSING: usize = 64;

/// The time for which a connection may be idle, however many there are.
const MIN_IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval at which connections that are idle for too long are evicted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after connections were closed because of the memory that they hold.
const RELIEF_INTERVAL: Duration = Duration::from_millis(1);

/// The minimum time between two reports of such closed connections.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// All connections of a server.
pub struct Connections {
    /// The time for which a connection may be idle while at most half of the connections are in
    /// use.
    idle_timeout: Duration,
    /// The memory that requests and responses of all connections may hold.
    budget: Arc<MemoryBudget>,
    metrics: Arc<Metrics>,
    /// 0 while the server accepts connections, then [`DRAINING`], then [`STOPPED`].
    phase: AtomicU8,
    /// The instant from which [`Activity`] counts its times.
    epoch: Instant,
    pools: Mutex<Pools>,
}

/// Each connection closes after its next response.
const DRAINING: u8 = 1;
/// Connections close once their requests are finished.
const STOPPED: u8 = 2;

/// Returns the part of an address that a client cannot choose: IPv6 clients are usually assigned a
/// whole /64.
pub fn client_network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

impl Connections {
    pub fn new(limits: &Limits, metrics: Arc<Metrics>) -> Self {
        let epoch = Instant::now();
        let pools = Pools {
            main: Pool::new(
                limits.max_connections,
                limits.max_connections_per_address.unwrap_or(usize::MAX),
            ),
            reserve: Pool::new(RESERVED_CONNECTIONS, RESERVED_CONNECTIONS / 2),
            next_id: 0,
            closing: HashMap::new(),
            last_sweep: epoch,
            last_report: None,
            unreported: 0,
        };
        Self {
            idle_timeout: limits.idle_timeout,
            budget: Arc::new(MemoryBudget::new(limits.max_held_bytes, metrics.clone())),
            metrics,
            phase: AtomicU8::default(),
            epoch,
            pools: Mutex::new(pools),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, evicting another if necessary. Returns `None` if even the reserve
    /// is taken.
    pub fn admit(self: &Arc<Self>, client: IpAddr, now: Instant) -> Option<Slot> {
        let network = client_network(client);
        let mut pools = self.lock();
        self.sweep(&mut pools, now);
        let (health_only, room) = match pools.main.room_for(network, now) {
            Room::Full => (true, pools.reserve.room_for(network, now)),
            room => (false, room),
        };
        match room {
            Room::Free => {}
            Room::AfterEviction { holder, id } => self.evict(&mut pools, health_only, holder, id),
            Room::Full => return None,
        }
        let id = pools.next_id;
        pools.next_id += 1;
        let budget = self.budget.clone();
        let activity = Arc::new(Activity::new(client, budget, self.epoch, now));
        let pool = pools.pool(health_only);
        pool.insert(network, id, activity.clone());
        Some(Slot {
            connections: self.clone(),
            network,
            id,
            health_only,
            activity,
        })
    }

    fn evict(&self, pools: &mut Pools, health_only: bool, holder: IpAddr, id: u64) {
        let Some(activity) = pools.pool(health_only).remove(holder, id) else {
            return;
        };
        self.metrics.evicted_connections.increment();
        pools.closing.insert(id, (holder, activity.clone()));
        activity.evict(match pools.closing.len() {
            ..=MAX_CLOSING => Eviction::Close,
            _ => Eviction::Abort,
        });
    }

    /// Keeps the memory that connections hold within the budget.
    pub async fn keep_within_budget(&self) {
        loop {
            self.budget.exceeded().await;
            self.enforce_memory_budget(Instant::now());
            // Gives the connections that were reset time to release their memory.
            sleep(RELIEF_INTERVAL).await;
        }
    }

    /// If the connections exceed the memory budget, resets some until an eighth of it is
    /// free: those of the address or principal that holds most, and behind a proxy, where all
    /// share an address, those of the principal that holds most there.
    fn enforce_memory_budget(&self, now: Instant) {
        let mut pools = self.lock();
        let mut used = 0;
        let mut by_network = HashMap::<_, usize>::new();
        let mut by_principal = HashMap::<_, usize>::new();
        let mut by_both = HashMap::<_, usize>::new();
        let mut holders = Vec::new();
        let open = pools.main.by_network.iter().flat_map(|(network, open)| {
            open.iter().map(|(id, activity)| (*network, *id, activity))
        });
        let closing = pools
            .closing
            .iter()
            .map(|(id, (network, activity))| (*network, *id, activity));
        for (network, id, activity) in open.chain(closing) {
            let held = MemoryBudget::charge(activity.held());
            // The memory of those that are being reset is about to be released.
            if held == 0 || activity.evicted() == Some(Eviction::Reset) {
                continue;
            }
            let principal = activity.principal();
            used += held;
            *by_network.entry(network).or_default() += held;
            *by_both.entry((network, principal)).or_default() += held;
            if principal.is_some() {
                *by_principal.entry(principal).or_default() += held;
            }
            holders.push((network, principal, held, id));
        }
        let limit = self.budget.limit();
        if used <= limit {
            return;
        }
        let mut excess = used - limit / 8 * 7;
        holders.sort_by_cached_key(|(network, principal, held, _)| {
            let principal_total = by_principal.get(principal).copied().unwrap_or_default();
            let largest_total = by_network[network].max(principal_total);
            Reverse((largest_total, by_both[&(*network, *principal)], *held))
        });
        for (network, _, held, id) in holders {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(held);
            self.reset(&mut pools, network, id);
        }
        if pools
            .last_report
            .is_none_or(|last| now >= last + REPORT_INTERVAL)
        {
            let connections = mem::take(&mut pools.unreported);
            pools.last_report = Some(now);
            tracing::warn!(
                connections,
                held_bytes = used,
                max_held_bytes = limit,
                "memory budget exceeded; connections that hold most closed"
            );
        }
    }

    fn reset(&self, pools: &mut Pools, network: IpAddr, id: u64) {
        if let Some(activity) = pools.main.remove(network, id) {
            pools.closing.insert(id, (network, activity));
        }
        let Some((_, activity)) = pools.closing.get(&id) else {
            return;
        };
        activity.evict(Eviction::Reset);
        self.metrics.reset_connections.increment();
        pools.unreported += 1;
    }

    /// Evicts connections that are idle for longer than the remaining room allows.
    fn sweep(&self, pools: &mut Pools, now: Instant) {
        let Some(idle_timeout) = self.idle_timeout(&pools.main) else {
            return;
        };
        if now < pools.last_sweep + SWEEP_INTERVAL {
            return;
        }
        pools.last_sweep = now;
        let mut expired = Vec::new();
        for (holder, connections) in &pools.main.by_network {
            for (id, activity) in connections {
                match activity.evictable(now, SLOW_AFTER) {
                    Some((EvictionReason::Idle, idle)) if idle >= idle_timeout => {
                        expired.push((*holder, *id));
                    }
                    _ => {}
                }
            }
        }
        for (holder, id) in expired {
            self.evict(pools, false, holder, id);
        }
    }

    /// Returns the idle timeout if more than half of the connections are in use: it shrinks
    /// linearly with the room that is left.
    fn idle_timeout(&self, pool: &Pool) -> Option<Duration> {
        if pool.len <= pool.limit / 2 {
            return None;
        }
        let room = pool.limit.saturating_sub(pool.len) as u32;
        let timeout = self.idle_timeout * 2 * room / pool.limit as u32;
        Some(timeout.max(MIN_IDLE_TIMEOUT.min(self.idle_timeout)))
    }

    /// Makes each connection close after its next response.
    pub fn drain(&self) {
        self.set_phase(DRAINING);
    }

    /// Closes all connections once their requests are finished.
    pub fn stop(&self) {
        self.set_phase(STOPPED);
    }

    fn set_phase(&self, phase: u8) {
        let pools = self.lock();
        self.phase.store(phase, Relaxed);
        for pool in [&pools.main, &pools.reserve] {
            for activity in pool.by_network.values().flat_map(HashMap::values) {
                activity.waker().wake();
            }
        }
    }
}

/// An admitted connection. Dropping it makes room for another.
pub struct Slot {
    connections: Arc<Connections>,
    /// The network that the connection counts for.
    network: IpAddr,
    id: u64,
    /// True if the connection was admitted at the limit, so that only health checks are served.
    pub health_only: bool,
    pub activity: Arc<Activity>,
}

/// The reason why a connection must close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Shutdown,
    Evicted(Eviction),
}

impl Slot {
    /// Returns true if the connection closes after the current response.
    pub fn closes_after_response(&self) -> bool {
        self.health_only || self.connections.phase.load(Relaxed) >= DRAINING
    }

    /// Completes when the connection must be reset.
    pub async fn reset(&self) {
        self.evicted_if(|eviction| eviction == Eviction::Reset)
            .await;
    }

    /// Completes when the connection must close although a request is being served: it is reset,
    /// or evicted while its client sends or reads too slowly.
    pub async fn aborted(&self) {
        let activity = &self.activity;
        self.evicted_if(|eviction| eviction == Eviction::Reset || activity.depends_on_client())
            .await;
    }

    /// Completes when the connection is evicted.
    pub async fn evicted(&self) {
        self.evicted_if(|_| true).await;
    }

    /// Completes when the connection is evicted in a way that matters.
    ///
    /// Await it in the connection's task only.
    async fn evicted_if(&self, matters: impl Fn(Eviction) -> bool) {
        poll_fn(|cx| {
            self.activity.waker().register(cx.waker());
            match self.activity.evicted() {
                Some(eviction) if matters(eviction) => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
    }

    /// Completes when the connection must close.
    ///
    /// Await it in the connection's task only, and not inside a combinator that swaps
    /// wakers (such as `FuturesUnordered`): the waker is registered once for each phase
    /// of the server, not on every poll.
    pub async fn stopped(&self) -> Stop {
        let phase = || self.connections.phase.load(Relaxed);
        let mut registered = None;
        poll_fn(|cx| {
            // Waking takes the waker, and a drain wakes before the server stops.
            let current = Some(phase());
            if registered != current {
                registered = current;
                self.activity.waker().register(cx.waker());
            }
            if let Some(eviction) = self.activity.evicted() {
                return Poll::Ready(Stop::Evicted(eviction));
            }
            match phase() {
                STOPPED => Poll::Ready(Stop::Shutdown),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut pools = self.connections.lock();
        let removed = pools.pool(self.health_only).remove(self.network, self.id);
        if removed.is_none() {
            // Evicted.
            pools.closing.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests;
