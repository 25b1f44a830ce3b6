//! Handlers of the operations on pets.

use std::sync::Arc;

use super::{
    cache::{CacheKey, CachedRead},
    cached_response::{CachedResponse, Invalidation},
    error::{ApiError, NO_SUCH_PET},
    operation::REMOVAL,
    path::PathId,
    preconditions::{MAX_ATTEMPTS, Preconditions, UnmetPrecondition, contention},
    request::{ApiRequest, RequestHead},
    response,
    state::Api,
};
use domain::pet::{NewPet, Pet, PetChange, PetFilter, PetId, PetRejection};
use server::Response;

pub fn list_pets<'a>(api: &'a Api, request: &RequestHead<'_>) -> Result<CachedRead<'a>, ApiError> {
    let query = request.list_query::<PetFilter>()?;
    let key = CacheKey::Pets(query.clone());
    Ok(api.cache.get_or_read(key, || async move {
        let page = api.store.pet_list(query.clone()).await?;
        Ok(api.links.page("pets", &query, &page))
    }))
}

pub async fn create_pet(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let (new, idempotency) = request.json_with_idempotency_key::<NewPet>().await?;
    request.preconditions().evaluate_post(true)?;
    let created = api
        .store
        .pet_create(request.api_key_id(), new, idempotency)
        .await?;
    response::idempotent(created, |created| match created {
        Ok(pet) => api.links.created("pets", pet.id.get(), &pet),
        Err(rejection) => ApiError::from(rejection).response(),
    })
}

pub async fn update_pet(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<PetId>,
) -> Result<Response, ApiError> {
    let change = request.merge_patch::<PetChange>().await?;
    let id = id?;
    for _ in 0..MAX_ATTEMPTS {
        let expected = expected_pet(api, id, request.preconditions()).await?;
        match api
            .store
            .pet_update(request.api_key_id(), id, change.clone(), expected)
            .await?
        {
            // It changed since it was read; the precondition may still hold.
            Err(PetRejection::Outdated) => {}
            updated => return Ok(response::resource(&updated?)),
        }
    }
    Err(contention(CHANGED_TOO_OFTEN))
}

pub async fn delete_pet(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<PetId>,
) -> Result<Response, ApiError> {
    let id = id?;
    for _ in 0..MAX_ATTEMPTS {
        let expected = expected_pet(api, id, request.preconditions()).await?;
        match api
            .store
            .pet_delete(request.api_key_id(), id, expected)
            .await?
        {
            Ok(()) => return Ok(response::no_content()),
            Err(PetRejection::Outdated) => {}
            Err(PetRejection::Reserved) => return Err(ApiError::PetReserved(RESERVED)),
            Err(rejection) => return Err(rejection.into()),
        }
    }
    Err(contention(CHANGED_TOO_OFTEN))
}

/// Returns the pet, if the preconditions depend on it. It meets them, and must not change before
/// the request is executed.
async fn expected_pet(
    api: &Api,
    id: PetId,
    preconditions: Preconditions<'_>,
) -> Result<Option<Pet>, ApiError> {
    if !preconditions.depend_on_state() {
        return Ok(None);
    }
    let found = api.store.pet_get(id).await?;
    let pet = found.ok_or(ApiError::NotFound(NO_SUCH_PET))?;
    match preconditions.evaluate(&response::etag(&pet)) {
        Ok(()) => Ok(Some(pet)),
        Err(UnmetPrecondition::IfMatch) => Err(ApiError::PET_CHANGED),
        Err(UnmetPrecondition::IfNoneMatch) => Err(ApiError::PET_EXISTS),
    }
}

/// The message for a pet that cannot be deleted.
pub const RESERVED: &str = "an open order reserves this pet; complete or cancel the order first";

const CHANGED_TOO_OFTEN: &str =
    "the pet is being changed too often; nothing was changed, retry later";

/// Deprecated on 5 December 2025, removed on 5 December 2030.
pub fn get_pet<'a>(
    api: &'a Api,
    request: &RequestHead<'_>,
    id: PathId<PetId>,
) -> Result<CachedRead<'a>, ApiError> {
    let deprecated = |response| api.links.deprecated(response);
    let error = |error: ApiError| {
        let response = deprecated(error.response());
        let cached = CachedResponse::new(response, Invalidation::OnUpdate);
        Ok(CachedRead::Ready(Arc::new(cached)))
    };
    if api.clock.now() >= REMOVAL {
        return error(ApiError::OperationRemoved);
    }
    request.reject_unknown_parameters()?;
    let id = match id {
        Ok(id) => id,
        Err(not_found) => return error(not_found),
    };
    let read = || async move {
        Ok(match api.store.pet_get(id).await? {
            Some(pet) => {
                CachedResponse::new(deprecated(response::resource(&pet)), Invalidation::OnUpdate)
            }
            None => {
                let not_found = ApiError::NotFound(NO_SUCH_PET).response();
                CachedResponse::new(deprecated(not_found), Invalidation::OnAnyWrite)
            }
        })
    };
    Ok(api.cache.get_or_read(CacheKey::Pet(id), read))
}
