//! Webhooks and their deliveries on SQLite. The only process that writes delivers to all
//! of them, so there are no leases.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        rows::Columns,
        webhook_rows::{ChangedValues, microseconds, read_retries},
    },
    Sqlite,
    idempotency::execute_once,
    list, read_row,
    writer::Effect,
};
use crate::{
    api_key::Scopes,
    event::EventId,
    idempotency::{Idempotent, IdempotentRequest},
    page::{ListQuery, Page, Position},
    webhook::{
        DisabledReason, MAX_WEBHOOKS, NewWebhook, WebhookChange, WebhookFilter, WebhookId,
        WebhookRejection,
        delivery::{
            ClientChange, Delivery, DeliveryFilter, LeasedWebhook, Progress, Retries, StoredWebhook,
        },
        schedule::latest_attempt,
        secret::WebhookSecret,
    },
};

type WebhookResult = Result<StoredWebhook, WebhookRejection>;

/// Deliveries deleted in one transaction. Other writes wait for it.
const PURGE_BATCH_SIZE: u32 = 500;

const GET: &str = concat!(
    "SELECT ",
    webhook_columns!(),
    " FROM webhooks WHERE id = ?1"
);

const INSERT: &str = concat!(
    "INSERT INTO webhooks (",
    new_webhook_columns!(),
    ") VALUES (?1, ?2, ?3, 'enabled', ?4, ?5, ?5, ?6, ?7, ?8)"
);

const CHANGE: &str = "UPDATE webhooks
     SET url = ?2, types = ?3, description = ?4, state = ?5, disabled_reason = ?6, updated_at = ?7,
         secret = ?8, previous_secret = ?9, previous_secret_expires_at = ?10,
         secret_request = ?11, position = coalesce(?12, position),
         consecutive_failures = iif(?13, 0, consecutive_failures),
         failing_since = iif(?13, NULL, failing_since),
         paused_until = iif(?13, NULL, paused_until),
         revision = revision + 1, epoch = epoch + ?14
     WHERE id = ?1";

const SAVE: &str = "UPDATE webhooks
     SET position = ?3, consecutive_failures = ?4, failing_since = ?5, paused_until = ?6
     WHERE id = ?1 AND epoch = ?2 AND state = 'enabled'";

const DISABLE: &str = "UPDATE webhooks
     SET state = 'disabled', disabled_reason = ?2, updated_at = max(updated_at, ?3),
         revision = revision + 1
     WHERE id = ?1";

const SAVE_DELIVERY: &str = concat!(
    "INSERT OR REPLACE INTO webhook_deliveries (webhook_id, sequence, ",
    delivery_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
);

const RETRY: &str = concat!(
    "UPDATE webhook_deliveries SET state = 'retrying', next_attempt_at = ?4
     WHERE webhook_id = ?1 AND sequence = ?2 AND event_id = ?3 RETURNING ",
    delivery_columns!()
);

const DUE: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    " FROM webhook_deliveries
     WHERE webhook_id = ?1 AND state = 'retrying' AND next_attempt_at NOT BETWEEN ?2 + 1 AND ?3
     ORDER BY next_attempt_at, sequence LIMIT ?4"
);

const NEXT: &str = "SELECT count(*), min(next_attempt_at) FILTER (
         WHERE next_attempt_at BETWEEN ?2 + 1 AND ?3)
     FROM webhook_deliveries WHERE webhook_id = ?1 AND state = 'retrying'";

const ANY_FAILED_BEFORE: &str = "SELECT EXISTS (SELECT 1 FROM webhook_deliveries
     WHERE state = 'failed' AND last_attempt_at < ?1)";

const PURGE: &str = "DELETE FROM webhook_deliveries WHERE (webhook_id, sequence) IN (
         SELECT webhook_id, sequence FROM webhook_deliveries
         WHERE state = 'failed' AND last_attempt_at < ?1 ORDER BY last_attempt_at LIMIT ?2)";

impl Sqlite {
    pub(in super::super) async fn webhook_create(
        &self,
        api_key_id: i64,
        scopes: Scopes,
        new: NewWebhook,
        secret: WebhookSecret,
        position: EventId,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        let now = self.clock.now();
        let webhook = match new.create(WebhookId::UNASSIGNED, api_key_id, scopes, now) {
            Ok(webhook) => webhook,
            Err(missing) => {
                let rejection = WebhookRejection::MissingScope(missing);
                return Ok(Idempotent::Executed(Err(rejection)));
            }
        };
        let secret_request = idempotency.as_ref().map(IdempotentRequest::id);
        let execute = move |db: &Connection| {
            let count: i64 = db
                .prepare_cached("SELECT count(*) FROM webhooks")?
                .query_row([], |row| row.get(0))?;
            if count >= MAX_WEBHOOKS {
                return Ok(Err(WebhookRejection::TooMany));
            }
            db.prepare_cached(INSERT)?.execute(params![
                webhook.url.as_str(),
                webhook.types.to_store(),
                webhook.description.as_ref().map(|text| text.as_str()),
                webhook.api_key_id,
                webhook.created_at.as_microsecond(),
                secret.reveal(),
                secret_request,
                position.to_string()
            ])?;
            get(db, WebhookId::from_store(db.last_insert_rowid()))
        };
        self.webhook_once(now, idempotency, execute).await
    }

    pub(in super::super) async fn webhook_get(
        &self,
        id: WebhookId,
    ) -> Result<Option<StoredWebhook>, Error> {
        let read = move |db: &Connection| get(db, id);
        Ok(self.readers.run(read).await?.ok())
    }

    pub(in super::super) async fn webhook_list(
        &self,
        query: ListQuery<WebhookFilter>,
    ) -> Result<Page<StoredWebhook>, Error> {
        let read = move |db: &Connection| {
            let select = Select::webhooks(&query, Dialect::Sqlite);
            let position = |stored: &StoredWebhook| Position::of_id(stored.webhook.id.get());
            list(db, &select, &query, |_| true, position)
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn webhook_update(
        &self,
        id: WebhookId,
        update: WebhookChange,
        scopes: Scopes,
        newest: EventId,
    ) -> Result<WebhookResult, Error> {
        let now = self.clock.now();
        let update = move |db: &Connection| {
            change(db, id, |before| {
                let updated = before.update(&update, scopes, newest, now);
                updated.map_err(WebhookRejection::MissingScope)
            })
        };
        self.writer.run(|_| Effect::None, update).await
    }

    pub(in super::super) async fn webhook_delete(&self, id: WebhookId) -> Result<bool, Error> {
        let delete = move |db: &Connection| {
            let deleted = db
                .prepare_cached("DELETE FROM webhooks WHERE id = ?1")?
                .execute([id.get()])?;
            Ok(deleted > 0)
        };
        self.writer.run(|_| Effect::None, delete).await
    }

    pub(in super::super) async fn webhook_rotate_secret(
        &self,
        id: WebhookId,
        new: WebhookSecret,
        scopes: Scopes,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        let now = self.clock.now();
        let request = idempotency.clone();
        let execute = move |db: &Connection| {
            change(db, id, |before| {
                let rotated = before.rotate_secret(&new, request.as_ref(), scopes, now);
                rotated.map(Some).map_err(WebhookRejection::MissingScope)
            })
        };
        self.webhook_once(now, idempotency, execute).await
    }

    pub(in super::super) async fn webhook_replay(
        &self,
        id: WebhookId,
        position: EventId,
        scopes: Scopes,
    ) -> Result<WebhookResult, Error> {
        let now = self.clock.now();
        let replay = move |db: &Connection| {
            change(db, id, |before| {
                let replayed = before.replay(position, scopes, now);
                replayed.map(Some).map_err(WebhookRejection::MissingScope)
            })
        };
        self.writer.run(|_| Effect::None, replay).await
    }

    /// Creates or changes a webhook once. A retry gets it as it is now.
    async fn webhook_once(
        &self,
        now: Timestamp,
        idempotency: Option<IdempotentRequest>,
        execute: impl FnOnce(&Connection) -> rusqlite::Result<WebhookResult> + Send + 'static,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        let write = move |db: &Connection| {
            let id = |stored: &StoredWebhook| stored.webhook.id.get();
            let replay = |db: &Connection, id| get(db, WebhookId::from_store(id));
            execute_once(db, idempotency.as_ref(), now, execute, id, replay)
        };
        self.writer.run(|_| Effect::None, write).await
    }

    pub(in super::super) async fn webhook_lease(&self) -> Result<Vec<LeasedWebhook>, Error> {
        let read = |db: &Connection| {
            let sql = "SELECT id, revision, epoch FROM webhooks
                       WHERE state = 'enabled' ORDER BY id";
            let mut select = db.prepare_cached(sql)?;
            let rows = select.query_map([], |row| {
                Ok(LeasedWebhook {
                    id: WebhookId::from_store(row.get(0)?),
                    revision: row.get(1)?,
                    epoch: row.get(2)?,
                })
            })?;
            rows.collect()
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn webhook_save(
        &self,
        id: WebhookId,
        epoch: i64,
        progress: Progress,
    ) -> Result<bool, Error> {
        let now = self.clock.now();
        let save = move |db: &Connection| {
            let saved = db.prepare_cached(SAVE)?.execute(params![
                id.get(),
                epoch,
                progress.position.to_string(),
                progress.health.consecutive_failures,
                microseconds(progress.health.failing_since),
                microseconds(progress.paused_until)
            ])?;
            if saved == 0 {
                return Ok(false);
            }
            for failure in &progress.failures {
                db.prepare_cached(SAVE_DELIVERY)?.execute(params![
                    id.get(),
                    failure.event_id.sequence,
                    failure.event_id.to_string(),
                    failure.state.as_str(),
                    failure.attempts,
                    failure.last_attempt_at.as_microsecond(),
                    failure.status,
                    failure.error.as_str(),
                    microseconds(failure.next_attempt_at)
                ])?;
            }
            for event in &progress.delivered {
                let sql = "DELETE FROM webhook_deliveries WHERE webhook_id = ?1 AND sequence = ?2";
                db.prepare_cached(sql)?
                    .execute([id.get(), event.sequence])?;
            }
            if let Some(reason) = progress.disabled.map(DisabledReason::as_str) {
                let disabled = params![id.get(), reason, now.as_microsecond()];
                db.prepare_cached(DISABLE)?.execute(disabled)?;
            }
            Ok(true)
        };
        self.writer.run(|_| Effect::None, save).await
    }

    pub(in super::super) async fn delivery_list(
        &self,
        id: WebhookId,
        query: ListQuery<DeliveryFilter>,
    ) -> Result<Page<Delivery>, Error> {
        let read = move |db: &Connection| {
            let select = Select::deliveries(id, &query, Dialect::Sqlite);
            let state = query.filter.state;
            let matches = |delivery: &Delivery| state.is_none_or(|state| delivery.state == state);
            let position = |delivery: &Delivery| Position::of_id(delivery.event_id.sequence);
            list(db, &select, &query, matches, position)
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn delivery_retry(
        &self,
        id: WebhookId,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, Error> {
        let retry = move |db: &Connection| {
            let (event_id, now) = (event.to_string(), now.as_microsecond());
            let retried = db
                .prepare_cached(RETRY)?
                .query_row(params![id.get(), event.sequence, event_id, now], read_row)
                .optional()?;
            if retried.is_some() {
                let sql = "UPDATE webhooks SET revision = revision + 1, paused_until = NULL
                           WHERE id = ?1";
                db.prepare_cached(sql)?.execute([id.get()])?;
            }
            Ok(retried)
        };
        self.writer.run(|_| Effect::None, retry).await
    }

    pub(in super::super) async fn delivery_retries(
        &self,
        id: WebhookId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Retries, Error> {
        let read = move |db: &Connection| {
            let latest = latest_attempt(now).as_microsecond();
            let (id, now, limit) = (id.get(), now.as_microsecond(), limit as i64);
            let snapshot = db.unchecked_transaction()?;
            let mut select = snapshot.prepare_cached(DUE)?;
            let due = select.query_map([id, now, latest, limit], read_row)?;
            let due = due.collect::<Result<_, _>>()?;
            let mut select = snapshot.prepare_cached(NEXT)?;
            select.query_row([id, now, latest], |row| {
                read_retries(&mut Columns::of(row), due)
            })
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn delivery_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let before = self.retained_since(retention).as_microsecond();
        if !self.exists(ANY_FAILED_BEFORE, before).await? {
            return Ok(0);
        }
        let purge = move |db: &Connection| {
            let purged = db
                .prepare_cached(PURGE)?
                .execute(params![before, PURGE_BATCH_SIZE])?;
            Ok(purged as u64)
        };
        self.writer.run(|_| Effect::None, purge).await
    }
}

fn get(db: &Connection, id: WebhookId) -> rusqlite::Result<WebhookResult> {
    let found = db.prepare_cached(GET)?.query_row([id.get()], read_row);
    Ok(found.optional()?.ok_or(WebhookRejection::NoSuchWebhook))
}

/// Makes a client's change, if there is one, and returns the webhook.
fn change(
    db: &Connection,
    id: WebhookId,
    decide: impl FnOnce(&StoredWebhook) -> Result<Option<ClientChange>, WebhookRejection>,
) -> rusqlite::Result<WebhookResult> {
    let before = match get(db, id)? {
        Ok(before) => before,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let change = match decide(&before) {
        Ok(Some(change)) => change,
        Ok(None) => return Ok(Ok(before)),
        Err(rejection) => return Ok(Err(rejection)),
    };
    let ChangedValues {
        url,
        types,
        description,
        state,
        disabled_reason,
        updated_at,
        secret,
        previous_secret,
        previous_secret_expires_at,
        secret_request,
        position,
        resets_health,
        starts_epoch,
    } = ChangedValues::from(&change);
    db.prepare_cached(CHANGE)?.execute(params![
        id.get(),
        url,
        types,
        description,
        state,
        disabled_reason,
        updated_at,
        secret,
        previous_secret,
        previous_secret_expires_at,
        secret_request,
        position,
        resets_health,
        starts_epoch
    ])?;
    get(db, id)
}
