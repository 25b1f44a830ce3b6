//! Photos of pets: their ids, their sizes, and the rules for adding, ordering and removing them.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::{
    idempotency::RecordedRejection,
    invalid::Invalid,
    json::{FromObject, KnownMember, Object, Value},
    members::Choice,
    page::parse_positive_decimal,
};

/// The maximum number of photos of a pet.
pub const MAX_PHOTOS: usize = 20;

/// The size of the parts in which photos are stored and sent, in bytes.
pub const PART_BYTES: usize = 64 << 10;

/// The time for which a photo that no pet shows is kept, so that its removal can be undone.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// The largest image that can be uploaded, in bytes.
pub const MAX_IMAGE_BYTES: usize = 10 << 20;

/// The minimum rate of an upload, in bytes per second, as of a phone with a bad connection.
pub const MIN_UPLOAD_RATE: u64 = 32 << 10;

/// The CPU time in which an image must be decoded.
pub const DECODE_TIMEOUT: Duration = Duration::from_secs(30);

/// A photo's id: positive, below 2^53, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhotoId(i64);

impl PhotoId {
    const MAX: i64 = (1 << 53) - 1;

    /// Parses an id from a path; `None` if it is not a positive int64.
    pub fn parse(text: &str) -> Option<Self> {
        parse_positive_decimal(text).map(Self)
    }

    fn from_json(value: Value) -> Option<Self> {
        let id = value.as_int64().filter(|id| (1..=Self::MAX).contains(id));
        id.map(Self)
    }

    pub fn get(self) -> i64 {
        self.0
    }

    pub fn from_store(id: i64) -> Self {
        Self(id)
    }
}

/// The start of the digest of a photo's images. An id alone may be that of another image after a
/// restore, or in another store at the same address; with the digest, an address is that of one
/// image for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PhotoDigest([u8; Self::BYTES]);

impl PhotoDigest {
    /// Without padding in base64.
    const BYTES: usize = 9;

    /// Returns the start of a digest.
    pub fn of(sha256: &[u8; 32]) -> Self {
        let mut start = [0; Self::BYTES];
        start.copy_from_slice(&sha256[..Self::BYTES]);
        Self(start)
    }

    /// Parses URL-safe base64.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl From<PhotoDigest> for String {
    fn from(digest: PhotoDigest) -> Self {
        URL_SAFE_NO_PAD.encode(digest.0)
    }
}

impl TryFrom<String> for PhotoDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Self::parse(&text).ok_or("not the digest of a photo")
    }
}

/// A photo of a pet. Its size in pixels is that of the large image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Photo {
    pub id: PhotoId,
    pub width: u32,
    pub height: u32,
    pub digest: PhotoDigest,
}

/// The photos of a pet, in the order in which they are shown: the first is the cover. Never
/// empty: a pet without photos has no value of this type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Photos(Box<[Photo]>);

impl Photos {
    /// Returns `None` if there are no photos.
    pub fn new(photos: Vec<Photo>) -> Option<Self> {
        (!photos.is_empty()).then(|| Self(photos.into()))
    }

    pub fn as_slice(&self) -> &[Photo] {
        &self.0
    }

    /// Returns the photos as JSON, as they are stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers are JSON")
    }

    /// Reads the photos in the JSON of a pet.
    pub(crate) fn from_json(value: Value) -> Option<Self> {
        Self::from_store(value.as_json())
    }

    /// Reads the JSON that was stored. Returns `None` if it is not valid.
    pub fn from_store(json: &str) -> Option<Self> {
        let photos = serde_json::from_str(json).ok()?;
        Self::new(photos)
    }
}

/// The sizes in which a photo is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhotoSize {
    /// At most 320 pixels on the longer side.
    Thumb,
    /// At most 1,600 pixels on the longer side.
    Full,
}

impl Choice for PhotoSize {
    const ALL: &[Self] = &[Self::Thumb, Self::Full];

    fn as_str(self) -> &'static str {
        match self {
            Self::Thumb => "thumb",
            Self::Full => "full",
        }
    }
}

/// A request to show photos of a pet in an order. Those that it leaves out are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhotoArrangement {
    pub ids: Vec<PhotoId>,
}

impl FromObject for PhotoArrangement {
    const MEMBERS: &[KnownMember] = &[KnownMember::scalar("ids")];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let invalid = |got: String| {
            let reason =
                format!("must be an array of at most {MAX_PHOTOS} ids of photos, got {got}");
            vec![Invalid::new("ids", reason)]
        };
        let Some(value) = object.get("ids") else {
            let reason =
                format!("required; must be an array of at most {MAX_PHOTOS} ids of photos");
            return Err(vec![Invalid::new("ids", reason)]);
        };
        let values = value.as_array().ok_or_else(|| invalid(value.describe()))?;
        if values.len() > MAX_PHOTOS {
            return Err(invalid(format!("{} elements", values.len())));
        }
        let mut ids = Vec::with_capacity(values.len());
        for value in values {
            let id = PhotoId::from_json(value);
            let id = id.ok_or_else(|| invalid(format!("an array with {}", value.describe())))?;
            if ids.contains(&id) {
                let reason = format!("must not contain {} more than once", id.get());
                return Err(vec![Invalid::new("ids", reason)]);
            }
            ids.push(id);
        }
        Ok(Self { ids })
    }
}

/// The reason why the photos of a pet were not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PhotoRejection {
    #[error("there is no such animal")]
    NoSuchPet,
    /// The pet no longer has the expected value.
    #[error("it has changed")]
    Outdated,
    #[error("it has {MAX_PHOTOS} photos already")]
    TooMany,
    #[error("it has no such photo")]
    NoSuchPhoto,
    /// This id in an order is not that of a photo of the pet.
    #[error("it has no photo {}", .0.get())]
    UnknownId(PhotoId),
}

impl RecordedRejection for PhotoRejection {
    /// A pet may lose photos before a retry, so only its absence is recorded.
    fn code(&self) -> Option<&'static str> {
        matches!(self, Self::NoSuchPet).then_some("no_such_pet")
    }

    fn from_code(code: &str) -> Option<Self> {
        (code == "no_such_pet").then_some(Self::NoSuchPet)
    }
}

/// Returns the photos of a pet with another one at the end.
pub fn decide_addition(before: &[Photo], new: Photo) -> Result<Vec<Photo>, PhotoRejection> {
    if before.len() >= MAX_PHOTOS {
        return Err(PhotoRejection::TooMany);
    }
    Ok([before, &[new]].concat())
}

/// Returns the photos of a pet without one.
pub fn decide_removal(before: &[Photo], id: PhotoId) -> Result<Vec<Photo>, PhotoRejection> {
    let others = before.iter().filter(|photo| photo.id != id);
    let after: Vec<_> = others.copied().collect();
    if after.len() == before.len() {
        return Err(PhotoRejection::NoSuchPhoto);
    }
    Ok(after)
}

impl PhotoArrangement {
    /// Returns the photos of a pet in this order. `stored` finds a photo of the pet that is still
    /// stored, shown or not.
    pub fn decide(
        &self,
        before: &[Photo],
        stored: impl Fn(PhotoId) -> Option<Photo>,
    ) -> Result<Vec<Photo>, PhotoRejection> {
        let find = |id: &PhotoId| {
            let shown = before.iter().find(|photo| photo.id == *id);
            let found = shown.copied().or_else(|| stored(*id));
            found.ok_or(PhotoRejection::UnknownId(*id))
        };
        self.ids.iter().map(find).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo(id: i64) -> Photo {
        Photo {
            id: PhotoId(id),
            width: 4,
            height: 3,
            digest: PhotoDigest([7; 9]),
        }
    }

    fn parse(json: &str) -> Result<Vec<i64>, String> {
        let object = Object::parse(json.as_bytes()).unwrap();
        match PhotoArrangement::from_object(&object) {
            Ok(order) => Ok(order.ids.into_iter().map(PhotoId::get).collect()),
            Err(errors) => Err(crate::invalid::join_messages(&errors)),
        }
    }

    #[test]
    fn an_order_names_each_photo_once() {
        assert_eq!(parse(r#"{"ids":[9,7]}"#), Ok(vec![9, 7]));
        assert_eq!(parse(r#"{"ids":[]}"#), Ok(vec![]));
        let array = "ids: must be an array of at most 20 ids of photos, got";
        let many = format!(r#"{{"ids":[{}]}}"#, ["1"; 21].join(","));
        for (json, expected) in [
            (r#"{"ids":5}"#, format!("{array} 5")),
            (
                r#"{"ids":["5"]}"#,
                format!("{array} an array with a string"),
            ),
            (r#"{"ids":[0]}"#, format!("{array} an array with 0")),
            (r#"{"ids":[1.5]}"#, format!("{array} an array with 1.5")),
            (&many, format!("{array} 21 elements")),
            (
                r#"{"ids":[3,3]}"#,
                "ids: must not contain 3 more than once".into(),
            ),
            (
                "{}",
                "ids: required; must be an array of at most 20 ids of photos".into(),
            ),
        ] {
            assert_eq!(parse(json), Err(expected), "{json}");
        }
    }

    #[test]
    fn photos_are_added_at_the_end_up_to_the_limit() {
        let one = decide_addition(&[], photo(1)).unwrap();
        assert_eq!(
            decide_addition(&one, photo(2)),
            Ok(vec![photo(1), photo(2)])
        );
        let full: Vec<_> = (1..=MAX_PHOTOS as i64).map(photo).collect();
        assert_eq!(
            decide_addition(&full, photo(99)),
            Err(PhotoRejection::TooMany)
        );
        assert!(decide_addition(&full[1..], photo(99)).is_ok());
    }

    #[test]
    fn an_order_removes_and_restores() {
        let before = [photo(1), photo(2), photo(3)];
        let restored = |id: PhotoId| (id.get() == 7).then(|| photo(7));
        let order = |ids: &[i64]| {
            let ids = ids.iter().copied().map(PhotoId).collect();
            PhotoArrangement { ids }.decide(&before, restored)
        };
        assert_eq!(order(&[3, 7, 1]), Ok(vec![photo(3), photo(7), photo(1)]));
        assert_eq!(order(&[]), Ok(vec![]));
        assert_eq!(order(&[1, 8]), Err(PhotoRejection::UnknownId(PhotoId(8))));
        assert_eq!(
            decide_removal(&before, PhotoId(2)),
            Ok(vec![photo(1), photo(3)])
        );
        assert_eq!(
            decide_removal(&before, PhotoId(7)),
            Err(PhotoRejection::NoSuchPhoto)
        );
    }

    #[test]
    fn stored_photos_are_never_empty() {
        let photos = Photos::new(vec![photo(7)]).unwrap();
        let json = r#"[{"id":7,"width":4,"height":3,"digest":"BwcHBwcHBwcH"}]"#;
        assert_eq!(photos.to_json(), json);
        assert_eq!(Photos::from_store(json), Some(photos));
        for corrupt in ["[]", "", "null", r#"[{"id":7}]"#, &json.replace("Bw", "")] {
            assert_eq!(Photos::from_store(corrupt), None, "{corrupt}");
        }
    }
}
