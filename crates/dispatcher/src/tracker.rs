//! Decides which events to send to one webhook, and which results to save. It does no I/O.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::{Attempt, metrics::DeliveryOutcome};
use domain::{
    event::EventId,
    webhook::{
        DisabledReason,
        delivery::{AttemptError, Delivery, DeliveryState, Progress, Retries, StoredWebhook},
        schedule::{EndpointHealth, NextStep, Outcome, latest_attempt, retry_delay},
    },
};
use store::event_tail::{Events, SerializedEvent};

/// The maximum number of requests in flight to a receiver that works, and to one that fails.
const MAX_IN_FLIGHT: usize = 4;
const MAX_IN_FLIGHT_FAILING: usize = 1;
/// The maximum number of retries in flight while there are new events to send.
const MAX_RETRIES_IN_FLIGHT: usize = 2;
/// The number of events in memory from which no more are read.
const WINDOW: usize = 100;
/// The number of deliveries to retry from which no new events are sent.
const MAX_RETRIES: u64 = 10_000;
/// The maximum number of attempts of one event at a receiver that backs off. After that, the
/// event is scheduled for a retry, in case the receiver works and rejects only this event.
const MAX_PROBES: u32 = 3;

/// The longest pause that a receiver can ask for.
const MAX_PAUSE: SignedDuration = SignedDuration::from_hours(24);

/// The maximum time that a delivery stays unsaved, and the maximum number of unsaved ones: they
/// are sent again after a crash.
const SAVE_DELAY: Duration = Duration::from_millis(500);
const MAX_UNSAVED: usize = 64;
/// The maximum time that progress over skipped events of other types stays unsaved.
const SAVE_SKIPPED_DELAY: Duration = Duration::from_secs(10);

/// A message to send: a new event, or a retry.
#[derive(Debug, Clone)]
pub enum Job {
    Event(Arc<SerializedEvent>),
    Retry(Delivery),
}

/// Returns the given time, or the trusted time if that is earlier: see [`EndpointHealth::record`].
type LimitToTrusted = Box<dyn Fn(Timestamp) -> Timestamp + Send + Sync>;

/// Delivery state of one webhook: events in flight, retries, unsaved progress. An event is settled
/// once it is delivered or scheduled for a retry.
pub struct Tracker {
    limit_to_trusted: LimitToTrusted,
    /// All events up to here are settled.
    position: EventId,
    /// The events to send after the position, in their order. The first of them is not settled.
    window: VecDeque<Entry>,
    health: EndpointHealth,
    /// The end of the pause that a backoff or the receiver imposes.
    paused_until: Option<Timestamp>,
    /// The reason why the webhook is being disabled; nothing is sent any more.
    disabled: Option<DisabledReason>,
    /// The number of requests in flight, retries included.
    in_flight: usize,

    /// The deliveries that are due for a retry, as the store returned them.
    due: VecDeque<Delivery>,
    retries_in_flight: usize,
    /// The time at which to ask the store for deliveries that are due.
    next_retry_at: Option<Timestamp>,
    /// The number of deliveries that wait for a retry, as far as this process knows.
    retry_count: u64,

    /// New events that were delivered since the last save. After a replay, the store may still
    /// have a failed delivery of one, which the save removes.
    delivered: Vec<EventId>,
    /// Deliveries that have changed since the last save, by sequence number.
    changes: BTreeMap<i64, Change>,
    /// The number of events settled since the last save.
    unsaved: usize,
    /// The time at which to save, if there is anything to save.
    save_at: Option<Instant>,
}

/// A new event in the window.
struct Entry {
    event: Arc<SerializedEvent>,
    state: EntryState,
    /// The number of attempts that have failed.
    failures: u32,
    /// The position to which the webhook moves once this event is settled. It is past the events
    /// that follow and are not sent.
    through: EventId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryState {
    Pending,
    InFlight,
    Settled,
}

/// An unsaved change of the row of a failed delivery.
enum Change {
    /// The delivery failed, for the first time or again.
    Save(Delivery),
    /// The delivery succeeded, or is no longer wanted.
    Remove(EventId),
}

impl Tracker {
    pub fn new(stored: &StoredWebhook, limit_to_trusted: LimitToTrusted) -> Self {
        Self {
            limit_to_trusted,
            position: stored.position,
            window: VecDeque::new(),
            health: stored.health,
            paused_until: stored.paused_until,
            disabled: None,
            in_flight: 0,
            due: VecDeque::new(),
            retries_in_flight: 0,
            next_retry_at: Some(Timestamp::MIN),
            retry_count: 0,
            delivered: Vec::new(),
            changes: BTreeMap::new(),
            unsaved: 0,
            save_at: None,
        }
    }

    /// Returns true if there is room for more events.
    pub fn needs_events(&self) -> bool {
        self.window.len() < WINDOW
    }

    /// Returns the position after which to continue reading.
    pub fn read_position(&self) -> EventId {
        self.window
            .back()
            .map_or(self.position, |last| last.through)
    }

    /// Adds the events to deliver between [`read_position`](Self::read_position) and `end`.
    pub fn add_events(&mut self, events: Events, end: EventId) {
        for event in events {
            self.window.push_back(Entry {
                through: event.id,
                event,
                state: EntryState::Pending,
                failures: 0,
            });
        }
        if let Some(last) = self.window.back_mut() {
            last.through = end;
        } else if self.position != end {
            self.position = end;
            self.save_within(SAVE_SKIPPED_DELAY);
        }
    }

    /// Returns true if it is time to ask the store for deliveries to retry. All earlier ones must
    /// be settled and saved, or the store would return them again.
    pub fn needs_retries(&self, now: Timestamp) -> bool {
        !self.is_paused(now)
            && self.has_settled_retries()
            && self
                .next_retry_at
                .is_some_and(|at| at <= now || at > latest_attempt(now))
    }

    /// Requests the retries from the store again. Call it when a client may have retried a
    /// delivery or ended a pause.
    pub fn request_retries(&mut self, paused_until: Option<Timestamp>) {
        self.paused_until = paused_until;
        self.next_retry_at = Some(Timestamp::MIN);
    }

    fn has_settled_retries(&self) -> bool {
        self.due.is_empty() && self.retries_in_flight == 0 && self.changes.is_empty()
    }

    /// Sets the deliveries to retry, as the store returned them for this limit.
    pub fn set_retries(&mut self, retries: Retries, limit: usize) {
        // If there were as many as asked for, more may be due already.
        let has_more = retries.due.len() >= limit;
        self.next_retry_at = if has_more {
            Some(Timestamp::MIN)
        } else {
            retries.next_at
        };
        self.due = retries.due.into();
        self.retry_count = retries.count;
    }

    fn is_paused(&self, now: Timestamp) -> bool {
        // A longer pause comes from a clock that was wrong.
        let is_pause = |until| now < until && until <= now + MAX_PAUSE;
        self.paused_until.is_some_and(is_pause)
    }

    /// Takes the next message to send, if one may be sent now. The caller must report its result.
    pub fn next_job(&mut self, now: Timestamp) -> Option<Job> {
        let is_failing = self.health.consecutive_failures > 0;
        let limit = if is_failing {
            MAX_IN_FLIGHT_FAILING
        } else {
            MAX_IN_FLIGHT
        };
        // While nothing can be saved, every delivery would be sent again after a crash.
        let is_unsaved = self.unsaved >= 2 * MAX_UNSAVED;
        if self.disabled.is_some() || self.is_paused(now) || self.in_flight >= limit || is_unsaved {
            return None;
        }
        // A delivery has ten attempts, too few to spend on waiting for a receiver.
        let retries_wait = self.is_backing_off() || self.retries_in_flight >= MAX_RETRIES_IN_FLIGHT;
        let job = match self.next_pending() {
            Some(index) if retries_wait || self.due.is_empty() => {
                let entry = &mut self.window[index];
                entry.state = EntryState::InFlight;
                Job::Event(entry.event.clone())
            }
            _ => {
                let delivery = self.due.pop_front()?;
                self.retries_in_flight += 1;
                Job::Retry(delivery)
            }
        };
        self.in_flight += 1;
        Some(job)
    }

    /// Returns the index of the new event to send next, unless too many deliveries wait for a
    /// retry.
    fn next_pending(&self) -> Option<usize> {
        if self.retry_count >= MAX_RETRIES {
            return None;
        }
        let entries = (0..).zip(&self.window);
        let mut pending = entries.filter(|(_, entry)| entry.state == EntryState::Pending);
        let next = if self.is_backing_off() {
            // A different event each time: the receiver may reject only some of them.
            pending.min_by_key(|(_, entry)| entry.failures)
        } else {
            pending.next()
        };
        next.map(|(index, _)| index)
    }

    /// Reports the result of sending a new event.
    pub fn finish_event(
        &mut self,
        id: EventId,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Option<DeliveryOutcome> {
        self.in_flight -= 1;
        self.record(attempt, now);
        let is_backing_off = self.is_backing_off();
        let mut entries = self.window.iter_mut();
        let entry = entries.find(|entry| entry.event.id == id)?;
        let outcome = match attempt.error {
            None => {
                self.delivered.push(id);
                DeliveryOutcome::Delivered
            }
            Some(error) => {
                entry.failures += 1;
                let is_to_blame = !is_backing_off || entry.failures >= MAX_PROBES;
                if self.disabled.is_some() || !is_to_blame {
                    entry.state = EntryState::Pending;
                    return None;
                }
                let attempts = entry.failures;
                self.retry_count += 1;
                self.schedule_retry(id, attempts, attempt, error, now)
            }
        };
        self.settle(id);
        Some(outcome)
    }

    /// Marks an event as settled, and moves the position to the last settled event without a gap.
    fn settle(&mut self, id: EventId) {
        if let Some(entry) = self.window.iter_mut().find(|entry| entry.event.id == id) {
            entry.state = EntryState::Settled;
        }
        self.unsaved += 1;
        while let Some(first) = self.window.front()
            && first.state == EntryState::Settled
        {
            self.position = first.through;
            self.window.pop_front();
            self.save_within(SAVE_DELAY);
        }
    }

    /// Reports the result of a retry.
    pub fn finish_retry(
        &mut self,
        delivery: &Delivery,
        attempt: &Attempt,
        now: Timestamp,
    ) -> DeliveryOutcome {
        self.in_flight -= 1;
        self.retries_in_flight -= 1;
        self.record(attempt, now);
        let id = delivery.event_id;
        match attempt.error {
            Some(error) => self.schedule_retry(id, delivery.attempts + 1, attempt, error, now),
            None => {
                self.retry_count = self.retry_count.saturating_sub(1);
                self.changes.insert(id.sequence, Change::Remove(id));
                self.unsaved += 1;
                self.save_within(SAVE_DELAY);
                DeliveryOutcome::Delivered
            }
        }
    }

    /// Reports that the event of a retry is no longer in the log.
    pub fn expire_retry(&mut self, delivery: Delivery, now: Timestamp) -> DeliveryOutcome {
        self.in_flight -= 1;
        self.retries_in_flight -= 1;
        self.retry_count = self.retry_count.saturating_sub(1);
        let failed = Delivery {
            state: DeliveryState::Failed,
            error: AttemptError::EventExpired,
            last_attempt_at: now,
            status: None,
            next_attempt_at: None,
            ..delivery
        };
        let sequence = failed.event_id.sequence;
        self.changes.insert(sequence, Change::Save(failed));
        self.save_within(SAVE_DELAY);
        DeliveryOutcome::Failed
    }

    /// Reports that a retry was not attempted, and never will be.
    pub fn drop_retry(&mut self, delivery: &Delivery) {
        self.in_flight -= 1;
        self.retries_in_flight -= 1;
        self.retry_count = self.retry_count.saturating_sub(1);
        let id = delivery.event_id;
        self.changes.insert(id.sequence, Change::Remove(id));
        self.save_within(SAVE_DELAY);
    }

    /// Reports that a retry was not attempted.
    pub fn return_retry(&mut self, delivery: Delivery) {
        self.in_flight -= 1;
        self.retries_in_flight -= 1;
        self.due.push_front(delivery);
    }

    /// Schedules the next attempt of a delivery that has failed this many times.
    fn schedule_retry(
        &mut self,
        event_id: EventId,
        attempts: u32,
        attempt: &Attempt,
        error: AttemptError,
        now: Timestamp,
    ) -> DeliveryOutcome {
        let retry_after = match attempt.outcome {
            Outcome::Failed { retry_after } => retry_after,
            Outcome::Delivered | Outcome::Gone => None,
        };
        let delay = retry_delay(attempts as usize, retry_after);
        let next_attempt_at = delay.map(|delay| now + delay);
        let (state, outcome) = match next_attempt_at {
            Some(_) => (DeliveryState::Retrying, DeliveryOutcome::Retrying),
            None => (DeliveryState::Failed, DeliveryOutcome::Failed),
        };
        match next_attempt_at {
            Some(at) => self.next_retry_at = Some(self.next_retry_at.map_or(at, |it| it.min(at))),
            None => self.retry_count = self.retry_count.saturating_sub(1),
        }
        let delivery = Delivery {
            event_id,
            state,
            attempts,
            last_attempt_at: now,
            status: attempt.status,
            error,
            next_attempt_at,
        };
        self.changes
            .insert(event_id.sequence, Change::Save(delivery));
        outcome
    }

    /// Records the result of an attempt in the health of the receiver.
    fn record(&mut self, attempt: &Attempt, now: Timestamp) {
        let before = self.health;
        match (self.health).record(attempt.outcome, now, (self.limit_to_trusted)(now)) {
            // A pause that the receiver asked for in another response remains.
            NextStep::Continue => {}
            NextStep::BackOff(pause) => {
                let until = now + pause;
                self.paused_until = Some(self.paused_until.map_or(until, |it| it.max(until)));
            }
            NextStep::Disable(reason) => self.disable(reason),
        }
        if self.health != before {
            self.save_within(Duration::ZERO);
        }
    }

    pub fn disable(&mut self, reason: DisabledReason) {
        self.disabled.get_or_insert(reason);
        self.save_within(Duration::ZERO);
    }

    pub fn disabled(&self) -> Option<DisabledReason> {
        self.disabled
    }

    pub fn is_backing_off(&self) -> bool {
        self.health.is_backing_off()
    }

    /// Returns the time of the oldest event that is not settled.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.window.front().map(|entry| entry.event.at)
    }

    /// Returns the next time at which there may be something to send, unless the state changes
    /// before.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        match self.paused_until {
            Some(until) if self.is_paused(now) => Some(until),
            _ => self.next_retry_at.filter(|_| self.has_settled_retries()),
        }
    }

    fn save_within(&mut self, delay: Duration) {
        let at = Instant::now() + delay;
        self.save_at = Some(self.save_at.map_or(at, |it| it.min(at)));
    }

    /// Returns the time at which to save, or `None` if there is nothing to save.
    pub fn save_at(&self) -> Option<Instant> {
        if self.unsaved >= MAX_UNSAVED {
            self.save_at.map(|at| at.min(Instant::now()))
        } else {
            self.save_at
        }
    }

    /// Returns the progress to save.
    pub fn progress(&self) -> Progress {
        let mut failures = Vec::new();
        let mut delivered = self.delivered.clone();
        for change in self.changes.values() {
            match change {
                Change::Save(delivery) => failures.push(delivery.clone()),
                Change::Remove(id) => delivered.push(*id),
            }
        }
        Progress {
            position: self.position,
            health: self.health,
            paused_until: self.paused_until,
            failures,
            delivered,
            disabled: self.disabled,
        }
    }

    /// Reports that [`progress`](Self::progress) was saved.
    pub fn saved(&mut self) {
        self.changes.clear();
        self.delivered.clear();
        self.unsaved = 0;
        self.save_at = None;
    }
}

#[cfg(test)]
mod tests;
