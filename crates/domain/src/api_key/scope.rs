//! Scopes: the permissions of API keys.

use std::{fmt, slice, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{
    invalid::{Invalid, quoted},
    json::Value,
};

/// A permission of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Scope {
    PetsRead = 1,
    PetsWrite = 2,
    OrdersRead = 4,
    OrdersWrite = 8,
    WebhooksRead = 16,
    WebhooksWrite = 32,
    KeysRead = 64,
    KeysWrite = 128,
    /// The only scope of an invitation. It cannot be granted.
    KeysClaim = 256,
    StoreWrite = 512,
}

impl Scope {
    /// The scopes that a key can be granted.
    pub const ALL: [Self; 9] = [
        Self::PetsRead,
        Self::PetsWrite,
        Self::OrdersRead,
        Self::OrdersWrite,
        Self::WebhooksRead,
        Self::WebhooksWrite,
        Self::KeysRead,
        Self::KeysWrite,
        Self::StoreWrite,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::PetsRead => "pets:read",
            Self::PetsWrite => "pets:write",
            Self::OrdersRead => "orders:read",
            Self::OrdersWrite => "orders:write",
            Self::WebhooksRead => "webhooks:read",
            Self::WebhooksWrite => "webhooks:write",
            Self::KeysRead => "keys:read",
            Self::KeysWrite => "keys:write",
            Self::KeysClaim => "keys:claim",
            Self::StoreWrite => "store:write",
        }
    }

    /// Returns the scope as a static slice.
    pub fn as_slice(self) -> &'static [Self] {
        static ALL: [Scope; 9] = Scope::ALL;
        let found = ALL.iter().find(|scope| **scope == self);
        found.map_or(&[Self::KeysClaim], slice::from_ref)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| {
                let all = Self::ALL.map(Self::as_str).join(", ");
                Invalid::new(
                    "scope",
                    format!("must be one of {all}, got {}", quoted(text)),
                )
            })
    }
}

/// A set of scopes. Displayed as space-separated names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scopes(u16);

impl Scopes {
    /// The scopes of an invitation.
    pub const CLAIM: Self = Self(Scope::KeysClaim as u16);

    /// Returns the scopes of an owner.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Returns all scopes except those to manage keys.
    pub fn all_but_keys() -> Self {
        let manage = [Scope::KeysRead, Scope::KeysWrite].into_iter().collect();
        Self::all().without(manage)
    }

    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope as u16 != 0
    }

    /// Returns the scopes that these have and `others` lack.
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub fn iter(self) -> impl Iterator<Item = Scope> {
        let all = Scope::ALL.into_iter().chain([Scope::KeysClaim]);
        all.filter(move |scope| self.has(*scope))
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        self.iter().map(Scope::as_str)
    }

    /// Parses an array of names.
    pub fn from_json(value: Option<Value>) -> Result<Self, Invalid> {
        let value = value.ok_or_else(|| Invalid::new("scopes", "required; must be an array"))?;
        let scopes = value.as_choices("scopes", &Scope::ALL, Scope::as_str)?;
        Ok(scopes.into_iter().collect())
    }

    /// Parses stored scopes. A name that this version does not know grants nothing.
    pub fn from_store(text: &str) -> Self {
        let all = Self(u16::MAX).iter();
        all.filter(|scope| text.split(' ').any(|name| name == scope.as_str()))
            .collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(
            scopes
                .into_iter()
                .fold(0, |bits, scope| bits | scope as u16),
        )
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(" "))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}
