//! Orders on PostgreSQL.

use super::{
    super::{error::Error, table::Record},
    Postgres, now_micros,
};
use crate::order::OrderId;

statements! {
    EXPIRED(Int) = format!(
        "SELECT id FROM orders WHERE status = 'placed' AND expires_at <= {}
         ORDER BY expires_at LIMIT $1",
        now_micros()
    );
}

impl Postgres {
    /// Up to `limit` orders whose reservation has expired.
    pub(in super::super) async fn expired_orders(&self, limit: i64) -> Result<Vec<OrderId>, Error> {
        let rows = self.background.read(&EXPIRED, &[&limit]).await?;
        let ids = rows.iter().map(|row| Record::from_row(row).map(|(id,)| id));
        ids.collect()
    }
}
