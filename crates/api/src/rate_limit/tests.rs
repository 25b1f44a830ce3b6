//! Tests of the algorithm alone, at times that no real clock would hit.

use std::{net::Ipv4Addr, time::Duration};

use super::*;

fn limiter(limit: &str) -> Limiter {
    Limiter::new(limit.parse().unwrap())
}

#[test]
fn a_burst_is_allowed_and_then_replenished_at_a_constant_rate() {
    let limiter = limiter("3/60s");
    let arrival = ArrivalTime::default();
    // Granted, remaining, retry_after.
    let charge = |after: Duration| {
        let quota = limiter.charge(&arrival, limiter.epoch + after);
        (quota.granted, quota.remaining, quota.retry_after)
    };
    let second = Duration::from_secs;
    assert_eq!(charge(second(0)), (true, 2, 20));
    assert_eq!(charge(second(0)), (true, 1, 20));
    assert_eq!(charge(second(5)), (true, 0, 15));
    assert_eq!(charge(second(5)), (false, 0, 15));
    assert_eq!(charge(Duration::from_millis(19_001)), (false, 0, 1));
    // A rejected request is not charged.
    assert_eq!(charge(second(20)), (true, 0, 20));
    assert_eq!(charge(second(39)), (false, 0, 1));
    assert_eq!(charge(second(65)), (true, 1, 15));
    // After a long pause the whole quota is back, and no more.
    assert_eq!(charge(second(86_400)), (true, 2, 20));
    // Requests may be charged out of order.
    assert_eq!(charge(second(86_399)), (true, 0, 1));
}

/// Requests that wait for the database continue in any order.
#[test]
fn the_first_to_arrive_may_be_charged_last() {
    let limiter = limiter("2/24h");
    let arrival = ArrivalTime::default();
    let is_granted = |at| limiter.charge(&arrival, at).granted;
    let first = Instant::now();
    std::thread::sleep(Duration::from_millis(1));
    let later = Instant::now();
    assert!(is_granted(later) && is_granted(first) && !is_granted(later));
}

#[test]
fn the_largest_and_smallest_limits_do_not_overflow() {
    for (limit, most) in [
        ("1000000/1s", 1_000_000),
        ("1000000/24h", 1_000_000),
        ("1/24h", 1),
    ] {
        let limiter = limiter(limit);
        let arrival = ArrivalTime::default();
        let at = limiter.epoch + Duration::from_secs(100 * 365 * 86_400);
        let granted = (0..most + 10).filter(|_| limiter.charge(&arrival, at).granted);
        assert_eq!(granted.count(), most, "{limit}");
    }
}

#[test]
fn concurrent_requests_never_exceed_the_limit() {
    let limiter = limiter("1000/24h");
    let arrival = ArrivalTime::default();
    let at = limiter.epoch;
    let granted = std::thread::scope(|scope| {
        let charge = || {
            (0..500)
                .filter(|_| limiter.charge(&arrival, at).granted)
                .count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(charge)).collect();
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        counts.sum::<usize>()
    });
    assert_eq!(granted, 1000);
}

#[test]
fn tracked_addresses_are_bounded_and_a_busy_one_is_kept() {
    let limiter = FailedAuthLimiter::new("5/24h".parse().unwrap());
    let at = limiter.limiter.epoch;
    let fail = |client: IpAddr| limiter.charge(client, at);
    let busy = IpAddr::from([10, 0, 0, 1]);
    for n in 0..10 * MAX_ADDRESSES as u32 {
        fail(Ipv4Addr::from_bits(0xc000_0000 + n).into());
        if n % 1000 == 0 {
            fail(busy);
        }
    }
    assert!(limiter.arrivals.len() <= MAX_ADDRESSES);
    assert!(!limiter.has_budget(busy, at));
}

#[test]
fn addresses_of_an_ipv6_network_share_a_limit() {
    let limiter = FailedAuthLimiter::new("1/24h".parse().unwrap());
    let at = limiter.limiter.epoch;
    let is_limited = |client: &str| {
        let client = client.parse().unwrap();
        let has_budget = limiter.has_budget(client, at);
        let quota = limiter.charge(client, at);
        assert_eq!(has_budget, quota.granted);
        !quota.granted
    };
    assert!(!is_limited("2001:db8:1:2::1"));
    assert!(is_limited("2001:db8:1:2:ffff::2"));
    assert!(!is_limited("2001:db8:1:3::1"));
    assert!(!is_limited("192.0.2.1"));
    assert!(is_limited("192.0.2.1"));
    assert!(!is_limited("192.0.2.2"));
}
