//! The tables of the store, and the mapping of domain values to columns.

use std::collections::BTreeSet;

use compact_str::CompactString;
use jiff::Timestamp;
use serde_json::{Map, Value as Json};

use super::{
    rows::{ForEachTable, Keyed, LoggedChange, RowChange, Rows, Stored, to_json},
    table::{Column, ColumnGroup, Columns, CorruptValue, Field, Kind, Record, Row, Table, Value},
};
use domain::{
    api_key::{ApiKey, Invitation, KeyHash, Scopes},
    category::{Category, CategoryId},
    event::{Event, EventData, EventType},
    import::{Import, ImportId},
    order::{Order, OrderCounts, OrderId},
    party::{Buyer, Source},
    pet::{Inventory, Microchip, Pet, PetId, batch::BatchId, search_name, search_words},
    price::{Amount, Currency, Price},
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
    }
    derived {
        search_name: Text = |pet: &Pet| String::from(search_name(pet.name.as_str())),
        search_words: Text = search_words,
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

table! {
    Import: "imports" {
        id as "digest",
        records,
        pets,
        updated_at,
        finished_at,
    }
}

/// The outcome of a request with an idempotency key: the id of the resource that it created
/// or changed, the results of a batch, or the code of its rejection. The rest of a replayed response is derived from
/// the request and from fields that never change.
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

/// An event as it is stored. `data` is the resource as JSON. If another program made the
/// change, a trigger of PostgreSQL has logged the whole row instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventRow {
    pub(super) sequence: i64,
    pub(super) at: Timestamp,
    pub(super) kind: EventType,
    pub(super) api_key_id: Option<i64>,
    pub(super) resource_id: i64,
    pub(super) is_row: bool,
    pub(super) data: String,
    pub(super) batch_id: Option<BatchId>,
    /// The resource before an update of a batch, as JSON, so that it can be undone.
    pub(super) before: Option<String>,
}

table! {
    EventRow: "events" {
        sequence,
        at,
        kind as "type",
        api_key_id,
        resource_id,
        is_row,
        data,
        batch_id,
        before,
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

impl Record for Event {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let row = EventRow::read(columns)?;
        let data = if row.is_row {
            let resource =
                resource_of_row(row.kind, &row.data).map_err(|corrupt| R::corrupt(0, corrupt))?;
            EventData::of_row(row.data, resource)
        } else {
            EventData::of_resource(row.data)
        };
        Ok(Self {
            sequence: row.sequence,
            at: row.at,
            kind: row.kind,
            api_key_id: row.api_key_id,
            resource_id: row.resource_id,
            data,
            batch_id: row.batch_id,
        })
    }
}

/// Converts a database row, given as JSON, to its resource, as JSON.
fn resource_of_row(kind: EventType, row: &str) -> Result<String, CorruptValue> {
    use EventType::*;
    let json = match kind {
        PetCreated | PetUpdated | PetDeleted => to_json(&from_json::<Pet>(row)?),
        OrderPlaced | OrderUpdated | OrderCompleted | OrderCancelled | OrderReturned => {
            to_json(&from_json::<Order>(row)?)
        }
        CategoryUpdated | CategoryDeleted => to_json(&from_json::<Category>(row)?),
        // No trigger logs these: a row has the hash of the secret.
        KeyCreated | KeyRotated | KeyRevoked => return Err(CorruptValue),
    };
    Ok(json)
}

fn from_json<T: Table>(row: &str) -> Result<T, CorruptValue> {
    let members = serde_json::from_str(row).map_err(|_| CorruptValue)?;
    let columns = T::columns("");
    T::from_row(&JsonRow { members, columns })
}

/// A row of a table as a JSON object. A column that was added later is null.
struct JsonRow {
    members: Map<String, Json>,
    columns: Vec<Column>,
}

impl Row for JsonRow {
    type Error = CorruptValue;

    fn value(&self, column: usize, _: Kind) -> Result<Value<'_>, CorruptValue> {
        match self.members.get(self.columns[column].name) {
            None | Some(Json::Null) => Ok(Value::Null),
            Some(Json::Bool(bool)) => Ok(Value::Bool(*bool)),
            Some(Json::Number(number)) => number.as_i64().map(Value::Int).ok_or(CorruptValue),
            Some(Json::String(text)) => Ok(Value::text(text.as_str())),
            Some(Json::Array(_) | Json::Object(_)) => Err(CorruptValue),
        }
    }

    fn corrupt(_: usize, _: impl std::error::Error + Send + Sync + 'static) -> CorruptValue {
        CorruptValue
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

/// Declares the tables that commands change: the name of each in the working set, and the type
/// of its rows.
macro_rules! tables {
    ($($table:ident: $type:ident,)+) => {
        pub(super) const TABLE_NAMES: &[&str] = &[$(<$type as Table>::NAME,)+];

        /// The rows of all tables.
        #[derive(Default)]
        pub(super) struct Tables {
            $(pub(super) $table: Rows<$type>,)+
        }

        /// Finds the rows of one table among those of all.
        pub(super) struct TableOf<T: Keyed> {
            pub(super) rows: fn(&Tables) -> &Rows<T>,
            pub(super) rows_mut: fn(&mut Tables) -> &mut Rows<T>,
        }

        /// A visitor of the keys of every table.
        pub(super) trait ForEachKeys<'a> {
            type Error;

            fn visit<T: Stored>(
                &mut self,
                keys: &'a [T::Key],
                table: TableOf<T>,
            ) -> Result<(), Self::Error>;
        }

        /// The rows that commands read, and the new ids that they need.
        #[derive(Default)]
        pub(super) struct Keys {
            $(pub(super) $table: Vec<<$type as Keyed>::Key>,)+
            /// Folded names, to find the categories that have them.
            pub(super) category_names: Vec<String>,
            /// Microchips, to find the pets that have them and are not sold.
            pub(super) microchips: Vec<Microchip>,
            /// Pets, and orders of pets, that may be sold now and not afterwards: their microchips
            /// are looked for, too.
            pub(super) unsold_pets: Vec<PetId>,
            pub(super) returned_orders: Vec<OrderId>,
            /// True if a command makes any number of changes. It is never taken for the creation of
            /// one pet.
            pub(super) has_batch: bool,
            /// True if the number of webhooks is read. On PostgreSQL, an advisory lock keeps it
            /// unchanged until the commit.
            pub(super) counts_webhooks: bool,
            /// The number of new ids of each [`Sequence`].
            pub(super) new_ids: [usize; Sequence::ALL.len()],
        }

        impl Keys {
            /// Returns true if nothing is read, and each command creates one row.
            pub(super) fn is_empty(&self) -> bool {
                $(self.$table.is_empty() &&)+
                !self.has_batch
                    && self.category_names.is_empty()
                    && self.microchips.is_empty()
                    && !self.counts_webhooks
            }

            /// Returns true if both name the same row of a table.
            pub(super) fn overlaps(&self, other: &Self) -> bool {
                $(share_a_key(&self.$table, &other.$table) ||)+ false
            }

            /// Returns true if a command that changes these rows has to wait for a later batch.
            pub(super) fn must_wait(&self, tables: &Tables) -> bool {
                $(self.$table.iter().any(|key| tables.$table.must_wait(key)) ||)+ false
            }

            /// Visits the keys of every table, in the order in which rows are locked.
            pub(super) fn each<'a, V: ForEachKeys<'a>>(
                &'a self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $(visitor.visit(&self.$table, TableOf {
                    rows: |tables| &tables.$table,
                    rows_mut: |tables| &mut tables.$table,
                })?;)+
                Ok(())
            }
        }

        /// A change of a row. Boxed, because some rows are large.
        pub(super) enum Change {
            $($type(Box<RowChange<$type>>),)+
        }

        $(impl From<RowChange<$type>> for Change {
            fn from(change: RowChange<$type>) -> Self {
                Self::$type(Box::new(change))
            }
        })+

        impl Tables {
            pub(super) fn apply(
                &mut self,
                change: Change,
                keeps_before: bool,
            ) -> Option<LoggedChange> {
                match change {
                    $(Change::$type(change) => self.$table.change(*change, keeps_before),)+
                }
            }

            /// Visits every table, in the order in which rows are written.
            pub(super) fn each<'a, V: ForEachTable<'a>>(
                &'a self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $(visitor.visit(&self.$table)?;)+
                Ok(())
            }
        }
    };
}

// Records come last: once a row is locked, the record of the transaction that had it before is
// visible.
tables! {
    pets: Pet,
    orders: Order,
    categories: Category,
    imports: Import,
    api_keys: ApiKeyRow,
    webhooks: StoredWebhook,
    deliveries: DeliveryRow,
    records: IdempotencyRecord,
}

/// Declares the key of each table.
macro_rules! keyed {
    ($($type:ty: $key:ty = |$row:ident| $value:expr;)+) => {$(
        impl Keyed for $type {
            type Key = $key;

            fn key(&self) -> $key {
                let $row = self;
                $value
            }
        }
    )+};
}

keyed! {
    Pet: PetId = |pet| pet.id;
    Order: OrderId = |order| order.id;
    Category: CategoryId = |category| category.id;
    Import: ImportId = |import| import.id;
    ApiKeyRow: i64 = |row| row.key.id;
    StoredWebhook: WebhookId = |stored| stored.webhook.id;
    DeliveryRow: (WebhookId, i64) = |row| (row.webhook_id, row.sequence);
    IdempotencyRecord: (i64, CompactString) = |record| (record.api_key_id, record.key.clone());
    EventRow: i64 = |event| event.sequence;
}

/// The source of the ids of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    Pets,
    Orders,
    ApiKeys,
    Webhooks,
}

impl Sequence {
    pub(super) const ALL: [Self; 4] = [Self::Pets, Self::Orders, Self::ApiKeys, Self::Webhooks];

    /// Returns the sequence of a table, if it has one.
    pub(super) fn of<T: Table>() -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|sequence| sequence.table() == T::NAME)
    }

    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Pets => Pet::NAME,
            Self::Orders => Order::NAME,
            Self::ApiKeys => ApiKeyRow::NAME,
            Self::Webhooks => StoredWebhook::NAME,
        }
    }
}

fn share_a_key<K: Ord>(some: &[K], others: &[K]) -> bool {
    let some: BTreeSet<&K> = some.iter().collect();
    !some.is_empty() && others.iter().any(|key| some.contains(key))
}

impl Keys {
    /// Asks for new ids.
    pub(super) fn draw(&mut self, sequence: Sequence, count: usize) {
        self.new_ids[sequence as usize] += count;
    }
}
