//! Roles: names for scopes, as the console has them.

use clap::ValueEnum;

use domain::api_key::{Scope, Scopes};

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Role {
    Owner,
    Staff,
    ReadOnly,
}

impl Role {
    pub fn scopes(self) -> Scopes {
        use Scope::*;
        match self {
            Self::Owner => Scopes::all(),
            Self::Staff => [PetsRead, PetsWrite, OrdersRead, OrdersWrite]
                .into_iter()
                .collect(),
            Self::ReadOnly => [PetsRead, OrdersRead].into_iter().collect(),
        }
    }
}
