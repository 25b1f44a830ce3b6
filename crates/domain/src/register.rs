//! The register of animals: those that were acquired and those that were sold in a period, as
//! laws ask for it.

use compact_str::CompactString;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    clock::truncate_to_microseconds,
    date::{PastDate, parse_date},
    invalid::Invalid,
    members::Choice,
    order::{OrderId, Reference},
    page::{Filter, ListKind, Parameters, Position, set_once},
    party::{Buyer, Source},
    period::{Period, PeriodParameters},
    pet::{Microchip, Pet, PetId, PetName, Sex},
    price::Price,
    text::Text,
};

/// Laws ask for records of up to three years, even if events are kept for less.
const MIN_RETENTION: SignedDuration = SignedDuration::from_hours(3 * 365 * 24);

/// Returns the time for which the register keeps deleted pets, from that for which events are
/// kept.
pub fn deleted_pet_retention(events: SignedDuration) -> SignedDuration {
    events.max(MIN_RETENTION)
}

/// The members of a pet that the register has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredPet {
    pub name: PetName,
    pub category_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breed: Option<Text<100>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sex: Option<Sex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub birth_date: Option<PastDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<Text<100>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microchip: Option<Microchip>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquired_on: Option<PastDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// A pet that was deleted. The register keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedPet {
    pub id: PetId,
    pub deleted_at: Timestamp,
    pub pet: RegisteredPet,
}

impl DeletedPet {
    pub fn new(pet: &Pet, now: Timestamp) -> Self {
        Self {
            id: pet.id,
            deleted_at: truncate_to_microseconds(now),
            pet: RegisteredPet {
                name: pet.name.clone(),
                category_id: pet.category_id,
                breed: pet.breed.clone(),
                sex: pet.sex,
                birth_date: pet.birth_date.clone(),
                color: pet.color.clone(),
                microchip: pet.microchip.clone(),
                acquired_on: pet.acquired_on.clone(),
                source: pet.source.clone(),
            },
        }
    }
}

/// An entry of the register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisterEntry {
    pub pet_id: PetId,
    /// Absent if the pet was deleted so long ago that it is no longer kept.
    #[serde(flatten)]
    pub pet: Option<RegisteredPet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sale: Option<RegisteredSale>,
}

/// The members of a completed order that the register has. The buyer is personal data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredSale {
    pub order_id: OrderId,
    pub sold_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buyer: Option<Buyer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned_at: Option<Timestamp>,
}

/// The kind of the entries of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Pets by the date of acquisition, each with the sale that was not returned, if any.
    Acquired,
    /// Completed orders by the time of completion, also those that were returned later.
    Sold,
}

impl Choice for EntryKind {
    const ALL: &[Self] = &[Self::Acquired, Self::Sold];

    fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Sold => "sold",
        }
    }
}

/// The filter of a list of entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RegisterFilter {
    pub entry: EntryKind,
    pub period: Period,
}

impl RegisterFilter {
    /// Parses a query string. Unknown parameters are ignored.
    pub fn parse(query: &str, now: Timestamp) -> Result<Self, Invalid> {
        let mut entry = None;
        let mut parameters = PeriodParameters::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "entry" => {
                    let kind =
                        EntryKind::parse(&value).map_err(|reason| Invalid::new("entry", reason))?;
                    set_once("entry", &mut entry, kind)?;
                }
                _ => parameters.set(&name, &value)?,
            }
        }
        let entry = entry
            .ok_or_else(|| Invalid::new("entry", "required; must be one of acquired, sold"))?;
        let period = parameters.period(now, Period::MAX_DAYS)?;
        Ok(Self { entry, period })
    }

    /// Returns the position before all entries: the first day, or the first microsecond.
    pub fn start(&self) -> Position {
        let key = match self.entry {
            EntryKind::Acquired => self.period.from.to_string().into(),
            EntryKind::Sold => time_key(self.period.bounds().0),
        };
        Position { key, id: 0 }
    }
}

impl Filter for RegisterFilter {
    const LIST: ListKind = ListKind::Register;
    const SORTABLE: bool = false;

    type Item = RegisterEntry;

    fn parameters(&self) -> Parameters<'_> {
        let mut parameters = vec![("entry", self.entry.as_str().into())];
        parameters.extend(self.period.parameters());
        parameters
    }

    fn position(&self, entry: &RegisterEntry) -> Position {
        match (self.entry, &entry.sale) {
            (EntryKind::Sold, Some(sale)) => Position {
                key: time_key(sale.sold_at),
                id: sale.order_id.get(),
            },
            _ => {
                let pet = entry.pet.as_ref();
                let acquired_on = pet.and_then(|pet| pet.acquired_on.as_ref());
                Position {
                    key: acquired_on.map_or("", PastDate::as_str).into(),
                    id: entry.pet_id.get(),
                }
            }
        }
    }

    /// Positions are compared as text: dates, or numbers of equal length.
    fn clamp(&self, position: Position) -> Position {
        let start = self.start();
        let has_form = match self.entry {
            EntryKind::Acquired => parse_date(&position.key).is_some(),
            EntryKind::Sold => {
                let is_number = position.key.bytes().all(|byte| byte.is_ascii_digit());
                is_number && position.key.len() == start.key.len()
            }
        };
        if has_form { position.max(start) } else { start }
    }

    fn is_sorted_by_id(&self) -> bool {
        false
    }
}

/// Returns a time as a text that sorts like it, for a position.
fn time_key(time: Timestamp) -> CompactString {
    CompactString::from(format!("{:020}", time.as_microsecond().max(0)))
}

/// Returns the microseconds of the position of a sale.
pub fn time_of(position: &Position) -> i64 {
    position.key.parse().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_retention_of_events_does_not_shorten_the_register() {
        let days = |days: i64| SignedDuration::from_hours(days * 24);
        assert_eq!(deleted_pet_retention(days(7)), days(1095));
        assert_eq!(deleted_pet_retention(days(3660)), days(3660));
    }
}
