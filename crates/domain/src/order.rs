//! Orders: claims on one pet each, with their states and the rules for changing them.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    clock::truncate_to_microseconds,
    idempotency::recorded_rejection,
    invalid::{Invalid, quoted},
    json::{FromObject, Object},
    members::all_valid,
    page::{Filter, ListKind, Parameters, Position, Status, parse_positive_decimal, set_once},
    pet::{Claim, PetId, PetStatus},
};

/// A buyer's claim on one pet. While it is open, the pet is reserved; once it is
/// completed, the pet is sold, unless the order is returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub id: OrderId,
    pub pet_id: PetId,
    pub status: OrderStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The time at which the reservation expires and the order is cancelled, if ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The value of `updated_at` when the order was completed.
    #[serde(skip)]
    pub completed_at: Option<Timestamp>,
}

impl Order {
    /// Applies a transition. An order whose reservation has expired by `expiry_time` can no
    /// longer be completed.
    pub fn apply(
        self,
        transition: Transition,
        now: Timestamp,
        expiry_time: Timestamp,
    ) -> Result<Self, OrderRejection> {
        let expired = self.expires_at.is_some_and(|expiry| expiry_time >= expiry);
        if self.status != transition.required_status()
            || (transition == Transition::Complete && expired)
        {
            return Err(transition.rejection());
        }
        let updated_at = self.updated_at.max(truncate_to_microseconds(now));
        let completed_at = match transition {
            Transition::Complete => Some(updated_at),
            Transition::Cancel | Transition::Return => self.completed_at,
        };
        Ok(Self {
            status: transition.order_status(),
            updated_at,
            completed_at,
            ..self
        })
    }

    /// Returns the order as it was when it was placed.
    pub fn into_placed(self) -> Self {
        Self {
            status: OrderStatus::Placed,
            updated_at: self.created_at,
            ..self
        }
    }

    /// Returns the order as it was after a transition. Only a completed order can have changed
    /// since.
    pub fn into_changed_by(self, transition: Transition) -> Self {
        match (transition, self.completed_at) {
            (Transition::Complete, Some(completed_at)) => Self {
                status: OrderStatus::Completed,
                updated_at: completed_at,
                ..self
            },
            _ => self,
        }
    }
}

/// An order's id: positive, below 2^53, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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

    pub fn from_store(id: i64) -> Self {
        Self(id)
    }
}

/// The state of an order. Only a placed order is open. A placed or completed order is
/// active: it claims its pet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderStatus {
    Placed,
    Completed,
    Cancelled,
    Returned,
}

impl Status for OrderStatus {
    const ALL: &[Self] = &[
        Self::Placed,
        Self::Completed,
        Self::Cancelled,
        Self::Returned,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Returned => "returned",
        }
    }
}

impl OrderStatus {
    /// Returns the claim of an order with this status on its pet.
    pub fn claim(self) -> Option<Claim> {
        match self {
            Self::Placed => Some(Claim::Reserved),
            Self::Completed => Some(Claim::Sold),
            Self::Cancelled | Self::Returned => None,
        }
    }
}

/// The filter of a list of orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OrderFilter {
    pub status: Option<OrderStatus>,
    pub pet_id: Option<PetId>,
}

impl Filter for OrderFilter {
    const LIST: ListKind = ListKind(b'o');

    type Item = Order;

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        match name {
            "status" => set_once("status", &mut self.status, OrderStatus::parse(value)?)?,
            "petId" => {
                let id = PetId::parse(value)
                    .filter(|id| id.get() <= PetId::MAX)
                    .ok_or_else(|| {
                        let max = PetId::MAX;
                        let got = quoted(value);
                        let reason = format!("must be an integer from 1 to {max}, got {got}");
                        Invalid::new("petId", reason)
                    })?;
                set_once("petId", &mut self.pet_id, id)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn parameters(&self) -> Parameters<'_> {
        let mut parameters = Parameters::new();
        if let Some(status) = self.status {
            parameters.push(("status", status.as_str().into()));
        }
        if let Some(id) = self.pet_id {
            parameters.push(("petId", id.get().to_string().into()));
        }
        parameters
    }

    fn matches(&self, order: &Order) -> bool {
        self.status.is_none_or(|status| order.status == status)
            && self.pet_id.is_none_or(|id| order.pet_id == id)
    }

    fn position(&self, order: &Order) -> Position {
        Position::of_id(order.id.get())
    }
}

/// The number of orders by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderCounts {
    pub placed: i64,
    pub completed: i64,
    pub cancelled: i64,
    pub returned: i64,
}

/// The body of a request to place an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceOrderRequest {
    pub pet_id: PetId,
}

impl FromObject for PlaceOrderRequest {
    const MEMBERS: &[&str] = &["petId"];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        all_valid! { pet_id: PetId::from_json(object.get("petId")), }
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
    /// Creates an order placed now, whose reservation expires after `reserve_for`, if ever.
    /// Timestamps have microsecond precision, as in the database.
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
            completed_at: None,
        }
    }
}

/// A change of the status of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    Complete,
    Cancel,
    Return,
}

impl Transition {
    /// Returns the status that the order must have.
    fn required_status(self) -> OrderStatus {
        match self {
            Self::Complete | Self::Cancel => OrderStatus::Placed,
            Self::Return => OrderStatus::Completed,
        }
    }

    /// Returns the resulting status of the order.
    fn order_status(self) -> OrderStatus {
        match self {
            Self::Complete => OrderStatus::Completed,
            Self::Cancel => OrderStatus::Cancelled,
            Self::Return => OrderStatus::Returned,
        }
    }

    /// Returns the resulting status of the pet.
    pub fn pet_status(self) -> PetStatus {
        match self {
            Self::Complete => PetStatus::Sold,
            Self::Cancel | Self::Return => PetStatus::Available,
        }
    }

    /// Returns the rejection for an order that does not allow the transition.
    pub fn rejection(self) -> OrderRejection {
        match self {
            Self::Complete | Self::Cancel => OrderRejection::OrderNotOpen,
            Self::Return => OrderRejection::OrderNotReturnable,
        }
    }
}

/// The reason why an order was not placed or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderRejection {
    NoSuchPet,
    PetNotAvailable,
    NoSuchOrder,
    OrderNotOpen,
    /// The order is not completed, or its pet was deleted.
    OrderNotReturnable,
}

recorded_rejection!(OrderRejection {
    NoSuchPet = "no_such_pet",
    PetNotAvailable = "pet_not_available",
    NoSuchOrder = "no_such_order",
    OrderNotOpen = "order_not_open",
    OrderNotReturnable = "order_not_returnable",
});

#[cfg(test)]
mod tests {
    use super::*;

    impl Order {
        fn apply_at(self, transition: Transition, now: Timestamp) -> Result<Self, OrderRejection> {
            self.apply(transition, now, now)
        }
    }

    #[test]
    fn an_expired_order_is_only_cancelled_and_a_completed_one_only_returned() {
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
            let applied = placed.clone().apply_at(transition, second(at, 0));
            assert_eq!(applied.map(|order| order.status), status, "{transition:?}");
        }
        // The clock of a replica may be behind.
        let cancelled = placed
            .clone()
            .apply_at(Transition::Cancel, second(99, 0))
            .unwrap();
        assert_eq!(cancelled.updated_at, placed.updated_at);
        assert_eq!(cancelled.clone().into_placed(), placed);
        let again = cancelled.apply_at(Transition::Cancel, second(100, 0));
        assert_eq!(again, Err(OrderRejection::OrderNotOpen));
        let not_returnable = Err(OrderRejection::OrderNotReturnable);
        let open = placed.clone().apply_at(Transition::Return, second(101, 0));
        assert_eq!(open, not_returnable);
        let completed = placed
            .apply_at(Transition::Complete, second(102, 0))
            .unwrap();
        let returned = completed
            .clone()
            .apply_at(Transition::Return, second(103, 0))
            .unwrap();
        assert_eq!(returned.status, OrderStatus::Returned);
        // A replay shows the order as it was.
        assert_eq!(
            returned.clone().into_changed_by(Transition::Complete),
            completed
        );
        assert_eq!(
            returned.clone().into_changed_by(Transition::Return),
            returned
        );
        assert_eq!(
            returned.apply_at(Transition::Return, second(104, 0)),
            not_returnable
        );
    }
}
