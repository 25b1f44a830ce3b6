//! Events: what changed, in the order in which it happened.

use std::{fmt, io::Write};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    api_key::{Scope, Scopes},
    category::{Category, CategoryId},
    invalid::{Invalid, quoted},
    order::{Order, OrderId, OrderStatus},
    page::{Status, parse_positive_decimal, set_once},
    pet::{Pet, PetId},
};

/// A committed change of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place in the log. Numbers ascend, but some may be missing.
    pub sequence: i64,
    pub at: Timestamp,
    pub kind: EventType,
    /// The API key that made the change; `None` if the service did, or another program.
    pub api_key_id: Option<i64>,
    /// The resource after the change; before it, if it was deleted.
    pub resource: Resource,
}

/// A resource whose changes are logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Resource {
    Pet(Pet),
    Order(Order),
    Category(Category),
}

impl Resource {
    pub fn subject(&self) -> Subject {
        match self {
            Self::Pet(pet) => Subject::Pet(pet.id),
            Self::Order(order) => Subject::Order(order.id),
            Self::Category(category) => Subject::Category(category.id),
        }
    }
}

/// What happened to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventType {
    PetCreated,
    PetUpdated,
    PetDeleted,
    OrderPlaced,
    OrderCompleted,
    OrderCancelled,
    OrderReturned,
    CategoryUpdated,
    CategoryDeleted,
}

impl EventType {
    pub const ALL: &[Self] = &[
        Self::PetCreated,
        Self::PetUpdated,
        Self::PetDeleted,
        Self::OrderPlaced,
        Self::OrderCompleted,
        Self::OrderCancelled,
        Self::OrderReturned,
        Self::CategoryUpdated,
        Self::CategoryDeleted,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::PetCreated => "pet.created",
            Self::PetUpdated => "pet.updated",
            Self::PetDeleted => "pet.deleted",
            Self::OrderPlaced => "order.placed",
            Self::OrderCompleted => "order.completed",
            Self::OrderCancelled => "order.cancelled",
            Self::OrderReturned => "order.returned",
            Self::CategoryUpdated => "category.updated",
            Self::CategoryDeleted => "category.deleted",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.as_str() == text).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            let (all, got) = (all.join(", "), quoted(text));
            let reason = format!("must be one or more of {all}, separated by commas, got {got}");
            Invalid::new("types", reason)
        })
    }

    /// What happened to an order that has got this status.
    pub fn of_order(status: OrderStatus) -> Self {
        match status {
            OrderStatus::Placed => Self::OrderPlaced,
            OrderStatus::Completed => Self::OrderCompleted,
            OrderStatus::Cancelled => Self::OrderCancelled,
            OrderStatus::Returned => Self::OrderReturned,
        }
    }

    /// The scope that an API key needs to see such an event.
    pub fn scope(self) -> Scope {
        match self {
            Self::PetCreated
            | Self::PetUpdated
            | Self::PetDeleted
            | Self::CategoryUpdated
            | Self::CategoryDeleted => Scope::PetsRead,
            Self::OrderPlaced
            | Self::OrderCompleted
            | Self::OrderCancelled
            | Self::OrderReturned => Scope::OrdersRead,
        }
    }
}

/// The resource that an event is about, such as `pets/17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Pet(PetId),
    Order(OrderId),
    Category(CategoryId),
}

impl Subject {
    fn parse(text: &str) -> Option<Self> {
        let (collection, id) = text.split_once('/')?;
        match collection {
            "pets" => PetId::parse(id).map(Self::Pet),
            "orders" => OrderId::parse(id).map(Self::Order),
            "categories" => CategoryId::parse(id).map(Self::Category),
            _ => None,
        }
    }

    /// The scope that an API key needs to see events about it.
    fn scope(self) -> Scope {
        match self {
            Self::Pet(_) | Self::Category(_) => Scope::PetsRead,
            Self::Order(_) => Scope::OrdersRead,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pet(id) => write!(f, "pets/{}", id.get()),
            Self::Order(id) => write!(f, "orders/{}", id.get()),
            Self::Category(id) => write!(f, "categories/{}", id.get()),
        }
    }
}

/// An event's id, which is also a position in the log: just after that event.
///
/// Clients treat it as opaque text. It encodes a version, the sequence number, a checksum
/// of the event, and a checksum of all that, in URL-safe base64. The checksum of the event
/// tells it from another event that has taken its number, after a backup was restored or
/// after a failover that lost commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventId {
    pub sequence: i64,
    checksum: u64,
}

impl EventId {
    const PREFIX: &str = "evt_";
    const VERSION: u8 = 1;
    const LENGTH: usize = 32;

    /// The position before the first event of a log.
    pub const START: Self = Self {
        sequence: 0,
        checksum: 0,
    };

    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.strip_prefix(Self::PREFIX)?;
        let bytes: [u8; 21] = URL_SAFE_NO_PAD.decode(bytes).ok()?.try_into().ok()?;
        let id = Self {
            sequence: i64::from_be_bytes(bytes[1..9].try_into().ok()?),
            checksum: u64::from_be_bytes(bytes[9..17].try_into().ok()?),
        };
        (id.to_bytes() == bytes && id.sequence >= 0).then_some(id)
    }

    /// Verifies that the log still has the event of this position. `events` are those read
    /// from its sequence number on, and that event is removed from them; the events up to
    /// `purged_through` were purged.
    pub fn verify(self, events: &mut Vec<Event>, purged_through: i64) -> Result<(), Gone> {
        match self {
            Self::START if purged_through == 0 => return Ok(()),
            _ if self.sequence <= purged_through => return Err(Gone::Expired),
            _ => {}
        }
        match events.first() {
            Some(first) if first.id() == self => {
                events.remove(0);
                Ok(())
            }
            _ => Err(Gone::Unknown),
        }
    }

    fn to_bytes(self) -> [u8; 21] {
        let mut bytes = [Self::VERSION; 21];
        bytes[1..9].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.checksum.to_be_bytes());
        let checksum = crc32fast::hash(&bytes[..17]);
        bytes[17..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

impl EventId {
    fn encode(self) -> [u8; Self::LENGTH] {
        let mut text = [0; Self::LENGTH];
        let (prefix, encoded) = text.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX.as_bytes());
        let written = URL_SAFE_NO_PAD.encode_slice(self.to_bytes(), encoded);
        written.expect("21 bytes make 28 characters");
        text
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.encode()).expect("base64 is ASCII"))
    }
}

impl Event {
    /// The id, which covers everything that is stored of the event. It must stay the same
    /// in later versions of the program.
    pub fn id(&self) -> EventId {
        let mut checksum = Fnv::new();
        let mut add = |field: &[u8]| {
            checksum.update(&(field.len() as u64).to_be_bytes());
            checksum.update(field);
        };
        let micros = |at: Timestamp| at.as_microsecond().to_be_bytes();
        add(&self.sequence.to_be_bytes());
        add(&micros(self.at));
        add(self.kind.as_str().as_bytes());
        add(&self.api_key_id.unwrap_or(0).to_be_bytes());
        match &self.resource {
            Resource::Pet(pet) => {
                add(&pet.id.get().to_be_bytes());
                add(pet.name.as_str().as_bytes());
                add(&pet.category_id.to_be_bytes());
                add(pet.status.map_or("", Status::as_str).as_bytes());
            }
            Resource::Order(order) => {
                add(&order.id.get().to_be_bytes());
                add(&order.pet_id.get().to_be_bytes());
                add(order.status.as_str().as_bytes());
                add(&micros(order.created_at));
                add(&micros(order.updated_at));
                add(order.expires_at.map(micros).as_ref().map_or(&[], |at| at));
            }
            Resource::Category(category) => {
                add(&category.id.get().to_be_bytes());
                add(category.name.as_str().as_bytes());
            }
        }
        EventId {
            sequence: self.sequence,
            checksum: checksum.0,
        }
    }

    /// Appends the event in the JSON format of CloudEvents 1.0. `id` is its own, `source`
    /// that of the store. Written by hand, because it is written for every event that is
    /// read; only the resource has text that must be escaped.
    pub fn write_json(&self, json: &mut Vec<u8>, id: EventId, source: &str) {
        let kind = self.kind.as_str().as_bytes();
        for part in [
            b"{\"specversion\":\"1.0\",\"id\":\"" as &[u8],
            &id.encode(),
            b"\",\"source\":\"",
            source.as_bytes(),
            b"\",\"type\":\"",
            kind,
        ] {
            json.extend_from_slice(part);
        }
        let (subject, time, sequence) = (self.resource.subject(), self.at, self.sequence);
        let written = write!(
            json,
            "\",\"subject\":\"{subject}\",\"time\":\"{time}\",\"sequence\":\"{sequence:019}\","
        );
        written.expect(IN_MEMORY);
        if let Some(key) = self.api_key_id {
            write!(json, "\"keyid\":\"{key}\",").expect(IN_MEMORY);
        }
        json.extend_from_slice(b"\"data\":");
        serde_json::to_writer(&mut *json, &self.resource).expect(IN_MEMORY);
        json.push(b'}');
    }
}

const IN_MEMORY: &str = "writing to memory does not fail";

/// The FNV-1a hash: short, stable, and cheap for a few dozen bytes. Nothing depends on
/// its being hard to forge: who makes up a position reads only what it may read anyway.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Where reading starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// With the next event that happens.
    Now,
    Id(EventId),
}

impl After {
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Invalid> {
        match text {
            "now" => Ok(Self::Now),
            _ => EventId::parse(text).map(Self::Id).ok_or_else(|| {
                let got = quoted(text);
                Invalid::new(
                    field,
                    format!("must be the id of an event, or now, got {got}"),
                )
            }),
        }
    }
}

/// A set of event types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EventTypes(u16);

impl EventTypes {
    fn parse(text: &str) -> Result<Self, Invalid> {
        text.split(',').map(EventType::parse).collect()
    }

    fn has(self, kind: EventType) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    fn iter(self) -> impl Iterator<Item = EventType> {
        let all = EventType::ALL.iter().copied();
        all.filter(move |kind| self.has(*kind))
    }
}

impl FromIterator<EventType> for EventTypes {
    fn from_iter<I: IntoIterator<Item = EventType>>(types: I) -> Self {
        let bits = types.into_iter();
        Self(bits.fold(0, |bits, kind| bits | 1 << kind as u16))
    }
}

/// Which events a reader asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventFilter {
    types: Option<EventTypes>,
    subject: Option<Subject>,
}

impl EventFilter {
    /// Takes a query parameter, if it is one of its own.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        match name {
            "types" => set_once("types", &mut self.types, EventTypes::parse(value)?),
            "subject" => {
                let subject = Subject::parse(value).ok_or_else(|| {
                    let got = quoted(value);
                    let reason = format!(
                        "must be pets/ID, orders/ID or categories/ID, with the id of the resource, \
                         got {got}"
                    );
                    Invalid::new("subject", reason)
                })?;
                set_once("subject", &mut self.subject, subject)
            }
            _ => Ok(()),
        }
    }

    /// The query parameters that give this filter.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let types = self.types.map(|types| {
            let names: Vec<_> = types.iter().map(EventType::as_str).collect();
            ("types", names.join(","))
        });
        let subject = self.subject.map(|subject| ("subject", subject.to_string()));
        types.into_iter().chain(subject).collect()
    }

    /// What an API key with these scopes sees; or the scope that it lacks, if it asks for
    /// more.
    pub fn visible_to(self, scopes: Scopes) -> Result<VisibleEvents, Scope> {
        let asked = self.types.into_iter().flat_map(EventTypes::iter);
        let asked = asked.map(EventType::scope);
        let asked = asked.chain(self.subject.map(Subject::scope));
        if let Some(missing) = { asked }.find(|scope| !scopes.has(*scope)) {
            return Err(missing);
        }
        let all = EventType::ALL.iter().copied();
        let visible = all.filter(|kind| scopes.has(kind.scope())).collect();
        Ok(VisibleEvents {
            types: self.types.unwrap_or(visible),
            subject: self.subject,
        })
    }
}

/// The events that a reader gets: those that it asks for and may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisibleEvents {
    types: EventTypes,
    subject: Option<Subject>,
}

impl VisibleEvents {
    pub fn include(&self, kind: EventType, subject: Subject) -> bool {
        self.types.has(kind) && self.subject.is_none_or(|wanted| wanted == subject)
    }
}

/// The maximum number of events on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimit(u16);

impl EventLimit {
    pub const MAX: u16 = 1000;
    pub const DEFAULT: Self = Self(100);

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse_positive_decimal(text)
            .and_then(|limit| u16::try_from(limit).ok())
            .filter(|limit| *limit <= Self::MAX)
            .map(Self)
            .ok_or_else(|| {
                let (max, got) = (Self::MAX, quoted(text));
                Invalid::new(
                    "limit",
                    format!("must be an integer from 1 to {max}, got {got}"),
                )
            })
    }

    pub fn get(self) -> usize {
        self.0.into()
    }
}

/// How many events are kept. The newest always is.
#[derive(Debug, Clone, Copy)]
pub struct EventRetention {
    pub age: SignedDuration,
    pub count: u64,
}

impl Default for EventRetention {
    fn default() -> Self {
        Self {
            age: SignedDuration::from_hours(7 * 24),
            count: 10_000_000,
        }
    }
}

/// Why the log cannot be read from a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Its event was purged.
    Expired,
    /// This log does not contain the event: a backup was restored, a failover lost it, or
    /// the id is from another store.
    Unknown,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pet::{PetName, PetStatus};

    fn event() -> Event {
        Event {
            sequence: 42,
            at: "2026-11-15T09:30:00.000001Z".parse().unwrap(),
            kind: EventType::PetUpdated,
            api_key_id: Some(7),
            resource: Resource::Pet(Pet {
                id: PetId::from_store(17),
                name: PetName::from_store("Biscuit"),
                category_id: -3,
                status: Some(PetStatus::Sold),
            }),
        }
    }

    /// Ids that clients have stored must stay valid.
    #[test]
    fn ids_stay_the_same() {
        let id = event().id().to_string();
        assert_eq!(id, "evt_AQAAAAAAAAAqxpWzlwvrND6vKukv");
        assert_eq!(EventId::parse(&id), Some(event().id()));
        assert_eq!(
            EventId::parse(&EventId::START.to_string()),
            Some(EventId::START)
        );
    }

    /// What is stored of an event is covered by its id.
    #[test]
    fn another_event_has_another_id() {
        let pet = |change: fn(&mut Pet)| {
            let mut event = event();
            if let Resource::Pet(pet) = &mut event.resource {
                change(pet);
            }
            event
        };
        let mut others = vec![
            Event {
                sequence: 43,
                ..event()
            },
            Event {
                at: Timestamp::UNIX_EPOCH,
                ..event()
            },
            Event {
                kind: EventType::PetCreated,
                ..event()
            },
            Event {
                api_key_id: None,
                ..event()
            },
            pet(|pet| pet.id = PetId::from_store(18)),
            pet(|pet| pet.name = PetName::from_store("Moss")),
            pet(|pet| pet.category_id = 3),
            pet(|pet| pet.status = None),
        ];
        others.push(event());
        let ids: std::collections::HashSet<_> = others.iter().map(Event::id).collect();
        assert_eq!(ids.len(), others.len());
    }

    proptest! {
        #[test]
        fn a_mistyped_id_is_rejected(index in 4..32usize, character in "[A-Za-z0-9_-]") {
            let mut id = event().id().to_string();
            let is_same = id[index..=index] == character;
            id.replace_range(index..=index, &character);
            prop_assert_eq!(EventId::parse(&id).is_some(), is_same);
        }
    }
}
