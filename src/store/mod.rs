//! The store: pets, categories, orders, webhooks, API keys and idempotency keys on SQLite
//! or PostgreSQL.
//!
//! Both databases keep the same promises:
//!
//! - A write that returned `Ok` is durable: it survives a power cut.
//! - A read sees every write that was acknowledged before the read began.
//! - Ids are positive, ascending and never reused.
//! - A write that is queued or in flight is executed even if its caller goes
//!   away.
//! - A pet has at most one active order, placed or completed. While it has one, only
//!   that order changes its status.
//! - A request with an idempotency key is executed once. Its record commits in
//!   the same transaction.
//! - Orders and idempotency keys follow one clock, whatever happens to the system
//!   clocks: the database server's, or a steady one of the only process that writes.
//! - Nothing is purged for its age because a service starts with a fast clock, and on SQLite
//!   no order expires because of it, if the clock is set within the hour.

#[macro_use]
mod rows;
#[macro_use]
mod replay;

mod admin;
mod atomic_file;
mod error;
mod list;
mod lock_holder;
mod metrics;
mod postgres;
mod queue;
mod root;
mod sqlite;
mod url;
mod webhook_rows;

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use crate::{
    api_key::{ApiKey, ApiKeyFilter, ApiKeyLabel, ApiKeyUsage, KeyHash, NewApiKey, Scopes},
    category::{Category, CategoryFilter, CategoryId, CategoryName, CategoryRejection, Naming},
    clock::Settling,
    event::{Event, EventId, EventRetention, Gone},
    idempotency::{Idempotent, IdempotentRequest},
    import::{ImportChunk, ImportId},
    order::{Order, OrderFilter, OrderId, OrderRejection, Transition},
    page::{ListQuery, Page, Sort},
    pet::{NewPet, Pet, PetChange, PetFilter, PetId, PetRejection},
    webhook::{
        NewWebhook, WebhookChange, WebhookFilter, WebhookId, WebhookRejection,
        delivery::{Delivery, DeliveryFilter, LeasedWebhook, Progress, Retries, StoredWebhook},
        secret::WebhookSecret,
    },
};
use postgres::Postgres;
use sqlite::Sqlite;

pub(crate) use admin::{
    ImportError, ImportServer, Importer, Inspected, Restored, Server, SocketState, backup,
    backup_to_stream, category_names, check, copy, export_orders, export_pets, finished_import,
    inspect, list_keys, restore,
};
pub(crate) use atomic_file::{AtomicFile, discard_unfinished};
pub(crate) use error::explain;
pub use error::{Error, OpenError};
pub(crate) use metrics::StoreMetrics;
pub use postgres::PostgresUrl;
pub(crate) use root::give_up_root;
pub use rows::Counts;
pub use url::DatabaseUrl;
pub(crate) use url::redact_password;

/// What a process opens the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves requests. An SQLite file has at most one such process.
    Service,
    /// Runs one command, possibly beside a running service.
    Command,
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    pub role: Role,
    /// Whether to create the store if it does not exist. Only a service does: a command in
    /// the wrong folder would create another one.
    pub create: bool,
    /// The capacity of each write queue. Writes beyond it are rejected.
    pub write_queue_capacity: usize,
    /// The time after opening the store in which the clock is not believed: see [`Settling`].
    pub settling: SignedDuration,
}

impl Options {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            create: role == Role::Service,
            write_queue_capacity: 4096,
            settling: match role {
                Role::Service => Settling::DURATION,
                Role::Command => SignedDuration::ZERO,
            },
        }
    }
}

/// Version of the store, for cache validation.
///
/// It has changed when a write is acknowledged. A read that starts after the version was
/// taken therefore sees every write that the version counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Version {
    /// Changes with every commit that inserts a row. An inserted row has the highest id.
    pub inserts: u64,
    /// Changes with every commit that changes an existing row.
    pub updates: u64,
}

/// How long a replica may deliver to a webhook after it has leased it or renewed the lease.
pub const WEBHOOK_LEASE: SignedDuration = SignedDuration::from_secs(20);

/// An open store on one of the databases.
#[derive(Debug)]
pub enum Store {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Store {
    pub async fn open(url: &DatabaseUrl, options: &Options) -> Result<Self, OpenError> {
        match url {
            DatabaseUrl::Sqlite(path) => Sqlite::open(path, options).map(Self::Sqlite),
            DatabaseUrl::Postgres(url) => {
                let opened = Postgres::open(url, options).await?;
                Ok(Self::Postgres(Box::new(opened)))
            }
        }
    }

    /// Drains the write queues, then closes the database.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(db) => db.close().await,
            Self::Postgres(db) => db.close().await,
        }
    }

    /// Notes that the store is open now, for the next process: see [`Settling`]. On PostgreSQL
    /// the clock of the server decides.
    pub async fn note_open(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(db) => db.note_open().await,
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Limits a time of the clock of deliveries to what is certain to have passed.
    pub fn limit_to_certain(&self, time: Timestamp) -> Timestamp {
        match self {
            Self::Sqlite(db) => time.min(db.certain_time()),
            Self::Postgres(_) => time,
        }
    }

    /// Health check: fails unless the store can be read and written now.
    pub async fn ping(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(db) => db.ping().await,
            Self::Postgres(db) => db.ping().await,
        }
    }

    /// The failure of a client's call after which the store is not usable, until
    /// [`ping`](Self::ping) succeeds. `None` on PostgreSQL, where `ping` asks the server.
    pub fn failure(&self) -> Option<Error> {
        match self {
            Self::Sqlite(db) => db.failure(),
            Self::Postgres(_) => None,
        }
    }

    /// The current version, if this process is the only writer.
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Sqlite(db) => Some(db.version()),
            Self::Postgres(_) => None,
        }
    }

    /// The version that is known without asking the database.
    pub fn last_known_version(&self) -> Version {
        match self {
            Self::Sqlite(db) => db.version(),
            Self::Postgres(db) => db.last_known_version(),
        }
    }

    /// The current version, as the database knows it.
    pub async fn current_version(&self) -> Result<Version, Error> {
        match self {
            Self::Sqlite(db) => Ok(db.version()),
            Self::Postgres(db) => db.current_version().await,
        }
    }

    pub(crate) fn metrics(&self) -> StoreMetrics<'_> {
        match self {
            Self::Sqlite(db) => db.metrics(),
            Self::Postgres(db) => db.metrics(),
        }
    }

    // Changes. Each is logged as an event, with the id of the API key that makes it.

    /// Creates a pet and returns it with its new id.
    pub async fn pet_create(
        &self,
        api_key_id: i64,
        new: NewPet,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_create(api_key_id, new, idempotency).await,
            Self::Postgres(db) => db.pet_create(api_key_id, new, idempotency).await,
        }
    }

    /// Changes a pet and returns it.
    ///
    /// With `expected`, the pet must still have that value (optimistic
    /// concurrency); otherwise the change is rejected as outdated.
    pub async fn pet_update(
        &self,
        api_key_id: i64,
        id: PetId,
        change: PetChange,
        expected: Option<Pet>,
    ) -> Result<Result<Pet, PetRejection>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_update(api_key_id, id, change, expected).await,
            Self::Postgres(db) => db.pet_update(api_key_id, id, change, expected).await,
        }
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_get(id).await,
            Self::Postgres(db) => db.pet_get(id).await,
        }
    }

    /// Deletes a pet, unless an open order reserves it. `expected` as for an update.
    pub async fn pet_delete(
        &self,
        api_key_id: i64,
        id: PetId,
        expected: Option<Pet>,
    ) -> Result<Result<(), PetRejection>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_delete(api_key_id, id, expected).await,
            Self::Postgres(db) => db.pet_delete(api_key_id, id, expected).await,
        }
    }

    pub async fn pet_list(&self, query: ListQuery<PetFilter>) -> Result<Page<Pet>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_list(query).await,
            Self::Postgres(db) => db.pet_list(query).await,
        }
    }

    /// Writes a chunk of an import, all or nothing: its pets, the names of categories, and the
    /// progress. Returns the sequence number of the newest event before it, or `None`, having
    /// changed nothing, if the import is not where the chunk begins: another command continues
    /// or has finished it, or it is not known anymore.
    pub async fn pet_import(&self, chunk: ImportChunk) -> Result<Option<i64>, Error> {
        match self {
            Self::Sqlite(db) => db.pet_import(chunk).await,
            Self::Postgres(db) => db.pet_import(chunk).await,
        }
    }

    /// How many records of an import are done.
    pub async fn import_progress(&self, id: ImportId) -> Result<i64, Error> {
        match self {
            Self::Sqlite(db) => db.import_progress(id).await,
            Self::Postgres(db) => db.import_progress(id).await,
        }
    }

    /// Deletes the record of an import, because it is to be repeated.
    pub async fn import_forget(&self, id: ImportId) -> Result<(), Error> {
        match self {
            Self::Sqlite(db) => db.import_forget(id).await,
            Self::Postgres(db) => db.import_forget(id).await,
        }
    }

    /// Deletes the records of imports that ended longer than `retention` ago, and of the
    /// oldest if there are too many. Returns the number deleted.
    pub async fn import_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        match self {
            Self::Sqlite(db) => db.import_purge(retention).await,
            Self::Postgres(db) => db.import_purge(retention).await,
        }
    }

    /// Counts pets and orders by status. The cost is independent of their number.
    pub async fn counts(&self) -> Result<Counts, Error> {
        match self {
            Self::Sqlite(db) => db.counts().await,
            Self::Postgres(db) => db.counts().await,
        }
    }

    /// Places an order on an available pet, which becomes pending. The reservation
    /// expires after `reserve_for`, if ever.
    pub async fn order_place(
        &self,
        api_key_id: i64,
        pet_id: PetId,
        reserve_for: Option<SignedDuration>,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<Order, OrderRejection>>, Error> {
        match self {
            Self::Sqlite(db) => {
                db.order_place(api_key_id, pet_id, reserve_for, idempotency)
                    .await
            }
            Self::Postgres(db) => {
                db.order_place(api_key_id, pet_id, reserve_for, idempotency)
                    .await
            }
        }
    }

    /// Completes or cancels an open order, or returns a completed one, and updates the
    /// status of its pet. An order whose reservation has expired can no longer be
    /// completed.
    pub async fn order_transition(
        &self,
        api_key_id: i64,
        id: OrderId,
        transition: Transition,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<Order, OrderRejection>>, Error> {
        match self {
            Self::Sqlite(db) => {
                db.order_transition(api_key_id, id, transition, idempotency)
                    .await
            }
            Self::Postgres(db) => {
                db.order_transition(api_key_id, id, transition, idempotency)
                    .await
            }
        }
    }

    /// Cancels a batch of the orders whose reservation has expired. Returns how
    /// many; 0 if none are left.
    pub async fn order_expire(&self) -> Result<u64, Error> {
        match self {
            Self::Sqlite(db) => db.order_expire().await,
            Self::Postgres(db) => db.order_expire().await,
        }
    }

    pub async fn order_get(&self, id: OrderId) -> Result<Option<Order>, Error> {
        match self {
            Self::Sqlite(db) => db.order_get(id).await,
            Self::Postgres(db) => db.order_get(id).await,
        }
    }

    pub async fn order_list(&self, query: ListQuery<OrderFilter>) -> Result<Page<Order>, Error> {
        match self {
            Self::Sqlite(db) => db.order_list(query).await,
            Self::Postgres(db) => db.order_list(query).await,
        }
    }

    /// Names a category. With `expected`, it must still be that one, or still not exist.
    pub async fn category_put(
        &self,
        api_key_id: i64,
        id: CategoryId,
        name: CategoryName,
        expected: Option<Option<Category>>,
    ) -> Result<Result<Naming, CategoryRejection>, Error> {
        match self {
            Self::Sqlite(db) => db.category_put(api_key_id, id, name, expected).await,
            Self::Postgres(db) => db.category_put(api_key_id, id, name, expected).await,
        }
    }

    /// Deletes the name of a category. With `expected`, it must still be that one.
    pub async fn category_delete(
        &self,
        api_key_id: i64,
        id: CategoryId,
        expected: Option<Category>,
    ) -> Result<Result<(), CategoryRejection>, Error> {
        match self {
            Self::Sqlite(db) => db.category_delete(api_key_id, id, expected).await,
            Self::Postgres(db) => db.category_delete(api_key_id, id, expected).await,
        }
    }

    pub async fn category_get(&self, id: CategoryId) -> Result<Option<Category>, Error> {
        match self {
            Self::Sqlite(db) => db.category_get(id).await,
            Self::Postgres(db) => db.category_get(id).await,
        }
    }

    pub async fn category_list(
        &self,
        query: ListQuery<CategoryFilter>,
    ) -> Result<Page<Category>, Error> {
        match self {
            Self::Sqlite(db) => db.category_list(query).await,
            Self::Postgres(db) => db.category_list(query).await,
        }
    }

    /// Creates an API key and returns it with its new id.
    pub async fn api_key_create(&self, new: NewApiKey, hash: KeyHash) -> Result<ApiKey, Error> {
        match self {
            Self::Sqlite(db) => db.api_key_create(new, hash).await,
            Self::Postgres(db) => db.api_key_create(new, hash).await,
        }
    }

    /// Lists every API key by ascending id, including revoked and expired ones.
    pub async fn api_key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        match self {
            Self::Sqlite(db) => db.api_key_list().await,
            Self::Postgres(db) => db.api_key_list().await,
        }
    }

    /// Lists the names of API keys, including revoked and expired ones.
    pub async fn api_key_labels(
        &self,
        query: ListQuery<ApiKeyFilter>,
    ) -> Result<Page<ApiKeyLabel>, Error> {
        match self {
            Self::Sqlite(db) => db.api_key_labels(query).await,
            Self::Postgres(db) => db.api_key_labels(query).await,
        }
    }

    /// Revokes an API key and returns it as it was before; `None` if there is no
    /// such key. Revoking again keeps the time of the first revocation.
    pub async fn api_key_revoke(&self, id: i64, now: Timestamp) -> Result<Option<ApiKey>, Error> {
        match self {
            Self::Sqlite(db) => db.api_key_revoke(id, now).await,
            Self::Postgres(db) => db.api_key_revoke(id, now).await,
        }
    }

    /// Creates the successor of a key, which itself expires at `expires_at`, unless it does
    /// so earlier. `None` if there is no such key, or it is revoked.
    pub async fn api_key_rotate(
        &self,
        id: i64,
        expires_at: Timestamp,
        successor: NewApiKey,
        hash: KeyHash,
    ) -> Result<Option<ApiKey>, Error> {
        match self {
            Self::Sqlite(db) => db.api_key_rotate(id, expires_at, successor, hash).await,
            Self::Postgres(db) => db.api_key_rotate(id, expires_at, successor, hash).await,
        }
    }

    /// Records how API keys were used. Returns the ids of those for which it did: not of
    /// those that another transaction has locked.
    pub async fn api_key_record_usage(
        &self,
        usage: Vec<ApiKeyUsage>,
    ) -> Result<HashSet<i64>, Error> {
        match self {
            Self::Sqlite(db) => db.api_key_record_usage(usage).await,
            Self::Postgres(db) => db.api_key_record_usage(usage).await,
        }
    }

    /// The source of all events: a URN with a random UUID of this store.
    pub fn event_source(&self) -> &str {
        match self {
            Self::Sqlite(db) => db.event_source(),
            Self::Postgres(db) => db.event_source(),
        }
    }

    /// Follows the head of the event log: the last sequence number up to which the order
    /// of events is final. No event appears at or before it later. On PostgreSQL it moves
    /// while somebody follows it, or by [`event_sync`](Self::event_sync). It restarts from 0
    /// on another server, after a failover: only reading tells whether a position is still
    /// valid.
    pub fn event_head(&self) -> watch::Receiver<i64> {
        match self {
            Self::Sqlite(db) => db.event_head(),
            Self::Postgres(db) => db.event_head(),
        }
    }

    /// Moves the head past every change that was acknowledged before the call, unless a
    /// transaction that was left open holds it back.
    pub async fn event_sync(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(db) => db.event_sync().await,
        }
    }

    /// The newest event up to the head.
    pub async fn event_newest(&self) -> Result<Option<Event>, Error> {
        match self {
            Self::Sqlite(db) => db.event_newest().await,
            Self::Postgres(db) => db.event_newest().await,
        }
    }

    /// Reads up to `limit` events after a position, up to the head; without a position,
    /// from the oldest event that is kept. Descending, those before the position; without
    /// one, from the head.
    pub async fn event_read(
        &self,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        match self {
            Self::Sqlite(db) => db.event_read(after, sort, limit).await,
            Self::Postgres(db) => db.event_read(after, sort, limit).await,
        }
    }

    /// Deletes a batch of the oldest events that need not be kept. Returns how many; 0 if
    /// none are left.
    pub async fn event_purge(&self, retention: EventRetention) -> Result<u64, Error> {
        match self {
            Self::Sqlite(db) => db.event_purge(retention).await,
            Self::Postgres(db) => db.event_purge(retention).await,
        }
    }

    /// The sequence number of the last event that was purged; 0 if none was.
    pub async fn event_purged_through(&self) -> Result<i64, Error> {
        match self {
            Self::Sqlite(db) => db.event_purged_through().await,
            Self::Postgres(db) => db.event_purged_through().await,
        }
    }

    /// Keeps the head moving while somebody follows it. Never returns.
    pub async fn event_follow(&self) {
        match self {
            // The writer moves it.
            Self::Sqlite(_) => std::future::pending().await,
            Self::Postgres(db) => db.event_follow().await,
        }
    }

    /// The event with this id; `None` if the log does not have it.
    pub async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        match self {
            Self::Sqlite(db) => db.event_get(id).await,
            Self::Postgres(db) => db.event_get(id).await,
        }
    }

    /// Creates a webhook for an API key with these scopes. It delivers what comes after
    /// `position`.
    pub async fn webhook_create(
        &self,
        api_key_id: i64,
        scopes: Scopes,
        new: NewWebhook,
        secret: WebhookSecret,
        position: EventId,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<StoredWebhook, WebhookRejection>>, Error> {
        match self {
            Self::Sqlite(db) => {
                db.webhook_create(api_key_id, scopes, new, secret, position, idempotency)
                    .await
            }
            Self::Postgres(db) => {
                db.webhook_create(api_key_id, scopes, new, secret, position, idempotency)
                    .await
            }
        }
    }

    pub async fn webhook_get(&self, id: WebhookId) -> Result<Option<StoredWebhook>, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_get(id).await,
            Self::Postgres(db) => db.webhook_get(id).await,
        }
    }

    pub async fn webhook_list(
        &self,
        query: ListQuery<WebhookFilter>,
    ) -> Result<Page<StoredWebhook>, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_list(query).await,
            Self::Postgres(db) => db.webhook_list(query).await,
        }
    }

    /// Changes a webhook for an API key with these scopes. A webhook that had fallen out
    /// of the log and is enabled again continues after `newest`.
    pub async fn webhook_update(
        &self,
        id: WebhookId,
        change: WebhookChange,
        scopes: Scopes,
        newest: EventId,
    ) -> Result<Result<StoredWebhook, WebhookRejection>, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_update(id, change, scopes, newest).await,
            Self::Postgres(db) => db.webhook_update(id, change, scopes, newest).await,
        }
    }

    /// Deletes a webhook with its deliveries. Returns whether it existed.
    pub async fn webhook_delete(&self, id: WebhookId) -> Result<bool, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_delete(id).await,
            Self::Postgres(db) => db.webhook_delete(id).await,
        }
    }

    /// Replaces the secret of a webhook for an API key with these scopes; see
    /// [`SigningSecrets::rotate`](crate::webhook::secret::SigningSecrets::rotate).
    pub async fn webhook_rotate_secret(
        &self,
        id: WebhookId,
        new: WebhookSecret,
        scopes: Scopes,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<StoredWebhook, WebhookRejection>>, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_rotate_secret(id, new, scopes, idempotency).await,
            Self::Postgres(db) => db.webhook_rotate_secret(id, new, scopes, idempotency).await,
        }
    }

    /// Moves a webhook to another position, for an API key with these scopes.
    pub async fn webhook_replay(
        &self,
        id: WebhookId,
        position: EventId,
        scopes: Scopes,
    ) -> Result<Result<StoredWebhook, WebhookRejection>, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_replay(id, position, scopes).await,
            Self::Postgres(db) => db.webhook_replay(id, position, scopes).await,
        }
    }

    /// Lists the failed deliveries of a webhook by the order of their events.
    pub async fn delivery_list(
        &self,
        id: WebhookId,
        query: ListQuery<DeliveryFilter>,
    ) -> Result<Page<Delivery>, Error> {
        match self {
            Self::Sqlite(db) => db.delivery_list(id, query).await,
            Self::Postgres(db) => db.delivery_list(id, query).await,
        }
    }

    /// Makes a failed delivery due now, and ends a pause of its webhook. `None` if there is no such delivery.
    pub async fn delivery_retry(
        &self,
        id: WebhookId,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, Error> {
        match self {
            Self::Sqlite(db) => db.delivery_retry(id, event, now).await,
            Self::Postgres(db) => db.delivery_retry(id, event, now).await,
        }
    }

    /// How far the clock of deliveries is ahead of the system clock: on PostgreSQL it is the
    /// server's, so that replicas agree on when an attempt is due.
    pub fn clock_offset(&self) -> SignedDuration {
        match self {
            Self::Sqlite(_) => SignedDuration::ZERO,
            Self::Postgres(db) => db.clock_offset(),
        }
    }

    /// Leases every enabled webhook that no other replica has leased, renews the leases
    /// that `owner` has, and returns all that it now has. A
    /// lease lasts for [`WEBHOOK_LEASE`]. On SQLite there is only one owner.
    pub async fn webhook_lease(&self, owner: &str) -> Result<Vec<LeasedWebhook>, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_lease().await,
            Self::Postgres(db) => db.webhook_lease(owner).await,
        }
    }

    /// Ends all leases of `owner`.
    pub async fn webhook_release(&self, owner: &str) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(db) => db.webhook_release(owner).await,
        }
    }

    /// Saves what was achieved for a webhook, all or nothing. Returns `false`, and saves
    /// nothing, if `owner` no longer has its lease, or its epoch is another.
    pub async fn webhook_save(
        &self,
        id: WebhookId,
        owner: &str,
        epoch: i64,
        progress: Progress,
    ) -> Result<bool, Error> {
        match self {
            Self::Sqlite(db) => db.webhook_save(id, epoch, progress).await,
            Self::Postgres(db) => db.webhook_save(id, owner, epoch, progress).await,
        }
    }

    /// The deliveries to be retried, at most `limit` of those that are due.
    pub async fn delivery_retries(
        &self,
        id: WebhookId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Retries, Error> {
        match self {
            Self::Sqlite(db) => db.delivery_retries(id, now, limit).await,
            Self::Postgres(db) => db.delivery_retries(id, now, limit).await,
        }
    }

    /// Deletes a batch of the deliveries that were given up and not attempted for
    /// `retention`. Returns how many; 0 if none are left.
    pub async fn delivery_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        match self {
            Self::Sqlite(db) => db.delivery_purge(retention).await,
            Self::Postgres(db) => db.delivery_purge(retention).await,
        }
    }

    /// Deletes a batch of the idempotency keys that are older than `retention`.
    /// Returns how many; 0 if none are left.
    pub async fn idempotency_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        match self {
            Self::Sqlite(db) => db.idempotency_purge(retention).await,
            Self::Postgres(db) => db.idempotency_purge(retention).await,
        }
    }
}
