//! The ids of events, which are also positions in the log.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Serialize, Serializer};

use super::Event;

/// An event's id, which is also a position in the log: just after that event.
///
/// Clients treat it as opaque text. It encodes a version, the sequence number, a checksum of the
/// event, and a checksum of these fields, in URL-safe base64. The checksum of the event
/// distinguishes it from another event that has taken its number, after a backup was restored or
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
        let encoded = text.strip_prefix(Self::PREFIX)?;
        let bytes: [u8; 21] = URL_SAFE_NO_PAD.decode(encoded).ok()?.try_into().ok()?;
        let id = Self {
            sequence: i64::from_be_bytes(bytes[1..9].try_into().ok()?),
            checksum: u64::from_be_bytes(bytes[9..17].try_into().ok()?),
        };
        (id.to_bytes() == bytes && id.sequence >= 0).then_some(id)
    }

    /// Returns the sequence number at which to start a read in either direction, and the number
    /// of events to read to get `limit` of them beyond a position: the event of the position
    /// comes first, to be verified.
    pub fn read_range(after: Option<Self>, limit: usize) -> (Option<i64>, i64) {
        let is_event = after.is_some_and(|id| id != Self::START);
        let start = after.map(|id| id.sequence);
        (start, limit as i64 + i64::from(is_event))
    }

    /// Verifies that the log still has the event of this position. `found` is the event with its
    /// sequence number, if there is one; the events up to `purged_through` were purged.
    pub fn verify(self, found: Option<&Event>, purged_through: i64) -> Result<(), Gone> {
        match self {
            Self::START if purged_through == 0 => Ok(()),
            _ if self.sequence <= purged_through => Err(Gone::Expired),
            _ if found.is_some_and(|event| event.id() == self) => Ok(()),
            _ => Err(Gone::Unknown),
        }
    }

    /// Verifies this position with the events that were read from its sequence number on, and
    /// removes its own event from them.
    pub fn verify_first(self, events: &mut Vec<Event>, purged_through: i64) -> Result<(), Gone> {
        self.verify(events.first(), purged_through)?;
        if self != Self::START {
            events.remove(0);
        }
        Ok(())
    }

    fn to_bytes(self) -> [u8; 21] {
        let mut bytes = [Self::VERSION; 21];
        bytes[1..9].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.checksum.to_be_bytes());
        let checksum = crc32fast::hash(&bytes[..17]);
        bytes[17..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Encodes the id as text.
    pub(super) fn encode(self) -> [u8; Self::LENGTH] {
        let mut text = [0; Self::LENGTH];
        let (prefix, encoded) = text.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX.as_bytes());
        let written = URL_SAFE_NO_PAD.encode_slice(self.to_bytes(), encoded);
        written.expect("21 bytes make 28 characters");
        text
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.encode()).expect("base64 is ASCII"))
    }
}

impl Event {
    /// Returns the id, which covers everything that is stored of the event. It must stay the same
    /// in later versions of the program.
    pub fn id(&self) -> EventId {
        let mut checksum = Fnv::new();
        let mut add = |field: &[u8]| {
            checksum.update(&(field.len() as u64).to_be_bytes());
            checksum.update(field);
        };
        add(&self.sequence.to_be_bytes());
        add(&self.at.as_microsecond().to_be_bytes());
        add(self.kind.as_str().as_bytes());
        add(&self.api_key_id.unwrap_or(0).to_be_bytes());
        add(&self.resource_id.to_be_bytes());
        add(self.data.stored.as_bytes());
        if let Some(batch) = &self.batch_id {
            add(batch.as_str().as_bytes());
        }
        EventId {
            sequence: self.sequence,
            checksum: checksum.0,
        }
    }
}

/// The FNV-1a hash: short, stable, and cheap for a few dozen bytes. It need not be hard to
/// forge: a client that makes up a position reads only what it may read anyway.
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

/// The reason why the log cannot be read from a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The event of the position was purged.
    Expired,
    /// This log does not contain the event: a backup was restored, a failover lost it, or
    /// the id is from another store.
    Unknown,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{EventData, EventType},
        *,
    };

    fn event() -> Event {
        Event {
            sequence: 42,
            at: "2026-11-15T09:30:00.000001Z".parse().unwrap(),
            kind: EventType::PetUpdated,
            api_key_id: Some(7),
            resource_id: 17,
            data: EventData::of_resource(r#"{"id":17}"#.into()),
            batch_id: None,
        }
    }

    /// Ids that clients have stored must stay valid.
    #[test]
    fn ids_stay_the_same() {
        let id = event().id().to_string();
        assert_eq!(id, "evt_AQAAAAAAAAAqo1ysVVq-ZBR3N4ZD");
        assert_eq!(EventId::parse(&id), Some(event().id()));
        assert_eq!(
            EventId::parse(&EventId::START.to_string()),
            Some(EventId::START)
        );
    }

    /// The id covers every stored field of an event.
    #[test]
    fn another_event_has_another_id() {
        let mut others = vec![
            Event {
                sequence: 43,
                ..event()
            },
            Event {
                at: jiff::Timestamp::UNIX_EPOCH,
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
            Event {
                resource_id: 18,
                ..event()
            },
            Event {
                data: EventData::of_resource(r#"{"id":18}"#.into()),
                ..event()
            },
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
