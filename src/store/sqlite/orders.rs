//! Orders on SQLite. One thread writes, so what a write reads stays true until
//! it is committed.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{Error, replay},
    Sqlite,
    idempotency::once,
    list, optional_time, time, unreadable,
    writer::Effect,
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    order::{NewOrder, Order, OrderId, OrderStatus, Rejection, Transition},
    page::{Filter, ListQuery, Page},
    pet::PetId,
};

type OrderResult = Result<Order, Rejection>;

/// How many orders lapse in one go, which writers wait for.
const BATCH: u32 = 100;

impl Sqlite {
    pub async fn order_place(
        &self,
        new: NewOrder,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let work = move |db: &Connection| place(db, new);
        self.order_once(named, work, replay::as_placed).await
    }

    pub async fn order_close(
        &self,
        id: OrderId,
        how: Transition,
        now: Timestamp,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let work = move |db: &Connection| close(db, id.get(), how, now);
        // One that was closed stays as it is.
        self.order_once(named, work, |order| order).await
    }

    /// Changes an order, unless a request of this name has done so before: then
    /// it is given `as_it_was`.
    async fn order_once(
        &self,
        named: Option<IdempotentRequest>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<OrderResult> + Send + 'static,
        as_it_was: fn(Order) -> Order,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let effect = |outcome: &Idempotent<OrderResult>| match outcome {
            Idempotent::Executed(Ok(_)) => Effect::Changes,
            _ => Effect::Unseen,
        };
        let recall = move |db: &Connection, outcome: replay::Outcome| match outcome {
            Ok(id) => get(db, id).map(as_it_was).map(Ok),
            Err(refused) => Ok(Err(refused)),
        };
        let change = move |db: &Connection| once(db, named.as_ref(), work, recorded, recall);
        self.writer.run(effect, change).await
    }

    pub async fn order_lapse(&self, now: Timestamp) -> Result<u64, Error> {
        // Of its own accord, the planner would look through all open orders.
        let there = "SELECT EXISTS (SELECT 1 FROM orders INDEXED BY orders_lapsing
                                    WHERE status = 'placed' AND expires_at <= ?1)";
        if !self.is_there(there, now.as_microsecond()).await? {
            return Ok(0);
        }
        self.writer
            .run(
                |_| Effect::Changes,
                move |db| {
                    let due: Vec<i64> = db
                        .prepare_cached(
                            "SELECT id FROM orders INDEXED BY orders_lapsing
                             WHERE status = 'placed' AND expires_at <= ?1
                             ORDER BY expires_at LIMIT ?2",
                        )?
                        .query_map(params![now.as_microsecond(), BATCH], |row| row.get(0))?
                        .collect::<Result<_, _>>()?;
                    for id in &due {
                        let _ = close(db, *id, Transition::Cancel, now)?;
                    }
                    Ok(due.len() as u64)
                },
            )
            .await
    }

    pub async fn order_get(&self, id: OrderId) -> Result<Option<Order>, Error> {
        self.readers
            .run(move |db| get(db, id.get()).optional())
            .await
    }

    pub async fn order_list(&self, query: ListQuery<OrderStatus>) -> Result<Page<Order>, Error> {
        let select = "SELECT id, pet_id, status, created_at, updated_at, expires_at FROM orders";
        self.readers
            .run(move |db| list(db, select, query, order, |order| order.id.get()))
            .await
    }
}

fn recorded(answer: &OrderResult) -> replay::Outcome {
    match answer {
        Ok(order) => Ok(order.id.get()),
        Err(refused) => Err(*refused),
    }
}

fn place(db: &Connection, new: NewOrder) -> rusqlite::Result<OrderResult> {
    let pet = new.pet_id.get();
    let held = db
        .prepare_cached(
            "UPDATE pets SET status = 'pending' WHERE id = ?1 AND status = 'available'
             AND NOT EXISTS (SELECT 1 FROM orders WHERE pet_id = ?1 AND status = 'placed')",
        )?
        .execute([pet])?;
    if held == 0 {
        let exists = db
            .prepare_cached("SELECT 1 FROM pets WHERE id = ?1")?
            .exists([pet])?;
        return Ok(Err(match exists {
            true => Rejection::PetNotAvailable,
            false => Rejection::NoSuchPet,
        }));
    }
    db.prepare_cached(
        "INSERT INTO orders (pet_id, status, created_at, updated_at, expires_at)
         VALUES (?1, 'placed', ?2, ?2, ?3)",
    )?
    .execute(params![
        pet,
        new.created_at.as_microsecond(),
        new.expires_at.map(Timestamp::as_microsecond)
    ])?;
    Ok(Ok(new.with_id(OrderId::from_store(db.last_insert_rowid()))))
}

fn close(
    db: &Connection,
    id: i64,
    how: Transition,
    now: Timestamp,
) -> rusqlite::Result<OrderResult> {
    let Some(open) = get(db, id).optional()? else {
        return Ok(Err(Rejection::NoSuchOrder));
    };
    let Some(closed) = open.closed(how, now) else {
        return Ok(Err(Rejection::OrderNotOpen));
    };
    db.prepare_cached(
        "UPDATE orders SET status = ?2, updated_at = ?3 WHERE id = ?1 AND status = 'placed'",
    )?
    .execute(params![
        id,
        closed.status.as_str(),
        closed.updated_at.as_microsecond()
    ])?;
    db.prepare_cached("UPDATE pets SET status = ?2 WHERE id = ?1")?
        .execute(params![closed.pet_id.get(), how.pet_status().as_str()])?;
    Ok(Ok(closed))
}

/// Whether an open order holds an animal.
pub fn is_held(db: &Connection, pet: PetId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM orders WHERE pet_id = ?1 AND status = 'placed'")?
        .exists([pet.get()])
}

fn get(db: &Connection, id: i64) -> rusqlite::Result<Order> {
    db.prepare_cached(
        "SELECT id, pet_id, status, created_at, updated_at, expires_at FROM orders WHERE id = ?1",
    )?
    .query_row([id], order)
}

fn order(row: &Row) -> rusqlite::Result<Order> {
    Ok(Order {
        id: OrderId::from_store(row.get(0)?),
        pet_id: PetId::from_store(row.get(1)?),
        status: OrderStatus::parse(row.get_ref(2)?.as_str()?).map_err(|e| unreadable(2, e))?,
        created_at: time(row, 3)?,
        updated_at: time(row, 4)?,
        expires_at: optional_time(row, 5)?,
    })
}
