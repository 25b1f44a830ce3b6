//! Handlers of the operations on photos of pets.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

use super::{
    cache::{CacheKey, CachedRead},
    cached_response::{CachedResponse, Invalidation},
    detached::run_to_end,
    error::{ApiError, NO_SUCH_PET, NO_SUCH_PHOTO},
    path::PathId,
    pets::{CHANGED_TOO_OFTEN, expected_pet},
    preconditions::{UnmetPrecondition, retry},
    request::{ApiRequest, hash},
    response,
    state::Api,
};
use domain::{
    invalid::{Invalid, quoted},
    members::Choice,
    page::set_once,
    pet::PetId,
    photo::{PART_BYTES, PhotoArrangement, PhotoDigest, PhotoId, PhotoRejection, PhotoSize},
};
use photo::EncodedPhoto;
use server::{BodyError, Response, ResponseBody};
use store::{NewPhoto, Store, StoredPhoto};

/// Adds a photo. Checks that do not need the image come before the body is read.
pub async fn add_photo(
    api: &Api,
    mut request: ApiRequest<'_>,
    pet_id: PathId<PetId>,
) -> Result<Response, ApiError> {
    request.check_image()?;
    let key = request.idempotency_key_alone()?;
    let pet_id = pet_id?;
    request.preconditions().evaluate_post(false)?;
    // A retry is replayed although its pet may have been deleted since.
    if key.is_none() && api.store.pet_get(pet_id).await?.is_none() {
        return Err(ApiError::NotFound(NO_SUCH_PET));
    }
    let mut permit = Some(api.uploads.admit(&mut request).await?);
    let _held = request.hold_image();
    let image = request.image(&mut permit).await?;
    let permit = match permit {
        Some(permit) => permit,
        None => api.uploads.admit(&mut request).await?,
    };
    let idempotency = match key {
        Some(key) => Some(request.fingerprint_image(key, &image).await?),
        None => None,
    };
    request.release();
    let encoded = api.photos.prepare(image).await?;
    let new = new_photo(encoded).await?;
    // The image may have taken minutes to arrive.
    api.auth.keys().validity(&request.key_hash())?;
    let store = api.store.clone();
    let api_key_id = request.api_key_id();
    let added = async move { store.photo_add(api_key_id, pet_id, new, idempotency).await };
    let result = run_to_end(permit, added).await?;
    let path = format!("pets/{}/photos", pet_id.get());
    response::idempotent(result, |added| match added {
        Ok(photo) => api.links.created(&path, photo.id.get(), &photo),
        Err(rejection) => ApiError::from(rejection).response(),
    })
}

async fn new_photo(encoded: EncodedPhoto) -> Result<NewPhoto, ApiError> {
    let EncodedPhoto {
        width,
        height,
        full,
        thumb,
    } = encoded;
    let full = Bytes::from(full);
    let thumb = Bytes::from(thumb);
    let sha256 = hash(Sha256::new(), [full.clone(), thumb.clone()]).await?;
    Ok(NewPhoto {
        width,
        height,
        full,
        thumb,
        sha256,
    })
}

/// Responds with an image. A thumbnail comes from the cache; a large image is read from the store
/// while it is sent, a part at a time.
pub async fn get_photo(
    api: &Api,
    request: ApiRequest<'_>,
    pet_id: PathId<PetId>,
    id: PathId<PhotoId>,
) -> Result<Response, ApiError> {
    let query = ImageQuery::parse(request.query()).map_err(ApiError::InvalidParameter)?;
    let pet_id = pet_id?;
    let id = id?;
    // No photo has such a digest, whatever the preconditions.
    if let Some(digest) = &query.digest
        && PhotoDigest::parse(digest).is_none()
    {
        return Err(ApiError::NotFound(NO_SUCH_PHOTO));
    }
    let response = match query.size {
        PhotoSize::Full => {
            let photo = find(api, pet_id, id).await?;
            full_image(api, &request, photo)?
        }
        PhotoSize::Thumb => {
            let key = CacheKey::Thumbnail(pet_id, id);
            let read = api.cache.get_or_read(key, || thumbnail(api, pet_id, id));
            let cached = match read {
                CachedRead::Ready(cached) => cached,
                CachedRead::Pending(read) => read.await?,
            };
            cached.respond(request.headers())?
        }
    };
    match query.digest {
        Some(digest) => immutable(response, &digest),
        None => Ok(response),
    }
}

/// The image that a client asks for.
struct ImageQuery {
    size: PhotoSize,
    /// The digest of the photo, if the client knows it.
    digest: Option<String>,
}

impl ImageQuery {
    fn parse(query: &str) -> Result<Self, Invalid> {
        let mut size = None;
        let mut digest = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "size" => {
                    let parsed = PhotoSize::parse(&value).map_err(|_| {
                        let reason = format!("must be one of thumb, full, got {}", quoted(&value));
                        Invalid::new("size", reason)
                    });
                    set_once("size", &mut size, parsed?)?;
                }
                "digest" => set_once("digest", &mut digest, value.into_owned())?,
                _ => {}
            }
        }
        Ok(Self {
            size: size.unwrap_or(PhotoSize::Full),
            digest,
        })
    }
}

/// With the digest in its address, an image never changes, so clients need not revalidate it. Its
/// entity tag starts with the digest.
fn immutable(mut response: Response, digest: &str) -> Result<Response, ApiError> {
    let Some(etag) = response.headers().get(header::ETAG) else {
        // It is an error.
        return Ok(response);
    };
    if !etag.as_bytes()[1..].starts_with(digest.as_bytes()) {
        return Err(ApiError::NotFound(NO_SUCH_PHOTO));
    }
    let immutable = HeaderValue::from_static("private, max-age=31536000, immutable");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, immutable);
    Ok(response)
}

async fn find(api: &Api, pet_id: PetId, id: PhotoId) -> Result<StoredPhoto, ApiError> {
    let found = api.store.photo_get(pet_id, id).await?;
    found.ok_or(ApiError::NotFound(NO_SUCH_PHOTO))
}

async fn thumbnail(api: &Api, pet_id: PetId, id: PhotoId) -> Result<CachedResponse, ApiError> {
    let Some(photo) = api.store.photo_get(pet_id, id).await? else {
        let not_found = ApiError::NotFound(NO_SUCH_PHOTO).response();
        return Ok(CachedResponse::new(not_found, Invalidation::OnAnyWrite));
    };
    let size = PhotoSize::Thumb;
    let length = photo.image_bytes(size);
    let mut bytes = Vec::with_capacity(length as usize);
    for part in 0..part_count(length) {
        bytes.extend_from_slice(&api.store.photo_part(&photo, size, part).await?);
    }
    let response = image(&photo, size, bytes.into());
    Ok(CachedResponse::new(response, Invalidation::OnUpdate))
}

fn full_image(
    api: &Api,
    request: &ApiRequest<'_>,
    photo: StoredPhoto,
) -> Result<Response, ApiError> {
    let size = PhotoSize::Full;
    match request.preconditions().evaluate(&etag(&photo, size)) {
        Ok(()) => {
            let length = photo.image_bytes(size);
            let parts = read_parts(api.store.clone(), photo.clone(), size);
            Ok(image(&photo, size, ResponseBody::parts(length, parts)))
        }
        Err(UnmetPrecondition::IfMatch) => Err(ApiError::CONTENT_HAS_OTHER_TAG),
        Err(UnmetPrecondition::IfNoneMatch) => {
            let mut response = image(&photo, size, ResponseBody::default());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(header::CONTENT_TYPE);
            Ok(response)
        }
    }
}

/// Reads the parts of an image, each when the transport has room for it.
fn read_parts(
    store: Arc<Store>,
    photo: StoredPhoto,
    size: PhotoSize,
) -> impl Stream<Item = Result<Bytes, BodyError>> {
    let parts = stream::iter(0..part_count(photo.image_bytes(size)));
    parts.then(move |part| {
        let store = store.clone();
        let photo = photo.clone();
        async move {
            let read = store.photo_part(&photo, size, part).await;
            read.map_err(BodyError::new)
        }
    })
}

fn part_count(length: u64) -> u64 {
    length.div_ceil(PART_BYTES as u64)
}

/// Responds with an image. A shared cache must not store it, as it needs an API key; that of a
/// browser must not give it to a request with another key.
fn image(photo: &StoredPhoto, size: PhotoSize, body: ResponseBody) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/jpeg"));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    headers.insert(header::VARY, HeaderValue::from_static("authorization"));
    headers.insert(header::ETAG, etag(photo, size));
    response
}

fn etag(photo: &StoredPhoto, size: PhotoSize) -> HeaderValue {
    response::etag_of_digest(&photo.sha256, size.as_str())
}

pub async fn delete_photo(
    api: &Api,
    request: ApiRequest<'_>,
    pet_id: PathId<PetId>,
    id: PathId<PhotoId>,
) -> Result<Response, ApiError> {
    let pet_id = pet_id?;
    let id = id?;
    if request.preconditions().depend_on_state() {
        let etag = etag(&find(api, pet_id, id).await?, PhotoSize::Full);
        let evaluated = request.preconditions().evaluate(&etag);
        evaluated.map_err(|unmet| match unmet {
            UnmetPrecondition::IfMatch => ApiError::PHOTO_HAS_OTHER_TAG,
            UnmetPrecondition::IfNoneMatch => ApiError::PHOTO_EXISTS,
        })?;
    }
    let api_key_id = request.api_key_id();
    api.store.photo_delete(api_key_id, pet_id, id).await??;
    Ok(response::no_content())
}

pub async fn arrange_photos(
    api: &Api,
    mut request: ApiRequest<'_>,
    pet_id: PathId<PetId>,
) -> Result<Response, ApiError> {
    let arrangement = request.json::<PhotoArrangement>().await?;
    let pet_id = pet_id?;
    let api_key_id = request.api_key_id();
    let arranged = retry(CHANGED_TOO_OFTEN, || async {
        let expected = expected_pet(api, pet_id, request.preconditions()).await?;
        let arrangement = arrangement.clone();
        let arranged = api
            .store
            .photo_arrange(api_key_id, pet_id, arrangement, expected);
        match arranged.await? {
            Err(PhotoRejection::Outdated) => Ok(None),
            arranged => Ok(Some(arranged?)),
        }
    });
    Ok(response::json(&arranged.await?))
}
