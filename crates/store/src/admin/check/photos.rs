//! The check of photos: each is stored completely, and is the one that its pet shows.

use std::collections::HashMap;

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::problem;
use crate::{
    admin::reader::{ReadError, Reader},
    sql::Sql,
    sqlite,
    table::{Readable, Record, Value, columns},
    tables::{PhotoPart, StoredPhoto},
};
use domain::{
    pet::PetId,
    photo::{PART_BYTES, Photo, PhotoId, PhotoSize, Photos},
};

statements! {
    /// The next pets with photos after an id.
    PICTURED_PETS(Int) = "SELECT id, photos FROM pets WHERE id > $1 AND photos IS NOT NULL
                          ORDER BY id LIMIT 1000";
    /// The photos that such pets should show: those of ids after the first up to the second.
    SHOWN_PHOTOS(Int, Int) = format!(
        "SELECT {} FROM photos WHERE pet_id > $1 AND pet_id <= $2 AND removed_at IS NULL",
        columns::<StoredPhoto>()
    );
    NEXT_PHOTOS(Int) = format!(
        "SELECT {} FROM photos WHERE id > $1 ORDER BY id LIMIT 1000",
        columns::<StoredPhoto>()
    );
    /// The large image comes first, as in the digest.
    PARTS(Int) = format!(
        "SELECT {} FROM photo_parts WHERE photo_id = $1 ORDER BY kind, part",
        columns::<PhotoPart>()
    );
}

/// A check for what the database cannot compare.
pub(super) const WHAT: &str = "photos";

const WRONG_PHOTOS: &str = "animals that show photos that are not stored";
const DAMAGED_PHOTOS: &str = "photos that are damaged or incomplete";

/// Reads the rows of a statement, on either database.
pub(super) trait Read {
    type Error;

    async fn read<T: Record>(
        &mut self,
        sql: &Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Vec<T>, Self::Error>;
}

impl Read for &Connection {
    type Error = rusqlite::Error;

    async fn read<T: Record>(
        &mut self,
        sql: &Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Vec<T>, rusqlite::Error> {
        sqlite::query(self, sql, parameters)
    }
}

impl Read for &Reader {
    type Error = ReadError;

    async fn read<T: Record>(
        &mut self,
        sql: &Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Vec<T>, ReadError> {
        self.query(sql, parameters).await
    }
}

/// Returns the problems of all photos. Holds a page of rows and one photo in memory.
pub(super) async fn check<R: Read>(mut store: R) -> Result<Vec<String>, R::Error> {
    let mut wrong = 0;
    let mut after = 0;
    loop {
        let pets: Vec<(PetId, Readable<Photos>)> =
            store.read(&PICTURED_PETS, vec![Value::Int(after)]).await?;
        let Some((last, _)) = pets.last() else {
            break;
        };
        let range = vec![Value::Int(after), Value::Int(last.get())];
        let stored: Vec<StoredPhoto> = store.read(&SHOWN_PHOTOS, range).await?;
        after = last.get();
        wrong += pets_with_other_photos(&pets, &stored);
    }
    let mut damaged = 0;
    let mut after = 0;
    loop {
        let photos: Vec<StoredPhoto> = store.read(&NEXT_PHOTOS, vec![Value::Int(after)]).await?;
        let Some(last) = photos.last() else {
            break;
        };
        after = last.id.get();
        for photo in &photos {
            let parts = store.read(&PARTS, vec![Value::Int(photo.id.get())]);
            damaged += i64::from(!is_intact(photo, &parts.await?));
        }
    }
    let problems = [
        problem(wrong, WRONG_PHOTOS),
        problem(damaged, DAMAGED_PHOTOS),
    ];
    Ok(problems.into_iter().flatten().collect())
}

/// Counts the pets that show other photos than those that are stored for them.
fn pets_with_other_photos(pets: &[(PetId, Readable<Photos>)], stored: &[StoredPhoto]) -> i64 {
    let mut by_pet: HashMap<PetId, HashMap<PhotoId, Photo>> = HashMap::new();
    for photo in stored {
        let of_pet = by_pet.entry(photo.pet_id).or_default();
        of_pet.insert(photo.id, photo.shown());
    }
    let is_wrong = |(id, photos): &&(PetId, Readable<Photos>)| {
        let Some(photos) = &photos.0 else {
            return true;
        };
        let shown = photos.as_slice().iter().map(|photo| (photo.id, *photo));
        let shown: HashMap<_, _> = shown.collect();
        by_pet.get(id) != Some(&shown) || shown.len() != photos.as_slice().len()
    };
    pets.iter().filter(is_wrong).count() as i64
}

/// Returns true if the parts of a photo have the lengths and the digest that they should have.
fn is_intact(photo: &StoredPhoto, parts: &[PhotoPart]) -> bool {
    let mut digest = Sha256::new();
    let mut parts = parts.iter();
    for size in [PhotoSize::Full, PhotoSize::Thumb] {
        let mut remaining = photo.image_bytes(size);
        let mut number = 0;
        while remaining > 0 {
            let length = remaining.min(PART_BYTES as u64);
            let is_next = |part: &&PhotoPart| {
                part.size == size && part.part == number && part.bytes.len() as u64 == length
            };
            let Some(part) = parts.next().filter(is_next) else {
                return false;
            };
            digest.update(&part.bytes);
            remaining -= length;
            number += 1;
        }
    }
    parts.next().is_none() && digest.finalize()[..] == photo.sha256
}
