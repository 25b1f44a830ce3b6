use std::{
    future::pending,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tokio::{
    sync::{Mutex, oneshot},
    task::yield_now,
    time::timeout,
};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

type Waiting<'a, R> = Pin<Box<dyn Future<Output = R> + 'a>>;

/// Polls a future once and returns it. Panics if it is ready.
fn waiting<'a, R>(future: impl Future<Output = R> + 'a) -> Waiting<'a, R> {
    let mut future: Waiting<R> = Box::pin(future);
    assert!((&mut future).now_or_never().is_none(), "it does not wait");
    future
}

/// Waits for a future, and panics if that takes too long.
async fn ended<R>(future: impl Future<Output = R>) -> R {
    timeout(Duration::from_secs(60), future).await.unwrap()
}

fn join<T: Clone>(flights: &SingleFlight<T>) -> impl Future<Output = Turn<T>> {
    flights.join(Instant::now())
}

fn lead<T>(join: impl Future<Output = Turn<T>>) -> Leader<T> {
    match join.now_or_never() {
        Some(Turn::Leader(leader)) => leader,
        Some(Turn::Follower(_)) => panic!("it is not the leader"),
        None => panic!("it waits"),
    }
}

fn follow<T>(join: impl Future<Output = Turn<T>>) -> T {
    match join.now_or_never() {
        Some(Turn::Follower(result)) => result,
        Some(Turn::Leader(_)) => panic!("it is the leader"),
        None => panic!("it waits"),
    }
}

#[test]
fn callers_that_arrive_during_a_run_share_the_next_one() {
    let flights = SingleFlight::default();
    let first = lead(join(&flights));
    let [second, third, fourth] = [(); 3].map(|()| waiting(join(&flights)));
    assert_eq!(first.finish("first"), "first");
    let second = lead(second);
    let third = waiting(third);
    let late = waiting(join(&flights));
    assert_eq!(second.finish("second"), "second");
    let late = lead(late);
    assert_eq!([third, fourth].map(follow), ["second"; 2]);
    late.finish("third");
    lead(join(&flights));
}

#[test]
fn a_run_is_shared_with_earlier_calls_that_join_late() {
    let flights = SingleFlight::default();
    let early = Instant::now() - HOUR;
    let first = lead(join(&flights));
    let second = waiting(flights.join(early));
    let third = waiting(join(&flights));
    first.finish("first");
    assert_eq!(follow(flights.join(early)), "first");
    assert_eq!(follow(second), "first");
    lead(third);
}

#[test]
fn a_recent_result_is_reused() {
    let flights = SingleFlight::reusing(HOUR);
    let first = lead(join(&flights));
    let second = waiting(join(&flights));
    first.finish("first");
    assert_eq!(follow(second), "first");
    assert_eq!(follow(join(&flights)), "first");
    flights.0.state.lock().unwrap().started = Some(Instant::now() - HOUR);
    lead(join(&flights)).finish("second");
    assert_eq!(follow(join(&flights)), "second");
}

#[test]
fn a_result_is_kept_only_to_be_reused() {
    for (flights, kept) in [
        (SingleFlight::default(), 0),
        (SingleFlight::spaced(HOUR), 0),
        (SingleFlight::reusing(HOUR), 1),
    ] {
        let result = Arc::new(());
        lead(join(&flights)).finish(result.clone());
        assert_eq!(Arc::strong_count(&result), 1 + kept, "{flights:?}");
    }
}

#[tokio::test]
async fn callers_share_the_run_that_waits_for_its_interval() {
    let flights = SingleFlight::spaced(HOUR);
    lead(join(&flights)).finish("first");
    let second = waiting(join(&flights));
    assert!(flights.0.state.lock().unwrap().next.is_some());
    let [third, fourth] = [(); 2].map(|()| waiting(join(&flights)));
    // Ends the interval; the second caller has already set its timer.
    flights.0.state.lock().unwrap().started = None;
    drop(second);
    lead(third).finish("second");
    assert_eq!(follow(fourth), "second");
}

#[tokio::test]
async fn a_run_starts_after_its_interval() {
    let flights = SingleFlight::spaced(Duration::from_millis(1));
    for run in 0..3 {
        assert_eq!(ended(flights.run(async { run })).await, run);
    }
}

#[test]
fn callers_in_line_may_be_cancelled() {
    let flights = SingleFlight::default();
    let first = lead(join(&flights));
    let [second, third, fourth, fifth] = [(); 4].map(|()| waiting(join(&flights)));
    drop((second, fourth));
    first.finish("first");
    lead(third).finish("third");
    assert_eq!(follow(fifth), "third");

    let last = lead(join(&flights));
    drop([(); 2].map(|()| waiting(join(&flights))));
    last.finish("last");
    lead(join(&flights));
}

#[test]
fn if_the_leader_is_cancelled_the_next_caller_leads() {
    let flights = SingleFlight::default();
    let first = lead(join(&flights));
    let second = waiting(flights.run(pending()));
    let [third, fourth] = ["third", "fourth"].map(|name| waiting(flights.run(async move { name })));
    first.finish("first");
    drop(waiting(second));
    assert_eq!(third.now_or_never(), Some("third"));
    assert_eq!(fourth.now_or_never(), Some("third"));
    lead(join(&flights));
}

#[test]
fn a_flight_that_starts_again_leaves_the_next_one_open() {
    let flights = SingleFlight::default();
    let first = lead(join(&flights));
    let second = waiting(join(&flights));
    let third = waiting(join(&flights));
    first.finish("first");
    let second = lead(second);
    let fourth = waiting(join(&flights));
    drop(second);
    let fourth = lead(fourth);
    let third = waiting(third);
    let fifth = waiting(join(&flights));
    fourth.finish("fourth");
    let third = lead(third);
    let sixth = waiting(join(&flights));
    third.finish("third");
    lead(fifth).finish("fifth");
    assert_eq!(follow(sixth), "fifth");
}

#[tokio::test]
async fn a_spawned_run_outlives_its_caller() {
    let flights = SingleFlight::default();
    let first = lead(join(&flights));
    let (end, end_received) = oneshot::channel();
    let second = waiting(flights.spawn(|| end_received.map(Result::unwrap)));
    let third = waiting(flights.spawn(|| async { "third" }));
    first.finish("first");
    drop(waiting(second));
    let late = waiting(flights.spawn(|| async { "late" }));
    end.send("second").unwrap();
    assert_eq!(ended(third).await.unwrap(), "second");
    assert_eq!(ended(late).await.unwrap(), "late");
}

#[tokio::test]
async fn if_the_leader_panics_the_next_caller_leads() {
    let flights = SingleFlight::default();
    let first = lead(join(&flights));
    let second = waiting(flights.spawn(|| async { panic!("expected") }));
    let third = waiting(AssertUnwindSafe(flights.run(async { panic!("expected") })).catch_unwind());
    let fourth = waiting(flights.spawn(|| async { "fourth" }));
    first.finish("first");
    assert!(ended(second).await.unwrap_err().is_panic());
    assert!(ended(third).await.is_err());
    assert_eq!(ended(fourth).await.unwrap(), "fourth");
}

/// While half of the callers are cancelled, no caller is forgotten or gets the result of a
/// run that started before its call, and one operation runs at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_come_and_go() {
    let flights = SingleFlight::default();
    let started = Arc::new(AtomicUsize::new(0));
    let running = Arc::new(Mutex::new(()));
    let callers = (0..2000).map(|number| {
        let flights = flights.clone();
        let started = started.clone();
        let running = running.clone();
        tokio::spawn(async move {
            let before = started.load(Ordering::SeqCst);
            let operation = async move {
                let run = started.fetch_add(1, Ordering::SeqCst);
                let _running = running.try_lock_owned().unwrap();
                yield_now().await;
                run
            };
            let call: BoxFuture<_> = if number % 4 < 2 {
                flights.run(operation).boxed()
            } else {
                flights.spawn(|| operation).map(Result::unwrap).boxed()
            };
            if number % 2 == 0 {
                assert!(call.await >= before);
            } else {
                let _ = timeout(Duration::from_millis(number % 3), call).await;
            }
        })
    });
    let callers = ended(join_all(callers)).await;
    callers.into_iter().for_each(Result::unwrap);
}
