//! Leases of webhooks on PostgreSQL: each is leased by one replica, which delivers to it.

use jiff::Timestamp;

use super::{
    super::{
        RENEW_BEFORE, WEBHOOK_LEASE,
        error::Error,
        table::{OuterJoin, Record},
    },
    Postgres, now_micros,
    pool::Parameters,
    read_first,
};
use domain::webhook::{WebhookId, delivery::LeasedWebhook};

statements! {
    /// Skips webhooks that another replica is leasing. Also returns those that `$1` has leased
    /// before and need not renew yet, or cannot renew because the row is locked. Returns at
    /// least one row, with the time.
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
}

impl Postgres {
    pub(crate) async fn webhook_lease(&self, owner: &str) -> Result<Vec<LeasedWebhook>, Error> {
        let lease = WEBHOOK_LEASE.as_micros() as i64;
        let renew = RENEW_BEFORE.as_micros() as i64;
        let parameters: Parameters = &[&owner, &lease, &renew];
        let sent = Timestamp::now();
        let rows = self.background.write(&LEASE, parameters).await?;
        let server = read_first(&rows)?;
        self.clock.observe(sent, server, Timestamp::now());
        let leased = rows.iter().filter_map(|row| {
            let read = <(i64, OuterJoin<LeasedWebhook, WebhookId>)>::from_row(row);
            read.map(|(_, leased)| leased.0).transpose()
        });
        leased.collect()
    }

    pub(crate) async fn webhook_release(&self, owner: &str) -> Result<(), Error> {
        self.background.write(&RELEASE, &[&owner]).await?;
        Ok(())
    }
}
