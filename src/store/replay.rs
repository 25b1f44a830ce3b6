//! What is written down of a named request, so that it can be answered again:
//! the id of what it made or changed, or why it was refused. The rest of the
//! answer follows from the request and from what never changes.

use crate::order::{Order, OrderStatus, Rejection};

pub type Outcome = Result<i64, Rejection>;

/// Every refusal with its name in the database.
const REFUSALS: [(&str, Rejection); 4] = [
    ("no_such_pet", Rejection::NoSuchPet),
    ("pet_not_available", Rejection::PetNotAvailable),
    ("no_such_order", Rejection::NoSuchOrder),
    ("order_not_open", Rejection::OrderNotOpen),
];

/// The two columns of an outcome.
pub fn columns(outcome: Outcome) -> (&'static str, Option<i64>) {
    match outcome {
        Ok(item) => ("done", Some(item)),
        Err(refused) => {
            let named = REFUSALS.iter().find(|(_, known)| *known == refused);
            (named.expect("every refusal has a name").0, None)
        }
    }
}

pub fn outcome(name: &str, item: Option<i64>) -> Result<Outcome, UnknownOutcome> {
    let refused = || {
        let known = REFUSALS.iter().find(|(known, _)| *known == name);
        known.map(|(_, refused)| Err(*refused))
    };
    match (name, item) {
        ("done", Some(item)) => Some(Ok(item)),
        _ => refused(),
    }
    .ok_or_else(|| UnknownOutcome(name.into()))
}

/// An order as it was when it was placed.
pub fn as_placed(order: Order) -> Order {
    Order {
        status: OrderStatus::Placed,
        updated_at: order.created_at,
        ..order
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the outcome {0:?} of a named request is unknown")]
pub struct UnknownOutcome(String);
