//! Handlers of the operations on pets.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    cache::CacheKey,
    error::{ApiError, NO_SUCH_PET},
    preconditions::Unmet,
    request::ApiRequest,
    response::{self, CachedResponse, Invalidation},
    state::Api,
};
use crate::{
    pet::{NewPet, PetChange, PetRejection},
    server::Response,
};

pub async fn list_pets(api: &Api, request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = request.list_query()?;
    let read = || async {
        let page = api.store.pet_list(query).await?;
        Ok(api.links.page(&query, &page))
    };
    let page = api.cache.get_or_read(CacheKey::Pets(query), read).await?;
    page.respond(&request.head.headers)
}

pub async fn create_pet(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let (new, idempotency) = request.json_with_idempotency_key::<NewPet>().await?;
    request.preconditions().evaluate_post(true)?;
    let created = api.store.pet_create(new, idempotency).await?;
    response::idempotent(created, |pet| api.links.created("pets", pet.id.get(), &pet))
}

pub async fn update_pet(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let change = request.merge_patch::<PetChange>().await?;
    let id = request.pet_id()?;
    let preconditions = request.preconditions();
    for _ in 0..MAX_UPDATE_ATTEMPTS {
        let expected = match preconditions.depend_on_state() {
            false => None,
            true => {
                let pet = api.store.pet_get(id).await?;
                let pet = pet.ok_or(ApiError::NotFound(NO_SUCH_PET))?;
                preconditions
                    .evaluate(&response::etag(&pet))
                    .map_err(|unmet| match unmet {
                        Unmet::IfMatch => ApiError::PET_CHANGED,
                        Unmet::IfNoneMatch => ApiError::PET_EXISTS,
                    })?;
                Some(pet)
            }
        };
        match api.store.pet_update(id, change.clone(), expected).await? {
            // It changed since it was read; the precondition may still hold.
            Err(PetRejection::Outdated) => {}
            updated => return Ok(response::resource(&updated?)),
        }
    }
    let message = "the pet is being changed too often; nothing was changed, retry later";
    Err(ApiError::Unavailable(message, Arc::new(Contention)))
}

/// Attempts of a conditional update. Each failed one means that a concurrent
/// update succeeded.
const MAX_UPDATE_ATTEMPTS: usize = 100;

#[derive(Debug, thiserror::Error)]
#[error("concurrent updates of the same pet")]
struct Contention;

/// Deprecated on 5 December 2025, removed on 5 December 2030.
pub async fn get_pet(api: &Api, request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let deprecated = |response| api.links.deprecated(response);
    if request.now() >= REMOVAL {
        return Ok(deprecated(ApiError::OperationRemoved.response()));
    }
    let id = match request.pet_id() {
        Ok(id) => id,
        Err(not_found) => return Ok(deprecated(not_found.response())),
    };
    let read = || async {
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
    let pet = api.cache.get_or_read(CacheKey::Pet(id), read).await?;
    pet.respond(&request.head.headers)
}

/// 5 December 2030, 00:00 UTC.
const REMOVAL: Timestamp = Timestamp::constant(1_922_659_200, 0);
