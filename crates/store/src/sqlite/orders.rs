//! Orders on SQLite.

use super::{
    super::{error::Error, table::Value, working_set::Times},
    Sqlite,
};
use domain::order::OrderId;

statements! {
    /// Without INDEXED BY, the planner would scan all open orders.
    EXPIRED(Int, Int, Int, Int) = "SELECT id FROM orders INDEXED BY orders_expires_at_idx
         WHERE status = 'placed' AND expires_at <= $1 AND (id > $2 OR expires_at <= $3)
         ORDER BY expires_at LIMIT $4";
}

impl Sqlite {
    /// Returns up to `limit` orders whose reservation has expired.
    pub(crate) async fn expired_orders(&self, limit: i64) -> Result<Vec<OrderId>, Error> {
        let Times {
            now,
            trusted,
            last_earlier_order,
        } = self.clock.times();
        let now = now.as_microsecond();
        let trusted = trusted.as_microsecond();
        let parameters = [now, last_earlier_order, trusted, limit].map(Value::Int);
        self.query(&EXPIRED, parameters.into()).await
    }
}
