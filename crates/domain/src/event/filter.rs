//! The events that a reader asks for, and those that it may see.

use serde::{Serialize, Serializer};

use super::{EventId, EventType, Subject};
use crate::{
    api_key::{Scope, Scopes},
    invalid::{Invalid, quoted},
    json::Value,
    page::{parse_positive_decimal, set_once},
    pet::batch::BatchId,
};

/// The point after which reading starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Starts with the next event that happens.
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

/// A set of event types. Serialized as an array of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTypes(u16);

impl EventTypes {
    pub fn all() -> Self {
        EventType::ALL.iter().copied().collect()
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        text.split(',').map(EventType::parse).collect()
    }

    /// Parses an array of names.
    pub fn from_json(value: Value) -> Result<Self, Invalid> {
        let types = value.as_choices("types", EventType::ALL, EventType::as_str)?;
        Ok(types.into_iter().collect())
    }

    /// Returns the types that were asked for, or else every type that an API key with these
    /// scopes sees. Fails with a missing scope if the key may not see a type that it asks for.
    pub fn visible_to(asked: Option<Self>, scopes: Scopes) -> Result<Self, Scope> {
        let Some(asked) = asked else {
            let visible = Self::all().iter();
            return Ok(visible.filter(|kind| scopes.has(kind.scope())).collect());
        };
        let mut needed = asked.iter().map(EventType::scope);
        match needed.find(|scope| !scopes.has(*scope)) {
            Some(missing) => Err(missing),
            None => Ok(asked),
        }
    }

    pub fn has(self, kind: EventType) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = EventType> {
        let all = EventType::ALL.iter().copied();
        all.filter(move |kind| self.has(*kind))
    }

    /// Returns the names, separated by spaces.
    pub fn to_store(self) -> String {
        self.names().join(" ")
    }

    /// The inverse of [`to_store`](Self::to_store). A name that this version does not know
    /// is ignored.
    pub fn from_store(text: &str) -> Self {
        text.split(' ').filter_map(EventType::from_name).collect()
    }

    pub(super) fn names(self) -> Vec<&'static str> {
        self.iter().map(EventType::as_str).collect()
    }
}

impl FromIterator<EventType> for EventTypes {
    fn from_iter<I: IntoIterator<Item = EventType>>(types: I) -> Self {
        let bits = types.into_iter();
        Self(bits.fold(0, |bits, kind| bits | 1 << kind as u16))
    }
}

impl Serialize for EventTypes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

/// The filter of a reader of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    types: Option<EventTypes>,
    subject: Option<Subject>,
    batch: Option<BatchId>,
}

impl EventFilter {
    /// Sets a query parameter. Ignores those that do not belong to the filter.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        match name {
            "types" => set_once("types", &mut self.types, EventTypes::parse(value)?),
            "subject" => {
                let subject = Subject::parse(value).ok_or_else(|| {
                    let got = quoted(value);
                    let reason = format!(
                        "must be pets/ID, orders/ID, categories/ID or keys/ID, with the id of the \
                         resource, got {got}"
                    );
                    Invalid::new("subject", reason)
                })?;
                set_once("subject", &mut self.subject, subject)
            }
            "batch" => {
                let batch = BatchId::parse(value).ok_or_else(|| {
                    let got = quoted(value);
                    let reason = format!("must be the batchid of an event, got {got}");
                    Invalid::new("batch", reason)
                })?;
                set_once("batch", &mut self.batch, batch)
            }
            _ => Ok(()),
        }
    }

    /// Returns the query parameters that produce this filter.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let types = self.types.map(|types| ("types", types.names().join(",")));
        let subject = self.subject.map(|subject| ("subject", subject.to_string()));
        let batch = self.batch.as_ref();
        let batch = batch.map(|batch| ("batch", batch.as_str().to_string()));
        types.into_iter().chain(subject).chain(batch).collect()
    }

    /// Returns the events that an API key with these scopes sees. Fails with the missing scope if
    /// the filter asks for more.
    pub fn visible_to(self, scopes: Scopes) -> Result<VisibleEvents, Scope> {
        let types = EventTypes::visible_to(self.types, scopes)?;
        let subject = self.subject;
        match subject.map(Subject::scope) {
            Some(missing) if !scopes.has(missing) => Err(missing),
            _ => Ok(VisibleEvents {
                types,
                subject,
                batch: self.batch,
            }),
        }
    }
}

/// A part of the log that has an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPart {
    Subject(Subject),
    Batch(BatchId),
}

/// The events that a reader gets: those that it asks for and may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleEvents {
    types: EventTypes,
    subject: Option<Subject>,
    batch: Option<BatchId>,
}

impl VisibleEvents {
    /// Returns all events of these types.
    pub fn of_types(types: EventTypes) -> Self {
        Self {
            types,
            subject: None,
            batch: None,
        }
    }

    /// Returns the part of the log that has these events, if the log has an index of it.
    pub fn part(&self) -> Option<LogPart> {
        match (self.subject, &self.batch) {
            (Some(subject), _) => Some(LogPart::Subject(subject)),
            (None, Some(batch)) => Some(LogPart::Batch(batch.clone())),
            (None, None) => None,
        }
    }

    pub fn include(&self, kind: EventType, subject: Subject, batch: Option<&BatchId>) -> bool {
        self.types.has(kind)
            && self.subject.is_none_or(|wanted| wanted == subject)
            && (self.batch.is_none() || self.batch.as_ref() == batch)
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
                let max = Self::MAX;
                let got = quoted(text);
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
