//! Power cuts, on disks that work and on disks whose fsync fails.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use http::Method;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use tokio::task::JoinSet;

use super::disk::{self, Failures, Faults, Image, Trace};
use support::{CommandResult, Response, random, rounds};

use crate::{
    client::Client,
    event_log::UNLOGGED_IN_FILE,
    harness::{Home, Service},
    photos::{add_photo, find_damage},
};

const CLIENTS: usize = 2;

#[tokio::test]
async fn acknowledged_writes_survive_a_power_cut() {
    let mut random = random("power cuts");
    for _ in 0..rounds(1, 20) {
        let run = Run::start(&mut random, Faults::default(), 500).await;
        assert_eq!(run.violations(&mut random, rounds(200, 250)), [""; 0]);
    }
}

/// The control: a service without fsync is caught.
#[tokio::test]
async fn a_service_without_fsync_loses_writes() {
    let mut random = random("power cuts without fsync");
    let faults = Faults {
        ignore_sync: true,
        ..Faults::default()
    };
    let run = Run::start(&mut random, faults, 100).await;
    let violations = run.violations(&mut random, 50);
    assert!(violations.len() > 10, "{violations:?}");
}

/// A failed fsync of the database file loses what earlier checkpoints copied.
#[tokio::test]
async fn failing_checkpoints_lose_no_acknowledged_write() {
    let mut random = random("failing checkpoints");
    for _ in 0..rounds(1, 10) {
        let faults = Faults {
            database: Some(some_failures(&mut random, 3)),
            ..Faults::default()
        };
        let run = Run::start(&mut random, faults, rounds(1800, 6000)).await;
        run.report();
        assert_eq!(run.violations(&mut random, rounds(200, 300)), [""; 0]);
    }
}

/// The control: SQLite's own checkpoints, in another program, lose commits.
#[tokio::test]
#[ignore = "needs Python; make test installs it and runs this"]
async fn sqlites_automatic_checkpoints_lose_writes() {
    let mut random = random("automatic checkpoints");
    for _ in 0..10 {
        let faults = Faults {
            database: Some(some_failures(&mut random, 3)),
            ..Faults::default()
        };
        let run = Run::automatic_checkpoints(&mut random, faults, 3000);
        run.report();
        if !run.violations(&mut random, 200).is_empty() {
            return;
        }
    }
    panic!("nothing was lost");
}

/// After a failed commit, the outcome that the client was told stays true.
#[tokio::test]
async fn failing_commits_keep_their_outcome() {
    let mut random = random("failing commits");
    for _ in 0..rounds(1, 10) {
        let faults = Faults {
            wal: Some(some_failures(&mut random, 40)),
            database: Some(some_failures(&mut random, 4)),
            ..Faults::default()
        };
        let run = Run::start(&mut random, faults, rounds(500, 3000)).await;
        run.report();
        assert!(run.trace.failed_syncs() > 0, "no fsync failed");
        assert_eq!(run.violations(&mut random, rounds(200, 300)), [""; 0]);
    }
}

/// A service that is killed after a failed commit leaves it in the page cache. The next one
/// must write it again before it appends to it, even if a reader was the first to find it.
#[tokio::test]
async fn the_next_service_writes_a_failed_commit_again() {
    let mut random = random("a failed commit");
    let home = Home::new();
    let key = home.new_key();
    let before = fs::read(home.database()).unwrap();
    let mut outcomes = Outcomes::new();
    let all_but_three = Failures {
        period: 1000,
        length: 997,
    };
    let mut reader = None;
    for (run, wal) in [Some(all_but_three), None].into_iter().enumerate() {
        let mut command = home.serve_command();
        let faults = Faults {
            wal,
            ..Faults::default()
        };
        faults.apply(&home, &mut command);
        let service = Service::start(&mut command);
        let client = Client::new(&service, &key);
        for count in 0..5 {
            let name = format!("{run}-{count}");
            let created = outcome(&client.create(&name).await.unwrap());
            let history = History::new(created, disk::now(&disk::trace_path(&home)));
            outcomes.insert(name, history);
        }
        service.kill();
        reader.get_or_insert_with(|| open_for_reading(&home.database()));
    }
    let trace = Trace::read(&home, before);
    let run = Run { trace, outcomes };
    run.report();
    assert!(run.trace.failed_syncs() > 0, "no fsync failed");
    // Each time, the failed fsyncs lose other writes.
    for _ in 0..20 {
        assert_eq!(run.violations(&mut random, 20), [""; 0]);
    }
}

/// SQLite ignores a failed fsync of the folder. The name of a new WAL may then be lost, with
/// its content.
#[test]
fn a_service_does_not_start_if_its_folder_cannot_be_synced() {
    let home = Home::new();
    home.new_key();
    let mut command = home.serve_command();
    let always = Failures {
        period: 1,
        length: 1,
    };
    let faults = Faults {
        directory: Some(always),
        ..Faults::default()
    };
    faults.apply(&home, &mut command);
    let Err(output) = Service::try_start(&mut command) else {
        panic!("it starts");
    };
    let folder = home.dir();
    let words = format!("cannot open {}", folder.display());
    assert!(output.contains(&words), "{output}");
    home.serve().stop();
}

fn some_failures(random: &mut impl Rng, period: u32) -> Failures {
    let period = random.random_range(2..=period);
    // While most of them fail, writes take long, for which only the whole campaign has time.
    let longest = rounds(period as usize / 2, period as usize - 1).min(8);
    let length = random.random_range(1..=longest as u32);
    Failures { period, length }
}

/// The outcome of a request, as its client saw it.
enum Outcome {
    Acknowledged(i64),
    /// "Nothing was changed."
    Rejected,
    Unknown,
}

/// Inserts pets one by one. Prints the name, the id or 0, and the time of the model.
const INSERT_PETS: &str = r#"
import os, sqlite3, sys
db = sqlite3.connect("petstore.db", isolation_level=None, timeout=30)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = FULL")
for name in range(int(sys.argv[1])):
    try:
        sql = """INSERT INTO pets (name, search_name, search_words, category_id, status)
                 VALUES (?1, ?1, ?1, 1, 'available')"""
        id = db.execute(sql, [str(name)]).lastrowid
    except sqlite3.Error:
        id = 0
    print(name, id, os.path.getsize("disk-trace"), flush=True)
os._exit(0)
"#;

/// The requests for pets, by their names.
type Outcomes = BTreeMap<String, History>;

/// A client's requests for its pet, with the outcomes and the times when it learned them.
struct History {
    created: Outcome,
    created_at: u64,
    change: Option<Change>,
    /// A photo that was acknowledged, and the time of that.
    photo: Option<(i64, u64)>,
}

/// The only change of a pet, or its deletion.
struct Change {
    /// The new category; `None` if the pet is deleted.
    category: Option<i64>,
    sent_at: u64,
    outcome: Outcome,
    told_at: u64,
}

impl History {
    fn new(created: Outcome, created_at: u64) -> Self {
        Self {
            created,
            created_at,
            change: None,
            photo: None,
        }
    }

    /// Returns the categories that the pet may have at a time after it was acknowledged;
    /// `None` if it may be deleted.
    fn possible_categories(&self, time: u64) -> Vec<Option<i64>> {
        match &self.change {
            Some(change) if change.sent_at < time => {
                match (&change.outcome, change.told_at <= time) {
                    (Outcome::Acknowledged(_), true) => vec![change.category],
                    (Outcome::Rejected, true) => vec![Some(1)],
                    _ => vec![Some(1), change.category],
                }
            }
            _ => vec![Some(1)],
        }
    }
}

/// A run of the service on a faulty disk.
struct Run {
    trace: Trace,
    outcomes: Outcomes,
}

impl Run {
    /// Serves clients until each of them has created its share of `pets`. The
    /// service is killed and restarted twice; other processes read at the same time,
    /// so that some checkpoints are partial.
    async fn start(random: &mut StdRng, faults: Faults, pets: usize) -> Self {
        let home = Home::new();
        let key = home.new_key();
        let before = fs::read(home.database()).unwrap();
        let outcomes = Arc::new(Mutex::new(Outcomes::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let database = home.database();
            let stop = stop.clone();
            let random = StdRng::from_rng(random);
            move || read_now_and_then(&database, &stop, random)
        });
        for run in 0..3 {
            let mut command = home.serve_command();
            faults.apply(&home, &mut command);
            let service = Service::start(&mut command);
            let client = Client::new(&service, &key);
            let mut clients = JoinSet::new();
            for number in 0..CLIENTS {
                let client = client.clone();
                let trace = disk::trace_path(&home);
                let outcomes = outcomes.clone();
                let mut random = StdRng::from_rng(random);
                clients.spawn(async move {
                    let mut unchanged = Vec::new();
                    for count in 0..pets / CLIENTS / 3 {
                        if random.random_range(0..4) == 0
                            && let Some((name, id)) = unchanged.pop()
                        {
                            let change = change(&client, id, &trace, &mut random).await;
                            let mut outcomes = outcomes.lock().unwrap();
                            outcomes.get_mut(&name).unwrap().change = Some(change);
                            continue;
                        }
                        let name = format!("{run}-{number}-{count}");
                        let pet = json!({"name": name, "categoryId": 1, "status": "available"});
                        let create = client.send_json(Method::POST, "/v1/pets", &pet, Some(&name));
                        let created = outcome(&create.await.unwrap());
                        if let Outcome::Acknowledged(id) = created {
                            unchanged.push((name.clone(), id));
                        }
                        let mut history = History::new(created, disk::now(&trace));
                        if count % 8 == 1
                            && let Outcome::Acknowledged(pet) = history.created
                        {
                            let added = add_photo(&client, pet, count as u64).await;
                            if let Outcome::Acknowledged(id) = outcome(&added.unwrap()) {
                                history.photo = Some((id, disk::now(&trace)));
                            }
                        }
                        outcomes.lock().unwrap().insert(name, history);
                    }
                });
            }
            while clients.join_next().await.is_some() {}
            service.kill();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
        Self {
            trace: Trace::read(&home, before),
            outcomes,
        }
    }

    /// Like [`start`](Self::start), with inserts by Python's SQLite, once.
    fn automatic_checkpoints(random: &mut StdRng, faults: Faults, pets: usize) -> Self {
        let home = Home::new();
        home.new_key();
        let before = fs::read(home.database()).unwrap();
        let stop = AtomicBool::new(false);
        let mut command = home.command("python3");
        faults.apply(&home, &mut command);
        command.args(["-c", INSERT_PETS, &pets.to_string()]);
        let reader_random = StdRng::from_rng(random);
        let database = home.database();
        let output = thread::scope(|scope| {
            scope.spawn(|| read_now_and_then(&database, &stop, reader_random));
            let output = CommandResult::of(&mut command).success().stdout;
            stop.store(true, Ordering::Relaxed);
            output
        });
        let outcomes = output.lines().map(|line| {
            let mut words = line.split(' ').map(|word| word.parse().unwrap());
            let mut next = || words.next().unwrap();
            let (name, id, time): (i64, _, i64) = (next(), next(), next());
            let outcome = match id {
                0 => Outcome::Unknown,
                id => Outcome::Acknowledged(id),
            };
            (name.to_string(), History::new(outcome, time as u64))
        });
        Self {
            outcomes: outcomes.collect(),
            trace: Trace::read(&home, before),
        }
    }

    fn report(&self) {
        let is_changed = |history: &&History| history.change.is_some();
        let changes = self.outcomes.values().filter(is_changed).count();
        println!(
            "{} creates, {changes} changes, {} checkpoints, {} failed fsyncs",
            self.outcomes.len(),
            self.trace.checkpoints(),
            self.trace.failed_syncs()
        );
    }

    /// Cuts the power at random moments. Returns what was wrong afterwards.
    fn violations(&self, random: &mut impl Rng, cuts: usize) -> Vec<String> {
        let mut violations = Vec::new();
        self.trace.cut_power(random, cuts, |time, image| {
            if let Err(violation) = self.check(time, image) {
                violations.push(format!("at {time}: {violation}"));
            }
        });
        violations
    }

    /// Checks a disk against what the clients knew at that time.
    fn check(&self, time: u64, image: &Image) -> Result<(), String> {
        let failed = |error: rusqlite::Error| error.to_string();
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("petstore.db");
        fs::write(&path, &image.database).unwrap();
        if let Some(wal) = &image.wal {
            fs::write(dir.path().join("petstore.db-wal"), wal).unwrap();
        }
        let db = Connection::open(&path).map_err(failed)?;
        let integrity: String = db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .map_err(failed)?;
        if integrity != "ok" {
            return Err(integrity);
        }
        let mut stored = BTreeMap::new();
        let select = "SELECT name, id, category_id FROM pets";
        let mut select = db.prepare(select).map_err(failed)?;
        let pets = select.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))));
        for pet in pets.map_err(failed)? {
            let (name, pet): (String, (i64, i64)) = pet.map_err(failed)?;
            if stored.insert(name.clone(), pet).is_some() {
                return Err(format!("{name} is stored twice"));
            }
        }
        let counts = "SELECT pets, (SELECT count(*) FROM pets) FROM counts";
        let counts = db.query_row(counts, [], |row| Ok((row.get(0)?, row.get(1)?)));
        let (counted, actual): (i64, i64) = counts.map_err(failed)?;
        if counted != actual {
            return Err(format!("{counted} counted, {actual} stored"));
        }
        let unlogged = db.query_row(&UNLOGGED_IN_FILE, [], |row| row.get::<_, i64>(0));
        if unlogged.map_err(failed)? != 0 {
            return Err("the event log differs from what is stored".into());
        }
        if let Some(damage) = find_damage(&db).map_err(failed)? {
            return Err(damage);
        }
        let mut photo = db
            .prepare("SELECT count(*) FROM photos WHERE id = ?1")
            .map_err(failed)?;
        let photos = self.outcomes.values().filter_map(|history| history.photo);
        for (id, _) in photos.filter(|(_, told_at)| *told_at <= time) {
            // One that was deleted is kept for a while.
            let stored: i64 = photo.query_row([id], |row| row.get(0)).map_err(failed)?;
            if stored == 0 {
                return Err(format!("photo {id} is lost"));
            }
        }
        let is_known = |(_, history): &(&String, &History)| history.created_at <= time;
        for (name, history) in self.outcomes.iter().filter(is_known) {
            let found = stored.get(name);
            match history.created {
                Outcome::Acknowledged(id) => {
                    let categories = history.possible_categories(time).into_iter();
                    let possible: Vec<_> =
                        categories.map(|category| Some((id, category?))).collect();
                    if !possible.contains(&found.copied()) {
                        return Err(format!("{name} is {found:?}, not one of {possible:?}"));
                    }
                }
                Outcome::Rejected => {
                    if let Some(found) = found {
                        return Err(format!("{name} was rejected, but is stored as {found:?}"));
                    }
                }
                Outcome::Unknown => {}
            }
        }
        match stored
            .keys()
            .find(|name| !self.outcomes.contains_key(*name))
        {
            Some(name) => Err(format!("{name} was never created")),
            None => Ok(()),
        }
    }
}

/// Changes or deletes a pet.
async fn change(client: &Client, id: i64, trace: &Path, random: &mut StdRng) -> Change {
    let sent_at = disk::now(trace);
    let category = random.random::<bool>().then_some(2);
    let response = match category {
        None => client.delete(id).await,
        Some(category) => {
            let change = json!({"categoryId": category});
            let path = format!("/v1/pets/{id}");
            client.send_json(Method::PATCH, &path, &change, None).await
        }
    };
    let response = response.unwrap();
    let outcome = match response.status {
        200 | 204 => Outcome::Acknowledged(id),
        _ => unavailable(&response),
    };
    Change {
        category,
        sent_at,
        outcome,
        told_at: disk::now(trace),
    }
}

fn outcome(response: &Response) -> Outcome {
    match response.status {
        201 => Outcome::Acknowledged(response.json()["id"].as_i64().unwrap()),
        _ => unavailable(response),
    }
}

fn unavailable(response: &Response) -> Outcome {
    match response.status {
        503 if response.is_rejected() => Outcome::Rejected,
        503 => Outcome::Unknown,
        _ => panic!("{response:?}"),
    }
}

/// Another process that has the file open for a moment, again and again.
fn read_now_and_then(database: &Path, stop: &AtomicBool, mut random: StdRng) {
    while !stop.load(Ordering::Relaxed) {
        let db = open_for_reading(database);
        thread::sleep(Duration::from_millis(random.random_range(1..50)));
        drop(db);
        thread::sleep(Duration::from_millis(random.random_range(1..200)));
    }
}

fn open_for_reading(database: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags(database, flags).unwrap();
    // The file may be in the hands of a recovery.
    let _ = db.execute_batch("BEGIN; SELECT count(*) FROM pets");
    db
}
