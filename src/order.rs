//! Orders: a claim on one animal, and how it ends.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    invalid::Invalid,
    json::{FromObject, Object},
    page::{Filter, ListKind, decimal},
    pet::{PetId, PetStatus},
};

/// A buyer's claim on one animal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub id: OrderId,
    pub pet_id: PetId,
    pub status: OrderStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When it is cancelled, unless it was completed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Order {
    /// The order after it was closed, if it is open and, to be completed, its
    /// hold has not lapsed.
    pub fn closed(self, how: Transition, now: Timestamp) -> Option<Self> {
        let in_time =
            how == Transition::Cancel || self.expires_at.is_none_or(|expiry| now < expiry);
        (self.status == OrderStatus::Placed && in_time).then(|| Self {
            status: how.order_status(),
            updated_at: self.updated_at.max(to_the_microsecond(now)),
            ..self
        })
    }
}

/// The number of an order: positive and below 2^53, given by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct OrderId(i64);

impl OrderId {
    /// Reads an id as it stands in a path; anything else names no order.
    pub fn parse(text: &str) -> Option<Self> {
        decimal(text).map(Self)
    }

    pub fn get(self) -> i64 {
        self.0
    }

    pub(crate) fn from_store(id: i64) -> Self {
        Self(id)
    }
}

/// How far an order has come. Only a placed one is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderStatus {
    Placed,
    Completed,
    Cancelled,
}

impl Filter for OrderStatus {
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

/// What a client says to place an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceOrder {
    pub pet_id: PetId,
}

impl FromObject for PlaceOrder {
    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        match PetId::from_json(object.get("petId")) {
            Ok(pet_id) => Ok(Self { pet_id }),
            Err(wrong) => Err(vec![wrong]),
        }
    }
}

/// An order that has no id yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder {
    pub pet_id: PetId,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

impl NewOrder {
    /// An order that is placed now. Times are kept to the microsecond.
    pub fn new(pet_id: PetId, now: Timestamp, hold: Option<SignedDuration>) -> Self {
        let created_at = to_the_microsecond(now);
        Self {
            pet_id,
            created_at,
            expires_at: hold.map(|hold| created_at + hold),
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

fn to_the_microsecond(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).expect("it is a time without the rest too")
}

/// How an open order ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    Complete,
    Cancel,
}

impl Transition {
    /// What the order becomes.
    pub fn order_status(self) -> OrderStatus {
        match self {
            Self::Complete => OrderStatus::Completed,
            Self::Cancel => OrderStatus::Cancelled,
        }
    }

    /// What the animal becomes.
    pub fn pet_status(self) -> PetStatus {
        match self {
            Self::Complete => PetStatus::Sold,
            Self::Cancel => PetStatus::Available,
        }
    }
}

/// Why an order was not placed or not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    NoSuchPet,
    PetNotAvailable,
    NoSuchOrder,
    OrderNotOpen,
}
