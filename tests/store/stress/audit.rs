//! Checks of the event log and the tables against what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    event::{Event, EventId, EventType},
    order::OrderId,
    page::Sort,
    pet::PetId,
};
use serde_json::Value;
use store::Store;

use super::workload::Change;

const PAGE: usize = 1000;

/// The state of all pets and orders by the event log.
#[derive(Default)]
pub struct Audit {
    /// The last event that was read.
    position: Option<EventId>,
    pets: BTreeMap<i64, Value>,
    orders: BTreeMap<i64, Value>,
    /// The active order of each pet that has one.
    active: BTreeMap<i64, i64>,
    /// The status that the next event of a pet must tell of: the change of its order came
    /// before, in the same transaction.
    due: BTreeMap<i64, &'static str>,
    /// Found since the last check.
    round: Round,
}

#[derive(Default)]
struct Round {
    changes: Vec<Change>,
    changes_by_operator: usize,
    /// The ids of pets and orders that were changed.
    pets: BTreeSet<i64>,
    orders: BTreeSet<i64>,
    problems: Vec<String>,
}

impl Audit {
    /// Checks what has happened since the last check, when no client is active anymore.
    /// Returns what is wrong.
    pub async fn check(
        &mut self,
        store: &Store,
        mut acknowledged: Vec<Change>,
        changes_by_operator: usize,
    ) -> Vec<String> {
        self.read_log(store).await;
        for (pet, status) in std::mem::take(&mut self.due) {
            self.report(format!("pet {pet} has no event that it is {status}"));
        }
        let Round {
            mut changes,
            changes_by_operator: logged_by_operator,
            pets,
            orders,
            mut problems,
        } = std::mem::take(&mut self.round);
        changes.sort_unstable();
        acknowledged.sort_unstable();
        for (what, these, those) in [
            ("acknowledged, but not logged", &acknowledged, &changes),
            ("logged, but not acknowledged", &changes, &acknowledged),
        ] {
            for change in excess(these, those) {
                problems.push(format!("{what}: {change:?}"));
            }
        }
        if logged_by_operator != changes_by_operator {
            problems.push(format!(
                "{logged_by_operator} events of the operator's {changes_by_operator} changes"
            ));
        }
        for id in pets {
            let stored = store.pet_get(PetId::parse(&id.to_string()).unwrap()).await;
            let stored = stored
                .unwrap()
                .map(|pet| serde_json::to_value(pet).unwrap());
            compare("pet", stored.as_ref(), self.pets.get(&id), &mut problems);
        }
        for id in orders {
            let id = OrderId::parse(&id.to_string()).unwrap();
            let stored = store.order_get(id).await.unwrap();
            let stored = stored.map(|order| serde_json::to_value(order).unwrap());
            let logged = self.orders.get(&id.get());
            compare("order", stored.as_ref(), logged, &mut problems);
        }
        problems.extend(self.check_counts(store).await);
        problems
    }

    async fn read_log(&mut self, store: &Store) {
        store.event_sync().await.unwrap();
        loop {
            let page = store.event_read(self.position, Sort::Asc, PAGE).await;
            let page = page.unwrap().unwrap();
            for event in &page {
                self.apply(event);
            }
            match page.last() {
                Some(last) => self.position = Some(last.id()),
                None => return,
            }
        }
    }

    fn report(&mut self, problem: String) {
        self.round.problems.push(problem);
    }

    fn apply(&mut self, event: &Event) {
        let data: Value = serde_json::from_str(event.data.as_json()).unwrap();
        let id = event.resource_id;
        let is_valid = match event.kind {
            EventType::PetCreated => {
                self.round.changes.push(Change::Created(id));
                self.pets.insert(id, data.clone()).is_none()
            }
            EventType::PetUpdated => self.apply_update(event, &data),
            EventType::PetDeleted => {
                self.round.changes.push(Change::Deleted(id));
                let order = self
                    .active
                    .get(&id)
                    .and_then(|order| self.orders.get(order));
                let is_reserved = order.is_some_and(|order| order["status"] == "placed");
                self.pets.remove(&id).as_ref() == Some(&data) && !is_reserved
            }
            EventType::CategoryUpdated | EventType::CategoryDeleted => false,
            kind => self.apply_order(id, kind, &data),
        };
        match event.kind {
            EventType::PetCreated | EventType::PetUpdated | EventType::PetDeleted => {
                self.round.pets.insert(id);
                if let Some(other) = self.other_holder(id) {
                    self.report(format!("pets {id} and {other} have the same microchip"));
                }
            }
            _ => {
                self.round.orders.insert(id);
            }
        }
        if !is_valid {
            let sequence = event.sequence;
            let kind = event.kind.as_str();
            self.report(format!("event {sequence} cannot be: {kind} {data}"));
        }
    }

    /// Another pet that has the microchip of a pet, although neither is sold.
    fn other_holder(&self, id: i64) -> Option<i64> {
        let claimed = |pet: &Value| {
            let microchip = pet["microchip"].as_str().map(String::from);
            microchip.filter(|_| pet["status"] != "sold")
        };
        let microchip = claimed(self.pets.get(&id)?)?;
        let mut others = self.pets.iter().filter(|(other, _)| **other != id);
        let other = others.find(|(_, pet)| claimed(pet).as_ref() == Some(&microchip))?;
        Some(*other.0)
    }

    /// Applies a change of a pet: by its order, by a client or by the operator.
    fn apply_update(&mut self, event: &Event, after: &Value) -> bool {
        let id = event.resource_id;
        let Some(before) = self.pets.insert(id, after.clone()) else {
            return false;
        };
        let is_same = |member: &str| before[member] == after[member];
        if event.api_key_id.is_none() {
            self.round.changes_by_operator += 1;
            return is_same("name") && is_same("status") && !self.due.contains_key(&id);
        }
        if let Some(status) = self.due.remove(&id) {
            let is_unchanged = ["name", "categoryId", "microchip"].into_iter().all(is_same);
            return after["status"] == status && is_unchanged;
        }
        let name = after["name"].as_str().unwrap().into();
        self.round.changes.push(Change::Renamed(id, name));
        // Only the order that claims a pet changes its status.
        is_same("categoryId") && (is_same("status") || !self.active.contains_key(&id))
    }

    fn apply_order(&mut self, id: i64, kind: EventType, data: &Value) -> bool {
        self.round.changes.push(Change::Order(kind.as_str(), id));
        let pet = data["petId"].as_i64().unwrap();
        let before = self.orders.insert(id, data.clone());
        let before = before
            .as_ref()
            .map(|order| order["status"].as_str().unwrap());
        let (required, pet_status) = match kind {
            EventType::OrderPlaced => (None, "pending"),
            EventType::OrderCompleted => (Some("placed"), "sold"),
            EventType::OrderCancelled => (Some("placed"), "available"),
            _ => (Some("completed"), "available"),
        };
        let is_first = self.due.insert(pet, pet_status).is_none();
        let is_claim_valid = match kind {
            EventType::OrderPlaced => {
                let status = self.pets.get(&pet).map(|pet| &pet["status"]);
                self.active.insert(pet, id).is_none() && status.is_some_and(|it| it == "available")
            }
            EventType::OrderCompleted => self.active.get(&pet) == Some(&id),
            _ => self.active.remove(&pet) == Some(id),
        };
        is_first && is_claim_valid && before == required
    }

    /// Checks the counts of the store against the log.
    async fn check_counts(&self, store: &Store) -> Option<String> {
        let with_status = |rows: &BTreeMap<i64, Value>, status: &str| {
            rows.values().filter(|row| row["status"] == status).count() as i64
        };
        let counts = store.counts().await.unwrap();
        let pets = &counts.pets;
        let orders = &counts.orders;
        let counted = [
            pets.total,
            pets.available,
            pets.pending,
            pets.sold,
            orders.placed,
            orders.completed,
            orders.cancelled,
            orders.returned,
        ];
        let expected = [
            self.pets.len() as i64,
            with_status(&self.pets, "available"),
            with_status(&self.pets, "pending"),
            with_status(&self.pets, "sold"),
            with_status(&self.orders, "placed"),
            with_status(&self.orders, "completed"),
            with_status(&self.orders, "cancelled"),
            with_status(&self.orders, "returned"),
        ];
        (counted != expected).then(|| format!("counts {counted:?}, by the log {expected:?}"))
    }
}

/// The elements of a sorted list that another has fewer of.
fn excess<'a>(these: &'a [Change], those: &[Change]) -> Vec<&'a Change> {
    let mut those = those.iter().peekable();
    let mut excess = Vec::new();
    for this in these {
        while those.next_if(|that| *that < this).is_some() {}
        if those.next_if(|that| *that == this).is_none() {
            excess.push(this);
        }
    }
    excess
}

fn compare(what: &str, stored: Option<&Value>, logged: Option<&Value>, problems: &mut Vec<String>) {
    if stored != logged {
        problems.push(format!("{what} stored as {stored:?}, logged as {logged:?}"));
    }
}
