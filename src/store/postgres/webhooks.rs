//! Webhooks on PostgreSQL. Clients' changes are optimistic: they are made if the webhook
//! still has the revision that they were decided on, or decided again.

use std::sync::Arc;

use tokio_postgres::{Row, types::Type};

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        rows::{Columns, Entity},
        webhook_rows::ChangedValues,
    },
    Postgres,
    error::MissingRow,
    idempotency,
    lock_wait::LockWait,
    pool::{Parameters, Sql},
};
use crate::{
    api_key::Scopes,
    event::EventId,
    idempotency::{Idempotent, IdempotentRequest, RecordedRejection},
    page::{ListQuery, Page, Position},
    webhook::{
        Description, MAX_WEBHOOKS, NewWebhook, WebhookChange, WebhookFilter, WebhookId,
        WebhookRejection,
        delivery::{ClientChange, StoredWebhook},
        secret::WebhookSecret,
    },
};

type WebhookResult = Result<StoredWebhook, WebhookRejection>;

/// Attempts of an optimistic change. Each failed one means that a concurrent change of
/// the same webhook succeeded, or that its row was locked.
const MAX_ATTEMPTS: usize = 100;

impl Postgres {
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
        let request = idempotency.as_ref();
        let (url, types) = (webhook.url.as_str(), webhook.types.to_store());
        let description = webhook.description.as_ref().map(Description::as_str);
        let created_at = webhook.created_at.as_microsecond();
        let (secret, position) = (secret.reveal(), position.to_string());
        let secret_request = request.map(IdempotentRequest::id);
        let columns: Parameters = &[
            &MAX_WEBHOOKS,
            &url,
            &types,
            &description,
            &api_key_id,
            &created_at,
            &secret,
            &secret_request,
            &position,
        ];
        loop {
            if let Some(replayed) = self.webhook_replayed(request).await? {
                return Ok(replayed);
            }
            let created =
                idempotency::run_recorded(&self.webhooks, &CREATE, request, columns).await?;
            // If another request has recorded the key meanwhile, it is replayed.
            if let Some(rows) = created {
                let created = rows.first().map(StoredWebhook::from_row).transpose()?;
                let created = created.ok_or(WebhookRejection::TooMany);
                return Ok(Idempotent::Executed(created));
            }
        }
    }

    pub(in super::super) async fn webhook_get(
        &self,
        id: WebhookId,
    ) -> Result<Option<StoredWebhook>, Error> {
        let rows = self.reads.read(&GET, &[&id.get()]).await?;
        rows.first().map(StoredWebhook::from_row).transpose()
    }

    pub(in super::super) async fn webhook_list(
        &self,
        query: ListQuery<WebhookFilter>,
    ) -> Result<Page<StoredWebhook>, Error> {
        let select = Select::webhooks(&query, Dialect::Postgres);
        let position = |stored: &StoredWebhook| Position::of_id(stored.webhook.id.get());
        self.list(select, query.limit, position).await
    }

    pub(in super::super) async fn webhook_update(
        &self,
        id: WebhookId,
        change: WebhookChange,
        scopes: Scopes,
        newest: EventId,
    ) -> Result<WebhookResult, Error> {
        let changed = self.webhook_change(id, None, |before| {
            let updated = before.update(&change, scopes, newest, self.clock.now());
            updated.map_err(WebhookRejection::MissingScope)
        });
        Ok(without_key(changed.await?))
    }

    pub(in super::super) async fn webhook_rotate_secret(
        &self,
        id: WebhookId,
        new: WebhookSecret,
        scopes: Scopes,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        self.webhook_change(id, idempotency.as_ref(), |before| {
            let rotated =
                before.rotate_secret(&new, idempotency.as_ref(), scopes, self.clock.now());
            rotated.map(Some).map_err(WebhookRejection::MissingScope)
        })
        .await
    }

    pub(in super::super) async fn webhook_replay(
        &self,
        id: WebhookId,
        position: EventId,
        scopes: Scopes,
    ) -> Result<WebhookResult, Error> {
        let changed = self.webhook_change(id, None, |before| {
            let replayed = before.replay(position, scopes, self.clock.now());
            replayed.map(Some).map_err(WebhookRejection::MissingScope)
        });
        Ok(without_key(changed.await?))
    }

    pub(in super::super) async fn webhook_delete(&self, id: WebhookId) -> Result<bool, Error> {
        let deleted = self.webhook_unless_locked(&DELETE, &[&id.get()]).await?;
        Ok(deleted.is_some())
    }

    /// Runs a statement whose row says whether it was executed, and whether there was
    /// anything to execute it on. If that is locked, tries again. Returns `None` if there
    /// was nothing.
    pub(super) async fn webhook_unless_locked(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, Error> {
        let lock_wait = LockWait::start();
        loop {
            let row = self.webhooks.write(sql, parameters).await?.pop();
            let row = row.ok_or(MissingRow)?;
            let mut columns = Columns::of(&row);
            match (columns.boolean()?, columns.boolean()?) {
                (true, _) => return Ok(Some(row)),
                (false, false) => return Ok(None),
                (false, true) => lock_wait.pause().await?,
            }
        }
    }

    /// Makes a client's change once, if there is one, and returns the webhook.
    async fn webhook_change(
        &self,
        id: WebhookId,
        request: Option<&IdempotentRequest>,
        decide: impl Fn(&StoredWebhook) -> Result<Option<ClientChange>, WebhookRejection>,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        let mut lock_wait = None;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(replayed) = self.webhook_replayed(request).await? {
                return Ok(replayed);
            }
            let before = self.webhook_get(id).await?;
            let before = before.ok_or(WebhookRejection::NoSuchWebhook);
            let decided = match &before {
                Ok(before) => decide(before).map(|change| change.map(|c| (before.revision, c))),
                Err(rejection) => Err(*rejection),
            };
            let written = match decided {
                Ok(Some((revision, change))) => {
                    self.webhook_write(id, revision, &change, request).await?
                }
                Ok(None) => return Ok(Idempotent::Executed(before)),
                Err(rejection) => match self.webhook_record(request, rejection).await? {
                    true => return Ok(Idempotent::Executed(Err(rejection))),
                    false => None,
                },
            };
            if let Some(changed) = written {
                return Ok(Idempotent::Executed(Ok(changed)));
            }
            let wait = lock_wait.get_or_insert_with(LockWait::start);
            wait.pause().await?;
        }
        Err(Error::Unavailable(Arc::new(Contention)))
    }

    /// Writes a change. Returns `None` if the webhook has another revision, if its row is
    /// locked, or if another request has recorded the idempotency key meanwhile.
    async fn webhook_write(
        &self,
        id: WebhookId,
        revision: i64,
        change: &ClientChange,
        request: Option<&IdempotentRequest>,
    ) -> Result<Option<StoredWebhook>, Error> {
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
        } = ChangedValues::from(change);
        let columns: Parameters = &[
            &id.get(),
            &revision,
            &url,
            &types,
            &description,
            &state,
            &disabled_reason,
            &updated_at,
            &secret,
            &previous_secret,
            &previous_secret_expires_at,
            &secret_request,
            &position,
            &resets_health,
            &starts_epoch,
        ];
        let rows = idempotency::run_recorded(&self.webhooks, &CHANGE, request, columns).await?;
        let rows = rows.unwrap_or_default();
        rows.first().map(StoredWebhook::from_row).transpose()
    }

    /// Records a rejection, if it has to be. Returns `false` if another request has recorded
    /// the idempotency key meanwhile.
    async fn webhook_record(
        &self,
        request: Option<&IdempotentRequest>,
        rejection: WebhookRejection,
    ) -> Result<bool, Error> {
        if request.is_none() || !rejection.is_recorded() {
            return Ok(true);
        }
        let code = rejection.code();
        let recorded =
            idempotency::run_recorded(&self.webhooks, &REJECT, request, &[&code]).await?;
        Ok(recorded.is_some())
    }

    /// The result of an earlier request with the same idempotency key.
    async fn webhook_replayed(
        &self,
        request: Option<&IdempotentRequest>,
    ) -> Result<Option<Idempotent<WebhookResult>>, Error> {
        let Some(request) = request else {
            return Ok(None);
        };
        Ok(match self.idempotency_find(request).await? {
            None => None,
            Some(None) => Some(Idempotent::KeyReused),
            Some(Some(Ok(id))) => {
                let stored = self.webhook_get(WebhookId::from_store(id)).await?;
                let stored = stored.ok_or(WebhookRejection::NoSuchWebhook);
                Some(Idempotent::Replayed(stored))
            }
            Some(Some(Err(rejection))) => Some(Idempotent::Replayed(Err(rejection))),
        })
    }
}

fn without_key(result: Idempotent<WebhookResult>) -> WebhookResult {
    match result {
        Idempotent::Executed(result) | Idempotent::Replayed(result) => result,
        Idempotent::KeyReused => unreachable!("there is no idempotency key"),
    }
}

static GET: Sql = Sql {
    text: concat!(
        "SELECT ",
        webhook_columns!(),
        " FROM webhooks WHERE id = $1"
    ),
    types: &[Type::INT8],
};

static CREATE: Sql = Sql {
    text: concat!(
        "WITH created AS (
             INSERT INTO webhooks (",
        new_webhook_columns!(),
        ") SELECT $5, $6, $7, 'enabled', $8, $9, $9, $10, $11, $12 WHERE count_webhooks() < $4
             RETURNING ",
        webhook_columns!(),
        "), outcome AS (
             SELECT CASE WHEN max(id) IS NULL THEN 'too_many_webhooks' ELSE '",
        succeeded!(),
        "' END AS outcome, max(id) AS id FROM created
         ), ",
        record!("outcome"),
        " SELECT ",
        webhook_columns!(),
        " FROM created"
    ),
    types: recorded_types![INT8, TEXT, TEXT, TEXT, INT8, INT8, TEXT, TEXT, TEXT],
};

/// Skips a locked row, so that the statements behind it on the connection do not wait. The
/// replica that delivers does not change the revision: what it has saved meanwhile stays.
static CHANGE: Sql = Sql {
    text: concat!(
        "WITH unchanged AS MATERIALIZED (
             SELECT id FROM webhooks WHERE id = $4 AND revision = $5
             FOR NO KEY UPDATE SKIP LOCKED
         ), changed AS (
             UPDATE webhooks
             SET url = $6, types = $7, description = $8, state = $9, disabled_reason = $10,
                 updated_at = $11, secret = $12, previous_secret = $13,
                 previous_secret_expires_at = $14, secret_request = $15,
                 position = coalesce($16, position),
                 consecutive_failures = CASE WHEN $17 THEN 0 ELSE consecutive_failures END,
                 failing_since = CASE WHEN NOT $17 THEN failing_since END,
                 paused_until = CASE WHEN NOT $17 THEN paused_until END,
                 revision = revision + 1, epoch = epoch + CASE WHEN $18 THEN 1 ELSE 0 END,
                 lease_owner = CASE $9 WHEN 'enabled' THEN lease_owner END,
                 lease_expires_at = CASE $9 WHEN 'enabled' THEN lease_expires_at END
             FROM unchanged WHERE webhooks.id = unchanged.id
             RETURNING ",
        webhook_columns!("webhooks"),
        "), outcome AS (
             SELECT '",
        succeeded!(),
        "' AS outcome, id FROM changed
         ), ",
        record!("outcome"),
        " SELECT ",
        webhook_columns!(),
        " FROM changed"
    ),
    types: recorded_types![
        INT8, INT8, TEXT, TEXT, TEXT, TEXT, TEXT, INT8, TEXT, TEXT, INT8, TEXT, TEXT, BOOL, BOOL
    ],
};

static REJECT: Sql = Sql {
    text: concat!(
        "WITH outcome AS (SELECT $4 AS outcome, NULL::bigint AS id), ",
        record!("outcome"),
        " SELECT 1"
    ),
    types: recorded_types![TEXT],
};

/// With its deliveries.
static DELETE: Sql = Sql {
    text: "WITH unlocked AS MATERIALIZED (
               SELECT id FROM webhooks WHERE id = $1 FOR UPDATE SKIP LOCKED
           ), deleted AS (
               DELETE FROM webhooks USING unlocked WHERE webhooks.id = unlocked.id
               RETURNING webhooks.id
           )
           SELECT EXISTS (SELECT FROM deleted), EXISTS (SELECT FROM webhooks WHERE id = $1)",
    types: &[Type::INT8],
};

#[derive(Debug, thiserror::Error)]
#[error("too many concurrent changes of the same webhook")]
struct Contention;
