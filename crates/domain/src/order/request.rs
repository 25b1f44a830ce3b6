//! Requests to place an order and to change the details of its sale.

use jiff::{SignedDuration, Timestamp};

use super::{Order, OrderId, OrderRejection, OrderStatus, Reference};
use crate::{
    clock::truncate_to_microseconds,
    invalid::Invalid,
    json::{FromObject, KnownMember, Object},
    members::{Errors, Members, Patch, all_valid},
    party::{Buyer, BuyerChange},
    pet::PetId,
    price::{Price, PriceChange},
};

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
            completed_by: None,
            category_id: None,
            returned_at: None,
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

    /// Fails if the change of a buyer leaves out the name. Without it, the result depends on
    /// the stored buyer, and tells a client that may not read it whether there is one.
    pub fn require_buyer_name(&self) -> Result<(), OrderRejection> {
        match &self.buyer {
            Patch::Set(BuyerChange { name: None, .. }) => {
                let reason = "required from an API key without the scope orders:read";
                let error = Invalid::new("buyer.name", reason);
                Err(OrderRejection::Invalid(vec![error]))
            }
            _ => Ok(()),
        }
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
