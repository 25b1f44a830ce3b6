//! Dispatch: from a request to the handler of its operation.

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
        "/readyz" if is_read => api.health.ready().await?,
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
    match operation {
        Operation::ListPets => pets::list_pets(api, request).await,
        Operation::CreatePet => pets::create_pet(api, request).await,
        Operation::GetPet => pets::get_pet(api, request).await,
        Operation::UpdatePet => pets::update_pet(api, request).await,
        Operation::DeletePet => pets::delete_pet(api, request).await,
        Operation::ListCategories => categories::list_categories(api, request).await,
        Operation::PutCategory => categories::put_category(api, request).await,
        Operation::DeleteCategory => categories::delete_category(api, request).await,
        Operation::GetInventory => orders::get_inventory(api, request).await,
        Operation::ListOrders => orders::list_orders(api, request).await,
        Operation::PlaceOrder => orders::place_order(api, request).await,
        Operation::GetOrder => orders::get_order(api, request).await,
        Operation::CompleteOrder => orders::complete_order(api, request).await,
        Operation::CancelOrder => orders::cancel_order(api, request).await,
        Operation::ReturnOrder => orders::return_order(api, request).await,
        Operation::ListEvents => events::list_events(api, request).await,
        Operation::StreamEvents => events::stream_events(api, request).await,
        Operation::CreateWebhook => webhooks::create_webhook(api, request).await,
        Operation::ListWebhooks => webhooks::list_webhooks(api, request).await,
        Operation::GetWebhook => webhooks::get_webhook(api, request).await,
        Operation::UpdateWebhook => webhooks::update_webhook(api, request).await,
        Operation::DeleteWebhook => webhooks::delete_webhook(api, request).await,
        Operation::RotateWebhookSecret => webhooks::rotate_webhook_secret(api, request).await,
        Operation::TestWebhook => webhooks::test_webhook(api, request).await,
        Operation::ReplayWebhook => webhooks::replay_webhook(api, request).await,
        Operation::ListDeliveries => webhooks::list_deliveries(api, request).await,
        Operation::RetryDelivery => webhooks::retry_delivery(api, request).await,
        Operation::ListKeys => keys::list_keys(api, request).await,
        Operation::GetCurrentKey => keys::get_current_key(api, request),
    }
}
