//! The count by itself, at moments that no real clock would hit.

use std::{net::Ipv4Addr, time::Duration};

use super::*;

fn limiter(limit: &str) -> Limiter {
    Limiter::new(limit.parse().unwrap())
}

#[test]
fn all_may_come_at_once_and_then_one_by_one() {
    let (limiter, level) = (limiter("3/60s"), Level::default());
    // Whether it was granted, how many are left, and the wait for one more.
    let take = |after: Duration| {
        let quota = limiter.take(&level, limiter.start + after);
        (quota.granted, quota.left, quota.wait)
    };
    let second = Duration::from_secs;
    assert_eq!(take(second(0)), (true, 2, 20));
    assert_eq!(take(second(0)), (true, 1, 20));
    assert_eq!(take(second(5)), (true, 0, 15));
    assert_eq!(take(second(5)), (false, 0, 15));
    assert_eq!(take(Duration::from_millis(19_001)), (false, 0, 1));
    // What was refused has taken nothing.
    assert_eq!(take(second(20)), (true, 0, 20));
    assert_eq!(take(second(39)), (false, 0, 1));
    assert_eq!(take(second(65)), (true, 1, 15));
    // After a long silence there is all of it, and not more.
    assert_eq!(take(second(86_400)), (true, 2, 20));
    // One that came before it may be counted after it.
    assert_eq!(take(second(86_399)), (true, 0, 1));
}

/// The largest and the smallest limits stay within their numbers.
#[test]
fn the_bounds_hold() {
    for (limit, most) in [
        ("1000000/1s", 1_000_000),
        ("1000000/24h", 1_000_000),
        ("1/24h", 1),
    ] {
        let (limiter, level) = (limiter(limit), Level::default());
        let at = limiter.start + Duration::from_secs(100 * 365 * 86_400);
        let granted = (0..most + 10).filter(|_| limiter.take(&level, at).granted);
        assert_eq!(granted.count(), most, "{limit}");
    }
}

#[test]
fn threads_share_a_limit_to_the_last_request() {
    let (limiter, level) = (limiter("1000/24h"), Level::default());
    let at = limiter.start;
    let granted = std::thread::scope(|scope| {
        let take = || {
            (0..500)
                .filter(|_| limiter.take(&level, at).granted)
                .count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        let granted = threads.into_iter().map(|thread| thread.join().unwrap());
        granted.sum::<usize>()
    });
    assert_eq!(granted, 1000);
}

/// However many addresses come, so many are remembered; one that goes on is.
#[test]
fn memory_is_bounded() {
    let strangers = Strangers::new("5/24h".parse().unwrap());
    let at = strangers.limiter.start;
    let wrong = |client: IpAddr| strangers.refuse(client, at, ApiError::MissingApiKey);
    let busy = IpAddr::from([10, 0, 0, 1]);
    for n in 0..10 * ADDRESSES as u32 {
        wrong(Ipv4Addr::from_bits(0xc000_0000 + n).into());
        if n % 1000 == 0 {
            wrong(busy);
        }
    }
    assert!(strangers.levels.len() <= ADDRESSES);
    assert!(!strangers.may_err(busy, at));
}

#[test]
fn addresses_of_a_client_count_as_one() {
    let strangers = Strangers::new("1/24h".parse().unwrap());
    let at = strangers.limiter.start;
    let is_refused = |client: &str| {
        let client = client.parse().unwrap();
        let may = strangers.may_err(client, at);
        let error = strangers.refuse(client, at, ApiError::MissingApiKey);
        let limited = matches!(error, ApiError::RateLimited { .. });
        assert_eq!(may, !limited);
        limited
    };
    assert!(!is_refused("2001:db8:1:2::1"));
    assert!(is_refused("2001:db8:1:2:ffff::2"));
    assert!(!is_refused("2001:db8:1:3::1"));
    assert!(!is_refused("192.0.2.1"));
    assert!(is_refused("192.0.2.1"));
    assert!(!is_refused("192.0.2.2"));
}
