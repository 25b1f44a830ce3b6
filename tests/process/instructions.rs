//! The instructions that the service executes on its hot paths, counted by callgrind.
//!
//! A count hardly depends on the machine or its load, so it shows a regression that noise
//! would hide from a measurement of time. Only our code and what it calls is counted, not
//! hyper, the runtime or background tasks. The build is that of the other tests, without
//! optimisation, so a count is only good for comparing it with an earlier one; `make bench`
//! measures what requests cost in a release.
//!
//! Counts are comparable if they come from the same build settings and the same machine:
//! `make test` determines the former, so it fails if they differ from the reference's.
//! Otherwise the test is skipped, and says so.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    process::Command,
};

use futures_util::future::join_all;
use serde_json::json;
use support::{CommandResult, RawConnection, Response, note_skipped};

use crate::harness::{Home, PETSTORE, Service};

/// The counts that are compared with, and what they were counted with.
const REFERENCE: &str = "tests/process/instructions.txt";
/// The environment variable that replaces them by the new counts.
const ACCEPT: &str = "ACCEPT_INSTRUCTIONS";
/// The environment variable of `make test`: other build settings are a failure.
const REQUIRE: &str = "REQUIRE_INSTRUCTIONS";
const HOW_TO_ACCEPT: &str = "accept the new counts with `make accept-instructions`";
/// The number of series in a row that may fail to lower the count by a thousandth: of reads,
/// which repeat, and of writes, which vary more on a busy machine: the writes of background
/// tasks are counted with them.
const READ_PATIENCE: usize = 8;
const WRITE_PATIENCE: usize = 40;

/// The functions whose instructions are counted, with those of all functions they call.
const COUNTED: [&str; 7] = [
    "petstore_api::middleware::handle",
    "petstore_api::middleware::resume::{{closure}}",
    "petstore_api::events::stream::EventStream::next::{{closure}}",
    "petstore_store::event_tail::EventTail::follow::{{closure}}",
    "petstore_store::sqlite::events::<impl petstore_store::sqlite::Sqlite>::event_read::{{closure}}::{{closure}}",
    "petstore_store::sqlite::pets::<impl petstore_store::sqlite::Sqlite>::pet_list::{{closure}}::{{closure}}",
    WRITE,
];
const WRITE: &str = "petstore_store::sqlite::writer::WriterThread::process";

/// Requests in a series.
const REQUESTS: usize = 10;
/// The same for cached reads.
const CACHED: usize = 50;
/// Connections that create at the same time.
const CLIENTS: usize = 64;
/// Clients that follow the events.
const STREAMS: usize = 8;

async fn send(connection: &mut RawConnection, request: &str, status: u16) -> Response {
    connection.send(request).await;
    let response = connection.response().await.unwrap();
    assert_eq!(response.status, status, "{response:?}");
    response
}

async fn connections(service: &Service, count: usize) -> Vec<RawConnection> {
    join_all((0..count).map(|_| RawConnection::connect(service.address))).await
}

/// Pets that have only the members that all have, followed by as many that have every member.
fn pets() -> String {
    let mut lines = String::new();
    for number in 0..2000 {
        let pet = json!({"name": format!("Rex {number}"), "categoryId": number % 9,
                         "status": "available"});
        let _ = writeln!(lines, "{pet}");
    }
    for number in 0..2000 {
        let pet = json!({
            "name": format!("Juniper {number}"), "categoryId": number % 9, "status": "available",
            "breed": "Cavalier King Charles Spaniel", "sex": "female", "birthDate": "2026-08-02",
            "color": "blenheim", "microchip": format!("{}", 985_112_004_000_000_i64 + number),
            "price": {"amount": 145_000, "currency": "USD"}, "description": "Calm, likes children.",
            "notes": "Second vaccination on 1 December.", "location": "Kennel 4",
            "acquiredOn": "2026-10-19",
            "source": {"name": "Hollow Oak", "address": "12 Mill Lane", "licence": "52-B-0187"},
            "metadata": {"feed": "puppy-small", "litter": "2026-07"},
        });
        let _ = writeln!(lines, "{pet}");
    }
    lines
}

/// A service under callgrind, and the counts so far.
struct Counter {
    home: Home,
    service: Service,
    key: String,
    dumps: usize,
    /// True if requests write, so that the writer's thread counts, too. While they only read,
    /// it records the use of API keys now and then: more often in a series that takes longer.
    writes: bool,
    reference: BTreeMap<String, u64>,
    counts: BTreeMap<&'static str, u64>,
    /// The functions of [`COUNTED`] that no dump has named so far. Callgrind ignores names that
    /// match no function, so one that was renamed would lower the counts.
    missing: BTreeSet<&'static str>,
}

impl Counter {
    fn start(reference: BTreeMap<String, u64>) -> Self {
        let home = Home::new();
        fs::write(home.path("pets.jsonl"), pets()).unwrap();
        home.petstore(&["import", "pets.jsonl"]).success();
        let key = home.new_key();
        let mut command = home.command("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=counts"]);
        command.arg("--separate-threads=yes");
        command.args(COUNTED.map(|function| format!("--toggle-collect={function}")));
        command.args([PETSTORE, "serve", "--listen", "127.0.0.1:0"]);
        command.args(["--failed-auth-limit", "1000/s"]);
        // One thread for all connections, as their order is part of what they cost.
        let service = Service::start(command.env("TOKIO_WORKER_THREADS", "1"));
        Self {
            home,
            service,
            key,
            dumps: 0,
            writes: false,
            reference,
            counts: BTreeMap::new(),
            missing: COUNTED.into(),
        }
    }

    /// The instructions since the last call.
    fn counted(&mut self) -> u64 {
        self.dumps += 1;
        let mut dump = self.home.command("callgrind_control");
        CommandResult::of(dump.args(["--dump", &self.service.pid().to_string()])).success();
        // One file for each thread.
        let prefix = format!("counts.{}-", self.dumps);
        let files = self.home.contents().into_iter();
        let threads = files.filter(|(name, _)| name.starts_with(&prefix));
        let counts = threads.map(|(name, text)| {
            let text = String::from_utf8(text).unwrap();
            fs::remove_file(self.home.path(&name)).unwrap();
            // A function is named where its number is first used: `fn=(7) name`.
            let is_named = |function: &&str| text.contains(&format!(") {function}\n"));
            self.missing.retain(|function| !is_named(function));
            let mut lines = text.lines();
            let total = lines
                .find_map(|line| line.strip_prefix("totals: "))
                .unwrap();
            if text.contains(WRITE) && !self.writes {
                0
            } else {
                total.parse::<u64>().unwrap()
            }
        });
        counts.sum()
    }

    /// Counts the instructions per request in series of `requests` requests, of which the
    /// smallest count is kept: whatever disturbs a count adds to it. Ends with a count that is
    /// within the limit, or once more series do not lower it. The first series, which fills
    /// caches, is not counted. A series is passed its number, and returns false if it is not to
    /// be counted, because requests failed on a slow machine.
    async fn count(
        &mut self,
        name: &'static str,
        requests: usize,
        mut series: impl AsyncFnMut(usize) -> bool,
    ) {
        series(0).await;
        self.counted();
        let reference = self.reference.get(name).copied();
        let patience = if self.writes {
            WRITE_PATIENCE
        } else {
            READ_PATIENCE
        };
        let mut least = u64::MAX;
        let mut number = 0;
        let mut in_vain = 0;
        while in_vain < patience && reference.is_none_or(|count| least > limit(name, count)) {
            number += 1;
            let is_valid = series(number).await;
            let count = self.counted() / requests as u64;
            if !is_valid {
                continue;
            }
            in_vain = if count < least - least / 1000 {
                0
            } else {
                in_vain + 1
            };
            least = least.min(count);
        }
        self.counts.insert(name, least);
    }
}

/// The highest count allowed: 1 % above the reference where counts always repeat, or else 3 %.
fn limit(name: &str, reference: u64) -> u64 {
    let percent = match name {
        "list" | "list, compressed" | "get" | "not modified" | "wrong key" => 1,
        _ => 3,
    };
    reference + reference * percent / 100
}

/// The first two lines of the reference: the conditions under which counts are comparable.
struct Conditions {
    /// Determined by this repository, in a build by `make test`.
    build: String,
    /// Given by the machine and its user.
    machine: String,
}

impl Conditions {
    fn current() -> Self {
        let version = |program: &str| {
            let version = Command::new(program).arg("--version").output().unwrap();
            let version = String::from_utf8(version.stdout).unwrap();
            version.lines().next().unwrap_or_default().to_string()
        };
        let set = |name: &str, value: Option<&str>| {
            let value = value.unwrap_or_default().replace('\x1f', " ");
            format!("{name}={value}")
        };
        // Variables that cargo or the compiler has seen. If one of them changes, cargo compiles
        // this file again.
        let build = [
            version("rustc"),
            concat!("opt-level ", env!("BUILD_OPT_LEVEL")).into(),
            concat!("debug ", env!("BUILD_DEBUG")).into(),
            set("CARGO_INCREMENTAL", option_env!("CARGO_INCREMENTAL")),
            set(
                "RUSTC_WORKSPACE_WRAPPER",
                option_env!("RUSTC_WORKSPACE_WRAPPER"),
            ),
        ];
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap();
        let machine = [
            env!("BUILD_TARGET").into(),
            version(option_env!("CC").unwrap_or("cc")),
            version("valgrind"),
            set("AVX2", processor.contains(" avx2 ").then_some("1")),
            set("CFLAGS", option_env!("CFLAGS")),
            set("RUSTFLAGS", Some(env!("BUILD_CARGO_ENCODED_RUSTFLAGS"))),
        ];
        Self {
            build: build.join(", "),
            machine: machine.join(", "),
        }
    }
}

/// The counts to compare with: none if they are to be replaced, or an `Err` with the reason
/// if they are not comparable.
///
/// # Panics
///
/// Panics if `make test` has made another build than the reference's.
fn reference() -> Result<BTreeMap<String, u64>, String> {
    if env::var_os(ACCEPT).is_some() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(REFERENCE).unwrap();
    let mut lines = text.lines();
    let counted = Conditions {
        build: lines.next().unwrap().into(),
        machine: lines.next().unwrap().into(),
    };
    let current = Conditions::current();
    if counted.build != current.build {
        let reason = format!(
            "the counts in {REFERENCE} were made with [{}], this build with [{}]",
            counted.build, current.build
        );
        assert!(env::var_os(REQUIRE).is_none(), "{reason}; {HOW_TO_ACCEPT}");
        return Err(format!("{reason}; `make test` makes a comparable build"));
    }
    if counted.machine != current.machine {
        return Err(format!(
            "the counts in {REFERENCE} were made on [{}], this machine is [{}]; {HOW_TO_ACCEPT} to compare here",
            counted.machine, current.machine
        ));
    }
    let counts = lines.map(|line| line.trim().split_once(' ').unwrap());
    Ok(counts
        .map(|(count, name)| (name.into(), count.parse().unwrap()))
        .collect())
}

/// A request, as text.
fn request(line: &str, key: &str, more_headers: &str, body: &str) -> String {
    let mut text = format!("{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n");
    if !body.is_empty() {
        let length = body.len();
        let _ = write!(
            text,
            "Content-Type: application/json\r\nContent-Length: {length}\r\n"
        );
    }
    text + more_headers + "\r\n" + body
}

#[tokio::test]
#[ignore = "needs valgrind; make test installs it and runs this"]
async fn hot_paths_execute_no_more_instructions_than_before() {
    let reference = match reference() {
        Ok(reference) => reference,
        Err(reason) => {
            let name = "hot_paths_execute_no_more_instructions_than_before";
            return note_skipped(name, &reason);
        }
    };
    let mut counter = Counter::start(reference);
    let key = counter.key.clone();
    let client = &mut RawConnection::connect(counter.service.address).await;

    let list = request("GET /v1/pets", &key, "", "");
    let listed = send(client, &list, 200).await;
    let codings = "Accept-Encoding: gzip, deflate, br, zstd\r\n";
    let compressed = request("GET /v1/pets", &key, codings, "");
    let etag = listed.header("etag").unwrap();
    let not_modified = format!("If-None-Match: {etag}\r\n");
    let not_modified = request("GET /v1/pets", &key, &not_modified, "");
    let get = request("GET /v1/pets/7", &key, "", "");
    let wrong_key = request("GET /v1/pets", &format!("psk_{}", "a".repeat(38)), "", "");
    for (name, request, status) in [
        ("list", &list, 200),
        ("list, compressed", &compressed, 200),
        ("get", &get, 200),
        ("not modified", &not_modified, 304),
        ("wrong key", &wrong_key, 401),
    ] {
        let series = async |_| {
            for _ in 0..CACHED {
                send(client, request, status).await;
            }
            true
        };
        counter.count(name, CACHED, series).await;
    }

    // Pages that were not read before: each series has another limit.
    for (name, sort) in [("page", "asc"), ("page, all members", "desc")] {
        let pages = async |series| {
            let mut target = format!("/v1/pets?sort={sort}&limit={}", 20 + series);
            for _ in 0..REQUESTS {
                let page = request(&format!("GET {target}"), &key, "", "");
                target = send(client, &page, 200).await.next().unwrap();
            }
            true
        };
        counter.count(name, REQUESTS, pages).await;
    }

    counter.writes = true;
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"}).to_string();
    let create = request("POST /v1/pets", &key, "", &pet);
    let creates = async |_| {
        for _ in 0..REQUESTS {
            send(client, &create, 201).await;
        }
        true
    };
    counter.count("create", REQUESTS, creates).await;
    let orders = async |_| {
        for _ in 0..REQUESTS {
            let created = send(client, &create, 201).await;
            let order = json!({"petId": created.json()["id"]}).to_string();
            let order = request("POST /v1/store/orders", &key, "", &order);
            send(client, &order, 201).await;
        }
        true
    };
    counter.count("create and order", REQUESTS, orders).await;

    // While the file is locked, all writes queue up.
    let mut clients = connections(&counter.service, CLIENTS).await;
    let health = request("GET /healthz", &key, "", "");
    let database = counter.home.database();
    let batch = async |_| {
        let lock = rusqlite::Connection::open(&database).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        join_all(clients.iter_mut().map(|client| client.send(&create))).await;
        // The service handles them on its one thread, which may run the newest request first, but
        // not every time. Health checks, because lists sometimes cost far more on a busy machine.
        for _ in 0..4 {
            send(client, &health, 200).await;
        }
        drop(lock);
        let created = join_all(clients.iter_mut().map(RawConnection::response)).await;
        // On a slow machine they may wait for the lock until they time out.
        created
            .iter()
            .all(|response| response.as_ref().unwrap().status == 201)
    };
    counter.count("create, 64 at a time", CLIENTS, batch).await;
    drop(clients);

    let mut streams = connections(&counter.service, STREAMS).await;
    for stream in &mut streams {
        let follow = request("GET /v1/events/stream", &key, "", "");
        stream.send(follow).await;
        stream.read_until("retry: ").await;
    }
    let events = async |_| {
        for _ in 0..REQUESTS {
            send(client, &create, 201).await;
            for stream in &mut streams {
                stream.read_until("event: pet.created").await;
            }
        }
        true
    };
    let name = "create, followed by 8 streams";
    counter.count(name, REQUESTS, events).await;
    compare(&counter);
}

/// Compares the counts with those of the reference, or makes them the reference.
///
/// # Panics
///
/// Panics if a count has grown, or lacks one of the functions it consists of.
fn compare(
    Counter {
        reference,
        counts,
        missing,
        ..
    }: &Counter,
) {
    assert!(
        missing.is_empty(),
        "callgrind has not seen {missing:?}: if a function was renamed, or is no longer called, correct COUNTED in {}, and {HOW_TO_ACCEPT}",
        file!()
    );
    if env::var_os(ACCEPT).is_some() {
        let lines = counts
            .iter()
            .map(|(name, count)| format!("{count:>8} {name}\n"));
        let lines = lines.collect::<String>();
        let Conditions { build, machine } = Conditions::current();
        fs::write(REFERENCE, format!("{build}\n{machine}\n{lines}")).unwrap();
        return;
    }
    let mut grown = String::new();
    for (name, count) in counts {
        match reference.get(*name) {
            Some(before) if *count <= limit(name, *before) => {
                println!("{name}: {before}, now {count}")
            }
            Some(before) => drop(writeln!(grown, "{name}: {before}, now {count}")),
            None => drop(writeln!(grown, "{name}: now {count}")),
        }
    }
    assert!(
        grown.is_empty(),
        "more instructions than before:\n{grown}If that is worth it, {HOW_TO_ACCEPT}"
    );
}
