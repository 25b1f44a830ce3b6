//! Stores under contention: replicas on one PostgreSQL server, and the only process on SQLite,
//! change a few rows at the same time. Afterwards the event log must be a valid history of
//! exactly the changes that were acknowledged, and the tables its result.
//!
//! `make test` runs a short part, `make torture` all of it. The controls break the isolation of
//! commit groups on purpose, which the checks must detect.

mod audit;
mod workload;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use domain::pet::PetId;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use store::{Fault, Options, Role};
use support::{Backend, Database, random, rounds};
use tokio::{task::JoinSet, time::sleep};

use crate::fixture::{connect, new_database, open_with, petstore};
use audit::Audit;
use workload::Workload;

support::cases! {
    SQLITE: [the_only_process_makes_every_change_once_and_in_order],
    POSTGRES: [
        replicas_make_every_change_once_and_in_order,
        rows_that_are_not_locked_are_detected,
        claims_that_are_read_before_the_lock_are_detected,
        no_request_starves_under_contention,
        requests_that_starve_are_detected,
    ],
}

const CLIENTS: usize = 24;
const REQUESTS_PER_CLIENT: usize = 60;

/// Stores on one database, and what is known of it.
struct Stress {
    // Fields drop in this order: the stores before their database.
    workload: Arc<Workload>,
    audit: Audit,
    database: Database,
}

impl Stress {
    /// Opens stores on a new database.
    async fn open(
        backend: Backend,
        replicas: usize,
        hot_pets: usize,
        fault: Option<Fault>,
    ) -> Self {
        let database = new_database(backend).await;
        let options = Options {
            fault,
            ..Options::new(Role::Service)
        };
        let mut stores = Vec::new();
        for _ in 0..replicas {
            stores.push(open_with(&database.url(), &options).await);
        }
        Self {
            workload: Arc::new(Workload::new(stores, hot_pets)),
            audit: Audit::default(),
            database,
        }
    }

    /// Runs clients, and on PostgreSQL an operator beside them. Returns what is wrong.
    async fn run_round(&mut self, with_operator: bool, random: &mut StdRng) -> Vec<String> {
        let is_done = Arc::new(AtomicBool::new(false));
        let operator = with_operator.then(|| {
            let operator = operate(
                self.database.url(),
                self.workload.clone(),
                is_done.clone(),
                StdRng::from_rng(random),
            );
            tokio::spawn(operator)
        });
        self.workload
            .run(CLIENTS, REQUESTS_PER_CLIENT, random)
            .await;
        is_done.store(true, Ordering::Relaxed);
        let changes_by_operator = match operator {
            Some(operator) => operator.await.unwrap(),
            None => 0,
        };
        let mut problems = self.workload.take_problems();
        let acknowledged = self.workload.take_acknowledged();
        let store = &self.workload.stores[0];
        problems.extend(
            self.audit
                .check(store, acknowledged, changes_by_operator)
                .await,
        );
        problems
    }

    /// Runs rounds, of which none may find a problem, and checks the database.
    async fn run(mut self, rounds: usize, with_operator: bool, random: &mut StdRng) {
        for round in 0..rounds {
            let problems = self.run_round(with_operator, random).await;
            assert!(problems.is_empty(), "round {round}: {problems:#?}");
        }
        println!("{:?}", self.workload.tally);
        for store in &self.workload.stores {
            store.close().await;
        }
        petstore(&["check", "--database", &self.database.url()]).success();
    }

    /// Runs rounds until one finds a problem, which may take many on a busy machine.
    async fn assert_detected(mut self, random: &mut StdRng) {
        for round in 0..1000 {
            let problems = self.run_round(false, random).await;
            if let Some(problem) = problems.first() {
                println!("detected in round {round}: {problem}");
                return;
            }
        }
        panic!("the fault was not detected");
    }
}

/// Changes and locks rows in a session of its own, as an operator with psql does. Returns the
/// number of changes.
async fn operate(
    url: String,
    workload: Arc<Workload>,
    is_done: Arc<AtomicBool>,
    mut random: StdRng,
) -> usize {
    let session = connect(&url).await;
    let mut changes = 0;
    while !is_done.load(Ordering::Relaxed) {
        let pet = workload.any_pet(&mut random).map_or(0, PetId::get);
        session.batch_execute("BEGIN").await.unwrap();
        let lock_orders = "SELECT FROM orders WHERE pet_id = $1 FOR UPDATE SKIP LOCKED";
        match random.random_range(0..3) {
            0 => {
                let change = "UPDATE pets SET category_id = category_id + 1 WHERE id = $1";
                changes += session.execute(change, &[&pet]).await.unwrap() as usize;
            }
            1 => {
                let lock_pet = "SELECT FROM pets WHERE id = $1 FOR UPDATE";
                session.execute(lock_pet, &[&pet]).await.unwrap();
                session.execute(lock_orders, &[&pet]).await.unwrap();
            }
            _ => {
                session.execute(lock_orders, &[&pet]).await.unwrap();
            }
        }
        sleep(Duration::from_millis(random.random_range(0..30))).await;
        session.batch_execute("COMMIT").await.unwrap();
        sleep(Duration::from_millis(random.random_range(0..30))).await;
    }
    changes
}

async fn replicas_make_every_change_once_and_in_order(backend: Backend) {
    let random = &mut random("stress of PostgreSQL");
    let stress = Stress::open(backend, 3, 4, None).await;
    stress.run(rounds(2, 100), true, random).await;
}

async fn the_only_process_makes_every_change_once_and_in_order(backend: Backend) {
    let random = &mut random("stress of SQLite");
    let stress = Stress::open(backend, 1, 4, None).await;
    stress.run(rounds(2, 100), false, random).await;
}

/// Tests the test.
async fn rows_that_are_not_locked_are_detected(backend: Backend) {
    let random = &mut random("stress without locks");
    let stress = Stress::open(backend, 3, 2, Some(Fault::UnlockedRows)).await;
    stress.assert_detected(random).await;
}

/// Tests the test.
async fn claims_that_are_read_before_the_lock_are_detected(backend: Backend) {
    let random = &mut random("stress with early claims");
    let stress = Stress::open(backend, 3, 2, Some(Fault::EarlyClaims)).await;
    stress.assert_detected(random).await;
}

/// Sessions that pass on the lock of a pet among them, so that it is hardly ever found unlocked,
/// while clients of several replicas rename it, each `renames` times or until a request of any
/// of them fails. Others try to rename a pet that stays locked. Returns the number of requests
/// for the first pet that failed.
async fn rename_in_turn(backend: Backend, fault: Option<Fault>, renames: usize) -> usize {
    let random = &mut random("contention");
    let stress = Stress::open(backend, 3, 2, fault).await;
    stress.workload.run(0, 0, random).await;
    let [pet, locked] = stress.workload.pets();
    let lock = |pet: PetId| {
        format!(
            "BEGIN; SELECT FROM pets WHERE id = {} FOR UPDATE",
            pet.get()
        )
    };
    let holder = connect(&stress.database.url()).await;
    holder.batch_execute(&lock(locked)).await.unwrap();
    let mut others = JoinSet::new();
    for client in 0..4 * stress.workload.stores.len() {
        let workload = stress.workload.clone();
        others.spawn(async move {
            let store = &workload.stores[client % workload.stores.len()];
            while workload.rename_at(store, locked).await.is_err() {}
        });
    }
    let mut holders = JoinSet::new();
    for _ in 0..3 {
        let url = stress.database.url();
        let lock = lock(pet);
        holders.spawn(async move {
            let session = connect(&url).await;
            loop {
                session.batch_execute(&lock).await.unwrap();
                sleep(Duration::from_millis(30)).await;
                session.batch_execute("COMMIT").await.unwrap();
            }
        });
    }
    let failures = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let workload = stress.workload.clone();
        let failures = failures.clone();
        clients.spawn(async move {
            let store = &workload.stores[client % workload.stores.len()];
            for _ in 0..renames {
                if failures.load(Ordering::Relaxed) > 0 {
                    break;
                }
                if workload.rename_at(store, pet).await.is_err() {
                    failures.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    clients.join_all().await;
    assert!(others.try_join_next().is_none(), "the other pet is locked");
    failures.load(Ordering::Relaxed)
}

async fn no_request_starves_under_contention(backend: Backend) {
    assert_eq!(rename_in_turn(backend, None, rounds(5, 100)).await, 0);
}

/// Tests the test. Where a session is slow to take over the lock, a request may be lucky.
async fn requests_that_starve_are_detected(backend: Backend) {
    assert!(rename_in_turn(backend, Some(Fault::NoLockQueue), 1000).await > 0);
}
