//! Orders on PostgreSQL. Changes that wait at the same time are one statement
//! and so one transaction, which decides by the rows that it changes: whoever
//! waits for such a row looks at it again when it is free.

use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};

use super::{
    super::{Error, replay},
    NoRow, Postgres,
    batch::{self, Change},
    idempotency::{self, changes, count},
    optional_time,
    pool::{Pool, Sql},
    time, unreadable,
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    order::{NewOrder, Order, OrderId, OrderStatus, Rejection, Transition},
    page::{Filter, ListQuery, Page},
    pet::PetId,
};

type OrderResult = Result<Order, Rejection>;

/// An order to be placed.
#[derive(Debug)]
pub struct Place {
    new: NewOrder,
    named: Option<IdempotentRequest>,
}

/// An order to be closed.
#[derive(Debug)]
pub struct Closing {
    id: OrderId,
    how: Transition,
    at: Timestamp,
    named: Option<IdempotentRequest>,
}

impl Change for Place {
    fn subject(&self) -> Option<(i64, Rejection)> {
        Some((self.new.pet_id.get(), Rejection::PetNotAvailable))
    }

    fn named(&self) -> Option<&IdempotentRequest> {
        self.named.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let pets: Vec<_> = changes.iter().map(|c| c.new.pet_id.get()).collect();
        let expiry = |c: &&Self| c.new.expires_at.map(Timestamp::as_microsecond);
        let expiries: Vec<_> = changes.iter().map(expiry).collect();
        idempotency::run(
            pool,
            &PLACE,
            changes,
            |c| c.new.created_at,
            &[&pets, &expiries],
        )
        .await
    }
}

impl Change for Closing {
    fn subject(&self) -> Option<(i64, Rejection)> {
        Some((self.id.get(), Rejection::OrderNotOpen))
    }

    fn named(&self) -> Option<&IdempotentRequest> {
        self.named.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let ids: Vec<_> = changes.iter().map(|c| c.id.get()).collect();
        let orders: Vec<_> = changes
            .iter()
            .map(|c| c.how.order_status().as_str())
            .collect();
        let pets: Vec<_> = changes
            .iter()
            .map(|c| c.how.pet_status().as_str())
            .collect();
        idempotency::run(pool, &CLOSE, changes, |c| c.at, &[&ids, &orders, &pets]).await
    }
}

impl Postgres {
    pub async fn order_place(
        &self,
        new: NewOrder,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let placed = self.places.make(Place { new, named }).await?;
        self.order_of(placed, replay::as_placed).await
    }

    pub async fn order_close(
        &self,
        id: OrderId,
        how: Transition,
        at: Timestamp,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let closing = Closing { id, how, at, named };
        let closed = self.closings.make(closing).await?;
        // One that was closed stays as it is.
        self.order_of(closed, |order| order).await
    }

    /// The order of an outcome: from its row, or for one from before as it is
    /// now, and `as_it_was` then.
    async fn order_of(
        &self,
        outcome: batch::ChangeResult,
        as_it_was: fn(Order) -> Order,
    ) -> Result<Idempotent<OrderResult>, Error> {
        Ok(match outcome {
            Idempotent::Executed((Ok(_), Some(row))) => Idempotent::Executed(Ok(order(&row, ROW)?)),
            Idempotent::Executed((Ok(_), None)) => return Err(unreadable(NoRow)),
            Idempotent::Executed((Err(refused), _)) => Idempotent::Executed(Err(refused)),
            Idempotent::Replayed((Ok(id), _)) => {
                let found = self.order_get(OrderId::from_store(id)).await?;
                let found = found.ok_or_else(|| unreadable(NoRow))?;
                Idempotent::Replayed(Ok(as_it_was(found)))
            }
            Idempotent::Replayed((Err(refused), _)) => Idempotent::Replayed(Err(refused)),
            Idempotent::KeyReused => Idempotent::KeyReused,
        })
    }

    pub async fn order_lapse(&self, now: Timestamp) -> Result<u64, Error> {
        let now = now.as_microsecond();
        count(&self.chores.write(&LAPSE, &[&now]).await?)
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

/// The column with which an order begins in the rows of a change: after those
/// that every change has, and its place.
const ROW: usize = 4;

/// Animals are locked in one order, so that no two statements wait for each
/// other's.
static PLACE: Sql = Sql {
    text: changes!(
        "pet_id, expires_at" from "$5, $6",
        "free AS MATERIALIZED (
             SELECT id FROM pets
             WHERE id IN (SELECT pet_id FROM fresh) AND status = 'available' AND NOT held
             AND NOT EXISTS (SELECT FROM orders
                             WHERE orders.pet_id = pets.id AND orders.status = 'placed')
             ORDER BY id FOR UPDATE
         ), held AS (
             UPDATE pets SET status = 'pending', held = true
             FROM free WHERE pets.id = free.id
             RETURNING pets.id
         ), placed AS (
             INSERT INTO orders (pet_id, status, created_at, updated_at, expires_at)
             SELECT pet_id, 'placed', at, at, expires_at
             FROM fresh JOIN held ON held.id = fresh.pet_id ORDER BY place
             RETURNING id, pet_id, status, created_at, updated_at, expires_at
         ), done AS (
             SELECT fresh.place, placed.*
             FROM placed JOIN fresh ON fresh.pet_id = placed.pet_id
         )",
        "CASE WHEN EXISTS (SELECT FROM pets WHERE id = fresh.pet_id) THEN 'pet_not_available'
              ELSE 'no_such_pet' END"
    ),
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// The same with orders. An animal has one open order, so who has the order
/// waits for nobody's animal.
static CLOSE: Sql = Sql {
    text: changes!(
        "order_id, order_status, pet_status" from "$5, $6, $7",
        "open AS MATERIALIZED (
             SELECT orders.id, fresh.*
             FROM orders JOIN fresh ON fresh.order_id = orders.id
             WHERE orders.status = 'placed'
             AND (fresh.order_status = 'cancelled' OR orders.expires_at IS NULL
                  OR orders.expires_at > fresh.at)
             ORDER BY orders.id FOR UPDATE OF orders
         ), done AS (
             UPDATE orders
             SET status = open.order_status, updated_at = greatest(orders.updated_at, open.at)
             FROM open WHERE orders.id = open.id
             RETURNING open.place, orders.id, orders.pet_id, orders.status, orders.created_at,
                       orders.updated_at, orders.expires_at, open.pet_status
         ), freed AS (
             UPDATE pets SET status = done.pet_status, held = false
             FROM done WHERE pets.id = done.pet_id
         )",
        "CASE WHEN EXISTS (SELECT FROM orders WHERE id = fresh.order_id) THEN 'order_not_open'
              ELSE 'no_such_order' END"
    ),
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

/// Replicas that do this at once pass over each other's orders.
static LAPSE: Sql = Sql {
    text: "WITH due AS (
               SELECT id FROM orders WHERE status = 'placed' AND expires_at <= $1
               ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED
           ), done AS (
               UPDATE orders SET status = 'cancelled', updated_at = greatest(updated_at, $1)
               FROM due WHERE orders.id = due.id AND orders.status = 'placed'
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
