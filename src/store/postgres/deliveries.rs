//! Deliveries on PostgreSQL. Each webhook is leased by one replica, which delivers to it.

use jiff::{SignedDuration, Timestamp};

use super::{
    super::{
        WEBHOOK_LEASE,
        error::{Error, MissingRow},
        table::{Columns, Field, Record, Row as _, Value, columns_of},
    },
    Postgres, now_micros,
    pool::Parameters,
    read_count,
};
use crate::webhook::{
    WebhookId,
    delivery::{Delivery, LeasedWebhook, Retries},
    schedule::latest_attempt,
};

/// A lease is renewed when less than this is left of it.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_secs(15);

statements! {
    /// Skips what another replica is leasing. Returns also what `$1` has leased before and
    /// need not renew yet, or cannot because its row is locked. At least one row, with the
    /// time.
    LEASE(Text, Int, Int) = format!(
        "WITH clock AS MATERIALIZED (SELECT {} AS now), free AS MATERIALIZED (
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
         ) AS mine ON true ORDER BY id",
        now_micros()
    );
    /// A lease whose row is locked expires by itself.
    RELEASE(Text) = "WITH leased AS MATERIALIZED (
             SELECT id FROM webhooks WHERE lease_owner = $1 FOR NO KEY UPDATE SKIP LOCKED
         )
         UPDATE webhooks SET lease_owner = NULL, lease_expires_at = NULL
         FROM leased WHERE webhooks.id = leased.id";
    /// At least one row, with the number of all and when the next one is due.
    RETRIES(Int, Int, Int, Int) = format!(
        "SELECT count, next_at, {}
         FROM (
             SELECT count(*), min(next_attempt_at) FILTER (
                 WHERE next_attempt_at BETWEEN $2 + 1 AND $4) AS next_at
             FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'retrying'
         ) AS retrying LEFT JOIN (
             SELECT * FROM webhook_deliveries
             WHERE webhook_id = $1 AND state = 'retrying'
             AND next_attempt_at NOT BETWEEN $2 + 1 AND $4
             ORDER BY next_attempt_at, sequence LIMIT $3
         ) AS due ON true ORDER BY due.next_attempt_at, due.sequence",
        columns_of::<Delivery>("due")
    );
    /// Concurrent replicas skip each other's rows.
    PURGE(Int) = format!(
        "WITH old AS (
             SELECT webhook_id, sequence FROM webhook_deliveries
             WHERE state = 'failed' AND last_attempt_at < {} - $1
             ORDER BY last_attempt_at LIMIT 1000 FOR UPDATE SKIP LOCKED
         ), deleted AS (
             DELETE FROM webhook_deliveries AS delivery USING old
             WHERE (delivery.webhook_id, delivery.sequence) = (old.webhook_id, old.sequence)
             RETURNING 1
         )
         SELECT count(*) FROM deleted",
        now_micros()
    );
}

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
        let rows = self.background.write(&LEASE, parameters).await?;
        let (server,) = Record::from_row(rows.first().ok_or(MissingRow)?)?;
        self.clock.observe(sent, server, Timestamp::now());
        let mut leased = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::of(row);
            columns.next::<i64>()?;
            if let Some(id) = columns.next()? {
                leased.push(LeasedWebhook {
                    id,
                    revision: columns.next()?,
                    epoch: columns.next()?,
                });
            }
        }
        Ok(leased)
    }

    pub(in super::super) async fn webhook_release(&self, owner: &str) -> Result<(), Error> {
        self.background.write(&RELEASE, &[&owner]).await?;
        Ok(())
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
        let (count, next_at) = Record::from_row(rows.first().ok_or(MissingRow)?)?;
        let mut due = Vec::with_capacity(rows.len());
        for row in &rows {
            if row.value(2, String::KIND)? != Value::Null {
                let mut columns = Columns::of(row);
                let _: (i64, Option<Timestamp>) = Record::read(&mut columns)?;
                due.push(Delivery::read(&mut columns)?);
            }
        }
        let count: i64 = count;
        Ok(Retries {
            due,
            count: count as u64,
            next_at,
        })
    }

    pub(in super::super) async fn delivery_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let retention = self.max_age(retention);
        read_count(&self.background.write(&PURGE, &[&retention]).await?)
    }
}
