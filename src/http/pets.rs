//! The operations on animals.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;

use super::{
    App,
    auth::{Caller, PetsRead, PetsWrite},
    error::{ApiError, JSON},
    extract::{Json, PetPath},
    render::{Rendered, View},
};
use crate::{
    page::ListQuery,
    pet::{NewPet, PetId, PetStatus},
};

pub async fn list_pets(
    _: Caller<PetsRead>,
    State(app): State<Arc<App>>,
    query: ListQuery<PetStatus>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let read = async {
        let page = app.store.pet_list(query).await?;
        Ok(Rendered::page(&app.base, &query, &page))
    };
    let page = app.rendered(View::Pets(query), read).await?;
    Ok(page.private_answer(&headers))
}

pub async fn create_pet(
    _: Caller<PetsWrite>,
    State(app): State<Arc<App>>,
    Json(new): Json<NewPet>,
) -> Result<Response, ApiError> {
    let pet = app.store.pet_create(new).await?;
    let body = serde_json::to_vec(&pet).expect("the domain is plain JSON");
    let location = format!("{}/pets/{}", app.base, pet.id.get());
    let location = HeaderValue::try_from(location).expect("addresses are plain ASCII");
    let headers = [(header::CONTENT_TYPE, JSON), (header::LOCATION, location)];
    Ok((StatusCode::CREATED, headers, Body::from(body)).into_response())
}

/// Deprecated since 5 December 2025, removed from 5 December 2030 on.
pub async fn get_pet(
    caller: Caller<PetsRead>,
    State(app): State<Arc<App>>,
    PetPath(id): PetPath,
    headers: HeaderMap,
) -> Response {
    let mut response = match one_pet(&app, id, caller.now).await {
        Ok(pet) => pet.private_answer(&headers),
        Err(error) => error.into_response(),
    };
    if !response.status().is_server_error() {
        announce_removal(&app, response.headers_mut());
    }
    response
}

async fn one_pet(app: &App, id: Option<PetId>, now: Timestamp) -> Result<Arc<Rendered>, ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound("petId: there is no pet with this id");
    if now >= REMOVAL {
        return Err(ApiError::OperationRemoved);
    }
    let id = id.ok_or(NOT_FOUND)?;
    let read = async {
        let pet = app.store.pet_get(id).await?.ok_or(NOT_FOUND)?;
        Ok(Rendered::json(&pet, None))
    };
    app.rendered(View::Pet(id), read).await
}

/// 5 December 2030, 00:00 UTC.
const REMOVAL: Timestamp = Timestamp::constant(1_922_659_200, 0);

/// RFC 9745 (since when), RFC 8594 (until when), RFC 8288 (what instead).
fn announce_removal(app: &App, headers: &mut HeaderMap) {
    const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
    const SUNSET: HeaderName = HeaderName::from_static("sunset");
    headers.insert(DEPRECATION, HeaderValue::from_static("@1764892800"));
    headers.insert(
        SUNSET,
        HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"),
    );
    headers.insert(header::LINK, app.successor.clone());
}
