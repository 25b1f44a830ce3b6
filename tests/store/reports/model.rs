//! Reports and the register as the event log tells them, computed without any index.

use std::collections::BTreeMap;

use domain::event::{Event, EventType};
use jiff::{Span, Timestamp, civil::Date, tz::TimeZone};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub struct Model<'a> {
    pets: BTreeMap<i64, Value>,
    /// Pets that were deleted, and not by an undo, with the time.
    deleted: BTreeMap<i64, (Value, Timestamp)>,
    orders: BTreeMap<i64, ModelOrder>,
    /// The completed order of each pet that has one.
    completed: BTreeMap<i64, i64>,
    buyers: &'a BTreeMap<i64, Value>,
}

#[derive(Debug)]
struct ModelOrder {
    /// The data of its newest event.
    data: Value,
    sale: Option<ModelSale>,
    returned_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct ModelSale {
    at: Timestamp,
    key: i64,
    category: i64,
}

/// The counts and amounts of sales and returns, by currency; "~" stands for none.
type Totals = BTreeMap<String, [i64; 4]>;

impl<'a> Model<'a> {
    pub fn of(events: &[Event], buyers: &'a BTreeMap<i64, Value>) -> Self {
        let mut model = Self {
            pets: BTreeMap::new(),
            deleted: BTreeMap::new(),
            orders: BTreeMap::new(),
            completed: BTreeMap::new(),
            buyers,
        };
        for event in events {
            model.apply(event);
        }
        model
    }

    pub fn apply(&mut self, event: &Event) {
        let id = event.resource_id;
        let data: Value = serde_json::from_str(event.data.as_json()).unwrap();
        match event.kind {
            EventType::PetCreated | EventType::PetUpdated => {
                self.pets.insert(id, data);
            }
            EventType::PetDeleted => {
                self.pets.remove(&id);
                let batch = event.batch_id.as_ref().map_or("", |batch| batch.as_str());
                if !batch.starts_with("undo-") {
                    self.deleted.insert(id, (data, event.at));
                }
            }
            kind => {
                let category = self.pets.get(&data["petId"].as_i64().unwrap());
                let category = category.map(|pet| pet["categoryId"].as_i64().unwrap());
                let order = self.orders.entry(id).or_insert(ModelOrder {
                    data: Value::Null,
                    sale: None,
                    returned_at: None,
                });
                let pet = data["petId"].as_i64().unwrap();
                if data["status"] == "completed" {
                    self.completed.insert(pet, id);
                } else if self.completed.get(&pet) == Some(&id) {
                    self.completed.remove(&pet);
                }
                order.data = data;
                if kind == EventType::OrderCompleted {
                    order.sale = Some(ModelSale {
                        at: event.at,
                        key: event.api_key_id.unwrap(),
                        category: category.unwrap(),
                    });
                }
                if kind == EventType::OrderReturned {
                    order.returned_at = Some(event.at);
                }
            }
        }
    }

    /// Returns true if every kind of entry occurred.
    pub fn has_everything(&self) -> bool {
        let sales = || self.orders.values().filter(|order| order.sale.is_some());
        let is_deleted = |order: &ModelOrder| {
            let pet = order.data["petId"].as_i64().unwrap();
            self.deleted.contains_key(&pet) && !self.pets.contains_key(&pet)
        };
        let is_undone = |id: &i64| self.pets.contains_key(id);
        sales().any(|order| order.returned_at.is_some())
            && sales().any(|order| order.data.get("price").is_none())
            && sales().any(is_deleted)
            && self.deleted.keys().any(is_undone)
    }

    pub fn sales(&self, from: Date, to: Date, by: &str, zone: &str) -> Value {
        let time_zone = TimeZone::get(zone).unwrap();
        let mut groups: BTreeMap<i64, (Value, Totals)> = BTreeMap::new();
        let mut totals = Totals::new();
        for order in self.orders.values() {
            let Some(sale) = order.sale else { continue };
            for (is_return, at) in [(0, Some(sale.at)), (1, order.returned_at)] {
                let day = at.map(|at| at.to_zoned(time_zone.clone()).date());
                let Some(day) = day.filter(|day| (from..=to).contains(day)) else {
                    continue;
                };
                let monday = day - Span::new().days(day.weekday().to_monday_zero_offset());
                let (key, label) = match by {
                    "category" => (sale.category, json!({"categoryId": sale.category})),
                    "key" => (sale.key, json!({"keyId": sale.key})),
                    "day" => started(day),
                    "week" => started(monday.max(from)),
                    _ => started(day.first_of_month().max(from)),
                };
                let (_, group) = groups.entry(key).or_insert((label, Totals::new()));
                let price = order.data.get("price");
                let currency = price.map_or("~", |price| price["currency"].as_str().unwrap());
                let amount = price.map_or(0, |price| price["amount"].as_i64().unwrap());
                for totals in [group, &mut totals] {
                    let sums = totals.entry(currency.into()).or_default();
                    sums[is_return] += 1;
                    sums[2 + is_return] += amount;
                }
            }
        }
        let groups = groups.into_values().map(|(mut label, totals)| {
            label["totals"] = shown(totals);
            label
        });
        json!({
            "from": from, "to": to, "by": by, "timeZone": zone,
            "groups": groups.collect::<Vec<_>>(), "totals": shown(totals),
        })
    }

    pub fn register(&self, from: Date, to: Date, entry: &str, zone: &str) -> Vec<Value> {
        let time_zone = TimeZone::get(zone).unwrap();
        let is_in_period = |day: Date| (from..=to).contains(&day);
        let mut entries = Vec::new();
        if entry == "sold" {
            for (id, order) in &self.orders {
                let Some(sale) = order.sale else { continue };
                if is_in_period(sale.at.to_zoned(time_zone.clone()).date()) {
                    let pet = order.data["petId"].as_i64().unwrap();
                    let sold = self.sold(*id, order, sale);
                    entries.push((
                        (sale.at.to_string(), sale.at, *id),
                        self.entry(pet, Some(sold)),
                    ));
                }
            }
            entries.sort_by_key(|((_, at, id), _)| (*at, *id));
        } else {
            let deleted = self
                .deleted
                .iter()
                .filter(|(id, _)| !self.pets.contains_key(id));
            let deleted = deleted.map(|(id, (pet, _))| (id, pet));
            for (id, pet) in self.pets.iter().chain(deleted) {
                let Some(day) = pet.get("acquiredOn").and_then(Value::as_str) else {
                    continue;
                };
                if is_in_period(day.parse().unwrap()) {
                    let sale = self.completed.get(id).map(|order_id| {
                        let order = &self.orders[order_id];
                        self.sold(*order_id, order, order.sale.unwrap())
                    });
                    let key = (day.to_string(), Timestamp::UNIX_EPOCH, *id);
                    entries.push((key, self.entry(*id, sale)));
                }
            }
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    fn entry(&self, id: i64, sale: Option<Value>) -> Value {
        let mut entry = Map::from_iter([("petId".into(), json!(id))]);
        let deleted = self
            .deleted
            .get(&id)
            .filter(|_| !self.pets.contains_key(&id));
        let pet = self.pets.get(&id).or(deleted.map(|(pet, _)| pet));
        for name in [
            "name",
            "categoryId",
            "breed",
            "sex",
            "birthDate",
            "color",
            "microchip",
            "acquiredOn",
            "source",
        ] {
            let value = pet.and_then(|pet| pet.get(name));
            entry.extend(value.map(|value| (name.into(), value.clone())));
        }
        entry.extend(deleted.map(|(_, at)| ("deletedAt".into(), json!(at))));
        entry.extend(sale.map(|sale| ("sale".into(), sale)));
        entry.into()
    }

    fn sold(&self, id: i64, order: &ModelOrder, sale: ModelSale) -> Value {
        let mut sold = json!({"orderId": id, "soldAt": sale.at});
        for name in ["price", "reference"] {
            if let Some(value) = order.data.get(name) {
                sold[name] = value.clone();
            }
        }
        if let Some(buyer) = self.buyers.get(&id) {
            sold["buyer"] = buyer.clone();
        }
        if let Some(at) = order.returned_at {
            sold["returnedAt"] = json!(at);
        }
        sold
    }
}

fn started(day: Date) -> (i64, Value) {
    let key = i64::from(day.year()) * 10_000 + i64::from(day.month()) * 100 + i64::from(day.day());
    (key, json!({"start": day}))
}

fn shown(totals: Totals) -> Value {
    let shown = totals.into_iter().map(|(currency, sums)| {
        let [sold, returned, sold_amount, returned_amount] = sums;
        if currency == "~" {
            return json!({"sold": sold, "returned": returned});
        }
        json!({
            "currency": currency, "sold": sold, "returned": returned, "soldAmount": sold_amount,
            "returnedAmount": returned_amount, "amount": sold_amount - returned_amount,
        })
    });
    shown.collect()
}
