//! Photos through faults: each that is stored is complete, and shown by its animal unless it is
//! marked as removed.

use std::cell::Cell;

use futures_util::future::{join, join_all};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{eventually, noise};

use crate::{
    client::{Client, ResponseResult},
    harness::Home,
    overload::peak_memory,
};

/// A picture whose image has several parts, as JPEG.
pub fn picture(seed: u64) -> Vec<u8> {
    noise(260, 260, seed)
}

/// A photo that was acknowledged, and what has become of it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhotoState {
    Shown,
    Deleted,
    /// A request to delete it, or its animal, has an unknown outcome.
    Unknown,
}

/// Asserts that a photo is served completely if it is shown, and not at all if it was deleted.
pub async fn assert_photo(client: &Client, pet: i64, id: i64, state: PhotoState) {
    let path = format!("/v1/pets/{pet}/photos/{id}");
    for query in ["", "?size=thumb"] {
        let response = client.get(&format!("{path}{query}")).await;
        match (state, response.status) {
            (PhotoState::Shown | PhotoState::Unknown, 200) => {
                let image = &response.body;
                assert!(image.starts_with(&[0xff, 0xd8]) && image.ends_with(&[0xff, 0xd9]));
            }
            (PhotoState::Deleted | PhotoState::Unknown, 404) => {}
            (_, status) => panic!("{path} is {state:?}, got {status}"),
        }
    }
}

/// Adds a photo to a pet, one for each seed.
pub async fn add_photo(client: &Client, pet: i64, seed: u64) -> ResponseResult {
    let idempotency_key = format!("photo-{pet}-{seed}");
    client.upload(pet, picture(seed), &idempotency_key).await
}

/// Returns what is wrong with the photos in a file, if anything is.
pub fn find_damage(db: &Connection) -> rusqlite::Result<Option<String>> {
    let mut photos = db.prepare(
        "SELECT id, pet_id, full_size + thumb_size, sha256, removed_at IS NULL FROM photos",
    )?;
    let mut parts =
        db.prepare("SELECT bytes FROM photo_parts WHERE photo_id = ?1 ORDER BY kind, part")?;
    let mut shown = db.prepare(
        "SELECT count(*) FROM pets, json_each(pets.photos) AS photo
         WHERE pets.id = ?1 AND photo.value ->> 'id' = ?2",
    )?;
    let mut rows = photos.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let pet: i64 = row.get(1)?;
        let bytes = parts.query_map([id], |row| row.get::<_, Vec<u8>>(0))?;
        let bytes = bytes.collect::<Result<Vec<_>, _>>()?.concat();
        let digest: Vec<u8> = row.get(3)?;
        if bytes.len() as i64 != row.get::<_, i64>(2)? || Sha256::digest(&bytes)[..] != digest {
            return Ok(Some(format!("photo {id} is incomplete")));
        }
        let times: i64 = shown.query_row([pet, id], |row| row.get(0))?;
        if times != i64::from(row.get::<_, bool>(4)?) {
            return Ok(Some(format!("photo {id} is shown {times} times")));
        }
        count += times;
    }
    let named = "SELECT count(*) FROM pets, json_each(pets.photos)";
    let named: i64 = db.query_row(named, [], |row| row.get(0))?;
    Ok((named != count).then(|| format!("{named} photos are shown, {count} are stored")))
}

/// Opens the file of a store beside a service.
pub fn open(home: &Home) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let db = Connection::open_with_flags(home.database(), flags).unwrap();
    db.busy_timeout(support::TIMEOUT).unwrap();
    db
}

/// The control, for all campaigns with photos: each kind of damage is found.
#[tokio::test]
async fn the_check_finds_damaged_lost_and_restored_photos() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let pet = client.create("Rex").await.unwrap().json()["id"]
        .as_i64()
        .unwrap();
    for seed in 0..3 {
        let added = add_photo(&client, pet, seed).await;
        assert_eq!(added.unwrap().status, 201);
    }
    let path = format!("/v1/pets/{pet}/photos/2");
    let deleted = client.send_json(http::Method::DELETE, &path, &Value::Null, None);
    assert_eq!(deleted.await.unwrap().status, 204);
    service.stop();
    assert_eq!(find_damage(&open(&home)).unwrap(), None);
    for damage in [
        "DELETE FROM photo_parts WHERE photo_id = 1 AND part = 1",
        "UPDATE photo_parts SET bytes = zeroblob(length(bytes)) WHERE photo_id = 2 AND part = 0",
        "DELETE FROM photos WHERE id = 1",
        "UPDATE photos SET removed_at = 1 WHERE id = 3",
        "UPDATE photos SET removed_at = NULL WHERE id = 2",
    ] {
        std::fs::copy(home.database(), home.path("damaged.db")).unwrap();
        let db = Connection::open(home.path("damaged.db")).unwrap();
        db.execute_batch(damage).unwrap();
        assert!(find_damage(&db).unwrap().is_some(), "{damage}");
    }
}

/// Removed photos are purged once they are old, with all of their parts, and nothing else is.
#[tokio::test]
async fn a_purge_leaves_no_orphan() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let mut pets = Vec::new();
    for n in 0..3 {
        let pet = client.create(&format!("Pet {n}")).await.unwrap().json()["id"].clone();
        let pet = pet.as_i64().unwrap();
        for photo in 0..2 {
            let added = add_photo(&client, pet, n * 2 + photo).await;
            assert_eq!(added.unwrap().status, 201);
        }
        pets.push(pet);
    }
    assert_eq!(client.delete(pets[0]).await.unwrap().status, 204);
    let ids = client.get(&format!("/v1/pets/{}", pets[1])).await.json()["photos"].clone();
    let order = json!({"ids": [ids[1]["id"]]});
    let path = format!("/v1/pets/{}/photos", pets[1]);
    let ordered = client.send_json(http::Method::PUT, &path, &order, None);
    assert_eq!(ordered.await.unwrap().status, 200);
    home.petstore(&["check"]).success();
    let db = open(&home);
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let removed = "SELECT count(*) FROM photos WHERE removed_at IS NOT NULL";
    assert_eq!(count(removed), 3);
    service.stop();
    db.execute(
        "UPDATE photos SET removed_at = 1 WHERE removed_at > 0 AND id = 1",
        [],
    )
    .unwrap();
    let service = home.serve();
    eventually("the old photo is purged", async || count(removed) == 2).await;
    db.execute("UPDATE photos SET removed_at = 1 WHERE removed_at > 0", [])
        .unwrap();
    service.stop();
    let service = home.serve();
    eventually("all are purged", async || count(removed) == 0).await;
    let shown: Vec<Value> = [pets[1], pets[2]].map(|pet| json!(pet)).into();
    assert_eq!(count("SELECT count(*) FROM photos"), 3);
    let parts = "SELECT count(DISTINCT photo_id) FROM photo_parts";
    assert_eq!(count(parts), 3);
    assert_eq!(find_damage(&db).unwrap(), None);
    let client = Client::new(&service, &key);
    for pet in shown {
        for photo in client.get(&format!("/v1/pets/{pet}")).await.json()["photos"]
            .as_array()
            .unwrap()
        {
            let id = photo["id"].as_i64().unwrap();
            assert_photo(&client, pet.as_i64().unwrap(), id, PhotoState::Shown).await;
        }
    }
    service.stop();
    home.petstore(&["check"]).success();
}

/// A progressive JPEG of 1024 by 1024 grey pixels. Each scan is a pass over 16,384 blocks.
fn progressive_jpeg(scans: usize) -> Vec<u8> {
    let mut jpeg = vec![0xff, 0xd8];
    let mut push = |marker: u8, data: &[u8]| {
        jpeg.extend([0xff, marker]);
        jpeg.extend((data.len() as u16 + 2).to_be_bytes());
        jpeg.extend(data);
    };
    push(0xdb, &[&[0][..], &[1; 64]].concat());
    push(0xc2, &[8, 4, 0, 4, 0, 1, 1, 0x11, 0]);
    // One code, of one bit: no difference from the block before, or the end of the block.
    let code = [&[1][..], &[0; 16]].concat();
    push(0xc4, &[&[0][..], &code].concat());
    push(0xc4, &[&[0x10][..], &code].concat());
    for scan in 0..scans {
        let coefficients = if scan == 0 { [0, 0] } else { [1, 63] };
        let header = [&[1, 1, 0][..], &coefficients, &[0]].concat();
        jpeg.extend([0xff, 0xda, 0, 8]);
        jpeg.extend(header);
        jpeg.extend([0; 16_384 / 8]);
    }
    jpeg.extend([0xff, 0xd9]);
    jpeg
}

/// A lossy WebP that has the pixels of 16 by 8, whatever its header says.
fn lossy_webp(width: u16, height: u16) -> Vec<u8> {
    let mut webp = b"RIFF\x32\0\0\0WEBPVP8 \x26\0\0\0\x90\x01\0\x9d\x01\x2a".to_vec();
    webp.extend(width.to_le_bytes());
    webp.extend(height.to_le_bytes());
    webp.extend(b"\x02\xc0\x4c\x25\xa0\x02\x74\xba\0\x03\x98\0\xfe\xed\x4d\xde");
    webp.extend(b"\xbb\xc5\xa5\x1a\xff\xe7\xa6\x7f\x5b\x7f\x1f\xf8\xc8\0");
    webp
}

/// Forty at a time: each gets its response, memory stays bounded, and others are served.
#[tokio::test]
async fn hostile_images_are_decoded_within_bounds() {
    const COPIES: usize = 8;
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let images = [
        (progressive_jpeg(40), 201),
        (progressive_jpeg(41), 400),
        (lossy_webp(16, 8), 201),
        // The decoder allocates 250 MB before it misses the pixels.
        (lossy_webp(7000, 7000), 400),
        (lossy_webp(16_383, 16_383), 413),
    ];
    let upload = async |number: usize| {
        let (image, status) = &images[number % images.len()];
        let pet = client.create(&format!("Pet {number}")).await.unwrap();
        let pet = pet.json()["id"].as_i64().unwrap();
        let idempotency_key = format!("photo-{number}");
        let response = loop {
            // While it waits for its turn, its body is not read; then the connection is closed.
            match client.upload(pet, image.clone(), &idempotency_key).await {
                Ok(response) if response.status != 503 => break response,
                Ok(response) => response.assert_error(503, "unavailable"),
                Err(_) => {}
            }
        };
        let text = response.text();
        match response.status {
            // On a busy machine.
            413 if text.contains("too long") => assert_eq!(*status, 201),
            413 => response.assert_error(*status, "image_too_large"),
            400 => response.assert_error(*status, "invalid_image"),
            _ => assert_eq!(response.status, *status, "{number}: {text}"),
        }
    };
    let is_done = Cell::new(false);
    let uploads = async {
        join_all((0..COPIES * images.len()).map(upload)).await;
        is_done.set(true);
    };
    let others = async {
        while !is_done.get() {
            assert_eq!(client.create("Rex").await.unwrap().status, 201);
            assert_eq!(client.get("/v1/pets").await.status, 200);
        }
    };
    join(uploads, others).await;
    let peak = peak_memory(&service);
    println!("hostile images: {peak} MB peak memory");
    assert!(peak < 500, "{peak} MB");
}
