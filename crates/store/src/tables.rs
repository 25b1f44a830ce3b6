//! The tables of the store, and the mapping of domain values to columns.

use bytes::Bytes;
use compact_str::CompactString;
use jiff::Timestamp;

use super::table::{Column, ColumnGroup, Columns, CorruptValue, Field, Record, Row, Value};
use domain::{
    api_key::{ApiKey, Invitation, KeyHash, Scopes},
    category::Category,
    import::{Import, ImportRun},
    order::{Order, OrderCounts},
    party::{Buyer, Source},
    pet::{Inventory, Pet, PetId, search_name, search_words},
    photo::{PhotoId, PhotoSize},
    price::{Amount, Currency, Price},
    register::{DeletedPet, RegisteredPet},
    settings::Settings,
    text::Text,
    webhook::{
        DisabledReason, Webhook, WebhookId, WebhookState,
        delivery::{Delivery, LeasedWebhook, StoredWebhook},
        schedule::EndpointHealth,
        secret::SigningSecrets,
    },
};

table! {
    Pet: "pets" {
        id,
        name,
        category_id,
        status,
        breed,
        sex,
        birth_date,
        color,
        microchip,
        price as "price_amount, price_currency",
        description,
        notes,
        location,
        acquired_on,
        source as "source_name, source_address, source_licence",
        metadata,
        photos,
    }
    derived {
        search_name: Text = |pet: &Pet| String::from(search_name(pet.name.as_str())),
        search_words: Text = search_words,
    }
}

/// A photo without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPhoto {
    pub(super) id: PhotoId,
    pub(super) pet_id: PetId,
    pub(super) width: u32,
    pub(super) height: u32,
    /// The SHA-256 of the large image, followed by the small one.
    pub sha256: [u8; 32],
    pub(super) thumb_size: u32,
    pub(super) full_size: u32,
    pub(super) created_at: Timestamp,
    /// The time since which its pet does not show it; `None` if it does.
    pub(super) removed_at: Option<Timestamp>,
}

table! {
    StoredPhoto: "photos" {
        id,
        pet_id,
        width,
        height,
        sha256,
        thumb_size,
        full_size,
        created_at,
        removed_at,
    }
}

/// A part of the bytes of a photo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PhotoPart {
    pub(super) photo_id: PhotoId,
    pub(super) size: PhotoSize,
    pub(super) part: i64,
    pub(super) bytes: Bytes,
}

table! {
    PhotoPart: "photo_parts" {
        photo_id,
        size as "kind",
        part,
        bytes,
    }
}

table! {
    Order: "orders" {
        id,
        pet_id,
        status,
        created_at,
        updated_at,
        expires_at,
        completed_at,
        buyer as "buyer_name, buyer_address, buyer_contact",
        price as "price_amount, price_currency",
        reference,
        completed_by,
        category_id,
        returned_at,
    }
}

table! {
    DeletedPet: "deleted_pets" {
        id,
        deleted_at,
        pet,
    }
}

columns! {
    RegisteredPet {
        name,
        category_id,
        breed,
        sex,
        birth_date,
        color,
        microchip,
        acquired_on,
        source as "source_name, source_address, source_licence",
    }
}

optional_object! {
    Price
    required { amount: Amount, currency: Currency, }
    optional {}
    Source
    required { name: Text<200>, }
    optional { address: Text<200>, licence: Text<200>, }
    Buyer
    required { name: Text<200>, }
    optional { address: Text<200>, contact: Text<200>, }
    Invitation
    required { scopes: Scopes, invited_by: i64, }
    optional { expires_at: Timestamp, replaces: i64, }
}

table! {
    Category: "categories" {
        id,
        name,
    }
    derived {
        folded_name: Text = |category: &Category| category.name.folded(),
    }
}

columns! {
    Settings {
        name,
        address,
        receipt_text,
        currency,
    }
}

/// The only row of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsRow {
    id: i64,
    pub(super) settings: Settings,
}

impl SettingsRow {
    pub(super) const ID: i64 = 1;

    pub(super) fn new(settings: Settings) -> Self {
        let id = Self::ID;
        Self { id, settings }
    }
}

table! {
    SettingsRow: "settings" {
        id,
        settings,
    }
}

table! {
    Import: "imports" {
        id as "digest",
        run,
        rows as "row_count",
        records,
        added,
        changed,
        updated_at,
        finished_at,
        undo,
        kept,
    }
}

columns! {
    ImportRun {
        batch_id,
        last_known_id,
    }
}

/// The outcome of a request with an idempotency key: the id of the resource that it created
/// or changed, the results of a batch, or the code of its rejection. The rest of a replayed
/// response is derived from the request and from the stored resource. The details of a sale are
/// replayed as they are now, because they may have been corrected or erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdempotencyRecord {
    pub(super) api_key_id: i64,
    pub(super) key: CompactString,
    pub(super) fingerprint: [u8; 32],
    pub(super) outcome: CompactString,
    pub(super) resource_id: Option<i64>,
    pub(super) created_at: Timestamp,
    /// The results of a batch, as JSON.
    pub(super) results: Option<String>,
}

table! {
    IdempotencyRecord: "idempotency_keys" {
        api_key_id,
        key,
        fingerprint,
        outcome,
        resource_id,
        created_at,
        results,
    }
}

table! {
    ApiKey: "api_keys" {
        id,
        name,
        scopes,
        created_at,
        last_used_at,
        expires_at,
        revoked_at,
        deprecated_calls,
        last_deprecated_call_at,
        successor,
        invitation as
            "invitation_scopes, invitation_invited_by, invitation_expires_at, invitation_replaces",
    }
}

/// An API key with the hash of its secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ApiKeyRow {
    pub(super) key: ApiKey,
    pub(super) hash: KeyHash,
}

table! {
    ApiKeyRow: "api_keys" {
        key,
        hash,
    }
}

table! {
    Delivery: "webhook_deliveries" {
        event_id,
        state,
        attempts,
        last_attempt_at,
        status,
        error,
        next_attempt_at,
    }
}

/// A delivery with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeliveryRow {
    pub(super) webhook_id: WebhookId,
    /// The sequence number of the event.
    pub(super) sequence: i64,
    pub(super) delivery: Delivery,
}

table! {
    DeliveryRow: "webhook_deliveries" {
        webhook_id,
        sequence,
        delivery,
    }
}

columns! {
    LeasedWebhook {
        id,
        revision,
        epoch,
    }
}

table! {
    StoredWebhook: "webhooks" {
        webhook,
        secrets,
        position,
        health,
        paused_until,
        revision,
        epoch,
        lease as "lease_owner, lease_expires_at",
    }
}

columns! {
    Webhook {
        id,
        url,
        types,
        description,
        state as "state, disabled_reason",
        api_key_id,
        created_at,
        updated_at,
    }
}

columns! {
    SigningSecrets {
        current as "secret",
        previous as "previous_secret, previous_secret_expires_at",
        request as "secret_request",
    }
}

columns! {
    EndpointHealth {
        consecutive_failures,
        failing_since,
    }
}

impl Record for WebhookState {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let state: String = columns.next()?;
        let reason: Option<DisabledReason> = columns.next()?;
        match (&*state, reason) {
            ("enabled", None) => Ok(Self::Enabled),
            ("disabled", Some(reason)) => Ok(Self::Disabled(reason)),
            _ => Err(R::corrupt(0, CorruptValue)),
        }
    }
}

impl ColumnGroup for WebhookState {
    fn columns(names: &'static str) -> Vec<Column> {
        <Option<(String, DisabledReason)>>::columns(names)
    }

    fn write<'a>(&'a self, put: &mut dyn FnMut(Value<'a>)) {
        let (state, reason) = match self {
            Self::Enabled => ("enabled", Value::Null),
            Self::Disabled(reason) => ("disabled", reason.to_value()),
        };
        put(Value::text(state));
        put(reason);
    }
}

/// The numbers of pets and orders.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub pets: Inventory,
    pub orders: OrderCounts,
}

columns! {
    Counts {
        pets,
        orders,
    }
}

columns! {
    Inventory {
        total as "pets",
        available as "pets_available",
        pending as "pets_pending",
        sold as "pets_sold",
    }
}

columns! {
    OrderCounts {
        placed as "orders_placed",
        completed as "orders_completed",
        cancelled as "orders_cancelled",
        returned as "orders_returned",
    }
}

#[cfg(test)]
mod tests {
    use super::{super::table::names, *};

    /// The trigger that logs the rows of other programs leaves out every column of the buyer.
    #[test]
    fn rows_are_logged_without_the_buyer() {
        let migration = include_str!("../migrations/postgres/1_initial.sql");
        let columns = Order::columns("").into_iter();
        let of_buyer: Vec<_> = columns
            .filter(|column| column.name.starts_with("buyer"))
            .collect();
        assert_eq!(of_buyer.len(), <Option<Buyer>>::columns("a, b, c").len());
        let left_out = format!("'{{{}}}'::text[]", names(&of_buyer).replace(", ", ","));
        assert!(migration.contains(&left_out), "{left_out}");
    }
}
