//! Slots for streams and long polls: limits the open ones in total, per API key and per address.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use super::super::error::{ApiError, StreamLimit};
use server::client_network;

/// Hands out slots. A key gets a quarter of them, so that it cannot keep all others out. An
/// address gets three quarters: it may be that of a proxy, which all clients share.
pub struct Slots {
    max: usize,
    taken: Mutex<SlotCounts>,
}

#[derive(Default)]
struct SlotCounts {
    all: usize,
    by_key: HashMap<i64, usize>,
    by_network: HashMap<IpAddr, usize>,
}

impl Slots {
    pub fn new(max: usize) -> Self {
        Self {
            max,
            taken: Mutex::default(),
        }
    }

    /// Takes a slot, or returns an error with the limit that is reached.
    pub fn admit(self: &Arc<Self>, api_key_id: i64, client: IpAddr) -> Result<Slot, ApiError> {
        let network = client_network(client);
        let mut taken = self.taken.lock().expect(LOCK);
        let by_key = taken.by_key.get(&api_key_id).copied();
        let by_network = taken.by_network.get(&network).copied();
        for (limit, count, max) in [
            (StreamLimit::ApiKey, by_key, self.max.div_ceil(4)),
            (StreamLimit::Address, by_network, self.max - self.max / 4),
            (StreamLimit::All, Some(taken.all), self.max),
        ] {
            if count.unwrap_or(0) >= max {
                return Err(ApiError::TooManyStreams { limit, max });
            }
        }
        taken.all += 1;
        *taken.by_key.entry(api_key_id).or_default() += 1;
        *taken.by_network.entry(network).or_default() += 1;
        Ok(Slot {
            slots: self.clone(),
            api_key_id,
            network,
        })
    }
}

/// The slot of a stream or long poll. Dropping it releases the slot.
pub struct Slot {
    slots: Arc<Slots>,
    api_key_id: i64,
    network: IpAddr,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().expect(LOCK);
        taken.all -= 1;
        release(&mut taken.by_key, &self.api_key_id);
        release(&mut taken.by_network, &self.network);
    }
}

fn release<K: Hash + Eq>(taken: &mut HashMap<K, usize>, holder: &K) {
    if let Some(count) = taken.get_mut(holder) {
        *count -= 1;
        if *count == 0 {
            taken.remove(holder);
        }
    }
}

const LOCK: &str = "no task panics while holding the lock";
