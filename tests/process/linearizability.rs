//! Linearizability checker for the history of one pet.
//!
//! A history is linearizable if its operations, applied one at a time in an
//! order that respects real time, have the observed outcomes in a sequential
//! model of the pet. The search is the Wing and Gong algorithm with Lowe's
//! cache of visited configurations: it applies each operation that may come
//! next and backtracks where the model contradicts the outcome. An operation
//! with an unknown outcome may take effect at any time after its invocation, or
//! never.

use std::collections::{BTreeSet, HashSet};

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invocation {
    Place,
    Complete(i64),
    Cancel(i64),
    Return(i64),
    Update(Status),
    Delete,
    Get,
}

/// The status of a pet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    Absent,
    Available,
    Pending,
    Sold,
}

/// The outcome of an operation, as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Placed(i64),
    NotAvailable,
    /// The order was completed, cancelled or returned.
    Changed,
    NotOpen,
    NotReturnable,
    Updated,
    Deleted,
    /// Rejected because of an open order.
    Reserved,
    /// Rejected because of a completed order.
    Sold,
    Is(Status),
    NotFound,
    /// No response, or one that does not say whether it took effect.
    Unknown,
}

/// An invocation and its outcome. All clients take timestamps from one logical
/// clock.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub invocation: Invocation,
    pub outcome: Outcome,
    pub invoked_at: u64,
    pub returned_at: u64,
}

/// The state of the sequential model: a pet, or that it was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Model {
    Pet {
        status: Status,
        claim: Option<Claim>,
    },
    Deleted,
}

/// The claim of the active order on its pet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Claim {
    Reserved(OrderId),
    Sold(OrderId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OrderId {
    Known(i64),
    /// Placed with an unknown outcome: its client never learned the id.
    Unknown,
}

impl Model {
    const AVAILABLE: Self = Self::Pet {
        status: Status::Available,
        claim: None,
    };

    fn reserved_by(order: OrderId) -> Self {
        Self::Pet {
            status: Status::Pending,
            claim: Some(Claim::Reserved(order)),
        }
    }

    fn sold_by(order: OrderId) -> Self {
        Self::Pet {
            status: Status::Sold,
            claim: Some(Claim::Sold(order)),
        }
    }

    /// The state after an operation, or `None` if the outcome is impossible in
    /// this state. `known_ids` are the order ids that clients were given.
    fn apply(self, operation: &Operation, known_ids: &BTreeSet<i64>) -> Option<Self> {
        let Operation {
            invocation,
            outcome,
            ..
        } = *operation;
        let (status, claim) = match self {
            Self::Pet { status, claim } => (status, claim),
            Self::Deleted => return Self::is_outcome_after_deletion(operation).then_some(self),
        };
        // The order with an unknown id may be this one, or another.
        let may_be = |id: OrderId, order: i64| match id {
            OrderId::Known(id) => id == order,
            OrderId::Unknown => !known_ids.contains(&order),
        };
        let can_reserve = status == Status::Available && claim.is_none();
        match (invocation, outcome) {
            (Invocation::Place, Outcome::Placed(order)) if can_reserve => {
                Some(Self::reserved_by(OrderId::Known(order)))
            }
            (Invocation::Place, Outcome::NotAvailable) if !can_reserve => Some(self),
            (Invocation::Place, Outcome::Unknown) if can_reserve => {
                Some(Self::reserved_by(OrderId::Unknown))
            }
            (
                Invocation::Complete(order) | Invocation::Cancel(order),
                Outcome::Changed | Outcome::Unknown,
            ) => match claim {
                Some(Claim::Reserved(id)) if may_be(id, order) => Some(match invocation {
                    Invocation::Complete(_) => Self::sold_by(id),
                    _ => Self::AVAILABLE,
                }),
                _ => None,
            },
            (Invocation::Return(order), Outcome::Changed | Outcome::Unknown) => match claim {
                Some(Claim::Sold(id)) if may_be(id, order) => Some(Self::AVAILABLE),
                _ => None,
            },
            (Invocation::Complete(order) | Invocation::Cancel(order), Outcome::NotOpen)
                if claim != Some(Claim::Reserved(OrderId::Known(order))) =>
            {
                Some(self)
            }
            (Invocation::Return(order), Outcome::NotReturnable)
                if claim != Some(Claim::Sold(OrderId::Known(order))) =>
            {
                Some(self)
            }
            (Invocation::Update(to), Outcome::Updated | Outcome::Unknown)
                if claim.is_none() || to == status =>
            {
                Some(Self::Pet { status: to, claim })
            }
            (Invocation::Update(to), Outcome::Reserved)
                if matches!(claim, Some(Claim::Reserved(_))) && to != status =>
            {
                Some(self)
            }
            (Invocation::Update(to), Outcome::Sold)
                if matches!(claim, Some(Claim::Sold(_))) && to != status =>
            {
                Some(self)
            }
            (Invocation::Delete, Outcome::Deleted | Outcome::Unknown)
                if !matches!(claim, Some(Claim::Reserved(_))) =>
            {
                Some(Self::Deleted)
            }
            (Invocation::Delete, Outcome::Reserved)
                if matches!(claim, Some(Claim::Reserved(_))) =>
            {
                Some(self)
            }
            (Invocation::Get, Outcome::Is(seen)) if seen == status => Some(self),
            _ => None,
        }
    }

    /// Returns true if the outcome is that of a deleted pet. Its orders remain, and do not
    /// change.
    fn is_outcome_after_deletion(operation: &Operation) -> bool {
        matches!(
            (operation.invocation, operation.outcome),
            (
                Invocation::Place | Invocation::Update(_) | Invocation::Delete | Invocation::Get,
                Outcome::NotFound
            ) | (
                Invocation::Complete(_) | Invocation::Cancel(_),
                Outcome::NotOpen
            ) | (Invocation::Return(_), Outcome::NotReturnable)
        )
    }
}

/// Checks that the history of a pet that was available at first is
/// linearizable. If it is not, returns the candidates for the next operation at
/// the deepest point that the search reached.
pub fn check_linearizable(history: &[Operation]) -> Result<(), Vec<Operation>> {
    // A read with an unknown outcome neither changes nor observes the state.
    let is_lost_read = |operation: &&Operation| {
        operation.invocation == Invocation::Get && operation.outcome == Outcome::Unknown
    };
    let mut operations: Vec<_> = history.iter().filter(|o| !is_lost_read(o)).collect();
    operations.sort_by_key(|operation| operation.invoked_at);
    let known_ids: BTreeSet<i64> = operations
        .iter()
        .filter_map(|operation| match operation.outcome {
            Outcome::Placed(order) => Some(order),
            _ => None,
        })
        .collect();
    // One with an unknown outcome stays concurrent with everything after it.
    let returned_at = |operation: &Operation| match operation.outcome {
        Outcome::Unknown => u64::MAX,
        _ => operation.returned_at,
    };
    let is_known = |operation: &Operation| operation.outcome != Outcome::Unknown;
    let known = operations.iter().filter(|o| is_known(o)).count();

    let mut visited = HashSet::new();
    let mut deepest = (0, Vec::new());
    // Which operations are linearized, how many of them have a known outcome,
    // and the resulting state.
    let mut stack = vec![(vec![false; operations.len()], 0, Model::AVAILABLE)];
    while let Some((linearized, depth, state)) = stack.pop() {
        if depth == known {
            return Ok(());
        }
        let pending = || (0..operations.len()).filter(|n| !linearized[*n]);
        let first_return = pending()
            .map(|n| returned_at(operations[n]))
            .min()
            .unwrap_or(u64::MAX);
        let candidates: Vec<_> = pending()
            .filter(|n| operations[*n].invoked_at < first_return)
            .collect();
        if depth >= deepest.0 {
            deepest = (depth, candidates.iter().map(|n| *operations[*n]).collect());
        }
        for n in candidates {
            let Some(next) = state.apply(operations[n], &known_ids) else {
                continue;
            };
            let is_known = is_known(operations[n]);
            if !is_known && next == state {
                continue;
            }
            let mut linearized = linearized.clone();
            linearized[n] = true;
            if visited.insert((linearized.clone(), next)) {
                stack.push((linearized, depth + usize::from(is_known), next));
            }
        }
    }
    Err(deepest.1)
}

#[cfg(test)]
mod tests {
    use super::{
        Invocation::{Cancel, Complete, Delete, Get, Place, Return, Update},
        Outcome::{
            Changed, Deleted, Is, NotAvailable, NotFound, NotOpen, NotReturnable, Placed, Reserved,
            Unknown, Updated,
        },
        *,
    };

    /// Checks operations given as (invocation, outcome, invoked at, returned at).
    fn is_linearizable(history: &[(Invocation, Outcome, u64, u64)]) -> bool {
        let history: Vec<_> = history
            .iter()
            .map(
                |&(invocation, outcome, invoked_at, returned_at)| Operation {
                    invocation,
                    outcome,
                    invoked_at,
                    returned_at,
                },
            )
            .collect();
        check_linearizable(&history).is_ok()
    }

    #[test]
    fn linearizable_histories_pass() {
        for history in [
            &[][..],
            &[(Place, Placed(1), 1, 2), (Place, NotAvailable, 3, 4)],
            &[(Place, Placed(1), 1, 4), (Place, NotAvailable, 2, 3)],
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 6),
                (Cancel(1), NotOpen, 4, 5),
                (Get, Is(Status::Sold), 7, 8),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Cancel(1), Changed, 3, 4),
                (Place, Placed(2), 5, 6),
                (Get, Is(Status::Pending), 7, 8),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Update(Status::Sold), Reserved, 3, 4),
                (Update(Status::Pending), Updated, 5, 6),
                (Cancel(1), Changed, 7, 8),
                (Update(Status::Sold), Updated, 9, 10),
                (Place, NotAvailable, 11, 12),
                (Update(Status::Available), Updated, 13, 14),
                (Place, Placed(2), 15, 16),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Return(1), NotReturnable, 3, 4),
                (Complete(1), Changed, 5, 6),
                (Update(Status::Available), Outcome::Sold, 7, 8),
                (Place, NotAvailable, 9, 10),
                (Return(1), Changed, 11, 12),
                (Return(1), NotReturnable, 13, 14),
                (Place, Placed(2), 15, 16),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Delete, Reserved, 3, 4),
                (Complete(1), Changed, 5, 6),
                (Delete, Deleted, 7, 8),
                (Return(1), NotReturnable, 9, 10),
                (Cancel(1), NotOpen, 11, 12),
                (Place, NotFound, 13, 14),
                (Update(Status::Available), NotFound, 15, 16),
                (Delete, NotFound, 17, 18),
                (Get, NotFound, 19, 20),
            ],
        ] {
            assert!(is_linearizable(history), "{history:?}");
        }
    }

    #[test]
    fn non_linearizable_histories_are_rejected() {
        for history in [
            // Sold twice.
            &[(Place, Placed(1), 1, 4), (Place, Placed(2), 2, 3)][..],
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 6),
                (Cancel(1), Changed, 4, 5),
            ],
            // An acknowledged write is lost.
            &[(Place, Placed(1), 1, 2), (Get, Is(Status::Available), 3, 4)],
            &[(Place, Placed(1), 1, 2), (Complete(1), NotOpen, 3, 4)],
            // The pet is not reserved by its open order.
            &[
                (Place, Placed(1), 1, 2),
                (Update(Status::Available), Updated, 3, 4),
            ],
            // The pet is reserved without an open order.
            &[(Update(Status::Sold), Reserved, 1, 2)],
            &[(Place, NotAvailable, 1, 2)],
            // Sold to two buyers, one after the other.
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 4),
                (Update(Status::Available), Updated, 5, 6),
                (Place, Placed(2), 7, 8),
                (Complete(2), Changed, 9, 10),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 4),
                (Place, Placed(2), 5, 6),
            ],
            // Returned twice, or before it was sold.
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 4),
                (Return(1), Changed, 5, 8),
                (Return(1), Changed, 6, 7),
            ],
            &[(Place, Placed(1), 1, 2), (Return(1), Changed, 3, 4)],
            // The return is lost, or refused without a reason.
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 4),
                (Return(1), Changed, 5, 6),
                (Get, Is(Status::Sold), 7, 8),
            ],
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 4),
                (Return(1), NotReturnable, 5, 6),
            ],
            // Deleted while an order is open, twice, not at all, or without a delete.
            &[(Place, Placed(1), 1, 2), (Delete, Deleted, 3, 4)],
            &[(Delete, Deleted, 1, 4), (Delete, Deleted, 2, 3)],
            &[(Delete, Deleted, 1, 2), (Get, Is(Status::Available), 3, 4)],
            &[(Delete, Deleted, 1, 2), (Place, Placed(1), 3, 4)],
            &[(Place, NotFound, 1, 2)],
            &[(Delete, Reserved, 1, 2)],
            &[
                (Place, Placed(1), 1, 2),
                (Complete(1), Changed, 3, 4),
                (Delete, Deleted, 5, 6),
                (Return(1), Changed, 7, 8),
            ],
            // A read sees a write that was not invoked yet.
            &[(Get, Is(Status::Pending), 1, 2), (Place, Placed(1), 3, 4)],
        ] {
            assert!(!is_linearizable(history), "{history:?}");
        }
    }

    #[test]
    fn an_unknown_outcome_may_take_effect_at_any_time_or_never() {
        let unknown = (Place, Unknown, 1, 2);
        assert!(is_linearizable(&[
            unknown,
            (Get, Is(Status::Available), 3, 4)
        ]));
        assert!(is_linearizable(&[
            unknown,
            (Get, Is(Status::Pending), 3, 4)
        ]));
        assert!(is_linearizable(&[
            unknown,
            (Get, Is(Status::Available), 3, 4),
            (Get, Is(Status::Pending), 5, 6),
            (Cancel(7), Changed, 7, 8),
            (Place, Placed(9), 9, 10),
        ]));
        assert!(is_linearizable(&[
            unknown,
            (Complete(7), Changed, 3, 4),
            (Return(7), Unknown, 5, 6),
            (Get, Is(Status::Available), 7, 8),
            (Delete, Unknown, 9, 10),
            (Get, Is(Status::Available), 11, 12),
            (Get, NotFound, 13, 14),
        ]));
        assert!(!is_linearizable(&[
            (Delete, Unknown, 1, 2),
            (Get, NotFound, 3, 4),
            (Get, Is(Status::Available), 5, 6),
        ]));
        // It is not undone, not applied twice, and not before its invocation.
        assert!(!is_linearizable(&[
            unknown,
            (Get, Is(Status::Pending), 3, 4),
            (Get, Is(Status::Available), 5, 6),
        ]));
        assert!(!is_linearizable(&[
            unknown,
            (Cancel(7), Changed, 3, 4),
            (Place, NotAvailable, 5, 6),
        ]));
        assert!(!is_linearizable(&[
            (Get, Is(Status::Pending), 1, 2),
            (Place, Unknown, 3, 4),
        ]));
        // An order with a known id is not the one with an unknown id.
        assert!(!is_linearizable(&[
            (Place, Placed(1), 1, 2),
            (Cancel(1), Changed, 3, 4),
            (Place, Unknown, 5, 6),
            (Complete(1), Changed, 7, 8),
        ]));
    }
}
