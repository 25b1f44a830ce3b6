//! Orders on PostgreSQL. Queued changes are batched into one statement, and so one
//! transaction. It decides by the rows that it locks: under READ COMMITTED, a
//! statement that locks a row re-checks the row's latest version (EvalPlanQual).
//!
//! Rows that another transaction has locked are skipped (see `lock_wait`). A change is
//! undecided if its row passes the check by the statement's snapshot, but could not be
//! locked.

use jiff::SignedDuration;
use tokio_postgres::{Row, types::Type};

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        rows::{Columns, Entity},
    },
    Postgres,
    error::MissingRow,
    idempotency::{self, microseconds},
    pool::{Pool, Sql},
    read_count,
    writer::{BatchedWrite, OUTCOME_COLUMNS, WriteResult},
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest, RecordedRejection},
    order::{Order, OrderFilter, OrderId, OrderRejection, Transition},
    page::{ListQuery, Page, Status},
    pet::PetId,
};

type OrderResult = Result<Order, OrderRejection>;

#[derive(Debug)]
pub(super) struct PlaceOrder {
    api_key_id: i64,
    pet_id: PetId,
    reserve_for: Option<SignedDuration>,
    idempotency: Option<IdempotentRequest>,
}

#[derive(Debug)]
pub(super) struct TransitionOrder {
    api_key_id: i64,
    id: OrderId,
    transition: Transition,
    idempotency: Option<IdempotentRequest>,
}

impl BatchedWrite for PlaceOrder {
    type Rejection = OrderRejection;

    fn contended_row(&self) -> Option<i64> {
        Some(self.pet_id.get())
    }

    fn rejection_of_next(rejection: Option<OrderRejection>) -> Option<OrderRejection> {
        Some(rejection.unwrap_or(OrderRejection::PetNotAvailable))
    }

    fn api_key_id(&self) -> i64 {
        self.api_key_id
    }

    fn idempotency(&self) -> Option<&IdempotentRequest> {
        self.idempotency.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let pets: Vec<_> = changes.iter().map(|c| c.pet_id.get()).collect();
        let reserve_for = |c: &&Self| c.reserve_for.map(microseconds);
        let durations: Vec<_> = changes.iter().map(reserve_for).collect();
        idempotency::run(pool, &PLACE, changes, &[&pets, &durations]).await
    }
}

impl BatchedWrite for TransitionOrder {
    type Rejection = OrderRejection;

    fn contended_row(&self) -> Option<i64> {
        Some(self.id.get())
    }

    /// It may be another transition.
    fn rejection_of_next(_: Option<OrderRejection>) -> Option<OrderRejection> {
        None
    }

    fn api_key_id(&self) -> i64 {
        self.api_key_id
    }

    fn idempotency(&self) -> Option<&IdempotentRequest> {
        self.idempotency.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let ids: Vec<_> = changes.iter().map(|c| c.id.get()).collect();
        let transitions = || changes.iter().map(|c| c.transition);
        let orders: Vec<_> = transitions().map(|t| t.order_status().as_str()).collect();
        let pets: Vec<_> = transitions().map(|t| t.pet_status().as_str()).collect();
        let rejections: Vec<_> = transitions().map(|t| t.rejection().code()).collect();
        let own = &[&ids as _, &orders as _, &pets as _, &rejections as _];
        idempotency::run(pool, &TRANSITION, changes, own).await
    }
}

impl Postgres {
    pub(in super::super) async fn order_place(
        &self,
        api_key_id: i64,
        pet_id: PetId,
        reserve_for: Option<SignedDuration>,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let change = PlaceOrder {
            api_key_id,
            pet_id,
            reserve_for,
            idempotency,
        };
        let placed = self.placements.execute(change).await?;
        self.order_result(placed, Order::into_placed).await
    }

    pub(in super::super) async fn order_transition(
        &self,
        api_key_id: i64,
        id: OrderId,
        transition: Transition,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let change = TransitionOrder {
            api_key_id,
            id,
            transition,
            idempotency,
        };
        let changed = self.transitions.execute(change).await?;
        self.order_result(changed, |order| order.into_changed_by(transition))
            .await
    }

    /// The order that was changed. For a retry it is read, and `as_recorded`
    /// restores it as it was after the first request.
    async fn order_result(
        &self,
        result: WriteResult<OrderRejection>,
        as_recorded: impl FnOnce(Order) -> Order,
    ) -> Result<Idempotent<OrderResult>, Error> {
        Ok(match result {
            WriteResult::Executed(Ok(changed)) => {
                let mut columns = Columns::skipping(&changed.row, OUTCOME_COLUMNS);
                Idempotent::Executed(Ok(Order::read(&mut columns)?))
            }
            WriteResult::Executed(Err(rejection)) => Idempotent::Executed(Err(rejection)),
            WriteResult::Replayed(Ok(id)) => {
                let order = self.order_get(OrderId::from_store(id)).await?;
                Idempotent::Replayed(Ok(as_recorded(order.ok_or(MissingRow)?)))
            }
            WriteResult::Replayed(Err(rejection)) => Idempotent::Replayed(Err(rejection)),
            WriteResult::KeyReused => Idempotent::KeyReused,
        })
    }

    pub(in super::super) async fn order_expire(&self) -> Result<u64, Error> {
        read_count(&self.background.write(&EXPIRE, &[]).await?)
    }

    pub(in super::super) async fn order_get(&self, id: OrderId) -> Result<Option<Order>, Error> {
        let rows = self.reads.read(&GET, &[&id.get()]).await?;
        rows.first().map(Order::from_row).transpose()
    }

    pub(in super::super) async fn order_list(
        &self,
        query: ListQuery<OrderFilter>,
    ) -> Result<Page<Order>, Error> {
        let select = Select::orders(&query, Dialect::Postgres);
        self.list(select, query.limit, OrderFilter::position).await
    }
}

static GET: Sql = Sql {
    text: concat!("SELECT ", order_columns!(), " FROM orders WHERE id = $1"),
    types: &[Type::INT8],
};

/// The condition for placing an order on a row of `pets`.
macro_rules! is_available {
    () => {
        "pets.status = 'available' AND pets.active_order IS NULL
         AND NOT EXISTS (SELECT FROM orders
                         WHERE orders.pet_id = pets.id
                         AND orders.status IN ('placed', 'completed'))"
    };
}

/// The condition for applying the transition of a row of `pending` to a row of
/// `orders`: that of [`Order::apply`].
macro_rules! is_applicable {
    () => {
        concat!(
            "CASE pending.order_status
             WHEN 'returned' THEN orders.status = 'completed'
                  AND EXISTS (SELECT FROM pets WHERE pets.id = orders.pet_id)
             WHEN 'cancelled' THEN orders.status = 'placed'
             ELSE orders.status = 'placed'
                  AND (orders.expires_at IS NULL OR orders.expires_at > ",
            now_micros!(),
            ") END"
        )
    };
}

/// The pet's row is locked first, so that the unique index of active orders never waits
/// for a transaction that places another order for the pet.
static PLACE: Sql = Sql {
    text: batch_sql!(
        columns: "pet_id, reserve_for", parameters: "$4, $5",
        execute: concat!(
            "available AS MATERIALIZED (
                 SELECT id FROM pets
                 WHERE id IN (SELECT pet_id FROM pending) AND ",
            is_available!(),
            " FOR NO KEY UPDATE SKIP LOCKED
             ), reserved AS (
                 UPDATE pets
                 SET status = 'pending', active_order = 'placed', changed_by = pending.api_key_id
                 FROM available JOIN pending ON pending.pet_id = available.id
                 WHERE pets.id = available.id
                 RETURNING pets.id
             ), placed AS (
                 INSERT INTO orders (",
            new_order_columns!(),
            ", changed_by) SELECT pet_id, 'placed', now, now, now + reserve_for, api_key_id
                 FROM pending JOIN reserved ON reserved.id = pending.pet_id,
                      (SELECT ",
            now_micros!(),
            " AS now) AS clock
                 ORDER BY ordinal
                 RETURNING ",
            order_columns!(),
            "), executed AS (
                 SELECT pending.ordinal, placed.*
                 FROM placed JOIN pending ON pending.pet_id = placed.pet_id
             )"
        ),
        rejection: concat!(
            "CASE WHEN NOT EXISTS (SELECT FROM pets WHERE id = pending.pet_id)
                  THEN 'no_such_pet'
                  WHEN NOT EXISTS (SELECT FROM pets WHERE id = pending.pet_id AND ",
            is_available!(),
            ") THEN 'pet_not_available' END"
        ),
        result: order_columns!("executed")
    ),
    types: batch_types![INT8_ARRAY, INT8_ARRAY],
};

/// The set-based form of [`Order::apply`]: keep the two in sync. The pet is locked with
/// its order, so that its update never waits.
static TRANSITION: Sql = Sql {
    text: batch_sql!(
        columns: "order_id, order_status, pet_status, rejection", parameters: "$4, $5, $6, $7",
        execute: concat!(
            "applicable AS MATERIALIZED (
                 SELECT orders.id, pending.*
                 FROM pending JOIN orders ON orders.id = pending.order_id
                 JOIN pets ON pets.id = orders.pet_id
                 WHERE ",
            is_applicable!(),
            " FOR NO KEY UPDATE OF orders, pets SKIP LOCKED
             ), executed AS (
                 UPDATE orders
                 SET status = applicable.order_status,
                     updated_at = greatest(orders.updated_at, ",
            now_micros!(),
            "),
                     completed_at = CASE applicable.order_status
                         WHEN 'completed' THEN greatest(orders.updated_at, ",
            now_micros!(),
            ") ELSE orders.completed_at END,
                     changed_by = applicable.api_key_id
                 FROM applicable WHERE orders.id = applicable.id
                 RETURNING applicable.ordinal, applicable.pet_status, orders.changed_by, ",
            order_columns!("orders"),
            "), changed AS (
                 UPDATE pets
                 SET status = executed.pet_status,
                     active_order = CASE executed.status WHEN 'completed' THEN 'completed' END,
                     changed_by = executed.changed_by
                 FROM executed WHERE pets.id = executed.pet_id
             )"
        ),
        rejection: concat!(
            "CASE WHEN NOT EXISTS (SELECT FROM orders WHERE id = pending.order_id)
                  THEN 'no_such_order'
                  WHEN NOT EXISTS (SELECT FROM orders WHERE id = pending.order_id AND ",
            is_applicable!(),
            ") THEN pending.rejection END"
        ),
        result: order_columns!("executed")
    ),
    types: batch_types![INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY],
};

/// Mirrors `Order::apply` with `Transition::Cancel`. Concurrent replicas skip each
/// other's orders, and an order whose pet is locked is left for the next run.
static EXPIRE: Sql = Sql {
    text: concat!(
        "WITH expired AS MATERIALIZED (
               SELECT orders.id FROM orders JOIN pets ON pets.id = orders.pet_id
               WHERE orders.status = 'placed' AND expires_at <= ",
        now_micros!(),
        " ORDER BY expires_at LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED
           ), cancelled AS (
               UPDATE orders
               SET status = 'cancelled', updated_at = greatest(updated_at, ",
        now_micros!(),
        ")
               FROM expired WHERE orders.id = expired.id AND orders.status = 'placed'
               RETURNING orders.pet_id
           ), released AS (
               UPDATE pets SET status = 'available', active_order = NULL
               FROM cancelled WHERE pets.id = cancelled.pet_id
           )
           SELECT count(*) FROM cancelled"
    ),
    types: &[],
};
