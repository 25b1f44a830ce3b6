//! Orders on SQLite.

use rusqlite::{Connection, params};

use super::{
    super::{error::Error, working_set::Times},
    Sqlite,
};
use crate::order::OrderId;

statements! {
    LAST_ID() = "SELECT coalesce(max(id), 0) FROM orders";
    /// Without INDEXED BY, the planner would scan all open orders.
    EXPIRED(Int, Int, Int, Int) = "SELECT id FROM orders INDEXED BY orders_expires_at_idx
         WHERE status = 'placed' AND expires_at <= $1 AND (id > $2 OR expires_at <= $3)
         ORDER BY expires_at LIMIT $4";
}

/// The highest id of an order; 0 if there is none.
pub(super) fn last_id(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row(LAST_ID.text(), [], |row| row.get(0))
}

impl Sqlite {
    /// Up to `limit` orders whose reservation has expired.
    pub(in super::super) async fn expired_orders(&self, limit: i64) -> Result<Vec<OrderId>, Error> {
        let Times {
            now,
            certain,
            last_earlier_order,
        } = self.clock.times();
        let read = move |db: &Connection| {
            let mut select = db.prepare_cached(EXPIRED.text())?;
            let (now, certain) = (now.as_microsecond(), certain.as_microsecond());
            let parameters = params![now, last_earlier_order, certain, limit];
            let ids = select.query_map(parameters, |row| row.get(0).map(OrderId::from_store))?;
            ids.collect()
        };
        self.readers.run(read).await
    }
}
