//! Orders on SQLite. There is one writer, so what a write has read cannot change
//! before it commits.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
    },
    Sqlite,
    events::{Origin, log_order, log_pet_of_order},
    idempotency::execute_once,
    list, read_row,
    writer::Effect,
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    order::{NewOrder, Order, OrderFilter, OrderId, OrderRejection, Transition},
    page::{ListQuery, Page, Status},
    pet::PetId,
};

type OrderResult = Result<Order, OrderRejection>;

/// Orders that expire in one transaction. Other writes wait for it.
const EXPIRE_BATCH_SIZE: u32 = 100;

const GET: &str = concat!("SELECT ", order_columns!(), " FROM orders WHERE id = ?1");

const RESERVE_PET: &str =
    "UPDATE OR ROLLBACK pets SET status = 'pending' WHERE id = ?1 AND status = 'available'
     AND NOT EXISTS (SELECT 1 FROM orders
                     WHERE pet_id = ?1 AND status IN ('placed', 'completed'))";

const INSERT: &str = concat!(
    "INSERT OR ROLLBACK INTO orders (",
    new_order_columns!(),
    ") VALUES (?1, 'placed', ?2, ?2, ?3)"
);

const UPDATE: &str =
    "UPDATE OR ROLLBACK orders SET status = ?2, updated_at = ?3, completed_at = ?4 WHERE id = ?1";

// Without INDEXED BY, the planner would scan all open orders.
const EXPIRED: &str = "SELECT id FROM orders INDEXED BY orders_expires_at_idx
     WHERE status = 'placed' AND expires_at <= ?1 AND (id > ?2 OR expires_at <= ?3)
     ORDER BY expires_at LIMIT ?4";

/// The times by which reservations expire.
#[derive(Debug, Clone, Copy)]
struct ExpiryTimes {
    now: Timestamp,
    /// For orders that earlier processes have stored.
    certain: Timestamp,
    last_earlier_order: i64,
}

impl ExpiryTimes {
    fn of(self, order: i64) -> Timestamp {
        if order > self.last_earlier_order {
            self.now
        } else {
            self.certain
        }
    }

    /// Up to `limit` orders that have expired.
    fn expired(self, db: &Connection, limit: u32) -> rusqlite::Result<Vec<i64>> {
        let parameters = params![
            self.now.as_microsecond(),
            self.last_earlier_order,
            self.certain.as_microsecond(),
            limit
        ];
        db.prepare_cached(EXPIRED)?
            .query_map(parameters, |row| row.get(0))?
            .collect()
    }
}

/// The highest id of an order; 0 if there is none.
pub(super) fn last_id(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT coalesce(max(id), 0) FROM orders", [], |row| {
        row.get(0)
    })
}

impl Sqlite {
    pub(in super::super) async fn order_place(
        &self,
        api_key_id: i64,
        pet_id: PetId,
        reserve_for: Option<SignedDuration>,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let origin = self.origin(api_key_id);
        let new = NewOrder::new(pet_id, origin.at, reserve_for);
        let execute = move |db: &Connection| place(db, origin, new);
        self.order_change(origin.at, idempotency, execute, Order::into_placed)
            .await
    }

    pub(in super::super) async fn order_transition(
        &self,
        api_key_id: i64,
        id: OrderId,
        transition: Transition,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let origin = self.origin(api_key_id);
        let times = self.expiry_times(origin.at);
        let execute = move |db: &Connection| apply(db, origin, times, id.get(), transition);
        let as_recorded = move |order: Order| order.into_changed_by(transition);
        self.order_change(origin.at, idempotency, execute, as_recorded)
            .await
    }

    /// Changes an order once. For a retry, `as_recorded` restores the order as it
    /// was after the first request.
    async fn order_change(
        &self,
        at: Timestamp,
        idempotency: Option<IdempotentRequest>,
        execute: impl FnOnce(&Connection) -> rusqlite::Result<OrderResult> + Send + 'static,
        as_recorded: impl FnOnce(Order) -> Order + Send + 'static,
    ) -> Result<Idempotent<OrderResult>, Error> {
        let effect = |result: &Idempotent<OrderResult>| match result {
            Idempotent::Executed(Ok(_)) => Effect::Update,
            _ => Effect::None,
        };
        let change = move |db: &Connection| {
            let request = idempotency.as_ref();
            let replay = |db: &Connection, id| get(db, id).map(as_recorded).map(Ok);
            execute_once(db, request, at, execute, |order| order.id.get(), replay)
        };
        self.writer.run(effect, change).await
    }

    pub(in super::super) async fn order_expire(&self) -> Result<u64, Error> {
        let times = self.expiry_times(self.clock.now());
        let any = self.readers.run(move |db| times.expired(db, 1)).await?;
        if any.is_empty() {
            return Ok(0);
        }
        let expire = move |db: &Connection| {
            let expired = times.expired(db, EXPIRE_BATCH_SIZE)?;
            let origin = Origin {
                api_key_id: None,
                at: times.now,
            };
            for id in &expired {
                let _ = apply(db, origin, times, *id, Transition::Cancel)?;
            }
            Ok(expired.len() as u64)
        };
        self.writer.run(|_| Effect::Update, expire).await
    }

    fn expiry_times(&self, now: Timestamp) -> ExpiryTimes {
        ExpiryTimes {
            now,
            certain: self.certain_time(),
            last_earlier_order: self.last_earlier_order,
        }
    }

    pub(in super::super) async fn order_get(&self, id: OrderId) -> Result<Option<Order>, Error> {
        self.readers
            .run(move |db| get(db, id.get()).optional())
            .await
    }

    pub(in super::super) async fn order_list(
        &self,
        query: ListQuery<OrderFilter>,
    ) -> Result<Page<Order>, Error> {
        let read = move |db: &Connection| {
            let select = Select::orders(&query, Dialect::Sqlite);
            let status = query.filter.status;
            let matches = |order: &Order| status.is_none_or(|status| order.status == status);
            list(db, &select, &query, matches, OrderFilter::position)
        };
        self.readers.run(read).await
    }
}

fn place(db: &Connection, origin: Origin, new: NewOrder) -> rusqlite::Result<OrderResult> {
    let pet = new.pet_id.get();
    let reserved = db.prepare_cached(RESERVE_PET)?.execute([pet])?;
    if reserved == 0 {
        let exists = db
            .prepare_cached("SELECT 1 FROM pets WHERE id = ?1")?
            .exists([pet])?;
        return Ok(Err(match exists {
            true => OrderRejection::PetNotAvailable,
            false => OrderRejection::NoSuchPet,
        }));
    }
    db.prepare_cached(INSERT)?.execute(params![
        pet,
        new.created_at.as_microsecond(),
        new.expires_at.map(Timestamp::as_microsecond)
    ])?;
    let order = new.with_id(OrderId::from_store(db.last_insert_rowid()));
    log_order(db, origin, &order)?;
    log_pet_of_order(db, origin, &order)?;
    Ok(Ok(order))
}

fn apply(
    db: &Connection,
    origin: Origin,
    times: ExpiryTimes,
    id: i64,
    transition: Transition,
) -> rusqlite::Result<OrderResult> {
    let Some(before) = get(db, id).optional()? else {
        return Ok(Err(OrderRejection::NoSuchOrder));
    };
    let after = match before.apply(transition, origin.at, times.of(id)) {
        Ok(after) => after,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let pet_status = transition.pet_status().as_str();
    let updated = db
        .prepare_cached("UPDATE OR ROLLBACK pets SET status = ?2 WHERE id = ?1")?
        .execute(params![after.pet_id.get(), pet_status])?;
    // The pet may have been deleted after it was sold.
    if updated == 0 && transition == Transition::Return {
        return Ok(Err(transition.rejection()));
    }
    db.prepare_cached(UPDATE)?.execute(params![
        id,
        after.status.as_str(),
        after.updated_at.as_microsecond(),
        after.completed_at.map(Timestamp::as_microsecond)
    ])?;
    log_order(db, origin, &after)?;
    log_pet_of_order(db, origin, &after)?;
    Ok(Ok(after))
}

fn get(db: &Connection, id: i64) -> rusqlite::Result<Order> {
    db.prepare_cached(GET)?.query_row([id], read_row)
}
