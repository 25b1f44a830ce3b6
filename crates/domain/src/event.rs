//! Events: changes in the order in which they happened.

mod filter;
mod id;

use std::{fmt, io::Write};

use jiff::{SignedDuration, Timestamp};

use crate::{
    api_key::Scope,
    category::CategoryId,
    invalid::{Invalid, quoted},
    order::{OrderId, OrderStatus},
    page::parse_positive_decimal,
    pet::{PetId, batch::BatchId},
};

pub use filter::{After, EventFilter, EventLimit, EventTypes, LogPart, VisibleEvents};
pub use id::{EventId, Gone};

/// A committed change of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The place of the event in the log. Numbers ascend, but some may be missing.
    pub sequence: i64,
    pub at: Timestamp,
    pub kind: EventType,
    /// The API key that made the change; `None` if the service did, or another program.
    pub api_key_id: Option<i64>,
    pub resource_id: i64,
    pub data: EventData,
    /// The batch or import that made the change, if one did.
    pub batch_id: Option<BatchId>,
}

/// The resource of an event as JSON: after the change, or before it if it was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventData {
    /// The JSON in the log.
    stored: Box<str>,
    /// The resource, if the log has a database row instead, because another program made the
    /// change.
    resource: Option<Box<str>>,
}

impl EventData {
    pub fn of_resource(json: String) -> Self {
        Self {
            stored: json.into(),
            resource: None,
        }
    }

    pub fn of_row(row: String, resource: String) -> Self {
        Self {
            stored: row.into(),
            resource: Some(resource.into()),
        }
    }

    /// Returns true if the log has a database row: another program made the change.
    pub fn is_row(&self) -> bool {
        self.resource.is_some()
    }

    pub fn as_json(&self) -> &str {
        self.resource.as_ref().unwrap_or(&self.stored)
    }
}

/// The kind of change to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventType {
    PetCreated,
    PetUpdated,
    PetDeleted,
    OrderPlaced,
    OrderUpdated,
    OrderCompleted,
    OrderCancelled,
    OrderReturned,
    CategoryUpdated,
    CategoryDeleted,
    KeyCreated,
    KeyRotated,
    KeyRevoked,
}

impl EventType {
    pub const ALL: &[Self] = &[
        Self::PetCreated,
        Self::PetUpdated,
        Self::PetDeleted,
        Self::OrderPlaced,
        Self::OrderUpdated,
        Self::OrderCompleted,
        Self::OrderCancelled,
        Self::OrderReturned,
        Self::CategoryUpdated,
        Self::CategoryDeleted,
        Self::KeyCreated,
        Self::KeyRotated,
        Self::KeyRevoked,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::PetCreated => "pet.created",
            Self::PetUpdated => "pet.updated",
            Self::PetDeleted => "pet.deleted",
            Self::OrderPlaced => "order.placed",
            Self::OrderUpdated => "order.updated",
            Self::OrderCompleted => "order.completed",
            Self::OrderCancelled => "order.cancelled",
            Self::OrderReturned => "order.returned",
            Self::CategoryUpdated => "category.updated",
            Self::CategoryDeleted => "category.deleted",
            Self::KeyCreated => "key.created",
            Self::KeyRotated => "key.rotated",
            Self::KeyRevoked => "key.revoked",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::from_name(text).ok_or_else(|| {
            let all = EventTypes::all().names().join(", ");
            let got = quoted(text);
            let reason = format!("must be one or more of {all}, separated by commas, got {got}");
            Invalid::new("types", reason)
        })
    }

    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.as_str() == name)
    }

    /// Returns the type of the event for an order that changes to this status.
    pub fn of_order(status: OrderStatus) -> Self {
        match status {
            OrderStatus::Placed => Self::OrderPlaced,
            OrderStatus::Completed => Self::OrderCompleted,
            OrderStatus::Cancelled => Self::OrderCancelled,
            OrderStatus::Returned => Self::OrderReturned,
        }
    }

    /// Returns the resource with this id that such an event is about.
    pub fn subject(self, id: i64) -> Subject {
        match self {
            Self::PetCreated | Self::PetUpdated | Self::PetDeleted => {
                Subject::Pet(PetId::from_store(id))
            }
            Self::CategoryUpdated | Self::CategoryDeleted => {
                Subject::Category(CategoryId::from_store(id))
            }
            Self::OrderPlaced
            | Self::OrderUpdated
            | Self::OrderCompleted
            | Self::OrderCancelled
            | Self::OrderReturned => Subject::Order(OrderId::from_store(id)),
            Self::KeyCreated | Self::KeyRotated | Self::KeyRevoked => Subject::Key(id),
        }
    }

    /// Returns the scope that an API key needs to see such an event.
    pub fn scope(self) -> Scope {
        self.subject(0).scope()
    }
}

/// The resource that an event is about, such as `pets/17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Pet(PetId),
    Order(OrderId),
    Category(CategoryId),
    Key(i64),
}

impl Subject {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (collection, id) = text.split_once('/')?;
        match collection {
            "pets" => PetId::parse(id).map(Self::Pet),
            "orders" => OrderId::parse(id).map(Self::Order),
            "categories" => CategoryId::parse(id).map(Self::Category),
            "keys" => parse_positive_decimal(id).map(Self::Key),
            _ => None,
        }
    }

    /// Returns the id of the resource, and the first letters of the types of its events.
    pub fn key(self) -> (i64, &'static str) {
        match self {
            Self::Pet(id) => (id.get(), "pet"),
            Self::Order(id) => (id.get(), "ord"),
            Self::Category(id) => (id.get(), "cat"),
            Self::Key(id) => (id, "key"),
        }
    }

    /// Returns the scope that an API key needs to see events about the resource.
    pub(super) fn scope(self) -> Scope {
        match self {
            Self::Pet(_) | Self::Category(_) => Scope::PetsRead,
            Self::Order(_) => Scope::OrdersRead,
            Self::Key(_) => Scope::KeysRead,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pet(id) => write!(f, "pets/{}", id.get()),
            Self::Order(id) => write!(f, "orders/{}", id.get()),
            Self::Category(id) => write!(f, "categories/{}", id.get()),
            Self::Key(id) => write!(f, "keys/{id}"),
        }
    }
}

impl Event {
    pub fn subject(&self) -> Subject {
        self.kind.subject(self.resource_id)
    }

    /// Appends the event in the JSON format of CloudEvents 1.0. `id` is that of the event,
    /// `source` that of the store. The JSON is written by hand, because this runs for every event
    /// that is read, and the resource is JSON already.
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
        let subject = self.subject();
        let time = self.at;
        let sequence = self.sequence;
        let written = write!(
            json,
            "\",\"subject\":\"{subject}\",\"time\":\"{time}\",\"sequence\":\"{sequence:019}\","
        );
        written.expect(IN_MEMORY);
        if let Some(key) = self.api_key_id {
            write!(json, "\"keyid\":\"{key}\",").expect(IN_MEMORY);
        }
        if let Some(batch) = &self.batch_id {
            write!(json, "\"batchid\":\"{}\",", batch.as_str()).expect(IN_MEMORY);
        }
        json.extend_from_slice(b"\"data\":");
        json.extend_from_slice(self.data.as_json().as_bytes());
        json.push(b'}');
    }
}

const IN_MEMORY: &str = "writing to memory does not fail";

/// The limits up to which events are kept. The newest event is always kept.
#[derive(Debug, Clone, Copy)]
pub struct EventRetention {
    pub age: SignedDuration,
    pub count: u64,
}

impl Default for EventRetention {
    fn default() -> Self {
        Self {
            age: SignedDuration::from_hours(3 * 365 * 24),
            count: 10_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index by subject depends on it.
    #[test]
    fn the_first_letters_of_a_type_name_the_kind_of_resource() {
        for kind in EventType::ALL {
            let (id, letters) = kind.subject(17).key();
            assert_eq!((id, letters), (17, &kind.as_str()[..3]));
            for other in EventType::ALL {
                let is_same_kind = kind.subject(17) == other.subject(17);
                assert_eq!(letters == other.subject(17).key().1, is_same_kind);
            }
        }
    }
}
