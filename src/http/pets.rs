//! The operations on animals.

use http::{HeaderName, HeaderValue, header, request::Parts};
use hyper::body::Incoming;
use jiff::Timestamp;

use super::{
    App, Response,
    auth::Permit,
    error::{ApiError, NO_SUCH_PET},
    extract::{self, IfMatch},
    render::{self, Rendered, View},
};
use crate::pet::{NewPet, Pet, PetChange};

pub async fn list_pets(app: &App, _: Permit<'_>, head: &Parts) -> Result<Response, ApiError> {
    let query = extract::list_query(head)?;
    let read = || async {
        let page = app.store.pet_list(query).await?;
        Ok(Rendered::page(&app.base, &query, &page))
    };
    let page = app.rendered(View::Pets(query), read).await?;
    Ok(page.answer(&head.headers))
}

pub async fn create_pet(
    app: &App,
    mut permit: Permit<'_>,
    head: &Parts,
    body: Incoming,
) -> Result<Response, ApiError> {
    let (new, named) = extract::named_object::<NewPet>(head, &mut permit, body).await?;
    let created = app.store.pet_create(new, named).await?;
    render::once(created, |pet| {
        render::created(app, "pets", pet.id.get(), &pet)
    })
}

pub async fn update_pet(
    app: &App,
    mut permit: Permit<'_>,
    head: &Parts,
    body: Incoming,
    id: &str,
) -> Result<Response, ApiError> {
    let body = extract::body(head, &mut permit, body, extract::MERGE_PATCH).await?;
    let change: PetChange = extract::object(&body)?;
    let if_match = IfMatch::of(head);
    let id = extract::pet_id(id).ok_or(ApiError::NotFound(NO_SUCH_PET))?;
    let expected = move |pet: &Pet| if_match.allows(|| render::tag(pet));
    let pet = app.store.pet_update(id, change, expected).await??;
    Ok(render::json(&pet, None))
}

/// Deprecated since 5 December 2025, removed from 5 December 2030 on.
pub async fn get_pet(
    app: &App,
    permit: Permit<'_>,
    head: &Parts,
    id: &str,
) -> Result<Response, ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound(NO_SUCH_PET);
    if permit.now >= REMOVAL {
        return Ok(announce_removal(app, ApiError::OperationRemoved.answer()));
    }
    let Some(id) = extract::pet_id(id) else {
        return Ok(announce_removal(app, NOT_FOUND.answer()));
    };
    let read = || async {
        Ok(match app.store.pet_get(id).await? {
            // Other animals that are added do not change this one.
            Some(pet) => Rendered::lasting(announce_removal(app, render::json(&pet, None))),
            None => Rendered::passing(announce_removal(app, NOT_FOUND.answer())),
        })
    };
    let pet = app.rendered(View::Pet(id), read).await?;
    Ok(pet.answer(&head.headers))
}

/// 5 December 2030, 00:00 UTC.
const REMOVAL: Timestamp = Timestamp::constant(1_922_659_200, 0);

/// RFC 9745 (since when), RFC 8594 (until when), RFC 8288 (what instead).
fn announce_removal(app: &App, mut answer: Response) -> Response {
    const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
    const SUNSET: HeaderName = HeaderName::from_static("sunset");
    let headers = answer.headers_mut();
    headers.insert(DEPRECATION, HeaderValue::from_static("@1764892800"));
    headers.insert(
        SUNSET,
        HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"),
    );
    headers.insert(header::LINK, app.successor.clone());
    answer
}
