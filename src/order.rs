//! Orders: a claim on one animal.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    page::{Filter, ListKind},
    pet::PetId,
};

/// A buyer's claim on one animal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub id: i64,
    pub pet_id: PetId,
    pub status: OrderStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// How far an order has come.
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
