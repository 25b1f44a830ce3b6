//! Orders: claims on one pet each, with their states and the rules for changing them.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    clock::truncate_to_microseconds,
    idempotency::recorded_rejection,
    invalid::{Invalid, quoted},
    json::{FromObject, KnownMember, Object},
    members::{Choice, Errors, Members, Patch, all_valid},
    page::{Filter, ListKind, Parameters, Position, parse_positive_decimal, set_once},
    party::{Buyer, BuyerChange},
    pet::{Claim, PetId, PetStatus},
    price::{Price, PriceChange},
    text::Text,
};

/// The number of an invoice or a receipt, or another text by which the shop finds a sale.
pub type Reference = Text<100>;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buyer: Option<Buyer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
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

    /// Returns the order without personal data.
    pub fn without_buyer(self) -> Self {
        Self {
            buyer: None,
            ..self
        }
    }

    /// Returns the order as it was when it was placed, with the details of the sale as they are
    /// now.
    pub fn into_placed(self) -> Self {
        Self {
            status: OrderStatus::Placed,
            updated_at: self.created_at,
            ..self
        }
    }

    /// Returns the order as it was after a transition, with the details of the sale as they are
    /// now. The buyer may have been erased since: that is a later update.
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

impl Choice for OrderStatus {
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
            "status" => {
                let status = OrderStatus::parse(value);
                let status = status.map_err(|reason| Invalid::new("status", reason))?;
                set_once("status", &mut self.status, status)?;
            }
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceOrderRequest {
    pub pet_id: PetId,
    pub buyer: Option<Buyer>,
    /// The price of the pet, if it is absent.
    pub price: Option<Price>,
    pub reference: Option<Reference>,
}

impl FromObject for PlaceOrderRequest {
    const MEMBERS: &[KnownMember] = &[
        KnownMember::scalar("petId"),
        KnownMember::of::<Buyer>("buyer"),
        KnownMember::of::<Price>("price"),
        KnownMember::scalar("reference"),
    ];
    const PERSONAL: Option<&str> = Some("buyer");

    fn from_object(object: &Object) -> Result<Self, Errors> {
        all_valid! { Self;
            pet_id: PetId::from_json(object.get("petId")),
            buyer: object.optional("buyer"),
            price: object.optional("price"),
            reference: object.optional("reference"),
        }
    }
}

impl PlaceOrderRequest {
    /// Creates a request with only the required members.
    pub fn new(pet_id: PetId) -> Self {
        Self {
            pet_id,
            buyer: None,
            price: None,
            reference: None,
        }
    }

    /// Returns the order, placed now, whose reservation expires after `reserve_for`, if ever.
    /// Timestamps have microsecond precision, as in the database.
    pub fn into_order(
        self,
        id: OrderId,
        now: Timestamp,
        reserve_for: Option<SignedDuration>,
    ) -> Order {
        let created_at = truncate_to_microseconds(now);
        Order {
            id,
            pet_id: self.pet_id,
            status: OrderStatus::Placed,
            created_at,
            updated_at: created_at,
            expires_at: reserve_for.map(|duration| created_at + duration),
            completed_at: None,
            buyer: self.buyer,
            price: self.price,
            reference: self.reference,
        }
    }
}

/// A merge patch (RFC 7396) of the details of a sale.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderChange {
    pub buyer: Patch<BuyerChange>,
    pub price: Patch<PriceChange>,
    pub reference: Patch<Reference>,
}

impl FromObject for OrderChange {
    const MEMBERS: &[KnownMember] = &[
        KnownMember::of::<Buyer>("buyer"),
        KnownMember::of::<Price>("price"),
        KnownMember::scalar("reference"),
    ];

    fn from_object(object: &Object) -> Result<Self, Errors> {
        all_valid! { Self;
            buyer: Patch::read_member::<Buyer>(object, "buyer"),
            price: Patch::read_member::<Price>(object, "price"),
            reference: Patch::read_member::<Reference>(object, "reference"),
        }
    }
}

impl OrderChange {
    /// Decides the effect of the change on an order. With `expected`, the order must still have
    /// that value (optimistic concurrency).
    ///
    /// Only an active order is corrected. The buyer can always be erased.
    pub fn decide(
        &self,
        before: &Order,
        expected: Option<&Order>,
        now: Timestamp,
    ) -> Result<Order, OrderRejection> {
        if expected.is_some_and(|expected| expected != before) {
            return Err(OrderRejection::Outdated);
        }
        let after = self.apply(before).map_err(OrderRejection::Invalid)?;
        if after == *before {
            return Ok(after);
        }
        let is_erasure = after == before.clone().without_buyer();
        if before.status.claim().is_none() && !is_erasure {
            return Err(OrderRejection::OrderNotChangeable);
        }
        let updated_at = before.updated_at.max(truncate_to_microseconds(now));
        Ok(Order {
            updated_at,
            ..after
        })
    }

    fn apply(&self, before: &Order) -> Result<Order, Errors> {
        Ok(Order {
            buyer: self.buyer.merge(before.buyer.as_ref(), "buyer")?,
            price: self.price.merge(before.price.as_ref(), "price")?,
            reference: self
                .reference
                .merge(before.reference.as_ref(), "reference")?,
            ..before.clone()
        })
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderRejection {
    NoSuchPet,
    PetNotAvailable,
    NoSuchOrder,
    OrderNotOpen,
    /// The order is not completed, or its pet was deleted.
    OrderNotReturnable,
    /// The order is cancelled or returned, so that only its buyer can be erased.
    OrderNotChangeable,
    /// The order no longer has the expected value.
    Outdated,
    /// This pet now has the microchip of the pet that is to be returned.
    MicrochipTaken(PetId),
    /// A merge patch of the buyer or the price leaves out what it needs.
    Invalid(Errors),
}

recorded_rejection!(OrderRejection {
    NoSuchPet = "no_such_pet",
    PetNotAvailable = "pet_not_available",
    NoSuchOrder = "no_such_order",
    OrderNotOpen = "order_not_open",
    OrderNotReturnable = "order_not_returnable",
    OrderNotChangeable = "order_not_changeable",
    Outdated = "outdated",
} not recorded {
    Invalid,
    MicrochipTaken,
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
        let request = PlaceOrderRequest::new(pet_id);
        let placed = request.into_order(OrderId(1), second(100, 0), Some(reserve_for));
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
