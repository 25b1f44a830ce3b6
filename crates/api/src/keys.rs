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
    Ok(response::unstored_page(
        to_json(&page.items),
        link,
        request.headers(),
    ))
}

pub fn get_current_key(api: &Api, request: &RequestHead<'_>) -> Result<Response, ApiError> {
    let key = api.auth.keys().describe(&request.key_hash());
    // The key may have been removed since it was authenticated.
    let key = key.ok_or(AuthFailure::Unknown)?;
    Ok(response::no_store(response::json(&key)))
}
