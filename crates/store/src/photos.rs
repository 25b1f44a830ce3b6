//! Photos of pets: the commands that change them, and reads.
//!
//! A pet lists the photos that it shows. The bytes are stored in parts, so that a response needs
//! no more memory than one. A photo that is no longer shown is kept for a while, and can be shown
//! again; then it is purged.

use bytes::Bytes;

use super::{
    Error, Store,
    command::{Command, Lane, RecordedResult},
    draft::Draft,
    error::MissingRow,
    row_keys::{Keys, Sequence},
    rows::{Access, Stored},
    table::{Value, columns},
    tables::{PhotoPart, StoredPhoto},
};
use domain::{
    idempotency::{Idempotent, IdempotentRequest},
    members::Choice,
    pet::{Pet, PetId},
    photo::{
        PART_BYTES, Photo, PhotoArrangement, PhotoDigest, PhotoId, PhotoRejection, PhotoSize,
        decide_addition, decide_removal,
    },
};

statements! {
    /// A photo that a pet shows.
    GET(Int, Int) = format!(
        "SELECT {} FROM photos WHERE id = $1 AND pet_id = $2 AND removed_at IS NULL",
        columns::<StoredPhoto>()
    );
    GET_PART(Int, Text, Int) =
        "SELECT bytes FROM photo_parts WHERE photo_id = $1 AND kind = $2 AND part = $3";
}

/// A photo that is not stored yet: two JPEG files.
#[derive(Debug, Clone)]
pub struct NewPhoto {
    /// The size of the large image in pixels.
    pub width: u32,
    pub height: u32,
    pub full: Bytes,
    pub thumb: Bytes,
    /// The SHA-256 of the large image, followed by the small one.
    pub sha256: [u8; 32],
}

impl NewPhoto {
    /// Returns the parts in which an image is stored. They share its memory.
    fn parts(&self, photo_id: PhotoId, size: PhotoSize) -> impl Iterator<Item = PhotoPart> {
        let image = match size {
            PhotoSize::Thumb => &self.thumb,
            PhotoSize::Full => &self.full,
        };
        let starts = (0..image.len()).step_by(PART_BYTES);
        starts.enumerate().map(move |(part, start)| PhotoPart {
            photo_id,
            size,
            part: part as i64,
            bytes: image.slice(start..image.len().min(start + PART_BYTES)),
        })
    }
}

impl StoredPhoto {
    /// Returns the photo as its pet shows it.
    pub(super) fn shown(&self) -> Photo {
        Photo {
            id: self.id,
            width: self.width,
            height: self.height,
            digest: PhotoDigest::of(&self.sha256),
        }
    }

    /// Returns the number of bytes of an image.
    pub fn image_bytes(&self, size: PhotoSize) -> u64 {
        u64::from(match size {
            PhotoSize::Thumb => self.thumb_size,
            PhotoSize::Full => self.full_size,
        })
    }
}

struct AddPhoto {
    pet_id: PetId,
    new: NewPhoto,
}

impl Command for AddPhoto {
    /// A commit with a photo takes longer than others. On PostgreSQL it has a connection of its
    /// own.
    const LANE: Lane = Lane::Bulk;

    type Output = Photo;
    type Rejection = PhotoRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.pets.push(self.pet_id);
        keys.draw(Sequence::Photos, 1);
    }

    fn payload_bytes(&self) -> usize {
        self.new.full.len() + self.new.thumb.len()
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Photo, PhotoRejection> {
        let id = PhotoId::from_store(draft.new_id(Sequence::Photos));
        let pet = find(draft, self.pet_id)?;
        let NewPhoto {
            width,
            height,
            sha256,
            ..
        } = self.new;
        let photo = Photo {
            id,
            width,
            height,
            digest: PhotoDigest::of(&sha256),
        };
        let photos = decide_addition(pet.photos(), photo)?;
        let pet = pet.clone().with_photos(photos);
        draft.put(pet);
        draft.put(StoredPhoto {
            id,
            pet_id: self.pet_id,
            width,
            height,
            sha256,
            thumb_size: self.new.thumb.len() as u32,
            full_size: self.new.full.len() as u32,
            created_at: draft.times.now,
            removed_at: None,
        });
        for size in PhotoSize::ALL {
            for part in self.new.parts(id, *size) {
                draft.put(part);
            }
        }
        Ok(photo)
    }

    /// The photo may be removed before a retry, so its size is recorded, too.
    fn recorded(photo: &Photo) -> RecordedResult {
        RecordedResult::of_json(photo.id.get(), photo)
    }
}

struct DeletePhoto {
    pet_id: PetId,
    id: PhotoId,
}

impl Command for DeletePhoto {
    type Output = ();
    type Rejection = PhotoRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.pets.push(self.pet_id);
        keys.photos_of.push(self.pet_id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<(), PhotoRejection> {
        let pet = find(draft, self.pet_id)?;
        let photos = decide_removal(pet.photos(), self.id)?;
        show(draft, pet.clone(), photos);
        Ok(())
    }
}

struct ArrangePhotos {
    pet_id: PetId,
    arrangement: PhotoArrangement,
    expected: Option<Pet>,
}

impl Command for ArrangePhotos {
    type Output = Vec<Photo>;
    type Rejection = PhotoRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.pets.push(self.pet_id);
        keys.photos.extend(&self.arrangement.ids);
        keys.photos_of.push(self.pet_id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Vec<Photo>, PhotoRejection> {
        let pet = find(draft, self.pet_id)?;
        if self
            .expected
            .as_ref()
            .is_some_and(|expected| expected != pet)
        {
            return Err(PhotoRejection::Outdated);
        }
        let stored = |id| stored_photo(draft, self.pet_id, id).map(StoredPhoto::shown);
        let photos = self.arrangement.decide(pet.photos(), stored)?;
        show(draft, pet.clone(), photos.clone());
        Ok(photos)
    }
}

fn find<'d>(draft: &'d Draft<'_>, id: PetId) -> Result<&'d Pet, PhotoRejection> {
    let pet = draft.tables.pets.get(&id);
    pet.ok_or(PhotoRejection::NoSuchPet)
}

/// Returns a photo of a pet, shown or not, if it is still stored.
fn stored_photo<'d>(draft: &'d Draft<'_>, pet: PetId, id: PhotoId) -> Option<&'d StoredPhoto> {
    let photo = draft.tables.photos.get(&id);
    photo.filter(|photo| photo.pet_id == pet)
}

/// Shows other photos of a pet.
fn show(draft: &mut Draft<'_>, before: Pet, photos: Vec<Photo>) {
    remove_others(draft, &before, &photos);
    restore(draft, before.id, &photos);
    let after = before.with_photos(photos);
    draft.put(after);
}

/// Marks the photos of a pet as removed, except for those that it still shows.
pub(super) fn remove_others(draft: &mut Draft<'_>, before: &Pet, shown: &[Photo]) {
    for photo in before.photos() {
        if shown.contains(photo) {
            continue;
        }
        if let Some(stored) = stored_photo(draft, before.id, photo.id).cloned() {
            let removed_at = Some(draft.times.now);
            draft.put(StoredPhoto {
                removed_at,
                ..stored
            });
        }
    }
}

/// Marks photos as shown that were removed.
fn restore(draft: &mut Draft<'_>, pet: PetId, photos: &[Photo]) {
    for photo in photos {
        let stored = stored_photo(draft, pet, photo.id);
        if let Some(stored) = stored.filter(|it| it.removed_at.is_some()).cloned() {
            let removed_at = None;
            draft.put(StoredPhoto {
                removed_at,
                ..stored
            });
        }
    }
}

/// Returns a pet that is restored with those of its photos that are still stored.
pub(super) fn restore_photos(draft: &mut Draft<'_>, pet: Pet) -> Pet {
    let is_stored = |photo: &&Photo| stored_photo(draft, pet.id, photo.id).is_some();
    let photos: Vec<_> = pet.photos().iter().filter(is_stored).copied().collect();
    restore(draft, pet.id, &photos);
    pet.with_photos(photos)
}

impl Stored for StoredPhoto {
    /// The lock of the pet protects them.
    const ACCESS: Access = Access::Unlocked;
}

impl Stored for PhotoPart {
    const ACCESS: Access = Access::Unlocked;
}

impl Store {
    /// Adds a photo to a pet, after those that it has.
    pub async fn photo_add(
        &self,
        api_key_id: i64,
        pet_id: PetId,
        new: NewPhoto,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<Photo, PhotoRejection>>, Error> {
        let command = AddPhoto { pet_id, new };
        let reply = self.execute(Some(api_key_id), command, request).await?;
        reply.or_recorded()
    }

    /// Removes a photo from a pet. Its bytes are kept until they are purged.
    pub async fn photo_delete(
        &self,
        api_key_id: i64,
        pet_id: PetId,
        id: PhotoId,
    ) -> Result<Result<(), PhotoRejection>, Error> {
        self.execute_once(Some(api_key_id), DeletePhoto { pet_id, id })
            .await
    }

    /// Shows photos of a pet in an order, and removes the others. Returns those that are shown.
    /// `expected` as for an update of the pet.
    pub async fn photo_arrange(
        &self,
        api_key_id: i64,
        pet_id: PetId,
        arrangement: PhotoArrangement,
        expected: Option<Pet>,
    ) -> Result<Result<Vec<Photo>, PhotoRejection>, Error> {
        let command = ArrangePhotos {
            pet_id,
            arrangement,
            expected,
        };
        self.execute_once(Some(api_key_id), command).await
    }

    /// Returns a photo that a pet shows, without its bytes.
    pub async fn photo_get(
        &self,
        pet_id: PetId,
        id: PhotoId,
    ) -> Result<Option<StoredPhoto>, Error> {
        let parameters = vec![Value::Int(id.get()), Value::Int(pet_id.get())];
        self.find(&GET, parameters).await
    }

    /// Returns a part of an image; each but the last has [`PART_BYTES`]. Fails if the photo was
    /// purged.
    pub async fn photo_part(
        &self,
        photo: &StoredPhoto,
        size: PhotoSize,
        part: u64,
    ) -> Result<Bytes, Error> {
        let parameters = vec![
            Value::Int(photo.id.get()),
            Value::text(size.as_str()),
            Value::Int(part as i64),
        ];
        let found: Option<(Bytes,)> = self.find(&GET_PART, parameters).await?;
        let (bytes,) = found.ok_or(MissingRow)?;
        Ok(bytes)
    }
}
