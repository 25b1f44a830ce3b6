//! The records of imports.

use domain::{
    category::{Category, CategoryId, CategoryName, ExpectedCategory},
    idempotency::Idempotent,
    import::{
        ComparedMembers, ImportChunk, ImportId, ImportRun, NamedCategory, PetUpdate, StoppedImport,
        WrittenChunk,
    },
    json::{FromObject, Object},
    page::ListQuery,
    pet::{NewPet, Pet, PetChange, PetFilter, PetId, PetStatus, batch::BatchId},
    undo::{KeptReason, UndoOutcome, UndoPlan},
};
use jiff::SignedDuration;
use store::Store;
use support::Backend;

use crate::fixture::TestStore;

support::cases! {
    DATABASES: [
        records_are_purged,
        an_import_that_updates_can_be_undone,
        an_import_that_goes_on_is_undone_from_the_top,
        a_category_that_was_taken_stops_the_import,
        a_category_that_is_used_is_kept,
        what_cannot_be_changed_anymore_is_left_out,
        a_later_change_by_others_is_not_lost,
        a_chunk_of_another_run_is_outdated,
        only_the_run_that_was_found_is_forgotten,
    ],
}

fn parse<T: FromObject>(json: &str) -> T {
    let object = Object::parse(json.as_bytes()).unwrap();
    T::from_object(&object).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn new(name: &str) -> NewPet {
    parse(&format!(
        r#"{{"name":"{name}","categoryId":1,"status":"available","price":{{"amount":1,"currency":"EUR"}},"metadata":{{"a":"b"}}}}"#
    ))
}

/// Compares a pet with itself after a change, as a command does when it checks a file.
fn update(pet: &Pet, change: &str) -> PetUpdate {
    let after = parse::<PetChange>(change).decide(pet, None, None).unwrap();
    PetUpdate::new(pet.id, ComparedMembers::between(pet, &after)).unwrap()
}

const IMPORT: ImportId = ImportId([7; 32]);

fn run(batch_id: &str) -> ImportRun {
    ImportRun {
        batch_id: BatchId::parse(batch_id).unwrap(),
        last_known_id: 3,
    }
}

fn chunk(from: i64, to: i64, pets: Vec<NewPet>, updates: Vec<PetUpdate>) -> ImportChunk {
    ImportChunk {
        id: IMPORT,
        run: run("first"),
        from,
        to,
        pets,
        updates,
        categories: Vec::new(),
        is_last: false,
    }
}

/// Writes a chunk as it arrives from a command that uses a running service.
async fn write(store: &Store, chunk: &ImportChunk) -> Result<WrittenChunk, StoppedImport> {
    let sent = serde_json::to_string(chunk).unwrap();
    store
        .pet_import(ImportChunk::parse(&sent).unwrap())
        .await
        .unwrap()
}

async fn pets(store: &Store) -> Vec<Pet> {
    let query = ListQuery::<PetFilter>::parse("limit=100").unwrap();
    store.pet_list(query).await.unwrap().items
}

async fn an_import_that_updates_can_be_undone(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    for name in ["A", "B", "C"] {
        store.pet_create(1, new(name), None).await.unwrap();
    }
    let before = pets(&store).await;
    let change = r#"{"name":"A2","status":null,"price":{"amount":2},"metadata":{"a":null,"c":"d"},"notes":"E"}"#;
    let mut first = chunk(
        0,
        3,
        vec![new("D"), new("E")],
        vec![update(&before[0], change)],
    );
    first.categories.push(named(9, "Nine", true));
    write(&store, &first).await.unwrap();
    let second = chunk(
        3,
        5,
        Vec::new(),
        vec![
            update(&before[1], r#"{"name":"B2"}"#),
            update(&before[2], "{}"),
        ],
    );
    write(&store, &second).await.unwrap();
    let after = pets(&store).await;
    assert_eq!(after.len(), 5);
    assert_eq!(after[0].price.as_ref().unwrap().amount.get(), 2);
    assert_eq!((after[0].status, after[1].name.as_str()), (None, "B2"));
    // One of the new animals is changed in between.
    let sold = PetChange {
        status: domain::members::Patch::Set(PetStatus::Sold),
        ..PetChange::default()
    };
    store
        .pet_update(1, after[4].id, sold, None)
        .await
        .unwrap()
        .unwrap();
    let batch = run("first").batch_id;
    let outcome = undo(&store, &batch, None).await;
    assert_eq!((outcome.undone, outcome.categories), (3, 0));
    assert_eq!(outcome.kept.len(), 1);
    assert_eq!(outcome.kept[0].id, after[4].id);
    assert_eq!(outcome.kept[0].reason, KeptReason::Changed);
    let restored = pets(&store).await;
    assert_eq!(restored[..3], before[..]);
    assert_eq!(restored.len(), 4);
    assert_eq!(database.query("SELECT kept FROM imports"), "1");
    // Categories are undone after the animals that have them.
    let outcome = undo(&store, &batch, outcome.next).await;
    assert_eq!((outcome.undone, outcome.categories), (0, 1));
    assert_eq!(outcome.next, None);
    let state = "SELECT undo || ' ' || kept FROM imports";
    assert_eq!(database.query(state), "finished 1");
    // A repeated undo counts again.
    let outcome = undo(&store, &batch, None).await;
    assert_eq!((outcome.undone, outcome.kept.len()), (0, 1));
    assert_eq!(database.query(state), "started 1");
}

async fn undo(store: &Store, batch: &BatchId, below: Option<i64>) -> UndoOutcome {
    let plan = store.undo_plan(batch, below).await.unwrap().unwrap();
    execute(store, plan).await
}

async fn execute(store: &Store, plan: UndoPlan) -> UndoOutcome {
    match store.undo(1, plan, None).await.unwrap() {
        Idempotent::Executed(outcome) => outcome,
        other => panic!("it is not a retry: {other:?}"),
    }
}

fn named(id: i64, name: &str, is_new: bool) -> NamedCategory {
    let category = Category {
        id: CategoryId::from_store(id),
        name: CategoryName::parse(name).unwrap(),
    };
    NamedCategory { category, is_new }
}

/// The pets of a file do not get another category than the one that the file names.
async fn a_category_that_was_taken_stops_the_import(backend: Backend) {
    let TestStore {
        store,
        database: _database,
    } = TestStore::open(backend).await;
    store.pet_create(1, new("Unnamed"), None).await.unwrap();
    for (id, name) in [(2, "Cats"), (3, "Birds")] {
        let category = named(id, name, true).category;
        let put = store.category_put(1, category, None, ExpectedCategory::Any);
        put.await.unwrap().unwrap();
    }
    for (id, name, is_new, is_taken) in [
        // The number, the name, or both.
        (2, "Dogs", true, true),
        (2, "Dogs", false, true),
        (4, "cats", true, true),
        (3, "Cats", false, true),
        // A pet has the number.
        (1, "Dogs", true, true),
        (1, "Dogs", false, false),
        // Another client has named it the same.
        (2, "CATS", true, false),
        (4, "Fish", true, false),
    ] {
        let mut first = chunk(0, 1, vec![new("A")], Vec::new());
        first.id = ImportId([10 * id as u8 + u8::from(is_new); 32]);
        first.categories = vec![named(5, "New", true), named(id, name, is_new)];
        let before = pets(&store).await;
        let written = write(&store, &first).await;
        if is_taken {
            assert_eq!(written.unwrap_err(), StoppedImport::CategoryTaken(id));
            assert_eq!(pets(&store).await, before);
            let other = store.category_get(CategoryId::from_store(5)).await;
            assert_eq!(other.unwrap(), None, "{id} {name}");
        } else {
            written.unwrap();
            let stored = store.category_get(CategoryId::from_store(id)).await;
            let stored = stored.unwrap().unwrap().name;
            assert_eq!(stored.folded(), name.to_lowercase());
            // It would be taken by the next one.
            let undone = store.category_delete(1, CategoryId::from_store(5), None);
            undone.await.unwrap().unwrap();
        }
    }
}

/// A pet may get the category of an import while it is being undone.
async fn a_category_that_is_used_is_kept(backend: Backend) {
    let TestStore {
        store,
        database: _database,
    } = TestStore::open(backend).await;
    let mut first = chunk(0, 1, Vec::new(), Vec::new());
    first.categories = vec![named(1, "One", true), named(2, "Two", true)];
    write(&store, &first).await.unwrap();
    let batch = run("first").batch_id;
    let plan = store.undo_plan(&batch, None).await.unwrap().unwrap();
    store.pet_create(1, new("Late"), None).await.unwrap();
    assert_eq!(execute(&store, plan).await.categories, 1);
    for (id, is_kept) in [(1, true), (2, false)] {
        let category = store.category_get(CategoryId::from_store(id)).await;
        assert_eq!(category.unwrap().is_some(), is_kept);
    }
}

/// The plan of an undo may be older than the last change of an import that is still running.
async fn an_import_that_goes_on_is_undone_from_the_top(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    write(&store, &chunk(0, 1, vec![new("A")], Vec::new()))
        .await
        .unwrap();
    let batch = run("first").batch_id;
    let plan = store.undo_plan(&batch, None).await.unwrap().unwrap();
    write(&store, &chunk(1, 2, vec![new("B")], Vec::new()))
        .await
        .unwrap();
    let first = execute(&store, plan).await;
    assert_eq!(first.undone, 1);
    assert_eq!(database.query("SELECT undo FROM imports"), "started");
    // From now on, the import is stopped.
    let late = chunk(2, 3, vec![new("C")], Vec::new());
    assert_eq!(write(&store, &late).await, Err(StoppedImport::Undone));
    let second = undo(&store, &batch, first.next).await;
    assert_eq!((second.undone, second.next), (1, None));
    assert_eq!(database.query("SELECT undo FROM imports"), "finished");
    assert_eq!(write(&store, &late).await, Err(StoppedImport::Undone));
    assert_eq!(pets(&store).await, []);
}

async fn what_cannot_be_changed_anymore_is_left_out(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    store.pet_create(1, new("A"), None).await.unwrap();
    let with_microchip = |name: &str| {
        parse(&format!(
            r#"{{"name":"{name}","categoryId":1,"microchip":"123456789"}}"#
        ))
    };
    let holder = with_microchip("Holder");
    store.pet_create(1, holder, None).await.unwrap();
    let known = pets(&store).await;
    let missing = new("X").with_id(PetId::from_store(99));
    let updates = vec![
        update(&known[0], r#"{"name":"A2"}"#),
        update(&missing, r#"{"name":"Y"}"#),
    ];
    let pets_to_add = vec![with_microchip("C"), new("B")];
    let written = write(&store, &chunk(0, 4, pets_to_add, updates)).await;
    let rejected = written.unwrap().rejected;
    let rejected: Vec<_> = rejected.iter().map(ToString::to_string).collect();
    assert_eq!(
        rejected,
        [
            "animal 99 was not changed: there is no such animal",
            "C was not added: animal 2 now has the microchip 123456789",
        ]
    );
    let names: Vec<_> = pets(&store)
        .await
        .iter()
        .map(|pet| pet.name.as_str().to_string())
        .collect();
    assert_eq!(names, ["A2", "Holder", "B"]);
    let counts = database.query("SELECT added || ' ' || changed FROM imports");
    assert_eq!(counts, "1 1");
}

/// An import sets only the members that differ, and none that was changed since the file was
/// checked: staff may have changed the pet in the meantime.
async fn a_later_change_by_others_is_not_lost(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    for name in ["A", "B", "C"] {
        store.pet_create(1, new(name), None).await.unwrap();
    }
    let checked = pets(&store).await;
    let moved = r#"{"location":"Room 2","metadata":{"a":"c"}}"#;
    let updates = checked.iter().map(|pet| update(pet, moved)).collect();
    for (pet, change) in checked.iter().zip([
        r#"{"name":"Renamed by staff","metadata":{"x":"y"}}"#,
        r#"{"location":"Room 9"}"#,
        r#"{"location":"Room 2"}"#,
    ]) {
        let change = parse::<PetChange>(change);
        let updated = store.pet_update(1, pet.id, change, None).await.unwrap();
        updated.unwrap();
    }
    let written = write(&store, &chunk(0, 3, Vec::new(), updates)).await;
    let rejected = written.unwrap().rejected;
    let rejected: Vec<_> = rejected.iter().map(ToString::to_string).collect();
    assert_eq!(
        rejected,
        ["animal 2 was not changed: it was changed since the file was checked"]
    );
    let after = pets(&store).await;
    let seen = after.iter().map(|pet| {
        let location = pet.location.as_ref().unwrap().as_str();
        let metadata = pet.metadata.as_ref().unwrap().as_json();
        (pet.name.as_str(), location, metadata)
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("Renamed by staff", "Room 2", r#"{"a":"c","x":"y"}"#),
            ("B", "Room 9", r#"{"a":"b"}"#),
            ("C", "Room 2", r#"{"a":"c"}"#),
        ]
    );
    let counts = database.query("SELECT added || ' ' || changed FROM imports");
    assert_eq!(counts, "0 2");
}

/// A command that was overtaken by another one for the same file does not continue its run.
async fn a_chunk_of_another_run_is_outdated(backend: Backend) {
    let TestStore {
        store,
        database: _database,
    } = TestStore::open(backend).await;
    write(&store, &chunk(0, 1, vec![new("A")], Vec::new()))
        .await
        .unwrap();
    let mut other = chunk(1, 2, vec![new("B")], Vec::new());
    other.run = run("second");
    assert_eq!(write(&store, &other).await, Err(StoppedImport::Replaced));
    assert_eq!(pets(&store).await.len(), 1);
}

/// Two commands may repeat an import at the same time. The second one finds the run of the first.
async fn only_the_run_that_was_found_is_forgotten(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    let mut current = chunk(0, 1, vec![new("A")], Vec::new());
    current.run = run("second");
    write(&store, &current).await.unwrap();
    for (earlier, left) in [("first", "1"), ("second", "0")] {
        let earlier = run(earlier).batch_id;
        store.import_forget(IMPORT, &earlier).await.unwrap();
        assert_eq!(database.query("SELECT count(*) FROM imports"), left);
    }
}

/// The number of imports that are remembered, and the time that each is remembered for.
const MAX_REMEMBERED: i64 = 10_000;
const RETENTION: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The records of imports are bounded by their age and number.
async fn records_are_purged(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    // Expressions of a number `n`, and of the time.
    let (digest, now) = if backend == Backend::Postgres {
        (
            "decode(lpad(n::text, 64, '0'), 'hex')",
            "(extract(epoch FROM now()) * 1000000)::bigint",
        )
    } else {
        (
            "CAST(printf('%032d', n) AS BLOB)",
            "(unixepoch() * 1000000)",
        )
    };
    database.execute(&format!(
        "WITH RECURSIVE numbers (n) AS (
             SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MAX_REMEMBERED} + 2
         )
         INSERT INTO imports
         SELECT {digest}, 'a', 1, NULL, 1, 1, 0,
                CASE WHEN n > {MAX_REMEMBERED} THEN n ELSE {now} - n END, NULL, NULL, 0
         FROM numbers"
    ));
    let purge = async || store.import_purge(RETENTION).await.unwrap();
    assert_eq!(purge().await, 2);
    database.execute(&format!(
        "INSERT INTO imports
         SELECT {digest}, 'a', 1, NULL, 1, 1, 0, {now}, {now}, NULL, 0 FROM (SELECT 0 AS n) AS newest"
    ));
    assert_eq!(purge().await, 1);
    assert_eq!(purge().await, 0);
    let newest = "SELECT count(*) FROM imports WHERE finished_at IS NOT NULL";
    assert_eq!(database.query(newest), "1");
}
