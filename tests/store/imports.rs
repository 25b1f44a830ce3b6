//! The records of imports.

use domain::{
    category::{Category, CategoryId, CategoryName},
    import::{ChunkRejection, ImportChunk, ImportId, PetUpdate},
    json::{FromObject, Object},
    page::ListQuery,
    pet::{NewPet, Pet, PetChange, PetFilter, PetId, PetStatus, undo::KeptReason},
};
use jiff::SignedDuration;
use store::Store;
use support::Backend;

use crate::fixture::TestStore;

support::cases! {
    DATABASES: [
        records_are_purged,
        an_import_that_updates_can_be_undone,
        a_chunk_with_an_impossible_update_is_rejected,
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

fn update(id: i64, change: &str) -> PetUpdate {
    PetUpdate {
        id: PetId::from_store(id),
        change: parse::<PetChange>(change),
    }
}

const IMPORT: ImportId = ImportId([7; 32]);

fn chunk(from: i64, to: i64, pets: Vec<NewPet>, updates: Vec<PetUpdate>) -> ImportChunk {
    ImportChunk {
        id: IMPORT,
        from,
        to,
        pets,
        updates,
        categories: Vec::new(),
        is_last: false,
    }
}

/// Writes a chunk as it arrives from a command that uses a running service.
async fn write(store: &Store, chunk: &ImportChunk) -> Result<i64, ChunkRejection> {
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
    let TestStore {
        store,
        database: _database,
    } = TestStore::open(backend).await;
    for name in ["A", "B", "C"] {
        store.pet_create(1, new(name), None).await.unwrap();
    }
    let before = pets(&store).await;
    let change = r#"{"name":"A2","status":null,"price":{"amount":2},"metadata":{"a":null,"c":"d"},"notes":"E"}"#;
    let mut first = chunk(0, 3, vec![new("D"), new("E")], vec![update(1, change)]);
    first.categories.push(Category {
        id: CategoryId::from_store(9),
        name: CategoryName::parse("Nine").unwrap(),
    });
    write(&store, &first).await.unwrap();
    let second = chunk(
        3,
        5,
        Vec::new(),
        vec![update(2, r#"{"name":"B2"}"#), update(3, "{}")],
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
    let batch = IMPORT.batch_id();
    let plan = store.undo_plan(&batch, None).await.unwrap().unwrap();
    let domain::idempotency::Idempotent::Executed(outcome) =
        store.undo(1, plan, None).await.unwrap()
    else {
        panic!("it is not a retry");
    };
    assert_eq!((outcome.undone, outcome.next), (3, None));
    assert_eq!(outcome.kept.len(), 1);
    assert_eq!(outcome.kept[0].id, after[4].id);
    assert_eq!(outcome.kept[0].reason, KeptReason::Changed);
    let restored = pets(&store).await;
    assert_eq!(restored[..3], before[..]);
    assert_eq!(restored.len(), 4);
}

async fn a_chunk_with_an_impossible_update_is_rejected(backend: Backend) {
    let TestStore {
        store,
        database: _database,
    } = TestStore::open(backend).await;
    store.pet_create(1, new("A"), None).await.unwrap();
    let updates = vec![update(1, r#"{"name":"A2"}"#), update(99, "{}")];
    let rejected = write(&store, &chunk(0, 3, vec![new("B")], updates)).await;
    let rejection = rejected.unwrap_err().to_string();
    assert_eq!(
        rejection,
        "animal 99 cannot be changed: there is no such animal"
    );
    let names: Vec<_> = pets(&store)
        .await
        .iter()
        .map(|pet| pet.name.as_str().to_string())
        .collect();
    assert_eq!(names, ["A"]);
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
         SELECT {digest}, 1, 1, CASE WHEN n > {MAX_REMEMBERED} THEN n ELSE {now} - n END, NULL
         FROM numbers"
    ));
    let purge = async || store.import_purge(RETENTION).await.unwrap();
    assert_eq!(purge().await, 2);
    database.execute(&format!(
        "INSERT INTO imports
         SELECT {digest}, 1, 1, {now}, {now} FROM (SELECT 0 AS n) AS newest"
    ));
    assert_eq!(purge().await, 1);
    assert_eq!(purge().await, 0);
    let newest = "SELECT count(*) FROM imports WHERE finished_at IS NOT NULL";
    assert_eq!(database.query(newest), "1");
}
