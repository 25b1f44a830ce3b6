//! Events as clients receive them.

use bytes::Bytes;
use jiff::Timestamp;

use domain::{
    event::{Event, EventId, EventType, Subject},
    pet::batch::BatchId,
};

/// The bytes around the JSON of an event, which the protocol of the readers asks for. They are
/// written once, with the JSON, and shared by all readers. Empty by default.
#[derive(Debug, Clone, Copy)]
pub struct Framing {
    /// Writes what precedes the JSON.
    pub write_head: fn(&mut Vec<u8>, EventId, EventType),
    pub tail: &'static [u8],
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            write_head: |_, _, _| {},
            tail: b"",
        }
    }
}

/// An event as clients receive it.
#[derive(Debug)]
pub struct SerializedEvent {
    pub id: EventId,
    pub at: Timestamp,
    pub kind: EventType,
    pub subject: Subject,
    pub batch_id: Option<BatchId>,
    /// The JSON with its [`Framing`].
    pub framed: Bytes,
    pub json: Bytes,
}

impl SerializedEvent {
    pub fn new(event: &Event, source: &str, framing: Framing) -> Self {
        let id = event.id();
        let mut framed = Vec::with_capacity(512);
        (framing.write_head)(&mut framed, id, event.kind);
        let json_start = framed.len();
        event.write_json(&mut framed, id, source);
        let json_end = framed.len();
        framed.extend_from_slice(framing.tail);
        let framed = Bytes::from(framed);
        Self {
            id,
            at: event.at,
            kind: event.kind,
            subject: event.subject(),
            batch_id: event.batch_id.clone(),
            json: framed.slice(json_start..json_end),
            framed,
        }
    }
}
