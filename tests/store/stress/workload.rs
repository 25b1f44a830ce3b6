//! Clients that change a few pets and their orders through several stores at once, and record
//! what the stores acknowledge.

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use domain::{
    event::EventType,
    idempotency::{IdempotencyKey, Idempotent, IdempotentRequest},
    members::Patch,
    order::{Order, OrderId, OrderRejection, PlaceOrderRequest, Transition},
    pet::{Microchip, NewPet, Pet, PetChange, PetId, PetName, PetRejection, PetStatus},
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use store::{Error, Store};
use tokio::task::JoinSet;

use crate::fixture::API_KEY;

/// The microchips of all pets.
const MICROCHIPS: [&str; 3] = ["985112004567890", "985112004567891", "123456789"];

/// Orders that clients try to change. Most of them are no longer active.
const KNOWN_ORDERS: usize = 12;

/// A change that a store has acknowledged, or that the event log tells of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Created(i64),
    /// Every name is used once.
    Renamed(i64, String),
    Deleted(i64),
    /// The type of the event, and the id of the order.
    Order(&'static str, i64),
}

#[derive(Debug, Clone)]
enum Request {
    Create(NewPet),
    Update(PetId, PetChange),
    Delete(PetId),
    Place(PetId),
    Transition(OrderId, Transition),
}

/// The answer to a request, without how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Pet(Pet),
    Deleted,
    Order(Order),
    Rejected(String),
    /// Another pet has the microchip. This is not recorded under an idempotency key.
    MicrochipTaken,
}

impl Answer {
    fn of_pet(result: Result<Pet, PetRejection>) -> Self {
        match result {
            Ok(pet) => Self::Pet(pet),
            Err(PetRejection::MicrochipTaken(_)) => Self::MicrochipTaken,
            Err(rejection) => Self::Rejected(format!("{rejection:?}")),
        }
    }

    fn of_order(result: Result<Order, OrderRejection>) -> Self {
        match result {
            Ok(order) => Self::Order(order),
            Err(OrderRejection::MicrochipTaken(_)) => Self::MicrochipTaken,
            Err(rejection) => Self::Rejected(format!("{rejection:?}")),
        }
    }
}

/// Applies a function to the value of an answer.
fn map<T, U>(answer: Idempotent<T>, f: impl FnOnce(T) -> U) -> Idempotent<U> {
    match answer {
        Idempotent::Executed(value) => Idempotent::Executed(f(value)),
        Idempotent::Replayed(value) => Idempotent::Replayed(f(value)),
        Idempotent::KeyReused => Idempotent::KeyReused,
    }
}

impl Request {
    async fn send(
        &self,
        store: &Store,
        key: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Answer>, Error> {
        let executed = |answer| Ok(Idempotent::Executed(answer));
        match self.clone() {
            Self::Create(new) => {
                let created = store.pet_create(API_KEY, new, key).await?;
                Ok(map(created, Answer::of_pet))
            }
            Self::Update(id, change) => {
                let updated = store.pet_update(API_KEY, id, change, None).await?;
                executed(Answer::of_pet(updated))
            }
            Self::Delete(id) => match store.pet_delete(API_KEY, id, None).await? {
                Ok(()) => executed(Answer::Deleted),
                Err(rejection) => executed(Answer::Rejected(format!("{rejection:?}"))),
            },
            Self::Place(pet) => {
                let placed = store
                    .order_place(API_KEY, PlaceOrderRequest::new(pet), None, key)
                    .await?;
                Ok(map(placed, Answer::of_order))
            }
            Self::Transition(id, transition) => {
                let changed = store.order_transition(API_KEY, id, transition, key).await?;
                Ok(map(changed, Answer::of_order))
            }
        }
    }

    fn takes_key(&self) -> bool {
        !matches!(self, Self::Update(..) | Self::Delete(_))
    }
}

/// The rows that all clients change.
#[derive(Default)]
struct HotRows {
    pets: Vec<PetId>,
    orders: VecDeque<OrderId>,
}

/// The numbers of answers, to see that a run exercised what it should.
#[derive(Debug, Default)]
pub struct Tally {
    pub executed: AtomicUsize,
    pub rejected: AtomicUsize,
    pub microchip_taken: AtomicUsize,
    pub replayed: AtomicUsize,
    /// Requests that waited too long for a locked row, or were shed. Nothing was changed.
    pub unavailable: AtomicUsize,
    /// The time that the slowest request took, in milliseconds.
    slowest: AtomicU64,
}

pub struct Workload {
    pub stores: Vec<Store>,
    /// The number of pets that clients keep alive.
    hot_pets: usize,
    hot: Mutex<HotRows>,
    acknowledged: Mutex<Vec<Change>>,
    problems: Mutex<Vec<String>>,
    pub tally: Tally,
    /// For unique names and keys.
    next: AtomicI64,
}

impl Workload {
    pub fn new(stores: Vec<Store>, hot_pets: usize) -> Self {
        Self {
            stores,
            hot_pets,
            hot: Mutex::default(),
            acknowledged: Mutex::default(),
            problems: Mutex::default(),
            tally: Tally::default(),
            next: AtomicI64::new(1),
        }
    }

    /// Runs clients that send this many requests each, one after the other.
    pub async fn run(self: &Arc<Self>, clients: usize, requests: usize, random: &mut StdRng) {
        while self.hot().pets.len() < self.hot_pets {
            self.create(random).await;
        }
        let mut running = JoinSet::new();
        for _ in 0..clients {
            let workload = self.clone();
            let mut random = StdRng::from_rng(random);
            running.spawn(async move {
                for _ in 0..requests {
                    let started = Instant::now();
                    workload.send_random(&mut random).await;
                    let elapsed = started.elapsed().as_millis() as u64;
                    workload.tally.slowest.fetch_max(elapsed, Ordering::Relaxed);
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    }

    /// The changes that were acknowledged since the last call.
    pub fn take_acknowledged(&self) -> Vec<Change> {
        mem::take(&mut self.acknowledged.lock().unwrap())
    }

    /// The wrong answers since the last call.
    pub fn take_problems(&self) -> Vec<String> {
        mem::take(&mut self.problems.lock().unwrap())
    }

    /// One of the pets that clients change.
    pub fn any_pet(&self, random: &mut StdRng) -> Option<PetId> {
        self.hot().pets.choose(random).copied()
    }

    /// The pets that clients change.
    pub fn pets<const N: usize>(&self) -> [PetId; N] {
        self.hot().pets.clone().try_into().unwrap()
    }

    fn hot(&self) -> MutexGuard<'_, HotRows> {
        self.hot.lock().unwrap()
    }

    fn report(&self, problem: String) {
        self.problems.lock().unwrap().push(problem);
    }

    fn unique(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn unique_name(&self) -> PetName {
        PetName::parse(&format!("Rex {}", self.unique())).unwrap()
    }

    async fn create(&self, random: &mut StdRng) {
        let new = NewPet {
            status: Some(PetStatus::Available),
            microchip: random.random::<bool>().then(|| any_microchip(random)),
            ..NewPet::new(self.unique_name(), 1)
        };
        self.send(Request::Create(new), random).await;
    }

    async fn send_random(&self, random: &mut StdRng) {
        let (pet, order, missing) = {
            let hot = self.hot();
            let orders = hot.orders.len();
            // The newest are more likely to be active.
            let order = orders.checked_sub(1).map(|last| {
                let back = random
                    .random_range(0..=last)
                    .min(random.random_range(0..=last));
                hot.orders[last - back]
            });
            let pet = hot.pets.choose(random).copied();
            (pet, order, hot.pets.len() < self.hot_pets)
        };
        let Some(pet) = pet.filter(|_| !missing) else {
            return self.create(random).await;
        };
        let transitions = [Transition::Complete, Transition::Cancel, Transition::Return];
        let request = match (random.random_range(0..100), order) {
            (0..40, Some(order)) => {
                Request::Transition(order, *transitions.choose(random).unwrap())
            }
            (40..65, _) | (_, None) => Request::Place(pet),
            (65..68, _) => Request::Delete(pet),
            (..85, _) => Request::Update(pet, self.rename(Patch::Keep, any_patch(random))),
            // Rejected while an order claims the pet.
            _ => {
                let patches = [Patch::Remove, Patch::Set(PetStatus::Available)];
                let status = *patches.choose(random).unwrap();
                Request::Update(pet, self.rename(status, any_patch(random)))
            }
        };
        self.send(request, random).await;
    }

    /// Renames a pet through one of the stores.
    pub async fn rename_at(&self, store: &Store, pet: PetId) -> Result<(), Error> {
        let change = self.rename(Patch::Keep, Patch::Keep);
        let renamed = store.pet_update(API_KEY, pet, change, None).await?;
        renamed.expect("it exists");
        Ok(())
    }

    fn rename(&self, status: Patch<PetStatus>, microchip: Patch<Microchip>) -> PetChange {
        PetChange {
            name: Some(self.unique_name()),
            status,
            microchip,
            ..PetChange::default()
        }
    }

    /// Sends a request, half of those that can with an idempotency key: to two stores at once,
    /// then again, and then another request with the same key.
    async fn send(&self, request: Request, random: &mut StdRng) {
        let one = self.stores.choose(random).unwrap();
        let other = self.stores.choose(random).unwrap();
        if !request.takes_key() || random.random() {
            let answer = request.send(one, None).await;
            return self.check(&request, [answer]);
        }
        let key = IdempotentRequest {
            api_key_id: API_KEY,
            key: IdempotencyKey::parse(format!("key-{}", self.unique()).as_bytes()).unwrap(),
            fingerprint: [1; 32],
        };
        let send = |store| request.send(store, Some(key.clone()));
        let (first, second) = tokio::join!(send(one), send(other));
        let retried = send(other).await;
        let is_recorded = [&first, &second, &retried].into_iter().any(|answer| {
            let is_free = matches!(answer, Ok(Idempotent::Executed(Answer::MicrochipTaken)));
            answer.is_ok() && !is_free
        });
        self.check(&request, [first, second, retried]);
        let reused = IdempotentRequest {
            fingerprint: [2; 32],
            ..key
        };
        match request.send(one, Some(reused)).await {
            Ok(Idempotent::KeyReused) | Err(Error::Unavailable(_)) => {}
            other if is_recorded => {
                self.report(format!("{request:?}: its key was reused, but {other:?}"));
            }
            other => self.check(&request, [other]),
        }
    }

    /// Checks the answers to a request that was sent several times under one key, and records
    /// the change.
    fn check<const N: usize>(
        &self,
        request: &Request,
        answers: [Result<Idempotent<Answer>, Error>; N],
    ) {
        let mut executed = None;
        let mut replayed = Vec::new();
        for answer in answers {
            match answer {
                Ok(Idempotent::Executed(Answer::MicrochipTaken)) => {
                    count(&self.tally.microchip_taken);
                }
                Ok(Idempotent::Executed(answer)) if executed.is_none() => executed = Some(answer),
                Ok(Idempotent::Replayed(answer)) => replayed.push(answer),
                Err(Error::Unavailable(_) | Error::Overloaded) => count(&self.tally.unavailable),
                other => self.report(format!("{request:?}: after {executed:?}, {other:?}")),
            }
        }
        for replayed in replayed {
            count(&self.tally.replayed);
            if executed.as_ref() != Some(&replayed) {
                self.report(format!("{request:?}: {executed:?}, then {replayed:?}"));
            }
        }
        match executed {
            Some(Answer::Rejected(_)) => count(&self.tally.rejected),
            Some(answer) => {
                count(&self.tally.executed);
                self.acknowledge(request, answer);
            }
            None => {}
        }
    }

    fn acknowledge(&self, request: &Request, answer: Answer) {
        let mut hot = self.hot();
        let change = match (request, answer) {
            (Request::Create(_), Answer::Pet(pet)) => {
                hot.pets.push(pet.id);
                Change::Created(pet.id.get())
            }
            (Request::Update(..), Answer::Pet(pet)) => {
                Change::Renamed(pet.id.get(), pet.name.as_str().into())
            }
            (Request::Delete(id), Answer::Deleted) => {
                hot.pets.retain(|hot| hot != id);
                Change::Deleted(id.get())
            }
            (Request::Place(_) | Request::Transition(..), Answer::Order(order)) => {
                if matches!(request, Request::Place(_)) {
                    hot.orders.push_back(order.id);
                    let excess = hot.orders.len().saturating_sub(KNOWN_ORDERS);
                    hot.orders.drain(..excess);
                }
                let kind = EventType::of_order(order.status);
                Change::Order(kind.as_str(), order.id.get())
            }
            (request, answer) => return self.report(format!("{request:?}: {answer:?}")),
        };
        self.acknowledged.lock().unwrap().push(change);
    }
}

fn any_microchip(random: &mut StdRng) -> Microchip {
    Microchip::parse(MICROCHIPS.choose(random).unwrap()).unwrap()
}

fn any_patch(random: &mut StdRng) -> Patch<Microchip> {
    match random.random_range(0..3) {
        0 => Patch::Keep,
        1 => Patch::Remove,
        _ => Patch::Set(any_microchip(random)),
    }
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}
