//! The settings of the shop: what its papers show, and the currency of its prices.

use crate::{
    idempotency::recorded_rejection,
    json::{FromObject, KnownMember, Object},
    members::{Errors, object},
    price::Currency,
    text::{Lines, Text},
};

object! {
    /// The settings of the shop. At first, none is set.
    #[derive(Default)]
    Settings
    /// Members that are absent stay unchanged.
    SettingsChange
    required {}
    optional {
        name "name": Text<200>,
        address "address": Lines<500>,
        receipt_text "receiptText": Lines<1000>,
        currency "currency": Currency,
    }
}

impl FromObject for SettingsChange {
    const MEMBERS: &[KnownMember] = &[
        KnownMember::scalar("name"),
        KnownMember::scalar("address"),
        KnownMember::scalar("receiptText"),
        KnownMember::scalar("currency"),
    ];

    fn from_object(object: &Object) -> Result<Self, Errors> {
        Self::read(object)
    }
}

impl SettingsChange {
    /// Decides the settings after the change. With `expected`, they must still have that value
    /// (optimistic concurrency).
    pub fn decide(
        &self,
        before: &Settings,
        expected: Option<&Settings>,
    ) -> Result<Settings, SettingsRejection> {
        if expected.is_some_and(|expected| expected != before) {
            return Err(SettingsRejection::Outdated);
        }
        Ok(Settings {
            name: self.name.apply(before.name.as_ref()),
            address: self.address.apply(before.address.as_ref()),
            receipt_text: self.receipt_text.apply(before.receipt_text.as_ref()),
            currency: self.currency.apply(before.currency.as_ref()),
        })
    }
}

impl Settings {
    /// Returns the names of the members that differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let members = [
            ("name", self.name != other.name),
            ("address", self.address != other.address),
            ("receiptText", self.receipt_text != other.receipt_text),
            ("currency", self.currency != other.currency),
        ];
        let differing = members.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(name, _)| name).collect()
    }
}

/// The settings after a change, and the names of the members that it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdatedSettings {
    pub settings: Settings,
    pub changed: Vec<&'static str>,
}

/// The reason why the settings were not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsRejection {
    /// The settings no longer have the expected value.
    Outdated,
}

recorded_rejection!(SettingsRejection {
    Outdated = "outdated",
});
