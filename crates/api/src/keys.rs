//! Handlers of the operations on API keys.
//!
//! No cache stores their responses: keys are created and revoked outside of the service, and one
//! response depends on the key of the caller.

use super::{
    error::{ApiError, AuthFailure},
    request::{ApiRequest, RequestHead},
    response::{self, to_json},
    state::Api,
};
use domain::api_key::ApiKeyFilter;
use server::Response;

pub async fn list_keys(api: &Api, request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = request.list_query::<ApiKeyFilter>()?;
    let page = api.store.api_key_labels(query.clone()).await?;
    let link = api.links.next_page("keys", &query, page.next.as_ref());
    Ok(response::no_store_page(
        to_json(&page.items),
        link,
        request.headers(),
    ))
}

pub fn get_current_key(api: &Api, request: &RequestHead<'_>) -> Result<Response, ApiError> {
    match api.auth.keys().describe(&request.key_hash()) {
        Some(key) => Ok(response::no_store(response::json(&key))),
        // It was removed since it was authenticated.
        None => Err(AuthFailure::Unknown.into()),
    }
}
