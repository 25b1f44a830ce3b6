use jiff::SignedDuration;

use super::*;
use domain::{
    api_key::Scopes,
    event::{Event, EventData, EventType},
    webhook::{
        NewWebhook, WebhookId,
        secret::{SigningSecrets, WebhookSecret},
        url::WebhookUrl,
    },
};
use store::event_tail::Framing;

const NOW: Timestamp = Timestamp::constant(1_000_000, 0);
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn event(sequence: i64, kind: EventType) -> Arc<SerializedEvent> {
    let event = Event {
        sequence,
        at: NOW + SignedDuration::from_secs(sequence),
        kind,
        api_key_id: None,
        resource_id: 1,
        data: EventData::of_resource(r#"{"id":1}"#.into()),
        batch_id: None,
    };
    Arc::new(SerializedEvent::new(&event, "urn:test", Framing::default()))
}

fn created(sequence: i64) -> Arc<SerializedEvent> {
    event(sequence, EventType::PetCreated)
}

/// Returns a tracker of a log in which only `pet.created` is to be delivered.
fn tracker() -> Tracker {
    let new = NewWebhook {
        url: WebhookUrl::parse("https://example.com").unwrap(),
        types: Some([EventType::PetCreated].into_iter().collect()),
        description: None,
    };
    let webhook = new.create(WebhookId::from_store(1), 1, Scopes::all(), NOW);
    let stored = StoredWebhook {
        webhook: webhook.unwrap(),
        secrets: SigningSecrets::new(WebhookSecret::generate()),
        position: EventId::START,
        health: EndpointHealth::default(),
        paused_until: None,
        revision: 1,
        epoch: 1,
        lease: None,
    };
    Tracker::new(&stored, Box::new(|now| now))
}

fn with_events(count: i64) -> Tracker {
    let mut tracker = tracker();
    tracker.add_events((1..=count).map(created).collect(), created(count).id);
    tracker.set_retries(Retries::default(), 100);
    tracker
}

fn attempt(status: u16) -> Attempt {
    retry_after(status, None)
}

fn retry_after(status: u16, seconds: Option<&str>) -> Attempt {
    let outcome = Outcome::of_response(status, seconds, NOW);
    let failed = outcome != Outcome::Delivered;
    Attempt {
        outcome,
        status: Some(status),
        error: failed.then_some(AttemptError::UnsuccessfulStatus),
        duration: Duration::ZERO,
    }
}

/// Starts as many jobs as possible. Returns events by their number, retries by its negative.
fn start(tracker: &mut Tracker, now: Timestamp) -> Vec<i64> {
    let jobs = std::iter::from_fn(|| tracker.next_job(now));
    jobs.map(|job| match job {
        Job::Event(event) => event.id.sequence,
        Job::Retry(delivery) => -delivery.event_id.sequence,
    })
    .collect()
}

fn finish(
    tracker: &mut Tracker,
    sequence: i64,
    status: u16,
    now: Timestamp,
) -> Option<DeliveryOutcome> {
    tracker.finish_event(created(sequence).id, &attempt(status), now)
}

fn is_to_be_saved_now(tracker: &Tracker) -> bool {
    tracker.save_at().is_some_and(|at| at <= Instant::now())
}

/// Returns the saved position, and the deliveries that failed.
fn saved(tracker: &mut Tracker) -> (i64, Vec<(i64, u32)>) {
    let progress = tracker.progress();
    tracker.saved();
    let failures = progress
        .failures
        .iter()
        .map(|it| (it.event_id.sequence, it.attempts));
    (progress.position.sequence, failures.collect())
}

fn delivery(sequence: i64, attempts: u32) -> Delivery {
    Delivery {
        event_id: created(sequence).id,
        state: DeliveryState::Retrying,
        attempts,
        last_attempt_at: NOW - DAY,
        status: Some(500),
        error: AttemptError::UnsuccessfulStatus,
        next_attempt_at: Some(NOW),
    }
}

fn with_retries(due: &[i64], events: i64) -> Tracker {
    let mut tracker = with_events(events);
    let due = due.iter().map(|sequence| delivery(*sequence, 1)).collect();
    let retries = Retries {
        due,
        next_at: Some(NOW + DAY),
        count: 10,
    };
    tracker.set_retries(retries, 100);
    tracker
}

#[test]
fn four_events_are_in_flight_in_their_order() {
    let mut tracker = with_events(6);
    assert_eq!(start(&mut tracker, NOW), [1, 2, 3, 4]);
    assert_eq!(
        finish(&mut tracker, 3, 200, NOW),
        Some(DeliveryOutcome::Delivered)
    );
    assert_eq!(start(&mut tracker, NOW), [5]);
}

#[test]
fn the_position_has_no_gaps() {
    let mut tracker = with_events(4);
    start(&mut tracker, NOW);
    assert_eq!(tracker.save_at(), None);
    for (finished, position) in [(2, 0), (4, 0), (1, 2), (3, 4)] {
        finish(&mut tracker, finished, 204, NOW);
        assert_eq!(tracker.progress().position.sequence, position);
        assert_eq!(tracker.save_at().is_some(), position > 0);
    }
    assert!(!is_to_be_saved_now(&tracker));
    assert_eq!(saved(&mut tracker), (4, vec![]));
    assert_eq!(tracker.save_at(), None);
}

#[test]
fn events_of_other_types_are_skipped() {
    let mut tracker = tracker();
    let other = |sequence| event(sequence, EventType::PetDeleted);
    tracker.add_events(Events::new(), other(2).id);
    // Nothing was sent: the position is saved, but not soon.
    assert_eq!(tracker.progress().position.sequence, 2);
    assert!(tracker.save_at().unwrap() > Instant::now() + SAVE_DELAY);
    tracker.add_events(vec![created(3), created(5)], other(6).id);
    assert_eq!(tracker.read_position(), other(6).id);
    assert_eq!(tracker.oldest(), Some(created(3).at));
    assert_eq!(start(&mut tracker, NOW), [3, 5]);
    finish(&mut tracker, 5, 200, NOW);
    assert_eq!(tracker.progress().position.sequence, 2);
    finish(&mut tracker, 3, 200, NOW);
    assert_eq!(tracker.progress().position, other(6).id);
    assert!(tracker.save_at().unwrap() <= Instant::now() + SAVE_DELAY);
    assert_eq!(tracker.oldest(), None);
}

#[test]
fn many_completions_are_saved_at_once() {
    let mut tracker = with_events(100);
    assert!(!tracker.needs_events());
    for sequence in 1..=64 {
        assert!(!is_to_be_saved_now(&tracker), "{sequence}");
        start(&mut tracker, NOW);
        finish(&mut tracker, sequence, 200, NOW);
    }
    assert!(is_to_be_saved_now(&tracker));
    assert!(tracker.needs_events());
}

#[test]
fn a_failed_event_is_scheduled_for_a_retry_and_saved_at_once() {
    let mut tracker = with_events(6);
    start(&mut tracker, NOW);
    assert_eq!(
        finish(&mut tracker, 1, 500, NOW),
        Some(DeliveryOutcome::Retrying)
    );
    assert!(is_to_be_saved_now(&tracker));
    let failed = &tracker.progress().failures[0];
    assert_eq!(failed.event_id, created(1).id);
    assert_eq!((failed.status, failed.attempts), (Some(500), 1));
    assert_eq!(failed.state, DeliveryState::Retrying);
    assert!(failed.next_attempt_at.unwrap() > NOW);
    // The position moves on; one event is sent at a time until the next success.
    assert_eq!(saved(&mut tracker), (1, vec![(1, 1)]));
    for sequence in [2, 3] {
        assert_eq!(start(&mut tracker, NOW), [0; 0]);
        finish(&mut tracker, sequence, 500, NOW);
    }
    finish(&mut tracker, 4, 200, NOW);
    assert!(is_to_be_saved_now(&tracker), "it has recovered");
    assert_eq!(start(&mut tracker, NOW), [5, 6]);
    assert_eq!(saved(&mut tracker), (4, vec![(2, 1), (3, 1)]));
}

#[test]
fn a_receiver_that_fails_backs_off_without_putting_events_off() {
    let mut tracker = with_events(9);
    start(&mut tracker, NOW);
    for sequence in 1..=4 {
        assert_eq!(
            finish(&mut tracker, sequence, 500, NOW),
            Some(DeliveryOutcome::Retrying)
        );
    }
    assert_eq!(start(&mut tracker, NOW), [5]);
    assert_eq!(finish(&mut tracker, 5, 500, NOW), None);
    assert!(tracker.is_backing_off());
    assert_eq!(saved(&mut tracker).0, 4);
    // Nothing is sent during the pause, then another event as a probe.
    assert_eq!(start(&mut tracker, NOW), [0; 0]);
    let paused_until = tracker.progress().paused_until.unwrap();
    assert!(paused_until > NOW);
    assert_eq!(tracker.wake_at(NOW), Some(paused_until));
    assert_eq!(start(&mut tracker, paused_until), [6]);
    assert_eq!(start(&mut tracker, paused_until), [0; 0]);
    assert_eq!(
        finish(&mut tracker, 6, 200, paused_until),
        Some(DeliveryOutcome::Delivered)
    );
    assert!(!tracker.is_backing_off());
    assert_eq!(start(&mut tracker, paused_until), [5, 7, 8, 9]);
}

/// The receiver may reject only some events.
#[test]
fn events_that_fail_as_probes_do_not_block_the_others() {
    let mut tracker = with_events(8);
    let mut now = NOW;
    start(&mut tracker, now);
    for sequence in 1..=4 {
        finish(&mut tracker, sequence, 400, now);
    }
    for sequence in [5, 6] {
        assert_eq!(start(&mut tracker, now), [sequence]);
        assert_eq!(finish(&mut tracker, sequence, 400, now), None);
        now = tracker.progress().paused_until.unwrap();
    }
    assert_eq!(start(&mut tracker, now), [7]);
    finish(&mut tracker, 7, 200, now);
    assert_eq!(start(&mut tracker, now), [5, 6, 8]);
    for sequence in [5, 6] {
        let settled = finish(&mut tracker, sequence, 400, now);
        assert_eq!(settled, Some(DeliveryOutcome::Retrying));
    }
}

#[test]
fn an_event_that_often_fails_as_a_probe_is_scheduled_for_a_retry() {
    let mut tracker = with_events(5);
    let mut now = NOW;
    start(&mut tracker, now);
    for sequence in 1..=4 {
        finish(&mut tracker, sequence, 400, now);
    }
    for expected in [None, None, Some(DeliveryOutcome::Retrying)] {
        assert_eq!(start(&mut tracker, now), [5]);
        assert_eq!(finish(&mut tracker, 5, 400, now), expected);
        now = tracker.progress().paused_until.unwrap();
    }
    let (position, failures) = saved(&mut tracker);
    assert_eq!((position, failures.last()), (5, Some(&(5, 3))));
}

#[test]
fn retry_after_pauses_the_receiver() {
    let mut tracker = with_events(6);
    start(&mut tracker, NOW);
    let busy = retry_after(429, Some("3600"));
    let settled = tracker.finish_event(created(1).id, &busy, NOW);
    assert_eq!(settled, Some(DeliveryOutcome::Retrying));
    let until = NOW + SignedDuration::from_hours(1);
    let progress = tracker.progress();
    assert_eq!(progress.paused_until, Some(until));
    assert_eq!(progress.failures[0].next_attempt_at, Some(until));
    // A shorter pause does not shorten it; the requests in flight are over.
    for sequence in 2..=4 {
        let busy = retry_after(503, Some("1"));
        tracker.finish_event(created(sequence).id, &busy, NOW);
    }
    assert_eq!(tracker.progress().paused_until, Some(until));
    assert_eq!(
        start(&mut tracker, until - SignedDuration::from_secs(1)),
        [0; 0]
    );
    assert_eq!(start(&mut tracker, until), [5]);
}

#[test]
fn a_410_disables_the_webhook_and_the_event_is_kept() {
    let mut tracker = with_events(6);
    start(&mut tracker, NOW);
    assert_eq!(finish(&mut tracker, 1, 410, NOW), None);
    assert!(is_to_be_saved_now(&tracker));
    let progress = tracker.progress();
    assert_eq!(progress.disabled, Some(DisabledReason::ReceiverGone));
    assert_eq!(progress.position, EventId::START);
    assert!(progress.failures.is_empty());
    finish(&mut tracker, 2, 200, NOW);
    assert_eq!(start(&mut tracker, NOW), [0; 0]);
}

#[test]
fn five_days_of_failures_disable_the_webhook() {
    let mut tracker = with_events(6);
    start(&mut tracker, NOW);
    for sequence in 1..=4 {
        finish(&mut tracker, sequence, 500, NOW);
    }
    start(&mut tracker, NOW);
    finish(&mut tracker, 5, 500, NOW + DAY * 5);
    let reason = tracker.progress().disabled;
    assert_eq!(reason, Some(DisabledReason::ReceiverFailing));
    assert_eq!(tracker.disabled(), reason);
}

#[test]
fn retries_take_half_of_the_requests_in_flight() {
    let mut tracker = with_retries(&[11, 12, 13], 6);
    assert_eq!(start(&mut tracker, NOW), [-11, -12, 1, 2]);
    let mut alone = with_retries(&[11, 12, 13], 0);
    assert_eq!(start(&mut alone, NOW), [-11, -12, -13]);
}

#[test]
fn a_retry_is_delivered_scheduled_again_or_given_up() {
    let mut tracker = with_retries(&[11, 12], 0);
    start(&mut tracker, NOW);
    assert!(!tracker.needs_retries(NOW + DAY * 2));
    let delivered = tracker.finish_retry(&delivery(11, 1), &attempt(200), NOW);
    assert_eq!(delivered, DeliveryOutcome::Delivered);
    assert_eq!(tracker.progress().delivered, [created(11).id]);
    let rescheduled = tracker.finish_retry(&delivery(12, 1), &attempt(500), NOW);
    assert_eq!(rescheduled, DeliveryOutcome::Retrying);
    // While they are unsaved, the store would return them again.
    assert!(!tracker.needs_retries(NOW + DAY * 2));
    assert_eq!(tracker.wake_at(NOW), None);
    let next_at = tracker.progress().failures[0].next_attempt_at.unwrap();
    assert_eq!(saved(&mut tracker), (0, vec![(12, 2)]));
    assert!(next_at < NOW + DAY);
    assert_eq!(tracker.wake_at(NOW), Some(next_at));
    assert!(!tracker.needs_retries(NOW));
    assert!(tracker.needs_retries(next_at));

    let mut tracker = with_retries(&[13], 0);
    start(&mut tracker, NOW);
    let given_up = tracker.finish_retry(&delivery(13, 9), &attempt(500), NOW);
    assert_eq!(given_up, DeliveryOutcome::Failed);
    let failed = &tracker.progress().failures[0];
    assert_eq!((failed.state, failed.attempts), (DeliveryState::Failed, 10));
    assert_eq!(failed.next_attempt_at, None);
}

#[test]
fn a_retry_whose_event_is_gone_is_given_up() {
    let mut tracker = with_retries(&[11, 12], 0);
    start(&mut tracker, NOW);
    assert_eq!(
        tracker.expire_retry(delivery(11, 3), NOW),
        DeliveryOutcome::Failed
    );
    let failed = &tracker.progress().failures[0];
    assert_eq!(failed.error, AttemptError::EventExpired);
    assert_eq!((failed.state, failed.attempts), (DeliveryState::Failed, 3));
    assert_eq!((failed.status, failed.next_attempt_at), (None, None));
    assert_eq!(tracker.progress().health, EndpointHealth::default());
    // The retry was not attempted, so it is due again.
    tracker.return_retry(delivery(12, 1));
    assert_eq!(start(&mut tracker, NOW), [-12]);
}

/// A delivery has ten attempts, which are not spent on probes unless there is no new event.
#[test]
fn retries_wait_for_a_receiver_that_backs_off() {
    for (events, expected) in [(5, 5), (4, -11)] {
        let mut tracker = with_events(events);
        start(&mut tracker, NOW);
        for sequence in 1..=4 {
            finish(&mut tracker, sequence, 500, NOW);
        }
        tracker
            .health
            .record(Outcome::Failed { retry_after: None }, NOW, NOW);
        let retries = Retries {
            due: vec![delivery(11, 1)],
            next_at: None,
            count: 5,
        };
        tracker.set_retries(retries, 100);
        assert_eq!(start(&mut tracker, NOW), [expected]);
    }
}

#[test]
fn no_new_events_are_sent_while_too_many_deliveries_are_to_be_retried() {
    let mut tracker = with_events(3);
    let retries = Retries {
        due: vec![delivery(11, 1)],
        next_at: None,
        count: 10_000,
    };
    tracker.set_retries(retries, 1);
    assert_eq!(start(&mut tracker, NOW), [-11]);
    tracker.finish_retry(&delivery(11, 1), &attempt(200), NOW);
    assert_eq!(start(&mut tracker, NOW), [1, 2, 3]);
    // As many deliveries were due as were asked for, so more may be.
    tracker.saved();
    assert!(tracker.needs_retries(NOW));
}
