//! Orders: a claim on one animal.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    invalid::{Invalid, quoted},
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

impl OrderStatus {
    pub const ALL: [Self; 3] = [Self::Placed, Self::Completed, Self::Cancelled];
}

impl Filter for OrderStatus {
    const LIST: ListKind = ListKind::Orders;

    fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                let got = quoted(text);
                let reason = format!("must be one of placed, completed, cancelled, got {got}");
                Invalid::new("status", reason)
            })
    }
}
