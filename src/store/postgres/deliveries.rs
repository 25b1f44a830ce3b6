//! Deliveries on PostgreSQL. Each webhook is leased by one replica, which delivers to it.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::types::Type;

use super::{
    super::{
        WEBHOOK_LEASE,
        error::Error,
        list::{Dialect, Select},
        rows::{Columns, Entity, Row as _},
        webhook_rows::{microseconds, read_retries},
    },
    Postgres,
    error::MissingRow,
    pool::{Parameters, Sql},
    read_count,
};
use crate::{
    event::EventId,
    page::{ListQuery, Page, Position},
    webhook::{
        DisabledReason, WebhookId,
        delivery::{Delivery, DeliveryFilter, LeasedWebhook, Progress, Retries},
        schedule::latest_attempt,
    },
};

/// A lease is renewed when less than this is left of it.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_secs(15);

impl Postgres {
    pub(in super::super) async fn webhook_lease(
        &self,
        owner: &str,
    ) -> Result<Vec<LeasedWebhook>, Error> {
        let (lease, renew) = (
            WEBHOOK_LEASE.as_micros() as i64,
            RENEW_BEFORE.as_micros() as i64,
        );
        let parameters: Parameters = &[&owner, &lease, &renew];
        let sent = Timestamp::now();
        let rows = self.webhooks.write(&LEASE, parameters).await?;
        let server = Columns::of(rows.first().ok_or(MissingRow)?).int()?;
        self.clock.observe(sent, server, Timestamp::now());
        let leased = rows
            .iter()
            .filter(|row| !matches!(row.optional_int(1), Ok(None)));
        let read = |row| {
            let mut columns = Columns::skipping(row, 1);
            Ok(LeasedWebhook {
                id: WebhookId::from_store(columns.int()?),
                revision: columns.int()?,
                epoch: columns.int()?,
            })
        };
        leased.map(read).collect()
    }

    pub(in super::super) async fn webhook_release(&self, owner: &str) -> Result<(), Error> {
        self.webhooks.write(&RELEASE, &[&owner]).await?;
        Ok(())
    }

    pub(in super::super) async fn webhook_save(
        &self,
        id: WebhookId,
        owner: &str,
        epoch: i64,
        progress: Progress,
    ) -> Result<bool, Error> {
        let delivered: Vec<_> = progress.delivered.iter().map(|id| id.sequence).collect();
        // A statement cannot change a row twice.
        let is_delivered: HashSet<_> = delivered.iter().collect();
        let failures: BTreeMap<_, _> = progress
            .failures
            .iter()
            .map(|failure| (failure.event_id.sequence, failure))
            .filter(|(sequence, _)| !is_delivered.contains(sequence))
            .collect();
        let ints = |of: fn(&Delivery) -> Option<i64>| -> Vec<_> {
            failures.values().map(|failure| of(failure)).collect()
        };
        let texts = |of: fn(&Delivery) -> String| -> Vec<_> {
            failures.values().map(|failure| of(failure)).collect()
        };
        let parameters: Parameters = &[
            &id.get(),
            &owner,
            &epoch,
            &progress.position.to_string(),
            &i64::from(progress.health.consecutive_failures),
            &microseconds(progress.health.failing_since),
            &microseconds(progress.paused_until),
            &progress.disabled.map(DisabledReason::as_str),
            &self.clock.now().as_microsecond(),
            &delivered,
            &ints(|f| Some(f.event_id.sequence)),
            &texts(|f| f.event_id.to_string()),
            &texts(|f| f.state.as_str().into()),
            &ints(|f| Some(f.attempts.into())),
            &ints(|f| Some(f.last_attempt_at.as_microsecond())),
            &ints(|f| f.status.map(i64::from)),
            &texts(|f| f.error.as_str().into()),
            &ints(|f| microseconds(f.next_attempt_at)),
        ];
        let saved = self.webhook_unless_locked(&SAVE, parameters).await?;
        Ok(saved.is_some())
    }

    pub(in super::super) async fn delivery_list(
        &self,
        id: WebhookId,
        query: ListQuery<DeliveryFilter>,
    ) -> Result<Page<Delivery>, Error> {
        let select = Select::deliveries(id, &query, Dialect::Postgres);
        let position = |delivery: &Delivery| Position::of_id(delivery.event_id.sequence);
        self.list(select, query.limit, position).await
    }

    pub(in super::super) async fn delivery_retry(
        &self,
        id: WebhookId,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<Delivery>, Error> {
        let (event_id, now) = (event.to_string(), now.as_microsecond());
        let parameters: Parameters = &[&id.get(), &event.sequence, &event_id, &now];
        let retried = self.webhook_unless_locked(&RETRY, parameters).await?;
        let read = |row| Delivery::read(&mut Columns::skipping(&row, 2));
        retried.map(read).transpose()
    }

    pub(in super::super) async fn delivery_retries(
        &self,
        id: WebhookId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Retries, Error> {
        let parameters: Parameters = &[
            &id.get(),
            &now.as_microsecond(),
            &(limit as i64),
            &latest_attempt(now).as_microsecond(),
        ];
        let rows = self.reads.read(&RETRIES, parameters).await?;
        let due = rows
            .iter()
            .filter(|row| !matches!(row.optional_text(2), Ok(None)));
        let due = due.map(|row| Delivery::read(&mut Columns::skipping(row, 2)));
        let due = due.collect::<Result<_, _>>()?;
        read_retries(&mut Columns::of(rows.first().ok_or(MissingRow)?), due)
    }

    pub(in super::super) async fn delivery_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let retention = self.max_age(retention);
        read_count(&self.background.write(&PURGE, &[&retention]).await?)
    }
}

/// Skips what another replica is leasing. Returns also what `$1` has leased before and
/// need not renew yet, or cannot because its row is locked. At least one row, with the time.
static LEASE: Sql = Sql {
    text: concat!(
        "WITH clock AS MATERIALIZED (SELECT ",
        now_micros!(),
        " AS now), free AS MATERIALIZED (
             SELECT id FROM webhooks, clock
             WHERE state = 'enabled' AND (lease_owner IS NULL OR lease_expires_at <= now
                 OR (lease_owner = $1 AND lease_expires_at < now + $3))
             FOR NO KEY UPDATE OF webhooks SKIP LOCKED
         ), leased AS (
             UPDATE webhooks SET lease_owner = $1, lease_expires_at = now + $2
             FROM free, clock WHERE webhooks.id = free.id
             RETURNING webhooks.id, revision, epoch
         )
         SELECT now, id, revision, epoch FROM clock LEFT JOIN (
             SELECT id, revision, epoch FROM leased
             UNION ALL
             SELECT id, revision, epoch FROM webhooks, clock
             WHERE state = 'enabled' AND lease_owner = $1 AND lease_expires_at > now
                 AND id NOT IN (SELECT id FROM leased)
         ) AS mine ON true ORDER BY id"
    ),
    types: &[Type::TEXT, Type::INT8, Type::INT8],
};

/// A lease whose row is locked expires by itself.
static RELEASE: Sql = Sql {
    text: "WITH leased AS MATERIALIZED (
               SELECT id FROM webhooks WHERE lease_owner = $1 FOR NO KEY UPDATE SKIP LOCKED
           )
           UPDATE webhooks SET lease_owner = NULL, lease_expires_at = NULL
           FROM leased WHERE webhooks.id = leased.id",
    types: &[Type::TEXT],
};

/// Whether the webhook was saved, and whether its lease and epoch are as expected. A
/// lease that has expired still counts until another replica has it.
static SAVE: Sql = Sql {
    text: concat!(
        "WITH leased AS MATERIALIZED (
             SELECT id FROM webhooks
             WHERE id = $1 AND lease_owner = $2 AND epoch = $3 AND state = 'enabled'
             FOR NO KEY UPDATE SKIP LOCKED
         ), saved AS (
             UPDATE webhooks
             SET position = $4, consecutive_failures = $5, failing_since = $6, paused_until = $7,
                 state = CASE WHEN $8 IS NULL THEN state ELSE 'disabled' END,
                 disabled_reason = $8,
                 updated_at = CASE WHEN $8 IS NULL THEN updated_at
                                   ELSE greatest(updated_at, $9) END,
                 revision = CASE WHEN $8 IS NULL THEN revision ELSE revision + 1 END,
                 lease_owner = CASE WHEN $8 IS NULL THEN lease_owner END,
                 lease_expires_at = CASE WHEN $8 IS NULL THEN lease_expires_at END
             FROM leased WHERE webhooks.id = leased.id
             RETURNING webhooks.id
         ), delivered AS (
             DELETE FROM webhook_deliveries USING leased
             WHERE webhook_id = leased.id AND sequence = ANY($10)
         ), failed AS (
             INSERT INTO webhook_deliveries (webhook_id, sequence, ",
        delivery_columns!(),
        ") SELECT leased.id, failure.* FROM leased,
                  unnest($11, $12, $13, $14, $15, $16, $17, $18) AS failure
             ON CONFLICT (webhook_id, sequence) DO UPDATE
             SET event_id = EXCLUDED.event_id, state = EXCLUDED.state,
                 attempts = EXCLUDED.attempts, last_attempt_at = EXCLUDED.last_attempt_at,
                 status = EXCLUDED.status, error = EXCLUDED.error,
                 next_attempt_at = EXCLUDED.next_attempt_at
         )
         SELECT EXISTS (SELECT FROM saved),
                EXISTS (SELECT FROM webhooks WHERE id = $1 AND lease_owner = $2
                        AND epoch = $3 AND state = 'enabled')"
    ),
    types: &[
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
    ],
};

static RETRY: Sql = Sql {
    text: concat!(
        "WITH unlocked AS MATERIALIZED (
             SELECT webhooks.id FROM webhooks JOIN webhook_deliveries ON webhook_id = webhooks.id
             WHERE webhooks.id = $1 AND sequence = $2 AND event_id = $3
             FOR NO KEY UPDATE SKIP LOCKED
         ), webhook AS (
             UPDATE webhooks SET revision = revision + 1, paused_until = NULL
             FROM unlocked WHERE webhooks.id = unlocked.id
         ), retried AS (
             UPDATE webhook_deliveries SET state = 'retrying', next_attempt_at = $4
             FROM unlocked WHERE webhook_id = unlocked.id AND sequence = $2
             RETURNING ",
        delivery_columns!(),
        ")
         SELECT retried.event_id IS NOT NULL, found, ",
        delivery_columns!("retried"),
        " FROM (SELECT EXISTS (SELECT FROM webhook_deliveries
                    WHERE webhook_id = $1 AND sequence = $2 AND event_id = $3) AS found
         ) AS before LEFT JOIN retried ON true"
    ),
    types: &[Type::INT8, Type::INT8, Type::TEXT, Type::INT8],
};

/// At least one row, with the number of all and when the next one is due.
static RETRIES: Sql = Sql {
    text: concat!(
        "SELECT count, next_at, ",
        delivery_columns!("due"),
        " FROM (
             SELECT count(*), min(next_attempt_at) FILTER (
                 WHERE next_attempt_at BETWEEN $2 + 1 AND $4) AS next_at
             FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'retrying'
         ) AS retrying LEFT JOIN (
             SELECT * FROM webhook_deliveries
             WHERE webhook_id = $1 AND state = 'retrying'
             AND next_attempt_at NOT BETWEEN $2 + 1 AND $4
             ORDER BY next_attempt_at, sequence LIMIT $3
         ) AS due ON true ORDER BY due.next_attempt_at, due.sequence"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8, Type::INT8],
};

/// Concurrent replicas skip each other's rows.
static PURGE: Sql = Sql {
    text: concat!(
        "WITH old AS (
               SELECT webhook_id, sequence FROM webhook_deliveries
               WHERE state = 'failed' AND last_attempt_at < ",
        now_micros!(),
        " - $1
               ORDER BY last_attempt_at LIMIT 1000 FOR UPDATE SKIP LOCKED
           ), deleted AS (
               DELETE FROM webhook_deliveries AS delivery USING old
               WHERE (delivery.webhook_id, delivery.sequence) = (old.webhook_id, old.sequence)
               RETURNING 1
           )
           SELECT count(*) FROM deleted"
    ),
    types: &[Type::INT8],
};
