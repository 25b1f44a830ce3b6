//! Dispatch: from a request to the handler of its operation.

use futures_util::future::BoxFuture;
use http::{Method, request::Parts};
use hyper::body::Incoming;

use super::{
    assets, categories, console,
    context::RequestContext,
    docs,
    error::ApiError,
    events, keys,
    operations::{self, Match, Operation},
    orders, pets, prefer,
    request::ApiRequest,
    state::Api,
    webhooks,
};
use crate::server::Response;

const NO_SUCH_PATH: ApiError = ApiError::NotFound("no such path; see /v1/openapi.yaml for the API");

/// Responds to a request. The contract and everything outside `/v1` needs no
/// API key.
pub async fn route(
    api: &Api,
    head: &Parts,
    body: Incoming,
    context: &mut RequestContext,
) -> Result<Response, ApiError> {
    let path = head.uri.path();
    if path.starts_with("/v1/") && !path.starts_with("/v1/openapi.") {
        return dispatch(api, head, body, context).await;
    }
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let response = match path {
        "/" | "/console/" if api.console => assets::redirect("/console"),
        "/" | "/docs/" if api.docs => assets::redirect("/docs"),
        "/console" if api.console => console::page(api.docs),
        "/docs" if api.docs => docs::page(api.console),
        "/healthz" => api.health.live(),
        "/readyz" if is_read => Box::pin(api.health.ready()).await?,
        // Without probing the store.
        "/readyz" => return Err(ApiError::READ_ONLY_PATH),
        "/v1/openapi.yaml" => api.contract_yaml.respond(&head.headers)?,
        "/v1/openapi.json" => api.contract_json.respond(&head.headers)?,
        _ => match path.split_once("/assets/") {
            Some(("/console", name)) if api.console => console::asset(name, &head.headers)?,
            Some(("/docs", name)) if api.docs => docs::asset(name, &head.headers)?,
            _ => return Err(NO_SUCH_PATH),
        },
    };
    match is_read {
        true => Ok(response),
        false => Err(ApiError::READ_ONLY_PATH),
    }
}

/// Calls the handler of an operation. The API key is checked before the route, the
/// query and the body.
async fn dispatch(
    api: &Api,
    head: &Parts,
    body: Incoming,
    context: &mut RequestContext,
) -> Result<Response, ApiError> {
    context.is_strict = prefer::is_strict(&head.headers);
    let caller = api.auth.authenticate(&head.headers, context).await?;
    let (operation, parameters) = match operations::find(&head.method, head.uri.path()) {
        Match::Found(operation, parameters) => (operation, parameters),
        Match::MethodNotAllowed(allow) => return Err(ApiError::MethodNotAllowed(allow.into())),
        Match::NotFound => return Err(NO_SUCH_PATH),
    };
    context.operation = Some(operation);
    let authorized = api.auth.authorize(caller, operation)?;
    let in_flight = api.admission.admit()?;
    let request = ApiRequest::new(authorized, in_flight, head, body, parameters, context);
    // An operation that was removed says so first.
    if operation != Operation::GetPet {
        request.reject_unknown_parameters(operation)?;
    }
    // Every request moves space for the largest future that is awaited without a box: those
    // of cached reads are small.
    let response: BoxFuture<'_, _> = match operation {
        Operation::ListPets => return pets::list_pets(api, &request).await,
        Operation::CreatePet => Box::pin(pets::create_pet(api, request)),
        Operation::GetPet => return pets::get_pet(api, &request).await,
        Operation::UpdatePet => Box::pin(pets::update_pet(api, request)),
        Operation::DeletePet => Box::pin(pets::delete_pet(api, request)),
        Operation::ListCategories => return categories::list_categories(api, &request).await,
        Operation::PutCategory => Box::pin(categories::put_category(api, request)),
        Operation::DeleteCategory => Box::pin(categories::delete_category(api, request)),
        Operation::GetInventory => return orders::get_inventory(api, &request).await,
        Operation::ListOrders => return orders::list_orders(api, &request).await,
        Operation::PlaceOrder => Box::pin(orders::place_order(api, request)),
        Operation::GetOrder => return orders::get_order(api, &request).await,
        Operation::CompleteOrder => Box::pin(orders::complete_order(api, request)),
        Operation::CancelOrder => Box::pin(orders::cancel_order(api, request)),
        Operation::ReturnOrder => Box::pin(orders::return_order(api, request)),
        Operation::ListEvents => Box::pin(events::list_events(api, request)),
        Operation::StreamEvents => Box::pin(events::stream_events(api, request)),
        Operation::CreateWebhook => Box::pin(webhooks::create_webhook(api, request)),
        Operation::ListWebhooks => Box::pin(webhooks::list_webhooks(api, request)),
        Operation::GetWebhook => Box::pin(webhooks::get_webhook(api, request)),
        Operation::UpdateWebhook => Box::pin(webhooks::update_webhook(api, request)),
        Operation::DeleteWebhook => Box::pin(webhooks::delete_webhook(api, request)),
        Operation::RotateWebhookSecret => Box::pin(webhooks::rotate_webhook_secret(api, request)),
        Operation::TestWebhook => Box::pin(webhooks::test_webhook(api, request)),
        Operation::ReplayWebhook => Box::pin(webhooks::replay_webhook(api, request)),
        Operation::ListDeliveries => Box::pin(webhooks::list_deliveries(api, request)),
        Operation::RetryDelivery => Box::pin(webhooks::retry_delivery(api, request)),
        Operation::ListKeys => Box::pin(keys::list_keys(api, request)),
        Operation::GetCurrentKey => return keys::get_current_key(api, &request),
    };
    response.await
}
