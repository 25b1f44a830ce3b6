//! Orders: claims on one pet each, with their states and the rules for changing them.

mod request;
mod transition;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    idempotency::recorded_rejection,
    invalid::{Invalid, quoted},
    members::{Choice, Errors},
    page::{Filter, ListKind, Parameters, Position, parse_positive_decimal, set_once},
    party::Buyer,
    pet::{Claim, PetId},
    price::Price,
    text::Text,
};
pub use request::{OrderChange, PlaceOrderRequest};
pub use transition::{Transition, TransitionContext};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The API key that completed the order.
    #[serde(skip)]
    pub completed_by: Option<i64>,
    /// The category of the pet when the order was completed.
    #[serde(skip)]
    pub category_id: Option<i64>,
    /// The value of `updated_at` when the pet was returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buyer: Option<Buyer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
}

impl Order {
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
            completed_at: None,
            returned_at: None,
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
                returned_at: None,
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
    const LIST: ListKind = ListKind::Orders;

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
