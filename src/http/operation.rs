//! The operations of the contract, by their ids.

use crate::api_key::Scope;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    ListPets,
    CreatePet,
    GetPet,
    UpdatePet,
    GetInventory,
    ListOrders,
    PlaceOrder,
    GetOrder,
    CompleteOrder,
    CancelOrder,
}

impl Operation {
    pub const ALL: [Self; 10] = [
        Self::ListPets,
        Self::CreatePet,
        Self::GetPet,
        Self::UpdatePet,
        Self::GetInventory,
        Self::ListOrders,
        Self::PlaceOrder,
        Self::GetOrder,
        Self::CompleteOrder,
        Self::CancelOrder,
    ];

    pub fn id(self) -> &'static str {
        match self {
            Self::ListPets => "listPets",
            Self::CreatePet => "createPet",
            Self::GetPet => "getPet",
            Self::UpdatePet => "updatePet",
            Self::GetInventory => "getInventory",
            Self::ListOrders => "listOrders",
            Self::PlaceOrder => "placeOrder",
            Self::GetOrder => "getOrder",
            Self::CompleteOrder => "completeOrder",
            Self::CancelOrder => "cancelOrder",
        }
    }

    /// What a key must be allowed to do.
    pub fn scope(self) -> Scope {
        match self {
            Self::ListPets | Self::GetPet | Self::GetInventory => Scope::PetsRead,
            Self::CreatePet | Self::UpdatePet => Scope::PetsWrite,
            Self::ListOrders | Self::GetOrder => Scope::OrdersRead,
            Self::PlaceOrder | Self::CompleteOrder | Self::CancelOrder => Scope::OrdersWrite,
        }
    }

    /// Whether it is going to be removed, so that somebody may ask who still
    /// calls it.
    pub fn is_deprecated(self) -> bool {
        self == Self::GetPet
    }
}
