//! What clients did to one animal and what they were told, and whether one
//! store, doing one thing at a time, could have told them that.
//!
//! The search is that of Wing and Gong with Lowe's memory: it takes calls, one
//! by one, that may have come next, and turns back where the model would have
//! answered otherwise. A call without an answer may have been carried out at any
//! time since it began, or never.

use std::collections::{BTreeSet, HashSet};

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Place,
    Complete(i64),
    Cancel(i64),
    Update(Status),
    Get,
}

/// The status of an animal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    Absent,
    Available,
    Pending,
    Sold,
}

/// What a client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    Placed(i64),
    NotAvailable,
    Closed,
    NotOpen,
    Updated,
    Reserved,
    Is(Status),
    /// Nothing, or nothing certain.
    Unknown,
}

/// A call with its answer. The times are of one clock that all clients share.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub call: Call,
    pub answer: Response,
    pub begin: u64,
    pub end: u64,
}

/// An animal as the model knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Animal {
    status: Status,
    open: Option<Open>,
}

/// The open order of an animal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Open {
    Known(i64),
    /// Whoever placed it was not told its id.
    Nameless,
}

impl Animal {
    /// The animal after a call, if the answer is right.
    fn after(self, event: &Event, told: &BTreeSet<i64>) -> Option<Self> {
        let holds = |order: i64| match self.open {
            Some(Open::Known(open)) => open == order,
            Some(Open::Nameless) => !told.contains(&order),
            None => false,
        };
        let freed = |status| Self { status, open: None };
        let held = |open| Self {
            status: Status::Pending,
            open: Some(open),
        };
        let can_hold = self.status == Status::Available && self.open.is_none();
        match (event.call, event.answer) {
            (Call::Place, Response::Placed(order)) if can_hold => Some(held(Open::Known(order))),
            (Call::Place, Response::NotAvailable) if !can_hold => Some(self),
            (Call::Place, Response::Unknown) if can_hold => Some(held(Open::Nameless)),
            (Call::Complete(order), Response::Closed | Response::Unknown) if holds(order) => {
                Some(freed(Status::Sold))
            }
            (Call::Cancel(order), Response::Closed | Response::Unknown) if holds(order) => {
                Some(freed(Status::Available))
            }
            // One without a name may be another.
            (Call::Complete(order) | Call::Cancel(order), Response::NotOpen)
                if self.open != Some(Open::Known(order)) =>
            {
                Some(self)
            }
            (Call::Update(status), Response::Updated | Response::Unknown)
                if self.open.is_none() || status == self.status =>
            {
                Some(Self { status, ..self })
            }
            (Call::Update(status), Response::Reserved)
                if self.open.is_some() && status != self.status =>
            {
                Some(self)
            }
            (Call::Get, Response::Is(status)) if status == self.status => Some(self),
            _ => None,
        }
    }
}

/// Says whether the history of an animal that was available at first has an
/// explanation; if not, which calls could not be explained at the latest.
pub fn explain(history: &[Event]) -> Result<(), Vec<Event>> {
    // What nobody was told of, and what changes nothing, explains nothing.
    let is_void = |e: &&Event| e.call == Call::Get && e.answer == Response::Unknown;
    let mut events: Vec<_> = history.iter().filter(|e| !is_void(e)).collect();
    events.sort_by_key(|event| event.begin);
    let told = events.iter().filter_map(|event| match event.answer {
        Response::Placed(order) => Some(order),
        _ => None,
    });
    let told: BTreeSet<i64> = told.collect();
    let end = |event: &Event| match event.answer {
        Response::Unknown => u64::MAX,
        _ => event.end,
    };
    let certain = events.iter().filter(|e| end(e) < u64::MAX).count();

    let mut seen = HashSet::new();
    let first = Animal {
        status: Status::Available,
        open: None,
    };
    let mut furthest = (0, Vec::new());
    // Which events were taken, how many of them certain, and the animal then.
    let mut open = vec![(vec![false; events.len()], 0, first)];
    while let Some((taken, done, animal)) = open.pop() {
        if done == certain {
            return Ok(());
        }
        let left = || (0..events.len()).filter(|n| !taken[*n]);
        let first_end = left().map(|n| end(events[n])).min().unwrap_or(u64::MAX);
        let next: Vec<_> = left().filter(|n| events[*n].begin < first_end).collect();
        if done >= furthest.0 {
            furthest = (done, next.iter().map(|n| *events[*n]).collect());
        }
        for n in next {
            let Some(after) = animal.after(events[n], &told) else {
                continue;
            };
            let is_certain = end(events[n]) < u64::MAX;
            if !is_certain && after == animal {
                continue;
            }
            let mut taken = taken.clone();
            taken[n] = true;
            if seen.insert((taken.clone(), after)) {
                open.push((taken, done + usize::from(is_certain), after));
            }
        }
    }
    Err(furthest.1)
}

#[cfg(test)]
mod tests {
    use super::{Call::*, Response::*, *};

    /// Events of (call, answer, begin, end).
    fn is_explained(events: &[(Call, Response, u64, u64)]) -> bool {
        let events: Vec<_> = events
            .iter()
            .map(|&(call, answer, begin, end)| Event {
                call,
                answer,
                begin,
                end,
            })
            .collect();
        explain(&events).is_ok()
    }

    #[test]
    fn what_a_store_may_say_is_explained() {
        for history in [
            &[][..],
            &[(Place, Placed(1), 1, 2), (Place, NotAvailable, 3, 4)],
            &[(Place, Placed(1), 1, 4), (Place, NotAvailable, 2, 3)],
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Closed, 3, 6),
                (Cancel(1), NotOpen, 4, 5),
                (Get, Is(Status::Sold), 7, 8),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Cancel(1), Closed, 3, 4),
                (Place, Placed(2), 5, 6),
                (Get, Is(Status::Pending), 7, 8),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Update(Status::Sold), Reserved, 3, 4),
                (Update(Status::Pending), Updated, 5, 6),
                (Cancel(1), Closed, 7, 8),
                (Update(Status::Sold), Updated, 9, 10),
                (Place, NotAvailable, 11, 12),
            ],
        ] {
            assert!(is_explained(history), "{history:?}");
        }
    }

    #[test]
    fn what_no_store_may_say_is_not() {
        for history in [
            // Sold twice.
            &[(Place, Placed(1), 1, 4), (Place, Placed(2), 2, 3)][..],
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Closed, 3, 6),
                (Cancel(1), Closed, 4, 5),
            ],
            // Forgotten.
            &[(Place, Placed(1), 1, 2), (Get, Is(Status::Available), 3, 4)],
            &[(Place, Placed(1), 1, 2), (Complete(1), NotOpen, 3, 4)],
            // Not held by its order.
            &[
                (Place, Placed(1), 1, 2),
                (Update(Status::Available), Updated, 3, 4),
            ],
            // Held by none.
            &[(Update(Status::Sold), Reserved, 1, 2)],
            &[(Place, NotAvailable, 1, 2)],
            // Read before it happened.
            &[(Get, Is(Status::Pending), 1, 2), (Place, Placed(1), 3, 4)],
        ] {
            assert!(!is_explained(history), "{history:?}");
        }
    }

    #[test]
    fn what_was_not_answered_may_have_happened_at_any_time_or_never() {
        let unsure = (Place, Unknown, 1, 2);
        assert!(is_explained(&[unsure, (Get, Is(Status::Available), 3, 4)]));
        assert!(is_explained(&[unsure, (Get, Is(Status::Pending), 3, 4)]));
        assert!(is_explained(&[
            unsure,
            (Get, Is(Status::Available), 3, 4),
            (Get, Is(Status::Pending), 5, 6),
            (Cancel(7), Closed, 7, 8),
            (Place, Placed(9), 9, 10),
        ]));
        // But not undone, not twice, and not before it began.
        assert!(!is_explained(&[
            unsure,
            (Get, Is(Status::Pending), 3, 4),
            (Get, Is(Status::Available), 5, 6),
        ]));
        assert!(!is_explained(&[
            unsure,
            (Cancel(7), Closed, 3, 4),
            (Place, NotAvailable, 5, 6),
        ]));
        assert!(!is_explained(&[
            (Get, Is(Status::Pending), 1, 2),
            (Place, Unknown, 3, 4),
        ]));
        // An order whose id was told is not the nameless one.
        assert!(!is_explained(&[
            (Place, Placed(1), 1, 2),
            (Cancel(1), Closed, 3, 4),
            (Place, Unknown, 5, 6),
            (Complete(1), Closed, 7, 8),
        ]));
    }
}
