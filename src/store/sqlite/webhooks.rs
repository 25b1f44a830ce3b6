//! Deliveries of webhooks on SQLite. The only process that writes delivers to all webhooks, so
//! there are no leases.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, params};

use super::{
    super::{error::Error, table::columns},
    Sqlite, read_row,
};
use crate::webhook::{
    WebhookId,
    delivery::{Delivery, LeasedWebhook, Retries},
    schedule::latest_attempt,
};

/// Deliveries deleted in one transaction. Other writes wait for it.
const PURGE_BATCH_SIZE: u32 = 500;

statements! {
    LEASE() = "SELECT id, revision, epoch FROM webhooks WHERE state = 'enabled' ORDER BY id";
    DUE(Int, Int, Int, Int) = format!(
        "SELECT {} FROM webhook_deliveries
         WHERE webhook_id = $1 AND state = 'retrying' AND next_attempt_at NOT BETWEEN $2 + 1 AND $3
         ORDER BY next_attempt_at, sequence LIMIT $4",
        columns::<Delivery>()
    );
    NEXT(Int, Int, Int) = "SELECT count(*), min(next_attempt_at) FILTER (
             WHERE next_attempt_at BETWEEN ?2 + 1 AND ?3)
         FROM webhook_deliveries WHERE webhook_id = ?1 AND state = 'retrying'";
    ANY_FAILED_BEFORE(Int) = "SELECT EXISTS (SELECT 1 FROM webhook_deliveries
         WHERE state = 'failed' AND last_attempt_at < $1)";
    PURGE(Int, Int) = "DELETE FROM webhook_deliveries WHERE (webhook_id, sequence) IN (
         SELECT webhook_id, sequence FROM webhook_deliveries
         WHERE state = 'failed' AND last_attempt_at < $1 ORDER BY last_attempt_at LIMIT $2)";
}

impl Sqlite {
    pub(in super::super) async fn webhook_lease(&self) -> Result<Vec<LeasedWebhook>, Error> {
        let read = |db: &Connection| {
            let mut select = db.prepare_cached(LEASE.text())?;
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
            let mut select = snapshot.prepare_cached(DUE.text())?;
            let due = select.query_map([id, now, latest, limit], read_row)?;
            let due = due.collect::<Result<_, _>>()?;
            let mut select = snapshot.prepare_cached(NEXT.text())?;
            let (count, next_at) = select.query_row([id, now, latest], read_row::<(i64, _)>)?;
            Ok(Retries {
                due,
                count: count as u64,
                next_at,
            })
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn delivery_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let before = self.retained_since(retention).as_microsecond();
        if !self.exists(&ANY_FAILED_BEFORE, before).await? {
            return Ok(0);
        }
        let purge = move |db: &Connection| {
            let purged = db
                .prepare_cached(PURGE.text())?
                .execute(params![before, PURGE_BATCH_SIZE])?;
            Ok(purged as u64)
        };
        self.writer.run(purge).await
    }
}
