//! Columns and row mapping, written once per entity for both databases.
//!
//! Column lists are macros that expand to string literals, so that statements
//! are assembled at compile time. Mapping reads columns in the order of their
//! list: no lookup by name, no allocation besides the entity's own.

use std::error;

use compact_str::CompactString;
use jiff::Timestamp;

use crate::{
    api_key::{ApiKey, ApiKeyLabel, KeyHash, KeyName, Scopes},
    category::{Category, CategoryId, CategoryName},
    event::{Event, EventType, Resource},
    order::{Order, OrderCounts, OrderId, OrderStatus},
    page::Status,
    pet::{Claim, Inventory, NewPet, Pet, PetId, PetName, PetStatus, search_name},
};

/// Defines a macro for a column list with its PostgreSQL types. For `pet_columns`:
///
/// - `pet_columns!()` is `"id, name, …"`;
/// - `pet_columns!("before")` is `"before.id, before.name, …"`;
/// - `pet_columns!(types)` is `&[Type::INT8, Type::TEXT, …]`.
macro_rules! define_columns {
    ($d:tt $name:ident: $first:literal $first_type:ident $(, $rest:literal $rest_type:ident)*) => {
        macro_rules! $name {
            () => {
                concat!($first $(, ", ", $rest)*)
            };
            (types) => {
                &[
                    tokio_postgres::types::Type::$first_type
                    $(, tokio_postgres::types::Type::$rest_type)*
                ]
            };
            ($d table:literal) => {
                concat!($d table, ".", $first $(, ", ", $d table, ".", $rest)*)
            };
        }
    };
}

define_columns!($ pet_columns: "id" INT8, "name" TEXT, "category_id" INT8, "status" TEXT);

// What is written for a new pet; the database assigns the rest.
define_columns!($ new_pet_columns:
    "name" TEXT, "search_name" TEXT, "category_id" INT8, "status" TEXT
);

// What is copied of a pet.
define_columns!($ stored_pet_columns:
    "id" INT8, "name" TEXT, "search_name" TEXT, "category_id" INT8, "status" TEXT
);

define_columns!($ category_columns: "id" INT8, "name" TEXT);

define_columns!($ stored_category_columns: "id" INT8, "name" TEXT, "folded_name" TEXT);

define_columns!($ order_columns:
    "id" INT8, "pet_id" INT8, "status" TEXT,
    "created_at" INT8, "updated_at" INT8, "expires_at" INT8, "completed_at" INT8
);

define_columns!($ new_order_columns:
    "pet_id" INT8, "status" TEXT, "created_at" INT8, "updated_at" INT8, "expires_at" INT8
);

define_columns!($ api_key_columns:
    "id" INT8, "hash" BYTEA, "name" TEXT, "scopes" TEXT,
    "created_at" INT8, "last_used_at" INT8, "expires_at" INT8, "revoked_at" INT8,
    "deprecated_calls" INT8, "last_deprecated_call_at" INT8
);

define_columns!($ api_key_label_columns: "id" INT8, "name" TEXT);

define_columns!($ new_api_key_columns:
    "hash" BYTEA, "name" TEXT, "scopes" TEXT, "created_at" INT8, "expires_at" INT8
);

define_columns!($ idempotency_key_columns:
    "api_key_id" INT8, "key" TEXT, "fingerprint" BYTEA,
    "outcome" TEXT, "resource_id" INT8, "created_at" INT8
);

define_columns!($ import_columns:
    "digest" BYTEA, "records" INT8, "pets" INT8, "updated_at" INT8, "finished_at" INT8
);

// What is stored of an event. The columns after `resource_id` are those of its resource.
define_columns!($ event_columns:
    "sequence" INT8, "at" INT8, "type" TEXT, "api_key_id" INT8, "resource_id" INT8,
    "name" TEXT, "category_id" INT8, "status" TEXT,
    "pet_id" INT8, "created_at" INT8, "updated_at" INT8, "expires_at" INT8
);

define_columns!($ webhook_columns:
    "id" INT8, "url" TEXT, "types" TEXT, "description" TEXT,
    "state" TEXT, "disabled_reason" TEXT, "api_key_id" INT8, "created_at" INT8, "updated_at" INT8,
    "secret" TEXT, "previous_secret" TEXT, "previous_secret_expires_at" INT8,
    "secret_request" TEXT, "position" TEXT,
    "consecutive_failures" INT8, "failing_since" INT8, "paused_until" INT8, "revision" INT8,
    "epoch" INT8
);

define_columns!($ new_webhook_columns:
    "url" TEXT, "types" TEXT, "description" TEXT, "state" TEXT, "api_key_id" INT8,
    "created_at" INT8, "updated_at" INT8, "secret" TEXT, "secret_request" TEXT, "position" TEXT
);

define_columns!($ delivery_columns:
    "event_id" TEXT, "state" TEXT, "attempts" INT8, "last_attempt_at" INT8,
    "status" INT8, "error" TEXT, "next_attempt_at" INT8
);

define_columns!($ count_columns:
    "pets" INT8, "pets_available" INT8, "pets_pending" INT8, "pets_sold" INT8,
    "orders_placed" INT8, "orders_completed" INT8, "orders_cancelled" INT8,
    "orders_returned" INT8
);

/// A row of either database.
pub(super) trait Row {
    type Error;

    fn int(&self, column: usize) -> Result<i64, Self::Error>;
    fn optional_int(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn boolean(&self, column: usize) -> Result<bool, Self::Error>;
    fn text(&self, column: usize) -> Result<&str, Self::Error>;
    fn optional_text(&self, column: usize) -> Result<Option<&str>, Self::Error>;
    fn bytes(&self, column: usize) -> Result<&[u8], Self::Error>;
    fn optional_bytes(&self, column: usize) -> Result<Option<&[u8]>, Self::Error>;

    /// The error for a stored value that this program would not have written.
    fn corrupt(column: usize, cause: impl error::Error + Send + Sync + 'static) -> Self::Error;
}

/// Reads the columns of a row one after the other.
pub(super) struct Columns<'r, R> {
    row: &'r R,
    next: usize,
}

impl<'r, R: Row> Columns<'r, R> {
    pub(super) fn of(row: &'r R) -> Self {
        Self { row, next: 0 }
    }

    /// Starts after the first `count` columns.
    pub(super) fn skipping(row: &'r R, count: usize) -> Self {
        Self { row, next: count }
    }

    /// The number of the next column.
    pub(super) fn next_column(&self) -> usize {
        self.next
    }

    pub(super) fn advance(&mut self) -> usize {
        let column = self.next;
        self.next += 1;
        column
    }

    pub(super) fn int(&mut self) -> Result<i64, R::Error> {
        self.row.int(self.advance())
    }

    pub(super) fn optional_int(&mut self) -> Result<Option<i64>, R::Error> {
        self.row.optional_int(self.advance())
    }

    pub(super) fn boolean(&mut self) -> Result<bool, R::Error> {
        self.row.boolean(self.advance())
    }

    pub(super) fn text(&mut self) -> Result<&'r str, R::Error> {
        self.row.text(self.advance())
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<&'r str>, R::Error> {
        self.row.optional_text(self.advance())
    }

    pub(super) fn optional_bytes(&mut self) -> Result<Option<&'r [u8]>, R::Error> {
        self.row.optional_bytes(self.advance())
    }

    pub(super) fn hash(&mut self) -> Result<[u8; 32], R::Error> {
        let column = self.advance();
        let bytes = self.row.bytes(column)?;
        bytes.try_into().map_err(|e| R::corrupt(column, e))
    }

    pub(super) fn timestamp(&mut self) -> Result<Timestamp, R::Error> {
        let column = self.advance();
        let microseconds = self.row.int(column)?;
        Timestamp::from_microsecond(microseconds).map_err(|e| R::corrupt(column, e))
    }

    pub(super) fn optional_timestamp(&mut self) -> Result<Option<Timestamp>, R::Error> {
        let column = self.advance();
        let microseconds = self.row.optional_int(column)?;
        let timestamp = microseconds.map(Timestamp::from_microsecond).transpose();
        timestamp.map_err(|e| R::corrupt(column, e))
    }

    fn status<S: Status>(&mut self) -> Result<S, R::Error> {
        let column = self.advance();
        S::parse(self.row.text(column)?).map_err(|e| R::corrupt(column, e))
    }

    /// The claim of an active order, from its status.
    pub(super) fn claim(&mut self) -> Result<Option<Claim>, R::Error> {
        let status = self.optional_status::<OrderStatus>()?;
        Ok(status.and_then(OrderStatus::claim))
    }

    fn optional_status<S: Status>(&mut self) -> Result<Option<S>, R::Error> {
        let column = self.advance();
        let status = self.row.optional_text(column)?.map(S::parse).transpose();
        status.map_err(|e| R::corrupt(column, e))
    }
}

/// An entity that is read from the columns of its list.
pub(super) trait Entity: Sized {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error>;

    /// Reads an entity whose columns come first in the row.
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Self::read(&mut Columns::of(row))
    }
}

/// `pet_columns!()`
impl Entity for Pet {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self {
            id: PetId::from_store(columns.int()?),
            name: PetName::from_store(columns.text()?),
            category_id: columns.int()?,
            status: columns.optional_status::<PetStatus>()?,
        })
    }
}

/// `category_columns!()`
impl Entity for Category {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self {
            id: CategoryId::from_store(columns.int()?),
            name: CategoryName::from_store(columns.text()?),
        })
    }
}

/// The writable values of a pet, in the order of `new_pet_columns!()`.
///
/// This and its users destructure without `..`: the compiler finds every
/// statement that a new field must reach.
pub(super) struct PetValues<'a> {
    pub(super) name: &'a str,
    pub(super) search_name: CompactString,
    pub(super) category_id: i64,
    pub(super) status: Option<&'static str>,
}

impl<'a> From<&'a NewPet> for PetValues<'a> {
    fn from(new: &'a NewPet) -> Self {
        let NewPet {
            name,
            category_id,
            status,
        } = new;
        Self {
            name: name.as_str(),
            search_name: search_name(name.as_str()),
            category_id: *category_id,
            status: status.map(PetStatus::as_str),
        }
    }
}

impl<'a> From<&'a Pet> for PetValues<'a> {
    fn from(pet: &'a Pet) -> Self {
        let Pet {
            id: _,
            name,
            category_id,
            status,
        } = pet;
        Self {
            name: name.as_str(),
            search_name: search_name(name.as_str()),
            category_id: *category_id,
            status: status.map(PetStatus::as_str),
        }
    }
}

/// `order_columns!()`
impl Entity for Order {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self {
            id: OrderId::from_store(columns.int()?),
            pet_id: PetId::from_store(columns.int()?),
            status: columns.status::<OrderStatus>()?,
            created_at: columns.timestamp()?,
            updated_at: columns.timestamp()?,
            expires_at: columns.optional_timestamp()?,
            completed_at: columns.optional_timestamp()?,
        })
    }
}

/// `api_key_columns!()`
impl Entity for (KeyHash, ApiKey) {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let id = columns.int()?;
        let hash = KeyHash::from_store(columns.hash()?);
        let key = ApiKey {
            id,
            name: KeyName::from_store(columns.text()?),
            scopes: Scopes::from_store(columns.text()?),
            created_at: columns.timestamp()?,
            last_used_at: columns.optional_timestamp()?,
            expires_at: columns.optional_timestamp()?,
            revoked_at: columns.optional_timestamp()?,
            deprecated_calls: columns.int()?,
            last_deprecated_call_at: columns.optional_timestamp()?,
        };
        Ok((hash, key))
    }
}

/// `api_key_label_columns!()`
impl Entity for ApiKeyLabel {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self {
            id: columns.int()?,
            name: KeyName::from_store(columns.text()?),
        })
    }
}

/// `event_columns!()`
impl Entity for Event {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let (sequence, at) = (columns.int()?, columns.timestamp()?);
        let column = columns.advance();
        let kind = EventType::parse(columns.row.text(column)?)
            .map_err(|unknown| R::corrupt(column, unknown))?;
        let (api_key_id, id) = (columns.optional_int()?, columns.int()?);
        let resource = match kind {
            EventType::PetCreated | EventType::PetUpdated | EventType::PetDeleted => {
                Resource::Pet(Pet {
                    id: PetId::from_store(id),
                    name: PetName::from_store(columns.text()?),
                    category_id: columns.int()?,
                    status: columns.optional_status()?,
                })
            }
            EventType::CategoryUpdated | EventType::CategoryDeleted => {
                Resource::Category(Category {
                    id: CategoryId::from_store(id),
                    name: CategoryName::from_store(columns.text()?),
                })
            }
            EventType::OrderPlaced
            | EventType::OrderCompleted
            | EventType::OrderCancelled
            | EventType::OrderReturned => {
                let (_name, _category_id) = (columns.advance(), columns.advance());
                let status = columns.status()?;
                Resource::Order(Order {
                    id: OrderId::from_store(id),
                    pet_id: PetId::from_store(columns.int()?),
                    status,
                    created_at: columns.timestamp()?,
                    updated_at: columns.timestamp()?,
                    expires_at: columns.optional_timestamp()?,
                    // Not part of what clients see.
                    completed_at: None,
                })
            }
        };
        Ok(Self {
            sequence,
            at,
            kind,
            api_key_id,
            resource,
        })
    }
}

/// The numbers of pets and orders.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub pets: Inventory,
    pub orders: OrderCounts,
}

/// `count_columns!()`
impl Entity for Counts {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self {
            pets: Inventory {
                total: columns.int()?,
                available: columns.int()?,
                pending: columns.int()?,
                sold: columns.int()?,
            },
            orders: OrderCounts {
                placed: columns.int()?,
                completed: columns.int()?,
                cancelled: columns.int()?,
                returned: columns.int()?,
            },
        })
    }
}
