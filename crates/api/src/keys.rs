//! Handlers of the operations on API keys and invitations.
//!
//! No cache stores their responses: keys are also created and revoked outside of the service, and
//! some of the responses show a secret.

use serde::Serialize;

use super::{
    error::{ApiError, AuthFailure, NO_SUCH_KEY},
    path::PathId,
    preconditions::unless_missing,
    request::{ApiRequest, RequestHead},
    response::{self, to_json},
    state::Api,
};
use domain::{
    api_key::{
        ApiKey, ApiKeyFilter, ApiKeySecret, KeyGrant, KeyRejection, NewInvitation, Rotation, Scope,
    },
    idempotency::{Idempotent, IdempotentRequest},
};
use server::Response;
use store::GrantKind;

/// A key with its secret, which only the response that creates it has.
#[derive(Serialize)]
struct KeyWithSecret<'a> {
    #[serde(flatten)]
    key: &'a ApiKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

pub async fn create_key(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let (grant, idempotency) = request.json_with_idempotency_key::<KeyGrant>().await?;
    grant_access(api, &request, grant, GrantKind::Key, idempotency).await
}

pub async fn create_invitation(
    api: &Api,
    mut request: ApiRequest<'_>,
) -> Result<Response, ApiError> {
    let (new, idempotency) = request.json_with_idempotency_key::<NewInvitation>().await?;
    let NewInvitation { grant, replaces } = new;
    let kind = GrantKind::Invitation { replaces };
    grant_access(api, &request, grant, kind, idempotency).await
}

async fn grant_access(
    api: &Api,
    request: &ApiRequest<'_>,
    grant: KeyGrant,
    kind: GrantKind,
    idempotency: Option<IdempotentRequest>,
) -> Result<Response, ApiError> {
    // Only keys are a list.
    let is_list = matches!(kind, GrantKind::Key);
    request.preconditions().evaluate_post(is_list)?;
    let secret = ApiKeySecret::generate();
    let caller = request.api_key_id();
    let valid = api.auth.keys().count_valid();
    let granted = api
        .store
        .api_key_grant(caller, grant, kind, secret.hash(), valid, idempotency)
        .await?;
    respond_with_secret(api, granted, &secret).await
}

/// Turns the invitation that the request was sent with into a key.
pub async fn claim_key(api: &Api, request: ApiRequest<'_>) -> Result<Response, ApiError> {
    request.preconditions().evaluate_post(false)?;
    let key = api.auth.keys().get(&request.key_hash());
    let invitation = key
        .and_then(|key| key.invitation)
        .ok_or(AuthFailure::Unknown)?;
    let secret = ApiKeySecret::generate();
    let id = request.api_key_id();
    let claimed = api.store.api_key_claim(id, invitation, secret.hash());
    let claimed = Idempotent::Executed(claimed.await?);
    respond_with_secret(api, claimed, &secret).await
}

pub async fn rotate_key(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<i64>,
) -> Result<Response, ApiError> {
    let (rotation, idempotency) = request.json_with_idempotency_key::<Rotation>().await?;
    let id = id?;
    let met = request.preconditions().evaluate_post(false);
    unless_missing(met, find(api, id)).await?;
    let secret = ApiKeySecret::generate();
    let caller = Some(request.api_key_id());
    let valid = api.auth.keys().count_valid();
    let rotated = api
        .store
        .api_key_rotate(
            id,
            caller,
            rotation.grace,
            secret.hash(),
            valid,
            idempotency,
        )
        .await?;
    respond_with_secret(api, rotated, &secret).await
}

pub async fn revoke_key(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<i64>,
) -> Result<Response, ApiError> {
    let id = id?;
    let met = request.preconditions().evaluate_untagged();
    unless_missing(met, find(api, id)).await?;
    let caller = Some(request.api_key_id());
    let revoked = api.store.api_key_revoke(id, caller).await?;
    revoked?;
    api.auth.keys().notice_change().await;
    Ok(response::no_content())
}

pub async fn list_keys(api: &Api, request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = request.list_query::<ApiKeyFilter>()?;
    let page = api.store.api_key_page(query.clone()).await?;
    let link = api.links.next_page("keys", &query, page.next.as_ref());
    let body = if request.scopes().has(Scope::KeysRead) {
        to_json(&page.items)
    } else {
        let labels: Vec<_> = page.items.iter().map(ApiKey::label).collect();
        to_json(&labels)
    };
    Ok(response::no_store_page(body, link, request.headers()))
}

pub async fn get_key(
    api: &Api,
    _request: ApiRequest<'_>,
    id: PathId<i64>,
) -> Result<Response, ApiError> {
    let key = find(api, id?).await?;
    Ok(response::no_store(response::json(&key)))
}

pub fn get_current_key(api: &Api, request: &RequestHead<'_>) -> Result<Response, ApiError> {
    match api.auth.keys().get(&request.key_hash()) {
        Some(key) => Ok(response::no_store(response::json(&key))),
        // It was removed since it was authenticated.
        None => Err(AuthFailure::Unknown.into()),
    }
}

async fn find(api: &Api, id: i64) -> Result<ApiKey, ApiError> {
    let key = api.store.api_key_get(id).await?;
    key.ok_or(ApiError::NotFound(NO_SUCH_KEY))
}

/// Responds with a new key. A retry does not show the secret, which was generated for another
/// request.
async fn respond_with_secret(
    api: &Api,
    result: Idempotent<Result<ApiKey, KeyRejection>>,
    secret: &ApiKeySecret,
) -> Result<Response, ApiError> {
    if let Idempotent::Executed(Ok(_)) = &result {
        api.auth.keys().notice_change().await;
    }
    let secret = match result {
        Idempotent::Executed(_) => Some(secret.reveal()),
        Idempotent::Replayed(_) | Idempotent::KeyReused => None,
    };
    response::idempotent(result, |created| match created {
        Ok(key) => {
            let view = KeyWithSecret { key: &key, secret };
            response::no_store(api.links.created("keys", key.id, &view))
        }
        Err(rejection) => ApiError::from(rejection).response(),
    })
}
