//! The promises of the writer when a write, the disk or a commit fails.

use std::{convert::Infallible, fs, path::PathBuf, sync::mpsc};

use futures_util::poll;
use jiff::Timestamp;
use tempfile::TempDir;

use super::{
    super::{
        super::{
            command::{Command, QueuedCommand},
            draft::Draft,
            row_keys::{Keys, Sequence},
        },
        open::open,
    },
    *,
};
use domain::pet::{NewPet, Pet, PetId, PetName};

/// A writer on a new file.
struct Fixture {
    dir: TempDir,
    writer: Writer,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(Role::Service);
        let (path, file, _) = open(&dir.path().join("petstore.db"), &options).unwrap();
        let health = Arc::default();
        let times = || Times::of_one_clock(Timestamp::now());
        let readers = Readers::start(&path, 1, &health).unwrap();
        let writer = Writer::start(file, &path, readers, &health, &options, times).unwrap();
        Self { dir, writer }
    }

    async fn insert(&self, name: &'static str) -> Result<(), Error> {
        self.writer.run(move |db| insert(db, name)).await
    }

    /// Creates a pet by a command, which panics or violates a constraint if `fault` says so.
    async fn execute(&self, name: &'static str, fault: Option<Fault>) -> Result<(), Error> {
        self.queue(TestCommand { name, fault }).await
    }

    async fn queue(&self, command: impl Command) -> Result<(), Error> {
        let (queued, result) = QueuedCommand::with_receiver(command, None, None);
        self.writer.enqueue(queued)?;
        result.await.unwrap().map(drop)
    }

    /// Creates pets in one commit group.
    async fn execute_together(&self, names: [&'static str; 3]) -> [Result<(), Error>; 3] {
        let go = self.block().await;
        let [a, b, c] = names.map(|name| self.execute(name, None));
        let (a, b, c, ()) = tokio::join!(a, b, c, async { go.send(()).unwrap() });
        [a, b, c]
    }

    /// Returns the names of all pets, by ascending id.
    fn names(&self) -> String {
        self.query("SELECT group_concat(name, ' ' ORDER BY id) FROM pets")
    }

    /// Reads a text, as another connection sees it.
    fn query(&self, sql: &str) -> String {
        let db = Connection::open(self.path("")).unwrap();
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.dir.path().join(format!("petstore.db{suffix}"))
    }

    /// Blocks the writer, so that writes sent in the meantime form one group.
    async fn block(&self) -> mpsc::Sender<()> {
        let (go, wait) = mpsc::channel();
        let (started, has_started) = oneshot::channel();
        let mut blocking = Box::pin(self.writer.run(move |_| {
            started.send(()).unwrap();
            let _ = wait.recv();
            Ok(())
        }));
        assert!(poll!(&mut blocking).is_pending());
        has_started.await.unwrap();
        go
    }
}

fn insert(db: &Connection, name: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO pets (name, search_name, category_id) VALUES (?1, ?1, 1)";
    db.execute(sql, [name]).map(drop)
}

#[tokio::test]
async fn queued_writes_share_a_commit() {
    let fixture = Fixture::new();
    let before = fixture.writer.version().inserts;
    let outcomes = fixture.execute_together(["a", "b", "c"]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let commits = fixture.writer.version().inserts - before;
    assert_eq!(commits, 1, "one for all three");
    assert_eq!(fixture.names(), "a b c");
}

#[tokio::test]
async fn a_failed_or_panicking_write_is_undone_alone() {
    let fixture = Fixture::new();
    let go = fixture.block().await;
    let broken = fixture.writer.run(|db| {
        insert(db, "half")?;
        db.execute("UPDATE pets SET status = 'lost'", [])
    });
    let panicked = fixture.writer.run(|db| -> rusqlite::Result<()> {
        insert(db, "half")?;
        panic!("on purpose");
    });
    let (a, broken, b, panicked, c, ()) = tokio::join!(
        fixture.insert("a"),
        broken,
        fixture.insert("b"),
        panicked,
        fixture.insert("c"),
        async { go.send(()).unwrap() }
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert!(matches!(broken, Err(Error::Internal(_))), "{broken:?}");
    assert!(matches!(panicked, Err(Error::Internal(_))), "{panicked:?}");
    assert_eq!(fixture.names(), "a b c");
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Panics,
    /// The id of the pet is not allowed.
    IsRejected,
}

struct TestCommand {
    name: &'static str,
    fault: Option<Fault>,
}

impl Command for TestCommand {
    type Output = ();
    type Rejection = Infallible;

    fn keys(&self, keys: &mut Keys) {
        keys.draw(Sequence::Pets, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<(), Infallible> {
        let mut id = draft.new_id(Sequence::Pets);
        if let Some(Fault::IsRejected) = self.fault {
            id = -1;
        }
        let new = NewPet::new(PetName::from_store(self.name), 1);
        draft.put(new.with_id(PetId::from_store(id)));
        if let Some(Fault::Panics) = self.fault {
            panic!("on purpose");
        }
        Ok(())
    }
}

struct DeletePet(PetId);

impl Command for DeletePet {
    type Output = ();
    type Rejection = Infallible;

    fn keys(&self, keys: &mut Keys) {
        keys.pets.push(self.0);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<(), Infallible> {
        draft.delete::<Pet>(self.0);
        Ok(())
    }
}

/// An id is not reused even if no row has ever had it, or if the last id was set by hand.
#[tokio::test]
async fn an_id_is_given_once() {
    let fixture = Fixture::new();
    let go = fixture.block().await;
    let (created, deleted, ()) = tokio::join!(
        fixture.execute("a", None),
        fixture.queue(DeletePet(PetId::from_store(1))),
        async { go.send(()).unwrap() }
    );
    assert!(created.is_ok() && deleted.is_ok());
    fixture.execute("b", None).await.unwrap();
    let ids = "SELECT group_concat(name || id, ' ') FROM pets";
    assert_eq!(fixture.query(ids), "b2");
    let set_by_hand = |db: &Connection| db.execute("UPDATE pets SET id = 8", []).map(drop);
    fixture.writer.run(set_by_hand).await.unwrap();
    fixture.execute("c", None).await.unwrap();
    assert_eq!(fixture.query(ids), "b8 c9");
}

/// The other commands of its group are executed, with their events.
#[tokio::test]
async fn a_command_at_fault_fails_alone() {
    for fault in [Fault::Panics, Fault::IsRejected] {
        let fixture = Fixture::new();
        let go = fixture.block().await;
        let (a, faulty, b, c, write, ()) = tokio::join!(
            fixture.execute("a", None),
            fixture.execute("faulty", Some(fault)),
            fixture.execute("b", None),
            fixture.execute("c", None),
            fixture.insert("d"),
            async { go.send(()).unwrap() }
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok() && write.is_ok());
        assert!(matches!(faulty, Err(Error::Internal(_))), "{faulty:?}");
        assert_eq!(fixture.names(), "a b c d");
        let events = fixture.query("SELECT group_concat(sequence || type, ' ') FROM events");
        let expected = "1pet.created 2pet.created 3pet.created";
        assert_eq!(events, expected, "{fault:?}");
    }
}

/// SQLite rolls back the whole transaction when the disk is full. No command of the
/// group may be acknowledged, and later groups succeed.
#[tokio::test]
async fn a_full_disk_fails_the_whole_commit_group() {
    let fixture = Fixture::new();
    fixture.execute("first", None).await.unwrap();
    let limit = |pages: Option<u32>| {
        fixture.writer.run(move |db| {
            let count = db.pragma_query_value(None, "page_count", |row| row.get(0))?;
            let pages = pages.unwrap_or(count);
            db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
        })
    };
    limit(None).await.unwrap();
    let large = "x".repeat(100_000).leak();
    for outcome in fixture.execute_together(["a", large, "b"]).await {
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    }
    assert_eq!(fixture.names(), "first");
    limit(Some(1_000_000)).await.unwrap();
    fixture.execute("next", None).await.unwrap();
    assert_eq!(fixture.names(), "first next");
}

/// A violated deferred constraint is only found by the commit. Nothing is stored,
/// and every caller is told so.
#[tokio::test]
async fn a_failed_commit_fails_the_whole_commit_group() {
    let fixture = Fixture::new();
    let db = Connection::open(fixture.path("")).unwrap();
    db.execute_batch(
        "CREATE TABLE tags (pet_id INTEGER REFERENCES pets (id) DEFERRABLE INITIALLY DEFERRED);
         CREATE TRIGGER violate_constraint AFTER INSERT ON pets WHEN NEW.name = 'bad' BEGIN
             INSERT INTO tags VALUES (-1);
         END",
    )
    .unwrap();
    let before = fixture.writer.version().inserts;
    for outcome in fixture.execute_together(["a", "bad", "b"]).await {
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    }
    let version = fixture.writer.version().inserts;
    assert!(version > before, "cached reads may be stale");
    fixture.execute("next", None).await.unwrap();
    assert_eq!(fixture.names(), "next");
}

#[tokio::test]
async fn a_write_outlives_its_caller_and_close_drains_it() {
    let fixture = Fixture::new();
    let go = fixture.block().await;
    let mut write = Box::pin(fixture.insert("orphan"));
    assert!(poll!(&mut write).is_pending());
    drop(write);
    go.send(()).unwrap();
    fixture.writer.close().await;
    assert_eq!(fixture.names(), "orphan");
    let late = fixture.insert("late").await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
}

/// The busy handler waits while another process has the write lock.
#[tokio::test]
async fn a_locked_file_is_waited_for() {
    let fixture = Fixture::new();
    let other = Connection::open(fixture.path("")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut write = Box::pin(fixture.insert("patient"));
    assert!(poll!(&mut write).is_pending());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(poll!(&mut write).is_pending());
    other.execute_batch("COMMIT").unwrap();
    write.await.unwrap();
    assert_eq!(fixture.names(), "patient");
}

/// Writes to a file that lost its name would be lost with it.
#[tokio::test]
async fn a_file_that_was_moved_away_is_not_written_to() {
    let fixture = Fixture::new();
    let here = fixture.path("");
    let away = fixture.path("-away");
    fixture.insert("before").await.unwrap();
    fs::rename(&here, &away).unwrap();
    let moved = fixture.insert("moved").await;
    assert!(matches!(moved, Err(Error::Unavailable(_))), "{moved:?}");
    fs::rename(&away, &here).unwrap();
    fixture.insert("after").await.unwrap();
    assert_eq!(fixture.names(), "before after");
}

/// The contents of a deleted WAL would be lost with the process.
#[tokio::test]
async fn a_deleted_wal_is_saved_and_replaced() {
    for deleted in [&["-wal"][..], &["-shm"], &["-wal", "-shm"]] {
        let fixture = Fixture::new();
        fixture.insert("before").await.unwrap();
        for suffix in deleted {
            fs::remove_file(fixture.path(suffix)).unwrap();
        }
        fixture.insert("after").await.unwrap();
        // The files that another process would find after a crash.
        let crashed = Fixture {
            dir: tempfile::tempdir().unwrap(),
            writer: fixture.writer,
        };
        for file in ["petstore.db", "petstore.db-wal"] {
            fs::copy(fixture.dir.path().join(file), crashed.dir.path().join(file)).unwrap();
        }
        assert_eq!(crashed.names(), "before after", "{deleted:?}");
    }
}

/// A WAL from elsewhere would mix two histories.
#[tokio::test]
async fn a_replaced_wal_is_not_written_to() {
    let fixture = Fixture::new();
    fixture.insert("before").await.unwrap();
    let wal = fixture.path("-wal");
    let away = fixture.path("-away");
    fs::rename(&wal, &away).unwrap();
    fs::copy(&away, &wal).unwrap();
    let lost = fixture.insert("lost").await;
    assert!(matches!(lost, Err(Error::Unavailable(_))), "{lost:?}");
    fs::rename(&away, &wal).unwrap();
    fixture.insert("after").await.unwrap();
    assert_eq!(fixture.names(), "before after");
}

/// A checkpoint follows once the WAL has grown, so that it stays small.
#[tokio::test]
async fn the_wal_is_checkpointed() {
    let fixture = Fixture::new();
    for _ in 0..80 {
        let name = "x".repeat(1 << 17);
        let write = move |db: &Connection| insert(db, &name);
        fixture.writer.run(write).await.unwrap();
    }
    let wal = &fixture.writer.shared.wal;
    assert!(wal.checkpoints.get() >= 2, "{wal:?}");
    assert_eq!(wal.checkpoint_failures.get(), 0);
    let size = fs::metadata(fixture.path("-wal")).unwrap().len();
    assert!(size < 24 << 20, "{size}");
}

/// A WAL that only grows would fill the disk.
#[tokio::test]
async fn a_large_wal_is_unhealthy_while_checkpoints_fail() {
    let fixture = Fixture::new();
    let wal = &fixture.writer.shared.wal;
    wal.failing.store(true, Ordering::Relaxed);
    fixture.writer.ping().await.unwrap();
    wal.size.set(MAX_WAL_SIZE + 1);
    let ping = fixture.writer.ping().await;
    assert!(matches!(ping, Err(Error::Unavailable(_))), "{ping:?}");
    wal.failing.store(false, Ordering::Relaxed);
    fixture.writer.ping().await.unwrap();
}

/// Cached reads stay valid while only API keys are written.
#[tokio::test]
async fn a_write_without_effect_keeps_the_version() {
    let fixture = Fixture::new();
    let before = fixture.writer.version().inserts;
    fixture.writer.run(|_| Ok(())).await.unwrap();
    assert_eq!(fixture.writer.version().inserts, before);
    fixture.execute("seen", None).await.unwrap();
    assert_eq!(fixture.writer.version().inserts, before + 1);
}
