//! The HTTP side: every route on one screen, and what they share.
//!
//! A request's way: `server` accepts it, `connection` reads it from a `socket`,
//! `exchange` gives it an id, `route` below asks `auth` who it is and picks the
//! handler, `extract` makes typed input of it, the handler asks the store, and
//! `render` or `error` makes the answer.

mod auth;
mod chores;
mod connection;
mod contract;
mod cors;
mod docs;
mod error;
mod exchange;
mod extract;
mod health;
mod keys;
mod limits;
mod metrics;
mod operation;
mod orders;
mod pets;
mod rate;
mod render;
mod server;
mod socket;
mod tls;
mod trail;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, request::Parts};
use http_body_util::Full;
use hyper::body::Incoming;
use jiff::SignedDuration;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{clock::Clock, store::Store};
use auth::Caller;
use error::ApiError;
use keys::Keys;
use metrics::Metrics;
use rate::Strangers;
use render::{Pages, Rendered};
use trail::Trail;

pub use contract::{Contract, PublicUrl, Scheme, reachable};
pub use cors::Origin;
pub use limits::Limits;
pub use rate::RateLimit;
pub use tls::{Tls, Unusable};

/// What the service is told when it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    pub public_url: Option<PublicUrl>,
    pub staging_url: Option<PublicUrl>,
    /// How long an order holds its animal; until it is closed, if not given.
    pub hold: Option<SignedDuration>,
    /// Web pages of these origins may use the service.
    pub cors: Vec<Origin>,
    /// Every connection is encrypted with this, if given.
    pub tls: Option<Arc<Tls>>,
    /// Whether the log has every request, not only those that fail or are slow.
    pub access_log: bool,
    /// How long to go on, not ready any more, after the signal to stop.
    pub drain_delay: Duration,
    /// What a key may send; anything, if not given.
    pub rate_limit: Option<RateLimit>,
    /// What an address may send without a valid key.
    pub failed_auth_limit: RateLimit,
    pub clock: Clock,
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public_url: None,
            staging_url: None,
            hold: None,
            cors: Vec::new(),
            tls: None,
            access_log: false,
            drain_delay: Duration::ZERO,
            rate_limit: None,
            failed_auth_limit: RateLimit::FAILED_AUTH,
            clock: Clock::system(),
            limits: Limits::default(),
        }
    }
}

/// What every handler can reach.
struct App {
    store: Arc<Store>,
    keys: Keys,
    strangers: Strangers,
    metrics: Metrics,
    pages: Pages,
    contract_yaml: Rendered,
    contract_json: Rendered,
    /// What links in answers start with: the public address, or just its path.
    base: String,
    /// The `Link` header of an operation that will be removed.
    successor: HeaderValue,
    hold: Option<SignedDuration>,
    cors: Vec<Origin>,
    tls: Option<Arc<Tls>>,
    access_log: bool,
    /// One for each request that may be worked on.
    places: Semaphore,
    /// One for each request whose body is waited for.
    waiting_room: Semaphore,
    pinged: health::Pinged,
    /// Whether the service has been told to stop.
    stopping: AtomicBool,
    clock: Clock,
    limits: Limits,
}

/// Where the service is reached.
pub struct Listeners {
    pub service: TcpListener,
    /// For those who look after it. Nobody else should get there.
    pub metrics: Option<TcpListener>,
}

/// Serves until `shutdown` is ready, finishes what runs, then closes the store.
pub async fn serve(
    listeners: Listeners,
    store: Store,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let store = Arc::new(store);
    let scheme = Scheme::of(settings.tls.as_deref());
    let local = PublicUrl::local(scheme, listeners.service.local_addr()?);
    let production = settings.public_url.as_ref().unwrap_or(&local);
    let contract = Contract::new(production, settings.staging_url.as_ref());
    let base = settings
        .public_url
        .map_or("/v1".into(), |url| url.to_string());
    let docs = base.strip_suffix("/v1").unwrap_or_default();
    let successor = format!(
        "<{base}/pets>; rel=\"successor-version\", <{docs}/docs>; rel=\"deprecation\"; \
         type=\"text/html\""
    );
    let app = Arc::new(App {
        keys: Keys::new(store.clone(), settings.rate_limit),
        strangers: Strangers::new(settings.failed_auth_limit),
        metrics: Metrics::new(),
        pages: Pages::new(),
        contract_yaml: render::public(contract.yaml, "application/yaml"),
        contract_json: render::public(contract.json, "application/json"),
        base,
        successor: successor.try_into().expect("addresses are plain ASCII"),
        hold: settings.hold,
        cors: settings.cors,
        tls: settings.tls,
        access_log: settings.access_log,
        places: Semaphore::new(settings.limits.requests),
        waiting_room: Semaphore::new(settings.limits.slow_bodies),
        pinged: health::Pinged::default(),
        stopping: AtomicBool::new(false),
        clock: settings.clock,
        limits: settings.limits,
        store,
    });
    let mut chores = chores::start(&app);
    if let Some(listener) = listeners.metrics {
        chores.spawn(metrics::serve(listener, app.clone()));
    }
    let stopping = async {
        shutdown.await;
        app.stopping.store(true, Ordering::Relaxed);
        tokio::time::sleep(settings.drain_delay).await;
    };
    server::run(listeners.service, &app, stopping).await;
    chores.shutdown().await;
    // The database may be away, and that is no reason to stay.
    let _ = tokio::time::timeout(LAST_NOTES, app.keys.note_used()).await;
    app.store.close().await;
    Ok(())
}

/// How long the end of the service waits for the last use of keys to be noted.
const LAST_NOTES: Duration = Duration::from_secs(5);

/// What is sent to a client: all answers are at hand as a whole.
type Response = http::Response<Full<Bytes>>;

const READ: &str = "GET, HEAD";
const READ_AND_ADD: &str = "GET, HEAD, POST";
const READ_AND_CHANGE: &str = "GET, HEAD, PATCH";
const ACT: &str = "POST";

/// Every path of the service. What is not under `/v1`, and the contract, needs
/// no key.
async fn route(
    app: &App,
    head: &Parts,
    body: Incoming,
    trail: &mut Trail,
) -> Result<Response, ApiError> {
    if limits::is_too_large(head) {
        return Err(ApiError::HeadTooLarge);
    }
    let path = head.uri.path();
    if let Some(path) = path.strip_prefix("/v1/")
        && !path.starts_with("openapi.")
    {
        return operation(app, head, body, path, trail).await;
    }
    let answer = match path {
        "/" | "/docs/" => docs::index(),
        "/docs" => docs::page(),
        "/healthz" => health::alive(),
        "/readyz" if matches!(head.method, Method::GET | Method::HEAD) => {
            health::ready(app).await?
        }
        "/readyz" => return Err(ApiError::MethodNotAllowed(READ)),
        "/v1/openapi.yaml" => app.contract_yaml.answer(&head.headers),
        "/v1/openapi.json" => app.contract_json.answer(&head.headers),
        _ => match path.strip_prefix("/docs/assets/") {
            Some(name) => docs::asset(name, &head.headers)?,
            None => return Err(NO_SUCH_PATH),
        },
    };
    match head.method {
        Method::GET | Method::HEAD => Ok(answer),
        _ => Err(ApiError::MethodNotAllowed(READ)),
    }
}

/// Every operation of the contract. The key is judged before anything else of
/// the request.
async fn operation(
    app: &App,
    head: &Parts,
    body: Incoming,
    path: &str,
    trail: &mut Trail,
) -> Result<Response, ApiError> {
    use operation::Operation::*;
    let caller = Caller::of(&head.headers, app, trail).await?;
    let mut segments = path.split('/');
    let segments: [Option<&str>; 5] = std::array::from_fn(|_| segments.next());
    let method = match head.method {
        Method::HEAD => &Method::GET,
        ref other => other,
    };
    match segments {
        [Some("pets"), None, ..] => match *method {
            Method::GET => pets::list_pets(app, caller.may(ListPets)?, head).await,
            Method::POST => pets::create_pet(app, caller.may(CreatePet)?, head, body).await,
            _ => Err(ApiError::MethodNotAllowed(READ_AND_ADD)),
        },
        [Some("pets"), Some(id), None, ..] if !id.is_empty() => match *method {
            Method::GET => pets::get_pet(app, caller.may(GetPet)?, head, id).await,
            Method::PATCH => pets::update_pet(app, caller.may(UpdatePet)?, head, body, id).await,
            _ => Err(ApiError::MethodNotAllowed(READ_AND_CHANGE)),
        },
        [Some("store"), Some("inventory"), None, ..] => match *method {
            Method::GET => orders::get_inventory(app, caller.may(GetInventory)?, head).await,
            _ => Err(ApiError::MethodNotAllowed(READ)),
        },
        [Some("store"), Some("orders"), None, ..] => match *method {
            Method::GET => orders::list_orders(app, caller.may(ListOrders)?, head).await,
            Method::POST => orders::place_order(app, caller.may(PlaceOrder)?, head, body).await,
            _ => Err(ApiError::MethodNotAllowed(READ_AND_ADD)),
        },
        [Some("store"), Some("orders"), Some(id), None, _] if !id.is_empty() => match *method {
            Method::GET => orders::get_order(app, caller.may(GetOrder)?, head, id).await,
            _ => Err(ApiError::MethodNotAllowed(READ)),
        },
        [
            Some("store"),
            Some("orders"),
            Some(id),
            Some("complete"),
            None,
        ] if !id.is_empty() => match *method {
            Method::POST => {
                orders::complete_order(app, caller.may(CompleteOrder)?, head, body, id).await
            }
            _ => Err(ApiError::MethodNotAllowed(ACT)),
        },
        [
            Some("store"),
            Some("orders"),
            Some(id),
            Some("cancel"),
            None,
        ] if !id.is_empty() => match *method {
            Method::POST => {
                orders::cancel_order(app, caller.may(CancelOrder)?, head, body, id).await
            }
            _ => Err(ApiError::MethodNotAllowed(ACT)),
        },
        _ => Err(NO_SUCH_PATH),
    }
}

const NO_SUCH_PATH: ApiError =
    ApiError::NotFound("there is no such path; the contract is at /v1/openapi.yaml");
