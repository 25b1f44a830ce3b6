//! Open connections that share a limit, and the one that is evicted to make room.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::activity::{Activity, EvictionReason};

/// The time that a client may take to send a request or to read a response before a client of
/// another address may take its connection.
pub const SLOW_AFTER: Duration = Duration::from_millis(100);

/// The same for a client of its own address, which may be that of a proxy.
const SLOW_AFTER_SAME_ADDRESS: Duration = Duration::from_secs(1);

/// The connections of a server, by what they are for.
pub struct Pools {
    pub main: Pool,
    /// Connections for health checks only. No address may hold more than half of them.
    pub reserve: Pool,
    /// The id of the next connection. Ids grow, so the lower one is the older connection.
    pub next_id: u64,
    /// Evicted connections that are not closed yet, by id, with their networks.
    pub closing: HashMap<u64, (IpAddr, Arc<Activity>)>,
    /// The time at which idle connections were last evicted.
    pub last_sweep: Instant,
    /// The time at which closed connections were last reported.
    pub last_report: Option<Instant>,
    /// The number of connections that were reset since the last report.
    pub unreported: usize,
}

impl Pools {
    pub fn pool(&mut self, health_only: bool) -> &mut Pool {
        if health_only {
            &mut self.reserve
        } else {
            &mut self.main
        }
    }
}

/// Open connections that share a limit.
pub struct Pool {
    /// The maximum number of connections.
    pub limit: usize,
    /// The maximum number of connections of one network.
    max_per_address: usize,
    /// The number of connections.
    pub len: usize,
    /// The connections of each network, by id.
    pub by_network: HashMap<IpAddr, HashMap<u64, Arc<Activity>>>,
}

/// The room in a pool for one more connection.
pub enum Room {
    Free,
    /// There is room once this connection is evicted.
    AfterEviction {
        holder: IpAddr,
        id: u64,
    },
    /// No connection may be evicted.
    Full,
}

impl Pool {
    pub fn new(limit: usize, max_per_address: usize) -> Self {
        Self {
            limit,
            max_per_address,
            len: 0,
            by_network: HashMap::new(),
        }
    }

    fn held_by(&self, network: IpAddr) -> usize {
        self.by_network.get(&network).map_or(0, HashMap::len)
    }

    pub fn insert(&mut self, network: IpAddr, id: u64, activity: Arc<Activity>) {
        let held = self.by_network.entry(network).or_default();
        held.insert(id, activity);
        self.len += 1;
    }

    pub fn remove(&mut self, network: IpAddr, id: u64) -> Option<Arc<Activity>> {
        let held = self.by_network.get_mut(&network)?;
        let removed = held.remove(&id)?;
        if held.is_empty() {
            self.by_network.remove(&network);
        }
        self.len -= 1;
        Some(removed)
    }

    /// Finds room for a connection of `network`.
    pub fn room_for(&self, network: IpAddr, now: Instant) -> Room {
        let held = self.held_by(network);
        let is_limited = held >= self.max_per_address;
        if !is_limited && self.len < self.limit {
            return Room::Free;
        }
        // Considers the addresses that hold more connections, and its own. The one that holds
        // most comes first.
        let mut first = None;
        for (holder, connections) in &self.by_network {
            let slow_after = if *holder == network {
                SLOW_AFTER_SAME_ADDRESS
            } else if is_limited || connections.len() <= held {
                continue;
            } else {
                SLOW_AFTER
            };
            first = first.max(first_to_evict(*holder, connections, now, slow_after));
        }
        match first {
            Some(EvictionCandidate {
                holder,
                id: Reverse(id),
                ..
            }) => Room::AfterEviction { holder, id },
            None => Room::Full,
        }
    }
}

/// A connection that may be evicted. The greatest is evicted first, compared field by field.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EvictionCandidate {
    /// The number of connections of its address.
    held: usize,
    reason: EvictionReason,
    waited: Duration,
    holder: IpAddr,
    /// If two have waited equally long, the older one is evicted.
    id: Reverse<u64>,
}

/// Returns the connection of one address that is evicted first.
fn first_to_evict(
    holder: IpAddr,
    connections: &HashMap<u64, Arc<Activity>>,
    now: Instant,
    slow_after: Duration,
) -> Option<EvictionCandidate> {
    let evictable = connections.iter().filter_map(|(id, activity)| {
        let (reason, waited) = activity.evictable(now, slow_after)?;
        Some(EvictionCandidate {
            held: connections.len(),
            reason,
            waited,
            holder,
            id: Reverse(*id),
        })
    });
    evictable.max()
}
