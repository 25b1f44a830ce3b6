//! Orders: claims on one pet each, with their states and the rules for changing them.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    idempotency::RecordedRejection,
    invalid::Invalid,
    json::{FromObject, Object},
    page::{ListKind, Status, parse_positive_decimal},
    pet::{PetId, PetStatus},
};

/// A buyer's claim on one pet. While it is open, the pet is reserved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub id: OrderId,
    pub pet_id: PetId,
    pub status: OrderStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When the reservation expires and the order is cancelled, if ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Order {
    /// Applies a transition. Only an open order can change, and one whose
    /// reservation has expired can no longer be completed.
    pub fn apply(self, transition: Transition, now: Timestamp) -> Result<Self, OrderRejection> {
        let expired = self.expires_at.is_some_and(|expiry| now >= expiry);
        if self.status != OrderStatus::Placed || (transition == Transition::Complete && expired) {
            return Err(OrderRejection::OrderNotOpen);
        }
        Ok(Self {
            status: transition.order_status(),
            updated_at: self.updated_at.max(truncate_to_microseconds(now)),
            ..self
        })
    }

    /// The order as it was when it was placed.
    pub fn into_placed(self) -> Self {
        Self {
            status: OrderStatus::Placed,
            updated_at: self.created_at,
            ..self
        }
    }
}

/// An order's id: positive, below 2^53, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct OrderId(i64);

impl OrderId {
    /// Parses an id from a path; `None` if it is not a positive int64.
    pub fn parse(text: &str) -> Option<Self> {
        parse_positive_decimal(text).map(Self)
    }

    pub fn get(self) -> i64 {
        self.0
    }

    pub(crate) fn from_store(id: i64) -> Self {
        Self(id)
    }
}

/// The state of an order. Only a placed order is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderStatus {
    Placed,
    Completed,
    Cancelled,
}

impl Status for OrderStatus {
    const LIST: ListKind = ListKind::Orders;
    const ALL: &[Self] = &[Self::Placed, Self::Completed, Self::Cancelled];

    fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The body of a request to place an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceOrderRequest {
    pub pet_id: PetId,
}

impl FromObject for PlaceOrderRequest {
    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        match PetId::from_json(object.get("petId")) {
            Ok(pet_id) => Ok(Self { pet_id }),
            Err(invalid) => Err(vec![invalid]),
        }
    }
}

/// An order that has not been stored yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder {
    pub pet_id: PetId,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

impl NewOrder {
    /// An order placed now, whose reservation expires after `reserve_for`, if
    /// ever. Timestamps have microsecond precision, as in the database.
    pub fn new(pet_id: PetId, now: Timestamp, reserve_for: Option<SignedDuration>) -> Self {
        let created_at = truncate_to_microseconds(now);
        Self {
            pet_id,
            created_at,
            expires_at: reserve_for.map(|duration| created_at + duration),
        }
    }

    pub fn with_id(self, id: OrderId) -> Order {
        Order {
            id,
            pet_id: self.pet_id,
            status: OrderStatus::Placed,
            created_at: self.created_at,
            updated_at: self.created_at,
            expires_at: self.expires_at,
        }
    }
}

fn truncate_to_microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).expect("truncation stays in range")
}

/// How an open order is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    Complete,
    Cancel,
}

impl Transition {
    /// The resulting status of the order.
    pub fn order_status(self) -> OrderStatus {
        match self {
            Self::Complete => OrderStatus::Completed,
            Self::Cancel => OrderStatus::Cancelled,
        }
    }

    /// The resulting status of the pet.
    pub fn pet_status(self) -> PetStatus {
        match self {
            Self::Complete => PetStatus::Sold,
            Self::Cancel => PetStatus::Available,
        }
    }
}

/// Why an order was not placed, completed or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderRejection {
    NoSuchPet,
    PetNotAvailable,
    NoSuchOrder,
    OrderNotOpen,
}

impl OrderRejection {
    const ALL: [Self; 4] = [
        Self::NoSuchPet,
        Self::PetNotAvailable,
        Self::NoSuchOrder,
        Self::OrderNotOpen,
    ];
}

impl RecordedRejection for OrderRejection {
    fn code(self) -> &'static str {
        match self {
            Self::NoSuchPet => "no_such_pet",
            Self::PetNotAvailable => "pet_not_available",
            Self::NoSuchOrder => "no_such_order",
            Self::OrderNotOpen => "order_not_open",
        }
    }

    fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_order_changes_and_an_expired_one_is_only_cancelled() {
        let second = Timestamp::constant;
        let reserve_for = SignedDuration::from_secs(10);
        let pet_id = PetId::parse("1").unwrap();
        let new = NewOrder::new(pet_id, second(100, 0), Some(reserve_for));
        let placed = new.with_id(OrderId(1));
        for (transition, at, status) in [
            (Transition::Complete, 109, Ok(OrderStatus::Completed)),
            (Transition::Complete, 110, Err(OrderRejection::OrderNotOpen)),
            (Transition::Cancel, 110, Ok(OrderStatus::Cancelled)),
        ] {
            let applied = placed.clone().apply(transition, second(at, 0));
            assert_eq!(applied.map(|order| order.status), status, "{transition:?}");
        }
        // The clock of a replica may be behind.
        let cancelled = placed.clone().apply(Transition::Cancel, second(99, 0));
        let cancelled = cancelled.unwrap();
        assert_eq!(cancelled.updated_at, placed.updated_at);
        assert_eq!(cancelled.clone().into_placed(), placed);
        let again = cancelled.apply(Transition::Cancel, second(100, 0));
        assert_eq!(again, Err(OrderRejection::OrderNotOpen));
    }

    #[test]
    fn rejections_are_found_by_their_codes() {
        for rejection in OrderRejection::ALL {
            assert_eq!(OrderRejection::from_code(rejection.code()), Some(rejection));
        }
        assert_eq!(OrderRejection::from_code("succeeded"), None);
    }
}
