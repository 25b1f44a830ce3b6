//! A year of random changes, which are made at once and spread over the year afterwards.

use std::collections::BTreeMap;

use domain::{
    event::{Event, EventId},
    idempotency::Idempotent,
    json::{FromObject, Object},
    order::{OrderId, Transition},
    page::Sort,
    pet::{
        PetId,
        batch::{BatchChange, BatchId, BatchOutcome, ChangeOutcome, PetBatch},
    },
};
use jiff::{
    Span, Timestamp,
    civil::{Date, date},
    tz::TimeZone,
};
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use support::{Backend, random};

use super::ZONES;
use crate::fixture::TestStore;

/// The days of the year, which has a leap day.
const FIRST: Date = date(2024, 1, 1);
const DAYS: i64 = 366;

/// The number of rows that a statement changes.
const CHUNK: usize = 2000;

pub fn parse<T: FromObject>(json: &Value) -> T {
    let text = json.to_string();
    let object = Object::parse(text.as_bytes()).unwrap();
    T::from_object(&object).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

pub struct Year {
    pub db: TestStore,
    pub random: StdRng,
    pets: Vec<i64>,
    orders: Vec<i64>,
    /// The buyers that orders have now: events do not have them.
    pub buyers: BTreeMap<i64, Value>,
    batches: usize,
}

impl Year {
    pub fn new(db: TestStore) -> Self {
        Self {
            db,
            random: random("a year of sales"),
            pets: Vec::new(),
            orders: Vec::new(),
            buyers: BTreeMap::new(),
            batches: 0,
        }
    }

    /// Makes a random change, unless it is rejected.
    pub async fn change(&mut self) {
        match self.random.random_range(0..100) {
            0..22 => {
                let pet = self.new_pet();
                self.create(&pet).await;
            }
            22..48 => self.place().await,
            48..72 => self.transition(Transition::Complete).await,
            72..75 => self.transition(Transition::Cancel).await,
            75..82 => self.transition(Transition::Return).await,
            82..88 => self.correct().await,
            88..91 => self.erase_buyer().await,
            91..94 => self.update_pet().await,
            94..96 => {
                if let Some(id) = self.some_pet() {
                    let _ = self.db.store.pet_delete(1, id, None).await.unwrap();
                }
            }
            96..98 => self.delete_batch().await,
            _ => self.create_batch().await,
        }
    }

    fn some_pet(&mut self) -> Option<PetId> {
        self.pets
            .choose(&mut self.random)
            .copied()
            .map(PetId::from_store)
    }

    fn some_order(&mut self) -> Option<OrderId> {
        let orders = self.orders.choose(&mut self.random);
        orders.copied().map(OrderId::from_store)
    }

    fn some_day(&mut self) -> Date {
        FIRST + Span::new().days(self.random.random_range(0..DAYS))
    }

    fn price(&mut self) -> Option<Value> {
        let currency = *["EUR", "USD", "JPY"].choose(&mut self.random)?;
        let amount = self.random.random_range(0..100_000);
        let price = json!({"amount": amount, "currency": currency});
        self.random.random_bool(0.7).then_some(price)
    }

    fn new_pet(&mut self) -> Value {
        let mut pet = json!({
            "name": format!("Pet {}", self.random.random_range(0..1000)),
            "categoryId": self.random.random_range(-1..4),
            "status": "available",
        });
        if let Some(price) = self.price() {
            pet["price"] = price;
        }
        if self.random.random_bool(0.9) {
            // Many on one day, as a delivery brings them.
            let day = if self.random.random_bool(0.3) {
                date(2024, 2, 29)
            } else {
                self.some_day()
            };
            pet["acquiredOn"] = json!(day);
            pet["source"] = json!({"name": "Farm", "licence": "12-A"});
            pet["sex"] = json!("female");
            pet["notes"] = json!("not in the register");
        }
        pet
    }

    async fn create(&mut self, pet: &Value) {
        let created = self.db.store.pet_create(1, parse(pet), None).await.unwrap();
        if let Idempotent::Executed(Ok(pet)) = created {
            self.pets.push(pet.id.get());
        }
    }

    async fn place(&mut self) {
        let Some(pet) = self.some_pet() else { return };
        let mut order = json!({"petId": pet});
        if let Some(price) = self.price() {
            order["price"] = price;
        }
        let buyer = json!({"name": format!("Buyer of {}", pet.get()), "address": "Here"});
        let has_buyer = self.random.random_bool(0.7);
        if has_buyer {
            order["buyer"] = buyer.clone();
            order["reference"] = json!(format!("R-{}", pet.get()));
        }
        let placed = self
            .db
            .store
            .order_place(1, parse(&order), None, None)
            .await;
        if let Idempotent::Executed(Ok(order)) = placed.unwrap() {
            let id = order.id.get();
            self.orders.push(id);
            self.buyers.extend(has_buyer.then_some((id, buyer)));
        }
    }

    async fn transition(&mut self, transition: Transition) {
        let Some(id) = self.some_order() else { return };
        let key = self.random.random_range(1..5);
        let store = &self.db.store;
        let _ = store
            .order_transition(key, id, transition, None)
            .await
            .unwrap();
    }

    /// Corrects the price of an order, or removes it.
    async fn correct(&mut self) {
        let Some(id) = self.some_order() else { return };
        let change = json!({"price": self.price(), "reference": "corrected"});
        let store = &self.db.store;
        let _ = store
            .order_update(1, id, parse(&change), None)
            .await
            .unwrap();
    }

    async fn erase_buyer(&mut self) {
        let Some(id) = self.some_order() else { return };
        let change = parse(&json!({"buyer": null}));
        let erased = self.db.store.order_update(1, id, change, None).await;
        erased.unwrap().unwrap();
        self.buyers.remove(&id.get());
    }

    async fn update_pet(&mut self) {
        let Some(id) = self.some_pet() else { return };
        let day = self.some_day();
        let category = self.random.random_range(0..4);
        let change = json!({"categoryId": category, "acquiredOn": day});
        let _ = self
            .db
            .store
            .pet_update(1, id, parse(&change), None)
            .await
            .unwrap();
    }

    async fn delete_batch(&mut self) {
        let chosen: Vec<_> = (0..3).filter_map(|_| self.some_pet()).collect();
        let deletes = chosen
            .into_iter()
            .map(|id| BatchChange::Delete { id, if_match: None });
        self.batch(deletes.collect()).await;
    }

    async fn create_batch(&mut self) {
        let pets: Vec<_> = (0..3).map(|_| parse(&self.new_pet())).collect();
        let created = self
            .batch(pets.into_iter().map(BatchChange::Create).collect())
            .await;
        for outcome in created.changes {
            if let ChangeOutcome::Created(id) = outcome {
                self.pets.push(id.get());
            }
        }
    }

    /// Executes a batch, and undoes half of them.
    async fn batch(&mut self, changes: Vec<BatchChange>) -> BatchOutcome {
        self.batches += 1;
        let id = BatchId::parse(&format!("batch-{}", self.batches)).unwrap();
        let batch = PetBatch {
            import: None,
            id: id.clone(),
            is_atomic: false,
            changes,
            matches: |_, _| true,
        };
        let store = &self.db.store;
        let Idempotent::Executed(Ok(outcome)) = store.pet_batch(1, batch, None).await.unwrap()
        else {
            panic!("it is not atomic");
        };
        if self.random.random_bool(0.5)
            && let Some(plan) = store.undo_plan(&id, None).await.unwrap()
        {
            store.undo(1, plan, None).await.unwrap();
        }
        outcome
    }

    /// Makes a random change that a report counts, unless it is rejected.
    pub async fn change_of_sales(&mut self) {
        match self.random.random_range(0..10) {
            0..6 => self.correct().await,
            6..8 => self.transition(Transition::Return).await,
            8 => self.transition(Transition::Complete).await,
            _ => self.change().await,
        }
    }

    /// Reads the events after a position, or all.
    pub async fn events(&self, after: Option<EventId>) -> Vec<Event> {
        let store = &self.db.store;
        store.event_sync().await.unwrap();
        let events = store.event_read(after, Sort::Asc, 1_000_000).await;
        events.unwrap().unwrap()
    }

    /// Gives the changes times of the year, in the order in which they were made: to the events,
    /// and to the rows that must have had the time of an event.
    pub async fn spread(&mut self, backend: Backend) {
        for (row, time, kind) in [
            ("orders", "completed_at", "order.completed"),
            ("orders", "returned_at", "order.returned"),
            ("deleted_pets", "deleted_at", "pet.deleted"),
        ] {
            let unlike = format!(
                "SELECT count(*) FROM {row} WHERE {time} IS NOT NULL AND NOT EXISTS (
                     SELECT 1 FROM events WHERE at = {time} AND type = '{kind}'
                                                AND resource_id = {row}.id)"
            );
            assert_eq!(self.db.database.query(&unlike), "0", "{unlike}");
        }
        let events = self.events(None).await;
        let times = self.times(events.len());
        let timed: Vec<_> = events.iter().zip(&times).collect();
        let logs = match backend {
            Backend::Postgres => "SET petstore.logs = 'on'; ",
            _ => "",
        };
        for (table, key, time, kind) in [
            ("events", "sequence", "at", ""),
            ("orders", "id", "completed_at", "order.completed"),
            ("orders", "id", "returned_at", "order.returned"),
            ("deleted_pets", "id", "deleted_at", "pet.deleted"),
        ] {
            let mut values = BTreeMap::new();
            for (event, at) in &timed {
                let of_undo = event
                    .batch_id
                    .as_ref()
                    .is_some_and(|id| id.as_str().contains("undo"));
                if kind.is_empty() {
                    values.insert(event.sequence, **at);
                } else if event.kind.as_str() == kind && !of_undo {
                    values.insert(event.resource_id, **at);
                }
            }
            let values: Vec<_> = values
                .iter()
                .map(|(key, at)| format!("({key},{at})"))
                .collect();
            for chunk in values.chunks(CHUNK) {
                let update = format!(
                    "{logs}UPDATE {table} SET {time} = new.column2
                     FROM (VALUES {}) AS new
                     WHERE {table}.{key} = new.column1 AND {table}.{time} IS NOT NULL",
                    chunk.join(",")
                );
                self.db.database.execute(&update);
            }
        }
    }

    /// Returns ascending times of the year, many of them where a day, a month or the offset of a
    /// time zone changes. Some are equal.
    fn times(&mut self, count: usize) -> Vec<i64> {
        let mut times: Vec<_> = (0..count).map(|_| self.time()).collect();
        times.sort();
        times
    }

    fn time(&mut self) -> i64 {
        let zone = TimeZone::get(ZONES.choose(&mut self.random).unwrap()).unwrap();
        let day = match self.random.random_range(0..4) {
            0 => FIRST + Span::new().months(self.random.random_range(0..12)),
            1 => date(2024, 2, 29 - self.random.random_range(0..2)),
            2 => {
                let start = FIRST.to_zoned(TimeZone::UTC).unwrap().timestamp();
                let changes: Vec<Timestamp> = zone
                    .following(start)
                    .take(2)
                    .map(|change| change.timestamp())
                    .collect();
                match changes.choose(&mut self.random) {
                    Some(change) if change.as_second() < 1_735_689_600 => {
                        return change.as_microsecond() + self.offset();
                    }
                    _ => self.some_day(),
                }
            }
            _ => self.some_day(),
        };
        let midnight = day.to_zoned(zone).unwrap().timestamp();
        midnight.as_microsecond() + self.offset()
    }

    /// A distance from midnight: a microsecond, some minutes, or any time of a day.
    fn offset(&mut self) -> i64 {
        const MINUTE: i64 = 60_000_000;
        match self.random.random_range(0..3) {
            0 => self.random.random_range(-1..=1),
            1 => self.random.random_range(-60..60) * MINUTE,
            _ => self.random.random_range(0..24 * 60 * MINUTE),
        }
    }

    /// Chooses a period that ends today, or one of the year.
    pub fn recent_period(&mut self, round: usize) -> (Date, Date) {
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        match round % 3 {
            0 => (today - Span::new().days(1), today + Span::new().days(1)),
            _ => self.period(round % 20),
        }
    }

    /// Chooses a period: the whole year first, then days, months and others.
    pub fn period(&mut self, round: usize) -> (Date, Date) {
        let from = self.some_day();
        match (round, self.random.random_range(0..4)) {
            (0..10, _) => (date(2024, 1, 1), date(2024, 12, 31)),
            (_, 0) => (from, from),
            (_, 1) => (from.first_of_month(), from.last_of_month()),
            (_, 2) => (date(2024, 2, 29), date(2024, 3, 31)),
            _ => {
                let days = self.random.random_range(0..300);
                (from, from + Span::new().days(days))
            }
        }
    }
}
