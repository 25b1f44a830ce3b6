//! Deliveries: the progress of webhooks, failures, and retries.

use jiff::Timestamp;

use super::{
    Error, Store,
    command::{Command, Lane, NotFound},
    draft::Draft,
    error::MissingRow,
    list::Select,
    row_keys::Keys,
    rows::{Access, Stored},
    table::{ColumnGroup, OuterJoin, Value, columns_of, names},
    tables::DeliveryRow,
};
use domain::{
    event::EventId,
    idempotency::RecordedRejection,
    page::{ListQuery, Page},
    webhook::{
        WebhookId, WebhookState,
        delivery::{
            Delivery, DeliveryFilter, DeliveryState, LeasedWebhook, Progress, Retries,
            StoredWebhook,
        },
        schedule::latest_attempt,
    },
};

statements! {
    ENABLED() = format!(
        "SELECT {} FROM webhooks WHERE state = 'enabled' ORDER BY id",
        names(&LeasedWebhook::columns(""))
    );
    /// Returns at least one row, with the number of all retries and the time when the next one
    /// is due.
    RETRIES(Int, Int, Int, Int) = format!(
        "SELECT count, next_at, {}
         FROM (
             SELECT count(*) AS count, min(next_attempt_at) FILTER (
                 WHERE next_attempt_at BETWEEN $1 + 1 AND $2) AS next_at
             FROM webhook_deliveries WHERE webhook_id = $3 AND state = 'retrying'
         ) AS retrying LEFT JOIN (
             SELECT * FROM webhook_deliveries
             WHERE webhook_id = $3 AND state = 'retrying'
             AND next_attempt_at NOT BETWEEN $1 + 1 AND $2
             ORDER BY next_attempt_at, sequence LIMIT $4
         ) AS due ON true ORDER BY due.next_attempt_at, due.sequence",
        columns_of::<Delivery>("due")
    );
}

/// A row of [`RETRIES`].
type RetryRow = (i64, Option<Timestamp>, OuterJoin<Delivery, EventId>);

struct SaveProgress {
    id: WebhookId,
    /// The replica that must have the lease, on PostgreSQL.
    owner: Option<String>,
    epoch: i64,
    progress: Progress,
}

impl Command for SaveProgress {
    const LANE: Lane = Lane::Bulk;

    type Output = ();
    type Rejection = LeaseLost;

    fn keys(&self, keys: &mut Keys) {
        keys.webhooks.push(self.id);
        let failed = self.progress.failures.iter().map(|it| it.event_id);
        let all = failed
            .chain(self.progress.delivered.iter().copied())
            .map(|event| (self.id, event.sequence));
        keys.deliveries.extend(all);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<(), LeaseLost> {
        let before = draft.tables.webhooks.get(&self.id).ok_or(LeaseLost)?;
        let leased_by = before.lease.as_ref().map(|(owner, _)| owner);
        let is_leased = self.owner.is_none() || self.owner.as_ref() == leased_by;
        let is_enabled = before.webhook.state == WebhookState::Enabled;
        if !is_leased || !is_enabled || before.epoch != self.epoch {
            return Err(LeaseLost);
        }
        let after = before.clone().advance(&self.progress, draft.times.now);
        draft.put(after);
        for failure in &self.progress.failures {
            draft.put(DeliveryRow {
                webhook_id: self.id,
                sequence: failure.event_id.sequence,
                delivery: failure.clone(),
            });
        }
        for event in &self.progress.delivered {
            draft.delete::<DeliveryRow>((self.id, event.sequence));
        }
        Ok(())
    }
}

/// The rejection of progress: another replica has the lease, or the webhook was changed, disabled
/// or deleted.
struct LeaseLost;

impl RecordedRejection for LeaseLost {}

struct RetryDelivery {
    id: WebhookId,
    event: EventId,
    now: Timestamp,
}

impl Command for RetryDelivery {
    type Output = Delivery;
    type Rejection = NotFound;

    fn keys(&self, keys: &mut Keys) {
        keys.webhooks.push(self.id);
        keys.deliveries.push((self.id, self.event.sequence));
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Delivery, NotFound> {
        let failed = draft
            .tables
            .deliveries
            .get(&(self.id, self.event.sequence))
            .map(|row| &row.delivery)
            .filter(|failed| failed.event_id == self.event);
        let retried = Delivery {
            state: DeliveryState::Retrying,
            next_attempt_at: Some(self.now),
            ..failed.ok_or(NotFound)?.clone()
        };
        let webhook = draft.tables.webhooks.get(&self.id).ok_or(NotFound)?;
        let resumed = StoredWebhook {
            revision: webhook.revision + 1,
            paused_until: None,
            ..webhook.clone()
        };
        draft.put(resumed);
        draft.put(DeliveryRow {
            webhook_id: self.id,
            sequence: self.event.sequence,
            delivery: retried.clone(),
        });
        Ok(retried)
    }
}

impl Stored for DeliveryRow {
    const ACCESS: Access = Access::Unlocked;
}

impl Store {
    /// Lists the failed deliveries of a webhook by the order of their events.
    pub async fn delivery_list(
        &self,
        id: WebhookId,
        query: ListQuery<DeliveryFilter>,
    ) -> Result<Page<Delivery>, Error> {
        let select = Select::deliveries(id, &query, self.dialect());
        self.list(select, query).await
    }

    /// Makes a failed delivery due now, and ends a pause of its webhook. `None` if there is no
    /// such delivery.
    pub async fn delivery_retry(
        &self,
        id: WebhookId,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, Error> {
        let retried = self.execute_once(None, RetryDelivery { id, event, now });
        Ok(retried.await?.ok())
    }

    /// Leases every enabled webhook that no other replica has leased, renews the leases that
    /// `owner` has, and returns all webhooks that it has leased then. A lease lasts for
    /// [`WEBHOOK_LEASE`](super::WEBHOOK_LEASE). On SQLite there is only one owner.
    pub async fn webhook_lease(&self, owner: &str) -> Result<Vec<LeasedWebhook>, Error> {
        match self {
            Self::Sqlite(db) => db.query(&ENABLED, Vec::new()).await,
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

    /// Saves the progress of a webhook, all or nothing. Returns `false`, and saves nothing, if
    /// `owner` no longer has its lease, if it is disabled or deleted, or if its epoch has
    /// changed. An expired lease counts until another replica has it.
    pub async fn webhook_save(
        &self,
        id: WebhookId,
        owner: &str,
        epoch: i64,
        progress: Progress,
    ) -> Result<bool, Error> {
        let save = SaveProgress {
            id,
            owner: matches!(self, Self::Postgres(_)).then(|| owner.into()),
            epoch,
            progress,
        };
        Ok(self.execute_once(None, save).await?.is_ok())
    }

    /// Returns the deliveries to be retried, at most `limit` of those that are due.
    pub async fn delivery_retries(
        &self,
        id: WebhookId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Retries, Error> {
        let latest = latest_attempt(now).as_microsecond();
        let parameters = [now.as_microsecond(), latest, id.get(), limit as i64].map(Value::Int);
        let rows: Vec<RetryRow> = self.query(&RETRIES, parameters.into()).await?;
        let (count, next_at, _) = *rows.first().ok_or(MissingRow)?;
        Ok(Retries {
            due: rows.into_iter().filter_map(|(.., due)| due.0).collect(),
            count: count as u64,
            next_at,
        })
    }
}
