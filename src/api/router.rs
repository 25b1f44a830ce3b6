//! Dispatch: from a request to the handler of its operation.

use futures_util::future::BoxFuture;
use http::{Method, request::Parts};
use hyper::body::Incoming;

use super::{
    admission::InFlight,
    assets,
    auth::{Authentication, Caller},
    cache::{CachedRead, ReadResult},
    categories, console,
    context::RequestContext,
    docs,
    error::ApiError,
    events, keys,
    operations::{self, Match, Operation},
    orders, pets, prefer,
    request::{Admitted, ApiRequest, RequestHead},
    state::Api,
    webhooks,
};
use crate::{api_key::KeyHash, server::Response};

const NO_SUCH_PATH: ApiError = ApiError::NotFound("no such path; see /v1/openapi.yaml for the API");

pub enum Routed<'a> {
    Response(Response),
    Pending(Pending<'a>),
}

/// What a request has to wait for.
pub enum Pending<'a> {
    Readiness,
    /// An API key that is not cached and may be new.
    ApiKey(KeyHash),
    /// A response that is not cached.
    Read(BoxFuture<'a, ReadResult>, InFlight<'a>),
    Handler(Handler, Admitted<'a>),
}

/// The handler of an operation that is not a cached read.
type Handler = for<'r> fn(&'r Api, ApiRequest<'r>) -> BoxFuture<'r, Result<Response, ApiError>>;

/// Responds to a request, as far as it need not wait. The contract and everything outside
/// `/v1` needs no API key.
pub fn route<'a>(
    api: &'a Api,
    head: &Parts,
    context: &mut RequestContext,
) -> Result<Routed<'a>, ApiError> {
    let path = head.uri.path();
    if path.starts_with("/v1/") && !path.starts_with("/v1/openapi.") {
        context.is_strict = prefer::is_strict(&head.headers);
        return match api.auth.authenticate(&head.headers, context)? {
            Authentication::Caller(caller) => dispatch(api, caller, head, context),
            Authentication::NotCached(hash) => Ok(Routed::Pending(Pending::ApiKey(hash))),
        };
    }
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let response = match path {
        "/" | "/console/" if api.console => assets::redirect("/console"),
        "/" | "/docs/" if api.docs => assets::redirect("/docs"),
        "/console" if api.console => console::page(api.docs, &head.headers),
        "/docs" if api.docs => docs::page(api.console, &head.headers),
        "/healthz" => api.health.live(),
        "/readyz" if is_read => return Ok(Routed::Pending(Pending::Readiness)),
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
        true => Ok(Routed::Response(response)),
        false => Err(ApiError::READ_ONLY_PATH),
    }
}

/// Responds from the cache, or finds the handler of an operation. The API key is checked
/// before the route, the query and the body.
fn dispatch<'a>(
    api: &'a Api,
    caller: Caller,
    head: &Parts,
    context: &mut RequestContext,
) -> Result<Routed<'a>, ApiError> {
    let (operation, parameters) = match operations::find(&head.method, head.uri.path()) {
        Match::Found(operation, parameters) => (operation, parameters),
        Match::MethodNotAllowed(allow) => return Err(ApiError::MethodNotAllowed(allow.into())),
        Match::NotFound => return Err(NO_SUCH_PATH),
    };
    context.operation = Some(operation);
    let authorized = api.auth.authorize(caller, operation)?;
    let in_flight = api.admission.admit()?;
    let request = RequestHead::new(head, parameters, authorized, context.is_strict);
    // An operation that was removed says so first.
    if operation != Operation::GetPet {
        request.reject_unknown_parameters(operation)?;
    }
    let respond = |read: CachedRead<'a>, in_flight| match read {
        CachedRead::Ready(cached) => cached.respond(&head.headers).map(Routed::Response),
        CachedRead::Pending(read) => Ok(Routed::Pending(Pending::Read(read, in_flight))),
    };
    let handler: Handler = match operation {
        Operation::ListPets => return respond(pets::list_pets(api, &request)?, in_flight),
        Operation::GetPet => return respond(pets::get_pet(api, &request)?, in_flight),
        Operation::ListCategories => {
            return respond(categories::list_categories(api, &request)?, in_flight);
        }
        Operation::GetInventory => return respond(orders::get_inventory(api, &request), in_flight),
        Operation::ListOrders => return respond(orders::list_orders(api, &request)?, in_flight),
        Operation::GetOrder => return respond(orders::get_order(api, &request)?, in_flight),
        Operation::CreatePet => |api, request| Box::pin(pets::create_pet(api, request)),
        Operation::UpdatePet => |api, request| Box::pin(pets::update_pet(api, request)),
        Operation::DeletePet => |api, request| Box::pin(pets::delete_pet(api, request)),
        Operation::PutCategory => |api, request| Box::pin(categories::put_category(api, request)),
        Operation::DeleteCategory => {
            |api, request| Box::pin(categories::delete_category(api, request))
        }
        Operation::PlaceOrder => |api, request| Box::pin(orders::place_order(api, request)),
        Operation::CompleteOrder => |api, request| Box::pin(orders::complete_order(api, request)),
        Operation::CancelOrder => |api, request| Box::pin(orders::cancel_order(api, request)),
        Operation::ReturnOrder => |api, request| Box::pin(orders::return_order(api, request)),
        Operation::ListEvents => |api, request| Box::pin(events::list_events(api, request)),
        Operation::StreamEvents => |api, request| Box::pin(events::stream_events(api, request)),
        Operation::CreateWebhook => |api, request| Box::pin(webhooks::create_webhook(api, request)),
        Operation::ListWebhooks => |api, request| Box::pin(webhooks::list_webhooks(api, request)),
        Operation::GetWebhook => |api, request| Box::pin(webhooks::get_webhook(api, request)),
        Operation::UpdateWebhook => |api, request| Box::pin(webhooks::update_webhook(api, request)),
        Operation::DeleteWebhook => |api, request| Box::pin(webhooks::delete_webhook(api, request)),
        Operation::RotateWebhookSecret => {
            |api, request| Box::pin(webhooks::rotate_webhook_secret(api, request))
        }
        Operation::TestWebhook => |api, request| Box::pin(webhooks::test_webhook(api, request)),
        Operation::ReplayWebhook => |api, request| Box::pin(webhooks::replay_webhook(api, request)),
        Operation::ListDeliveries => {
            |api, request| Box::pin(webhooks::list_deliveries(api, request))
        }
        Operation::RetryDelivery => |api, request| Box::pin(webhooks::retry_delivery(api, request)),
        Operation::ListKeys => |api, request| Box::pin(keys::list_keys(api, request)),
        Operation::GetCurrentKey => {
            return keys::get_current_key(api, &request).map(Routed::Response);
        }
    };
    let admitted = Admitted {
        operation,
        authorized: request.authorized,
        in_flight,
    };
    Ok(Routed::Pending(Pending::Handler(handler, admitted)))
}

impl Pending<'_> {
    /// Waits, and responds.
    pub async fn resume(
        self,
        api: &Api,
        head: &Parts,
        body: Incoming,
        context: &mut RequestContext,
    ) -> Result<Response, ApiError> {
        match self {
            // Boxed, because it is larger than all others.
            Self::Readiness => Box::pin(api.health.ready()).await,
            Self::Read(read, _in_flight) => read.await?.respond(&head.headers),
            Self::Handler(handler, admitted) => {
                handler(api, ApiRequest::new(admitted, head, body, context)).await
            }
            Self::ApiKey(hash) => {
                let caller = api.auth.authenticate_new(hash, context).await?;
                match dispatch(api, caller, head, context)? {
                    Routed::Response(response) => Ok(response),
                    Routed::Pending(pending) => {
                        Box::pin(pending.resume(api, head, body, context)).await
                    }
                }
            }
        }
    }
}
