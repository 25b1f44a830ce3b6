//! Orders on PostgreSQL.

use super::{
    super::{error::Error, table::Value},
    Postgres, now_micros,
};
use domain::order::OrderId;

statements! {
    EXPIRED(Int) = format!(
        "SELECT id FROM orders WHERE status = 'placed' AND expires_at <= {}
         ORDER BY expires_at LIMIT $1",
        now_micros()
    );
}

impl Postgres {
    /// Returns up to `limit` orders whose reservation has expired.
    pub(crate) async fn expired_orders(&self, limit: i64) -> Result<Vec<OrderId>, Error> {
        self.query(&EXPIRED, vec![Value::Int(limit)]).await
    }
}
