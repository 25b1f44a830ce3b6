//! Dispatches a request to the handler of its operation.

use futures_util::future::BoxFuture;
use http::{Method, request::Parts};

use super::{
    admission::InFlight,
    assets,
    auth::{Authentication, Caller},
    cache::{CachedRead, ReadResult},
    console,
    context::RequestContext,
    docs,
    error::ApiError,
    path::IdPositions,
    prefer,
    request::{ApiRequest, Permission, RequestHead},
    routes::{self, AsyncHandler, Handler, Match, ROUTES},
    similar_path,
    state::Api,
};
use domain::api_key::KeyHash;
use server::{Client, RequestBody, Response};

/// The result of dispatching a request.
pub enum Dispatch<'a> {
    Response(Response),
    Pending(Pending<'a>),
}

/// The work that a request waits for.
pub enum Pending<'a> {
    Readiness,
    /// An API key that is not cached and may be new.
    ApiKey(KeyHash),
    /// A response that is not cached.
    Read(BoxFuture<'a, ReadResult>, InFlight<'a>),
    Handler(AsyncHandler, IdPositions, Permission<'a>),
}

/// Responds to a request, as far as that is possible without waiting. The contract and everything
/// outside of `/v1` need no API key.
pub fn route<'a>(
    api: &'a Api,
    head: &Parts,
    context: &mut RequestContext,
) -> Result<Dispatch<'a>, ApiError> {
    let path = head.uri.path();
    if path.starts_with("/v1/") && !path.starts_with("/v1/openapi.") {
        context.is_strict = prefer::is_strict(&head.headers);
        return match api.auth.authenticate(&head.headers, context)? {
            Authentication::Caller(caller) => dispatch(api, caller, head, context),
            Authentication::NotCached(hash) => Ok(Dispatch::Pending(Pending::ApiKey(hash))),
        };
    }
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let response = match path {
        "/" | "/console/" if api.console => assets::redirect("/console"),
        "/" | "/docs/" if api.docs => assets::redirect("/docs"),
        "/console" if api.console => console::page(api.docs, &head.headers),
        "/docs" if api.docs => docs::page(api.console, &head.headers),
        "/healthz" => api.health.live(),
        "/readyz" if is_read => return Ok(Dispatch::Pending(Pending::Readiness)),
        // The store is not probed.
        "/readyz" => return Err(ApiError::READ_ONLY_PATH),
        "/v1/openapi.yaml" => api.contracts.get(head).yaml.respond(&head.headers)?,
        "/v1/openapi.json" => api.contracts.get(head).json.respond(&head.headers)?,
        _ => match path.split_once("/assets/") {
            Some(("/console", name)) if api.console => console::asset(name, &head.headers)?,
            Some(("/docs", name)) if api.docs => docs::asset(name, &head.headers)?,
            _ => return Err(no_such_path(api, path)),
        },
    };
    if is_read {
        Ok(Dispatch::Response(response))
    } else {
        Err(ApiError::READ_ONLY_PATH)
    }
}

/// The paths that need no API key and are always served.
const PUBLIC_PATHS: [&str; 4] = [
    "/healthz",
    "/readyz",
    "/v1/openapi.yaml",
    "/v1/openapi.json",
];

/// Returns the 404 for a path, which names the most similar one that there is.
fn no_such_path(api: &Api, path: &str) -> ApiError {
    let operations = ROUTES.iter().map(|route| route.operation.path);
    let pages = [("/console", api.console), ("/docs", api.docs)];
    let pages = pages.into_iter().filter(|(_, is_served)| *is_served);
    let paths = operations
        .chain(PUBLIC_PATHS)
        .chain(pages.map(|(page, _)| page));
    ApiError::NoSuchPath(similar_path::find(path, paths))
}

/// Responds from the cache, or finds the handler of an operation. The API key is checked
/// before the route, the query and the body.
fn dispatch<'a>(
    api: &'a Api,
    caller: Caller,
    head: &Parts,
    context: &mut RequestContext,
) -> Result<Dispatch<'a>, ApiError> {
    let path = head.uri.path();
    let (route, positions) = match routes::find(&head.method, path) {
        Match::Found(route, positions) => (route, positions),
        Match::MethodNotAllowed(allow) => return Err(ApiError::MethodNotAllowed(allow.into())),
        Match::NotFound => return Err(no_such_path(api, path)),
    };
    let operation = &route.operation;
    context.operation = Some(operation);
    let authorization = api.auth.authorize(caller, operation)?;
    let in_flight = api.admission.admit()?;
    let request = RequestHead::new(head, operation, authorization, context.is_strict);
    context.unknown_parameters = request.unknown_parameters().header();
    // An operation that was removed reports that first.
    if !operation.is_deprecated() {
        request.reject_unknown_parameters()?;
    }
    match route.handler {
        Handler::Immediate(respond) => respond(api, &request).map(Dispatch::Response),
        Handler::Cached(read) => match read(api, &request, positions.ids(path))? {
            CachedRead::Ready(cached) => cached.respond(&head.headers).map(Dispatch::Response),
            CachedRead::Pending(read) => Ok(Dispatch::Pending(Pending::Read(read, in_flight))),
        },
        Handler::Async(handler) => {
            let permission = Permission {
                operation,
                authorization: request.authorization,
                in_flight,
            };
            Ok(Dispatch::Pending(Pending::Handler(
                handler, positions, permission,
            )))
        }
    }
}

impl Pending<'_> {
    /// Waits for the work to complete, and responds.
    pub async fn resume(
        self,
        api: &Api,
        head: &Parts,
        body: RequestBody<'_>,
        context: &mut RequestContext,
        client: Client<'_>,
    ) -> Result<Response, ApiError> {
        match self {
            // Boxed, because its future is larger than the others.
            Self::Readiness => Box::pin(api.health.ready()).await,
            Self::Read(read, _in_flight) => read.await?.respond(&head.headers),
            Self::Handler(handler, positions, permission) => {
                let request = ApiRequest::new(permission, head, body, context, client);
                handler(api, request, positions.ids(head.uri.path())).await
            }
            Self::ApiKey(hash) => {
                let caller = api.auth.authenticate_new(hash, context).await?;
                match dispatch(api, caller, head, context)? {
                    Dispatch::Response(response) => Ok(response),
                    Dispatch::Pending(pending) => {
                        Box::pin(pending.resume(api, head, body, context, client)).await
                    }
                }
            }
        }
    }
}
