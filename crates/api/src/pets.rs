//! Handlers of the operations on pets.

use std::sync::Arc;

use super::{
    cache::{CacheKey, CachedRead},
    cached_response::{CachedResponse, Invalidation},
    error::{ApiError, NO_SUCH_PET},
    operation::REMOVAL,
    path::PathId,
    preconditions::{Preconditions, UnmetPrecondition, retry},
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
    let key = request.api_key_id();
    let updated = retry(CHANGED_TOO_OFTEN, || async {
        let expected = expected_pet(api, id, request.preconditions()).await?;
        let updated = api.store.pet_update(key, id, change.clone(), expected);
        match updated.await? {
            Err(PetRejection::Outdated) => Ok(None),
            updated => Ok(Some(updated?)),
        }
    });
    Ok(response::resource(&updated.await?))
}

pub async fn delete_pet(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<PetId>,
) -> Result<Response, ApiError> {
    let id = id?;
    let key = request.api_key_id();
    let deleted = retry(CHANGED_TOO_OFTEN, || async {
        let expected = expected_pet(api, id, request.preconditions()).await?;
        match api.store.pet_delete(key, id, expected).await? {
            Err(PetRejection::Outdated) => Ok(None),
            Err(PetRejection::Reserved) => Err(ApiError::PetReserved(RESERVED)),
            deleted => Ok(Some(deleted?)),
        }
    });
    deleted.await?;
    Ok(response::no_content())
}

/// Returns the pet, if the preconditions depend on it. It meets them, and must not change before
/// the request is executed.
pub async fn expected_pet(
    api: &Api,
    id: PetId,
    preconditions: Preconditions<'_>,
) -> Result<Option<Pet>, ApiError> {
    let find = async {
        let found = api.store.pet_get(id).await?;
        found.ok_or(ApiError::NotFound(NO_SUCH_PET))
    };
    let expected = preconditions.expected(find, response::etag, |unmet| match unmet {
        UnmetPrecondition::IfMatch => ApiError::PET_CHANGED,
        UnmetPrecondition::IfNoneMatch => ApiError::PET_EXISTS,
    });
    expected.await
}

/// The message for a pet that cannot be deleted.
pub const RESERVED: &str = "an open order reserves this pet; complete or cancel the order first";

pub const CHANGED_TOO_OFTEN: &str =
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
