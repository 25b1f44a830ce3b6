//! The HTTP side: every route on one screen, and what they share.
//!
//! A request's way: `server` accepts it over a `socket`, `exchange` gives it
//! an id, the router below picks the handler, `auth` and `extract` make typed
//! input of it, the handler asks the store, and `render` or `error` makes the
//! answer.

mod auth;
mod contract;
mod docs;
mod error;
mod exchange;
mod extract;
mod limits;
mod orders;
mod pets;
mod render;
mod server;
mod socket;

use std::sync::Arc;

use axum::{Router, middleware, routing::get};
use http::HeaderValue;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{clock::Clock, store::Store};
use auth::Keys;
use render::{Pages, Rendered};

pub use contract::{Contract, PublicUrl};
pub use limits::Limits;

/// What the service is told when it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    pub public_url: Option<PublicUrl>,
    pub staging_url: Option<PublicUrl>,
    pub clock: Clock,
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public_url: None,
            staging_url: None,
            clock: Clock::system(),
            limits: Limits::default(),
        }
    }
}

/// What every handler can reach.
struct App {
    store: Arc<Store>,
    keys: Keys,
    pages: Pages,
    contract_yaml: Rendered,
    contract_json: Rendered,
    /// What links in answers start with: the public address, or just its path.
    base: String,
    /// The `Link` header of an operation that will be removed.
    successor: HeaderValue,
    clock: Clock,
    limits: Limits,
}

/// Serves until `shutdown` is ready, finishes what runs, then closes the store.
pub async fn serve(
    listener: TcpListener,
    store: Store,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let limits = settings.limits.clone();
    let store = Arc::new(store);
    let local = PublicUrl::local(listener.local_addr()?);
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
        keys: Keys::new(store.clone()),
        pages: Pages::new(),
        contract_yaml: Rendered::new(contract.yaml, None),
        contract_json: Rendered::new(contract.json, None),
        base,
        successor: successor.try_into().expect("addresses are plain ASCII"),
        clock: settings.clock,
        limits: settings.limits,
        store,
    });
    let mut chores = JoinSet::new();
    chores.spawn(auth::keep_fresh(app.clone()));
    chores.spawn(auth::keep_noting(app.clone()));
    server::run(listener, router(app.clone()), limits, shutdown).await;
    chores.shutdown().await;
    app.keys.note_used().await;
    app.store.close().await;
    Ok(())
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(docs::index))
        .route("/docs/", get(docs::index))
        .route("/docs", get(docs::page))
        .route("/docs/assets/{name}", get(docs::asset))
        .route("/v1/openapi.yaml", get(docs::openapi_yaml))
        .route("/v1/openapi.json", get(docs::openapi_json))
        .route("/v1/pets", get(pets::list_pets).post(pets::create_pet))
        .route("/v1/pets/{petId}", get(pets::get_pet))
        .route("/v1/store/orders", get(orders::list_orders))
        .fallback(auth::not_found)
        .method_not_allowed_fallback(auth::method_not_allowed)
        .layer(middleware::from_fn(exchange::answer))
        .with_state(app)
}
