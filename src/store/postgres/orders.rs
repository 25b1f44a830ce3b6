//! Orders on PostgreSQL. Each change is one statement and so one transaction,
//! which decides by the rows that it changes: whoever waits for such a row looks
//! at it again when it is free.

use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};

use super::{
    super::{Error, record},
    NoRow, Postgres,
    named::{count, once},
    optional_time,
    pool::Sql,
    time, unreadable,
};
use crate::{
    named::{Named, Once},
    order::{Close, NewOrder, Order, OrderId, OrderStatus, Refused},
    page::{Filter, ListQuery, Page},
    pet::PetId,
};

type Answer = Result<Order, Refused>;

impl Postgres {
    pub async fn order_place(
        &self,
        new: NewOrder,
        named: Option<Named>,
    ) -> Result<Once<Answer>, Error> {
        let expires = new.expires_at.map(Timestamp::as_microsecond);
        let placed = self
            .once(
                &PLACE,
                named.as_ref(),
                new.created_at,
                &[&new.pet_id.get(), &expires],
            )
            .await?;
        self.answer(placed, record::as_placed).await
    }

    pub async fn order_close(
        &self,
        id: OrderId,
        how: Close,
        now: Timestamp,
        named: Option<Named>,
    ) -> Result<Once<Answer>, Error> {
        let (order, pet) = (how.order_status().as_str(), how.pet_status().as_str());
        let closed = self
            .once(&CLOSE, named.as_ref(), now, &[&id.get(), &order, &pet])
            .await?;
        // One that was closed stays as it is.
        self.answer(closed, |order| order).await
    }

    /// The order of an outcome: from its row, or for one from before as it is
    /// now, and `as_it_was` then.
    async fn answer(
        &self,
        outcome: Once<(record::Outcome, Row)>,
        as_it_was: fn(Order) -> Order,
    ) -> Result<Once<Answer>, Error> {
        Ok(match outcome {
            Once::Now((Ok(_), row)) => Once::Now(Ok(order(&row, 3)?)),
            Once::Now((Err(refused), _)) => Once::Now(Err(refused)),
            Once::Before((Ok(id), _)) => {
                let found = self.order_get(OrderId::from_store(id)).await?;
                let found = found.ok_or_else(|| unreadable(NoRow))?;
                Once::Before(Ok(as_it_was(found)))
            }
            Once::Before((Err(refused), _)) => Once::Before(Err(refused)),
            Once::OtherRequest => Once::OtherRequest,
        })
    }

    pub async fn order_lapse(&self, now: Timestamp) -> Result<u64, Error> {
        let rows = self.chores.write(&LAPSE, &[&now.as_microsecond()]).await?;
        count(&rows)
    }

    pub async fn order_get(&self, id: OrderId) -> Result<Option<Order>, Error> {
        let rows = self.pool.read(&ORDER, &[&id.get()]).await?;
        rows.first().map(|row| order(row, 0)).transpose()
    }

    pub async fn order_list(&self, query: ListQuery<OrderStatus>) -> Result<Page<Order>, Error> {
        self.list(&ORDERS, query, |row| order(row, 0), |order| order.id.get())
            .await
    }
}

static ORDER: Sql = Sql {
    text: "SELECT id, pet_id, status, created_at, updated_at, expires_at FROM orders
           WHERE id = $1",
    types: &[Type::INT8],
};

/// Without a status, and with one.
static ORDERS: [Sql; 2] = [
    Sql {
        text: "SELECT id, pet_id, status, created_at, updated_at, expires_at FROM orders
               WHERE id > $1 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8],
    },
    Sql {
        text: "SELECT id, pet_id, status, created_at, updated_at, expires_at FROM orders
               WHERE id > $1 AND status = $3 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8, Type::TEXT],
    },
];

static PLACE: Sql = Sql {
    text: once!(
        "held AS (
             UPDATE pets SET status = 'pending', held = true
             WHERE id = $5 AND status = 'available' AND NOT held
             AND NOT EXISTS (SELECT FROM orders WHERE pet_id = $5 AND status = 'placed')
             AND NOT EXISTS (SELECT FROM known)
             RETURNING id
         ), done AS (
             INSERT INTO orders (pet_id, status, created_at, updated_at, expires_at)
             SELECT id, 'placed', $4, $4, $6 FROM held
             RETURNING id, pet_id, status, created_at, updated_at, expires_at
         )",
        "CASE WHEN EXISTS (SELECT FROM pets WHERE id = $5) THEN 'pet_not_available'
              ELSE 'no_such_pet' END"
    ),
    types: &[
        Type::INT8,
        Type::TEXT,
        Type::BYTEA,
        Type::INT8,
        Type::INT8,
        Type::INT8,
    ],
};

static CLOSE: Sql = Sql {
    text: once!(
        "done AS (
             UPDATE orders SET status = $6, updated_at = greatest(updated_at, $4)
             WHERE id = $5 AND status = 'placed'
             AND ($6 = 'cancelled' OR expires_at IS NULL OR expires_at > $4)
             AND NOT EXISTS (SELECT FROM known)
             RETURNING id, pet_id, status, created_at, updated_at, expires_at
         ), freed AS (
             UPDATE pets SET status = $7, held = false FROM done WHERE pets.id = done.pet_id
         )",
        "CASE WHEN EXISTS (SELECT FROM orders WHERE id = $5) THEN 'order_not_open'
              ELSE 'no_such_order' END"
    ),
    types: &[
        Type::INT8,
        Type::TEXT,
        Type::BYTEA,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
    ],
};

/// Replicas that do this at once pass over each other's orders.
static LAPSE: Sql = Sql {
    text: "WITH due AS (
               SELECT id FROM orders WHERE status = 'placed' AND expires_at <= $1
               ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED
           ), done AS (
               UPDATE orders SET status = 'cancelled', updated_at = greatest(updated_at, $1)
               FROM due WHERE orders.id = due.id
               RETURNING orders.pet_id
           ), freed AS (
               UPDATE pets SET status = 'available', held = false
               FROM done WHERE pets.id = done.pet_id
           )
           SELECT count(*) FROM done",
    types: &[Type::INT8],
};

/// Reads an order whose columns begin with that one.
fn order(row: &Row, first: usize) -> Result<Order, Error> {
    Ok(Order {
        id: OrderId::from_store(row.get(first)),
        pet_id: PetId::from_store(row.get(first + 1)),
        status: OrderStatus::parse(row.get(first + 2)).map_err(unreadable)?,
        created_at: time(row.get(first + 3))?,
        updated_at: time(row.get(first + 4))?,
        expires_at: optional_time(row.get(first + 5))?,
    })
}
