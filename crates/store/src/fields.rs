//! Values of the domain as columns of the database.

use std::borrow::Cow;

use bytes::Bytes;
use compact_str::CompactString;
use jiff::Timestamp;

use super::table::{CorruptValue, Field, Kind, Value};
use domain::{
    api_key::{KeyHash, KeyName, Scopes},
    category::CategoryId,
    date::PastDate,
    event::{EventId, EventType, EventTypes},
    import::{ImportId, ImportUndo},
    members::Choice,
    order::{OrderId, OrderStatus},
    pet::{Metadata, Microchip, PetId, PetStatus, Sex, batch::BatchId},
    photo::{PhotoId, PhotoSize, Photos},
    price::{Amount, Currency},
    text::Text,
    webhook::{
        Description, DisabledReason, WebhookId,
        delivery::{AttemptError, DeliveryState},
        secret::WebhookSecret,
        url::WebhookUrl,
    },
};

/// Declares how values of the domain are stored: the type, its value in the database, and the
/// inverse, which is `None` for a value that this program would not have written.
macro_rules! fields {
    ($kind:ident, $inner:ty; $($type:ty: $to:expr, $from:expr;)+) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::$kind;

            fn to_value(&self) -> Value<'_> {
                let to: fn(&Self) -> Value<'_> = $to;
                to(self)
            }

            fn from_value(value: Value<'_>) -> Result<Self, CorruptValue> {
                let from: fn($inner) -> Option<Self> = $from;
                match value {
                    Value::$kind(value) => from(value).ok_or(CorruptValue),
                    _ => Err(CorruptValue),
                }
            }
        }
    )+};
}

fields! {
    Bool, bool;
    bool: |it| Value::Bool(*it), Some;
}

fields! {
    Int, i64;
    i64: |it| Value::Int(*it), Some;
    u16: |it| Value::Int(i64::from(*it)), |int| int.try_into().ok();
    u32: |it| Value::Int(i64::from(*it)), |int| int.try_into().ok();
    Timestamp: |it| Value::Int(it.as_microsecond()), |int| Self::from_microsecond(int).ok();
    PetId: |it| Value::Int(it.get()), |int| Some(Self::from_store(int));
    OrderId: |it| Value::Int(it.get()), |int| Some(Self::from_store(int));
    CategoryId: |it| Value::Int(it.get()), |int| Some(Self::from_store(int));
    WebhookId: |it| Value::Int(it.get()), |int| Some(Self::from_store(int));
    PhotoId: |it| Value::Int(it.get()), |int| Some(Self::from_store(int));
    Amount: |it| Value::Int(it.get()), Self::new;
}

fields! {
    Text, Cow<'_, str>;
    String: |it| Value::text(it.as_str()), |text| Some(text.into_owned());
    CompactString: |it| Value::text(it.as_str()), |text| Some((&*text).into());
    PetStatus: |it| Value::text(it.as_str()), |text| Self::parse(&text).ok();
    Sex: |it| Value::text(it.as_str()), |text| Self::parse(&text).ok();
    PastDate: |it| Value::text(it.as_str()), |text| Self::from_store(&text);
    Microchip: |it| Value::text(it.as_str()), |text| Some(Self::from_store(&text));
    Currency: |it| Value::text(it.as_str()), |text| Self::from_store(&text);
    Metadata: |it| Value::text(it.as_json()), |text| Self::from_store(&text);
    Photos: |it| Value::text(it.to_json()), |text| Self::from_store(&text);
    PhotoSize: |it| Value::text(it.as_str()), |text| Self::parse(&text).ok();
    OrderStatus: |it| Value::text(it.as_str()), |text| Self::parse(&text).ok();
    BatchId: |it| Value::text(it.as_str()), |text| Self::parse(&text);
    ImportUndo: |it| Value::text(it.as_str()), |text| Self::parse(&text).ok();
    EventType: |it| Value::text(it.as_str()), |text| Self::from_name(&text);
    EventTypes: |it| Value::text(it.to_store()), |text| Some(Self::from_store(&text));
    EventId: |it| Value::text(it.to_string()), |text| Self::parse(&text);
    KeyName: |it| Value::text(it.as_str()), |text| Some(Self::from_store(&text));
    Scopes: |it| Value::text(it.to_string()), |text| Some(Self::from_store(&text));
    Description: |it| Value::text(it.as_str()), |text| Some(Self::from_store(&text));
    DisabledReason: |it| Value::text(it.as_str()), |text| Self::from_store(&text);
    WebhookUrl: |it| Value::text(it.as_str()), |text| Self::parse(&text).ok();
    WebhookSecret: |it| Value::text(it.reveal()), |text| Self::parse(&text);
    DeliveryState: |it| Value::text(it.as_str()), |text| Self::from_store(&text);
    AttemptError: |it| Value::text(it.as_str()), |text| Self::from_store(&text);
}

fields! {
    Bytes, Cow<'_, [u8]>;
    [u8; 32]: |it| Value::Bytes(it.as_slice().into()), |bytes| (&*bytes).try_into().ok();
    Bytes: |it| Value::Bytes((&**it).into()), |bytes| Some(Self::from(bytes.into_owned()));
    KeyHash: |it| it.as_bytes().to_value(), |bytes| Some(Self::from_store((&*bytes).try_into().ok()?));
    ImportId: |it| it.0.to_value(), |bytes| Some(Self((&*bytes).try_into().ok()?));
}

impl<const MAX_CHARS: usize, const HAS_LINES: bool> Field for Text<MAX_CHARS, HAS_LINES> {
    const KIND: Kind = Kind::Text;

    fn to_value(&self) -> Value<'_> {
        Value::text(self.as_str())
    }

    fn from_value(value: Value<'_>) -> Result<Self, CorruptValue> {
        match value {
            Value::Text(text) => Ok(Self::from_store(&text)),
            _ => Err(CorruptValue),
        }
    }
}
