//! Tests which connections are evicted, at given times. That evicted connections are closed is
//! tested over real sockets in `tests/api/http1.rs` and `http2.rs`.

use futures_util::FutureExt;

use super::*;
use crate::activity::{HeldMemory, QueuedRequest};

const MINUTE: Duration = Duration::from_secs(60);

fn connections(max_connections: usize, per_address: Option<usize>) -> Arc<Connections> {
    let limits = Limits {
        max_connections,
        max_connections_per_address: per_address,
        ..Limits::default()
    };
    Arc::new(Connections::new(&limits, Arc::default()))
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Connections of one address that are idle after a request, one millisecond apart.
fn admit(connections: &Arc<Connections>, client: &str, count: usize, at: Instant) -> Vec<Slot> {
    let admitted = (0..count).map(|n| {
        let at = at + Duration::from_millis(n as u64);
        let slot = connections.admit(address(client), at).unwrap();
        slot.activity.mark_idle(at);
        slot
    });
    admitted.collect()
}

fn evicted(slots: &[Slot]) -> Vec<usize> {
    let evicted = |slot: &Slot| slot.activity.evicted().is_some();
    (0..slots.len()).filter(|n| evicted(&slots[*n])).collect()
}

#[test]
fn the_address_that_holds_most_loses_its_longest_idle_connection() {
    let connections = connections(10, None);
    let now = connections.epoch;
    let small = admit(&connections, "192.0.2.1", 3, now);
    let large = admit(
        &connections,
        "192.0.2.2",
        7,
        now + Duration::from_millis(10),
    );
    // Longer idle than the others, but then it had a request.
    large[0].activity.mark_idle(now + Duration::from_millis(50));
    large[1].activity.mark_serving();
    let later = now + Duration::from_millis(100);
    let new = admit(&connections, "192.0.2.3", 2, later);
    assert_eq!((evicted(&small), evicted(&large)), (vec![], vec![2, 3]));
    assert!(new.iter().all(|slot| !slot.health_only));
}

/// An address cannot take connections from one that holds no more than itself, but it
/// can replace its own.
#[test]
fn an_address_that_holds_more_cannot_evict_others() {
    let connections = connections(10, None);
    let now = connections.epoch;
    let small = admit(&connections, "192.0.2.1", 3, now);
    let large = admit(&connections, "192.0.2.2", 7, now);
    for slot in &large {
        slot.activity.mark_serving();
    }
    let later = now + Duration::from_millis(100);
    assert!(
        connections
            .admit(address("192.0.2.2"), later)
            .unwrap()
            .health_only
    );
    assert!(evicted(&small).is_empty());
    large[4].activity.mark_idle(later);
    assert!(
        !connections
            .admit(address("192.0.2.2"), later)
            .unwrap()
            .health_only
    );
    assert_eq!((evicted(&small), evicted(&large)), (vec![], vec![4]));
}

#[test]
fn slow_clients_are_evicted_after_the_idle_ones() {
    let connections = connections(4, None);
    let now = connections.epoch;
    let after = |millis| now + Duration::from_millis(millis);
    let slots = admit(&connections, "192.0.2.1", 4, now);
    slots[0].activity.mark_receiving(now);
    slots[1].activity.block(now);
    slots[2].activity.mark_serving();
    let admitted = connections.admit(address("192.0.2.2"), after(90)).unwrap();
    admitted.activity.mark_serving();
    assert_eq!(evicted(&slots), [3]);
    // Not slow yet; and for longer among the connections of one address.
    for (client, at) in [("192.0.2.3", 90), ("192.0.2.1", 900)] {
        let slot = connections.admit(address(client), after(at)).unwrap();
        assert!(slot.health_only, "{client}");
    }
    let other = connections.admit(address("192.0.2.3"), after(200)).unwrap();
    other.activity.mark_serving();
    assert_eq!(evicted(&slots), [0, 3]);
    let own = connections
        .admit(address("192.0.2.1"), after(2000))
        .unwrap();
    assert!(!own.health_only);
    assert_eq!(evicted(&slots), [0, 1, 3]);
}

#[test]
fn an_ipv6_network_and_an_ipv4_mapped_address_count_as_one() {
    for (one, same, other) in [
        ("2001:db8::1", "2001:db8::2:3", "2001:db8:0:1::1"),
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
    ] {
        let connections = connections(100, Some(2));
        let mut slots = admit(&connections, one, 1, connections.epoch);
        slots.extend(admit(&connections, same, 1, connections.epoch));
        for slot in &slots {
            slot.activity.mark_serving();
        }
        let now = connections.epoch;
        assert!(connections.admit(address(same), now).unwrap().health_only);
        assert!(!connections.admit(address(other), now).unwrap().health_only);
    }
}

#[test]
fn at_its_own_limit_an_address_replaces_its_longest_idle_connection() {
    let connections = connections(100, Some(2));
    let now = connections.epoch;
    let slots = admit(&connections, "192.0.2.1", 2, now);
    let _new = admit(&connections, "192.0.2.1", 1, now + MINUTE / 60);
    assert_eq!(evicted(&slots), [0]);
}

/// With half of the connections in use the whole idle timeout applies; it shrinks to
/// two seconds as they run out.
#[test]
fn the_idle_timeout_shrinks_with_the_remaining_room() {
    for (open, still_idle, too_idle) in [(50, 300, 3000), (75, 29, 31), (90, 11, 13), (99, 1, 3)] {
        let connections = connections(100, None);
        let now = connections.epoch;
        let slots = admit(&connections, "192.0.2.1", open, now);
        let at = |seconds| now + Duration::from_secs(seconds);
        drop(connections.admit(address("192.0.2.2"), at(still_idle)));
        assert_eq!(evicted(&slots).len(), 0, "{open} open");
        drop(connections.admit(address("192.0.2.2"), at(too_idle)));
        let expected = if open == 50 { 0 } else { open };
        assert_eq!(evicted(&slots).len(), expected, "{open} open");
    }
}

/// Silent connections cannot keep health checks out of the reserve.
#[test]
fn the_reserve_is_shared_fairly_too() {
    let connections = connections(1, None);
    let now = connections.epoch;
    let busy = connections.admit(address("192.0.2.1"), now).unwrap();
    busy.activity.mark_serving();
    let half = RESERVED_CONNECTIONS / 2;
    let silent = admit(&connections, "192.0.2.2", half, now);
    assert!(silent.iter().all(|slot| slot.health_only));
    // Another address takes the other half, then replaces its own.
    let later = now + Duration::from_millis(500);
    let others = admit(&connections, "192.0.2.3", half + 1, later);
    assert_eq!((evicted(&silent), evicted(&others)), (vec![], vec![0]));
    let probe = connections.admit(address("192.0.2.4"), later + MINUTE);
    assert!(probe.unwrap().health_only);
    assert_eq!((evicted(&silent), evicted(&others)), (vec![0], vec![0]));
    for slot in silent.iter().chain(&others) {
        slot.activity.mark_serving();
    }
    // One place is free again, but not for an address that has its half.
    assert!(connections.admit(address("192.0.2.3"), later).is_none());
    let last = connections.admit(address("192.0.2.4"), later).unwrap();
    last.activity.mark_serving();
    assert!(connections.admit(address("192.0.2.5"), later).is_none());
}

/// A connection that is closing gracefully uses a file descriptor.
#[test]
fn many_evicted_connections_are_aborted() {
    let connections = connections(200, None);
    let now = connections.epoch;
    let slots = admit(&connections, "192.0.2.1", 200, now);
    let _new = admit(
        &connections,
        "192.0.2.2",
        100,
        now + Duration::from_millis(500),
    );
    let by = |how| {
        let evictions = slots.iter().filter_map(|slot| slot.activity.evicted());
        evictions.filter(|eviction| *eviction == how).count()
    };
    let closed = by(Eviction::Close);
    assert_eq!((closed, closed + by(Eviction::Abort)), (MAX_CLOSING, 100));
    drop(slots);
    assert!(connections.lock().closing.is_empty());
}

/// Under a burst of connections from one address, each waits for its turn.
#[test]
fn new_connections_have_time_for_their_first_request() {
    let connections = connections(4, None);
    let now = connections.epoch;
    let new = || connections.admit(address("192.0.2.1"), now).unwrap();
    let slots = [(); 4].map(|()| new());
    let after = |millis| now + Duration::from_millis(millis);
    for (client, at) in [("192.0.2.1", 900), ("192.0.2.2", 90)] {
        let slot = connections.admit(address(client), after(at)).unwrap();
        assert!(slot.health_only, "{client}");
    }
    assert!(evicted(&slots).is_empty());
    let other = connections.admit(address("192.0.2.2"), after(110)).unwrap();
    let own = connections
        .admit(address("192.0.2.1"), after(1010))
        .unwrap();
    assert!(!other.health_only && !own.health_only);
    assert_eq!(evicted(&slots).len(), 2);
}

#[test]
fn http2_connections_with_a_request_are_not_evicted() {
    let connections = connections(1, None);
    let now = connections.epoch;
    let slots = admit(&connections, "192.0.2.1", 1, now);
    let queued = QueuedRequest::new(&slots[0].activity, 0);
    slots[0].activity.block(now);
    let later = now + MINUTE;
    let is_kept = || {
        let new = connections.admit(address("192.0.2.2"), later).unwrap();
        new.health_only && evicted(&slots).is_empty()
    };
    assert!(is_kept(), "its task has not run yet");
    let active = queued.start().now_or_never().unwrap();
    assert!(is_kept());
    let _unsent = active.end(0);
    let new = connections.admit(address("192.0.2.2"), later).unwrap();
    assert!(!new.health_only);
    assert_eq!(evicted(&slots), [0]);
}

const MEGABYTE: usize = 1 << 20;

/// Connections that share a budget of eight megabytes.
fn with_budget() -> Arc<Connections> {
    let limits = Limits {
        max_held_bytes: 8 * MEGABYTE,
        ..Limits::default()
    };
    Arc::new(Connections::new(&limits, Arc::default()))
}

/// A connection of this address and principal, and the memory that it holds.
fn holder(
    connections: &Arc<Connections>,
    client: &str,
    principal: Option<i64>,
    bytes: usize,
) -> (Slot, HeldMemory) {
    let slot = connections
        .admit(address(client), connections.epoch)
        .unwrap();
    if let Some(principal) = principal {
        slot.activity.set_principal(principal);
    }
    let held = HeldMemory::new(&slot.activity, bytes);
    (slot, held)
}

fn reset(holders: &[(Slot, HeldMemory)]) -> Vec<usize> {
    let is_reset = |n: &usize| holders[*n].0.activity.evicted() == Some(Eviction::Reset);
    (0..holders.len()).filter(is_reset).collect()
}

#[test]
fn the_address_that_holds_most_memory_loses_its_largest_connections() {
    let connections = with_budget();
    let hold = |client, megabytes| holder(&connections, client, None, megabytes * MEGABYTE);
    let mut holders = vec![hold("192.0.2.1", 3)];
    holders.extend([1, 2, 1, 1].map(|megabytes| hold("192.0.2.2", megabytes)));
    connections.enforce_memory_budget(connections.epoch);
    assert!(reset(&holders).is_empty(), "it is within the budget");
    holders.push(hold("192.0.2.3", 1));
    connections.enforce_memory_budget(connections.epoch);
    assert_eq!(reset(&holders), [2]);
    // What is about to be released counts as free.
    connections.enforce_memory_budget(connections.epoch);
    assert_eq!(reset(&holders), [2]);
    drop(holders);
    assert_eq!(connections.metrics.held_bytes.load(Relaxed), 0);
}

/// An evicted connection may take long to close, if its client reads slowly.
#[test]
fn an_evicted_connection_counts_until_it_is_closed() {
    let connections = with_budget();
    let hold = |client, megabytes| holder(&connections, client, None, megabytes * MEGABYTE);
    let holders = [hold("192.0.2.1", 5), hold("192.0.2.2", 4)];
    let id = holders[0].0.id;
    connections.evict(&mut connections.lock(), false, address("192.0.2.1"), id);
    connections.enforce_memory_budget(connections.epoch);
    assert_eq!(reset(&holders), [0]);
}

#[test]
fn a_principal_is_one_holder_whatever_its_addresses() {
    let connections = with_budget();
    let mut holders = Vec::new();
    for number in 1..=6 {
        let client = format!("192.0.2.{number}");
        holders.push(holder(&connections, &client, Some(7), MEGABYTE));
    }
    holders.push(holder(&connections, "192.0.2.10", Some(8), 3 * MEGABYTE));
    connections.enforce_memory_budget(connections.epoch);
    let reset = reset(&holders);
    assert!(reset.len() == 2 && !reset.contains(&6), "{reset:?}");
}

#[test]
fn behind_a_proxy_the_principal_that_holds_most_goes_first() {
    let connections = with_budget();
    let hold =
        |principal, megabytes| holder(&connections, "192.0.2.1", principal, megabytes * MEGABYTE);
    let holders = [
        hold(Some(1), 3),
        hold(None, 2),
        hold(None, 2),
        hold(Some(2), 2),
    ];
    connections.enforce_memory_budget(connections.epoch);
    assert_eq!(reset(&holders).len(), 1);
    assert!(matches!(reset(&holders)[..], [1 | 2]));
}

/// Covers HTTP/1.1, with the responses that are pipelined behind the blocked one.
#[test]
fn a_response_is_charged_once_its_write_blocks() {
    let connections = with_budget();
    let slot = connections.admit(address("192.0.2.1"), connections.epoch);
    let activity = &slot.unwrap().activity;
    activity.set_response_bytes(MEGABYTE);
    assert_eq!(activity.held(), 0);
    activity.block(connections.epoch);
    let held = activity.held();
    assert!(held >= MEGABYTE);
    activity.set_response_bytes(MEGABYTE);
    assert_eq!(activity.held(), held + MEGABYTE);
    activity.unblock();
    assert_eq!(activity.held(), 0);
}

/// The first request always starts, and authentication makes room for those that wait.
#[test]
fn requests_wait_without_a_principal_and_behind_unread_responses() {
    let connections = with_budget();
    let slot = connections
        .admit(address("192.0.2.1"), connections.epoch)
        .unwrap();
    let start = |bytes| {
        let queued = QueuedRequest::new(&slot.activity, bytes);
        queued.start().now_or_never()
    };
    let mut active: Vec<_> = (0..8).map(|_| start(0).unwrap()).collect();
    assert!(start(0).is_none(), "not authenticated");
    let unsent = active.pop().unwrap().end(100);
    assert!(start(0).is_none(), "its response is not sent");
    drop(unsent);
    active.push(start(0).unwrap());
    slot.activity.set_principal(1);
    active.extend((0..20).map(|_| start(0).unwrap()));
    let unsent = active.pop().unwrap().end(MEGABYTE);
    assert!(start(0).is_none(), "too much is not sent");
    drop(unsent);
    assert!(start(0).is_some());
    drop(active);
    assert!(start(2 * MEGABYTE).is_some(), "the first one starts");
    assert_eq!(slot.activity.held(), 0);
}
