//! Photos in a store: changes by other programs, and the purge of those that no pet shows.

use bytes::Bytes;
use domain::{
    idempotency::Idempotent,
    pet::{NewPet, PetId, PetName},
    photo::{PART_BYTES, PhotoArrangement, PhotoDigest, PhotoId, PhotoRejection, RETENTION},
};
use futures_util::future::join;
use sha2::{Digest, Sha256};
use store::{NewPhoto, Store};
use support::{Backend, Database};

use crate::fixture::{API_KEY, TestStore, petstore};

support::cases! {
    DATABASES: [
        changes_by_other_programs_remove_photos,
        removed_photos_are_purged_with_their_parts,
        a_photo_is_either_restored_or_purged,
    ],
}

async fn create(store: &Store) -> PetId {
    let new = NewPet::new(PetName::parse("Rex").unwrap(), 1);
    match store.pet_create(API_KEY, new, None).await.unwrap() {
        Idempotent::Executed(Ok(pet)) => pet.id,
        other => panic!("{other:?}"),
    }
}

/// A photo of several parts.
fn new_photo() -> NewPhoto {
    let full = Bytes::from(vec![1; 2 * PART_BYTES + 1]);
    let thumb = Bytes::from_static(&[2; 100]);
    let digest = Sha256::new().chain_update(&full).chain_update(&thumb);
    NewPhoto {
        width: 4,
        height: 3,
        sha256: digest.finalize().into(),
        full,
        thumb,
    }
}

async fn add(store: &Store, pet: PetId) -> PhotoId {
    let added = store.photo_add(API_KEY, pet, new_photo(), None).await;
    match added.unwrap() {
        Idempotent::Executed(Ok(photo)) => photo.id,
        other => panic!("{other:?}"),
    }
}

async fn delete(store: &Store, pet: PetId, id: PhotoId) {
    let deleted = store.photo_delete(API_KEY, pet, id).await;
    deleted.unwrap().unwrap();
}

/// The ids of the photos that are stored, shown ones and removed ones, and those that have parts.
fn stored(database: &Database) -> [String; 3] {
    let ids = |from: &str| {
        let ids = format!("SELECT DISTINCT id FROM {from} ORDER BY id");
        let list = match database {
            Database::Sqlite(_) => "group_concat(id, ',')",
            Database::Postgres(_) => "string_agg(id::text, ',')",
        };
        database.query(&format!(
            "SELECT coalesce({list}, '') FROM ({ids}) AS stored"
        ))
    };
    [
        ids("photos WHERE removed_at IS NULL"),
        ids("photos WHERE removed_at IS NOT NULL"),
        ids("(SELECT photo_id AS id FROM photo_parts) AS parts"),
    ]
}

fn make_removed_ones_old(database: &Database) {
    database.execute("UPDATE photos SET removed_at = 1 WHERE removed_at IS NOT NULL");
}

fn check(database: &Database) {
    petstore(&["check", "--database", &database.url()]).success();
}

async fn changes_by_other_programs_remove_photos(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    for _ in 0..4 {
        let pet = create(&store).await;
        add(&store, pet).await;
        add(&store, pet).await;
    }
    let all = "1,2,3,4,5,6,7,8";
    assert_eq!(stored(&database), [all, "", all]);
    // The third pet shows its second photo only.
    let digest = String::from(PhotoDigest::of(&new_photo().sha256));
    let second = format!(
        r#"UPDATE pets SET photos = '[{{"id":6,"width":4,"height":3,"digest":"{digest}"}}]'
           WHERE id = 3"#
    );
    for (change, shown, removed) in [
        ("DELETE FROM pets WHERE id = 1", "3,4,5,6,7,8", "1,2"),
        (
            "UPDATE pets SET photos = NULL WHERE id = 2",
            "5,6,7,8",
            "1,2,3,4",
        ),
        (&second, "6,7,8", "1,2,3,4,5"),
    ] {
        database.execute(change);
        assert_eq!(stored(&database), [shown, removed, all], "{change}");
        check(&database);
    }
    let everything = match backend {
        Backend::Postgres => "TRUNCATE pets",
        _ => "DELETE FROM pets",
    };
    database.execute(everything);
    assert_eq!(stored(&database), ["", all, all]);
    check(&database);
    // They are removed as of now.
    assert_eq!(store.photo_purge(RETENTION).await.unwrap(), 0);
    make_removed_ones_old(&database);
    assert_eq!(store.photo_purge(RETENTION).await.unwrap(), 8);
    assert_eq!(stored(&database), ["", "", ""]);
}

async fn removed_photos_are_purged_with_their_parts(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    let pet = create(&store).await;
    let [old, shown, recent] = [
        add(&store, pet).await,
        add(&store, pet).await,
        add(&store, pet).await,
    ];
    delete(&store, pet, old).await;
    make_removed_ones_old(&database);
    delete(&store, pet, recent).await;
    assert_eq!(store.photo_purge(RETENTION).await.unwrap(), 1);
    assert_eq!(store.photo_purge(RETENTION).await.unwrap(), 0);
    let ids = [shown, recent].map(|id| id.get().to_string());
    assert_eq!(stored(&database), [&*ids[0], &ids[1], &ids.join(",")]);
    check(&database);
}

/// Whatever comes first, a pet never shows a photo that is purged.
async fn a_photo_is_either_restored_or_purged(backend: Backend) {
    let db = TestStore::open(backend).await;
    let other = db.open_again().await;
    let pet = create(&db.store).await;
    for _ in 0..40 {
        let id = add(&db.store, pet).await;
        delete(&db.store, pet, id).await;
        make_removed_ones_old(&db.database);
        let arrangement = PhotoArrangement { ids: vec![id] };
        let restored = db.store.photo_arrange(API_KEY, pet, arrangement, None);
        let (restored, purged) = join(restored, other.photo_purge(RETENTION)).await;
        let id_text = id.get().to_string();
        match (restored.unwrap(), purged.unwrap()) {
            (Ok(_), 0) => {
                assert_eq!(stored(&db.database), [&*id_text, "", &id_text]);
                delete(&db.store, pet, id).await;
                make_removed_ones_old(&db.database);
                assert_eq!(other.photo_purge(RETENTION).await.unwrap(), 1);
            }
            (Err(PhotoRejection::UnknownId(_)), 1) => {
                assert_eq!(stored(&db.database), ["", "", ""]);
            }
            outcome => panic!("{outcome:?}"),
        }
    }
    check(&db.database);
}
