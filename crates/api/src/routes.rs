//! Every operation of the contract on one line: method, path, operation id, scopes, handler with
//! the ids in the path, and query parameters. `A | B` requires either scope. The routes that need
//! no API key are in `router`.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use http::Method;

use super::{
    cache::CachedRead,
    categories,
    error::ApiError,
    events, imports, keys,
    operation::Operation,
    orders,
    path::{
        BATCH_ID, CATEGORY_ID, EVENT_ID, IdPositions, KEY_ID, ORDER_ID, PET_ID, PHOTO_ID, PathIds,
        WEBHOOK_ID,
    },
    pet_batches, pets, photos, reports,
    request::{ApiRequest, RequestHead},
    settings,
    state::Api,
    undo, webhooks,
};
use domain::api_key::Scope::*;
use server::Response;

pub struct Route {
    pub operation: Operation,
    pub handler: Handler,
}

/// The handler of an operation.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Waits for the body or for the store.
    Async(AsyncHandler),
    /// Responds from the cache, if it can.
    Cached(for<'a> fn(&'a Api, &RequestHead<'_>, PathIds<'_>) -> Result<CachedRead<'a>, ApiError>),
    /// Responds immediately.
    Immediate(fn(&Api, &RequestHead<'_>) -> Result<Response, ApiError>),
}

pub type AsyncHandler =
    for<'r> fn(&'r Api, ApiRequest<'r>, PathIds<'r>) -> BoxFuture<'r, Result<Response, ApiError>>;

macro_rules! handler {
    (async $handler:path, $($id:ident)*) => {
        Handler::Async(|api, request, mut _ids| {
            Box::pin($handler(api, request, $($id.parse(_ids.next())),*))
        })
    };
    (cached $handler:path, $($id:ident)*) => {
        Handler::Cached(|api, request, mut _ids| $handler(api, request, $($id.parse(_ids.next())),*))
    };
    // Like `cached`, but reads the store for every request.
    (uncached $handler:path,) => {
        handler!(cached $handler,)
    };
    (immediate $handler:path,) => {
        Handler::Immediate($handler)
    };
}

macro_rules! routes {
    ($($method:ident $path:literal $id:literal [$($($scope:ident)|+),*]
       $kind:ident $module:ident::$handler:ident($($path_id:ident),*)
       $([$($parameter:ident)+])?,)+) => {
        vec![$(Route {
            operation: Operation {
                number: 0,
                method: Method::$method,
                path: concat!("/v1/", $path),
                id: $id,
                scopes: &[$(&[$($scope),+]),*],
                query_parameters: &[$($(stringify!($parameter)),+)?],
            },
            handler: handler!($kind $module::$handler, $($path_id)*),
        }),+]
    };
}

pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut routes = routes();
    for (number, route) in routes.iter_mut().enumerate() {
        route.operation.number = number;
    }
    routes
});

#[rustfmt::skip]
fn routes() -> Vec<Route> { routes! {
    GET    "pets"                                            "listPets"            [PetsRead]                           cached    pets::list_pets()                     [limit cursor sort status categoryId name q id microchip],
    POST   "pets"                                            "createPet"           [PetsWrite]                          async     pets::create_pet(),
    POST   "pets/batch"                                      "changePets"          [PetsWrite]                          async     pet_batches::change_pets(),
    POST   "pets/batch/{batchId}/undo"                       "undoBatch"           [PetsWrite]                          async     undo::undo_batch(BATCH_ID),
    GET    "imports"                                         "listImports"         [PetsWrite]                          async     imports::list_imports()               [file],
    GET    "pets/{petId}"                                    "getPet"              [PetsRead]                           cached    pets::get_pet(PET_ID),
    PATCH  "pets/{petId}"                                    "updatePet"           [PetsWrite]                          async     pets::update_pet(PET_ID),
    DELETE "pets/{petId}"                                    "deletePet"           [PetsWrite]                          async     pets::delete_pet(PET_ID),
    POST   "pets/{petId}/photos"                             "addPhoto"            [PetsWrite]                          async     photos::add_photo(PET_ID),
    PUT    "pets/{petId}/photos"                             "arrangePhotos"       [PetsWrite]                          async     photos::arrange_photos(PET_ID),
    GET    "pets/{petId}/photos/{photoId}"                   "getPhoto"            [PetsRead]                           async     photos::get_photo(PET_ID, PHOTO_ID)   [size digest],
    DELETE "pets/{petId}/photos/{photoId}"                   "deletePhoto"         [PetsWrite]                          async     photos::delete_photo(PET_ID, PHOTO_ID),
    GET    "categories"                                      "listCategories"      [PetsRead]                           cached    categories::list_categories()         [limit cursor],
    PUT    "categories/{categoryId}"                         "putCategory"         [PetsWrite]                          async     categories::put_category(CATEGORY_ID),
    DELETE "categories/{categoryId}"                         "deleteCategory"      [PetsWrite]                          async     categories::delete_category(CATEGORY_ID),
    GET    "store/inventory"                                 "getInventory"        [PetsRead]                           cached    orders::get_inventory()               [categoryId q],
    GET    "store/orders"                                    "listOrders"          [OrdersRead]                         cached    orders::list_orders()                 [limit cursor sort status petId],
    POST   "store/orders"                                    "placeOrder"          [OrdersWrite]                        async     orders::place_order(),
    GET    "store/orders/{orderId}"                          "getOrder"            [OrdersRead]                         cached    orders::get_order(ORDER_ID),
    PATCH  "store/orders/{orderId}"                          "updateOrder"         [OrdersWrite]                        async     orders::update_order(ORDER_ID),
    POST   "store/orders/{orderId}/complete"                 "completeOrder"       [OrdersWrite]                        async     orders::complete_order(ORDER_ID),
    POST   "store/orders/{orderId}/cancel"                   "cancelOrder"         [OrdersWrite]                        async     orders::cancel_order(ORDER_ID),
    POST   "store/orders/{orderId}/return"                   "returnOrder"         [OrdersWrite]                        async     orders::return_order(ORDER_ID),
    GET    "store/sales"                                     "getSales"            [OrdersRead]                         async     reports::get_sales()                  [from to by timeZone],
    // It has buyers and animals.
    GET    "store/register"                                  "listRegister"        [OrdersRead, PetsRead]               uncached  reports::list_register()              [entry from to timeZone limit cursor],
    GET    "store/settings"                                  "getSettings"         [PetsRead | OrdersRead]              uncached  settings::get_settings(),
    PATCH  "store/settings"                                  "updateSettings"      [StoreWrite]                         async     settings::update_settings(),
    GET    "events"                                          "listEvents"          [PetsRead | OrdersRead | KeysRead]   async     events::list_events()                 [after limit sort types subject batch wait],
    GET    "events/stream"                                   "streamEvents"        [PetsRead | OrdersRead | KeysRead]   async     events::stream_events()               [after types subject batch],
    POST   "webhooks"                                        "createWebhook"       [WebhooksWrite]                      async     webhooks::create_webhook(),
    GET    "webhooks"                                        "listWebhooks"        [WebhooksRead]                       async     webhooks::list_webhooks()             [limit cursor],
    GET    "webhooks/{webhookId}"                            "getWebhook"          [WebhooksRead]                       async     webhooks::get_webhook(WEBHOOK_ID),
    PATCH  "webhooks/{webhookId}"                            "updateWebhook"       [WebhooksWrite]                      async     webhooks::update_webhook(WEBHOOK_ID),
    DELETE "webhooks/{webhookId}"                            "deleteWebhook"       [WebhooksWrite]                      async     webhooks::delete_webhook(WEBHOOK_ID),
    POST   "webhooks/{webhookId}/rotate-secret"              "rotateWebhookSecret" [WebhooksWrite]                      async     webhooks::rotate_webhook_secret(WEBHOOK_ID),
    POST   "webhooks/{webhookId}/test"                       "testWebhook"         [WebhooksWrite]                      async     webhooks::test_webhook(WEBHOOK_ID),
    POST   "webhooks/{webhookId}/replay"                     "replayWebhook"       [WebhooksWrite]                      async     webhooks::replay_webhook(WEBHOOK_ID),
    GET    "webhooks/{webhookId}/deliveries"                 "listDeliveries"      [WebhooksRead]                       async     webhooks::list_deliveries(WEBHOOK_ID) [limit cursor state],
    POST   "webhooks/{webhookId}/deliveries/{eventId}/retry" "retryDelivery"       [WebhooksWrite]                      async     webhooks::retry_delivery(WEBHOOK_ID, EVENT_ID),
    POST   "keys"                                            "createKey"           [KeysWrite]                          async     keys::create_key(),
    // Without `keys:read`, it shows names only.
    GET    "keys"                                            "listKeys"            [PetsRead | OrdersRead | WebhooksRead | KeysRead] async keys::list_keys()               [limit cursor],
    // Needs a valid key with any scope.
    GET    "keys/current"                                    "getCurrentKey"       []                                   immediate keys::get_current_key(),
    POST   "keys/invitations"                                "createInvitation"    [KeysWrite]                          async     keys::create_invitation(),
    POST   "keys/claim"                                      "claimKey"            [KeysClaim]                          async     keys::claim_key(),
    GET    "keys/{keyId}"                                    "getKey"              [KeysRead]                           async     keys::get_key(KEY_ID),
    DELETE "keys/{keyId}"                                    "revokeKey"           [KeysWrite]                          async     keys::revoke_key(KEY_ID),
    POST   "keys/{keyId}/rotate"                             "rotateKey"           [KeysWrite]                          async     keys::rotate_key(KEY_ID),
} }

/// The paths without ids that match the template of another one, such as `keys/current`. They are
/// never taken for an id.
static EXACT_PATHS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let paths = ROUTES.iter().map(|route| route.operation.path);
    let is_matched = |path: &&str| {
        let mut others = ROUTES.iter().filter(|other| other.operation.path != *path);
        others.any(|other| other.operation.match_path(path).is_some())
    };
    paths
        .filter(|path| !path.contains('{'))
        .filter(is_matched)
        .collect()
});

fn match_route(route: &Route, path: &str) -> Option<IdPositions> {
    let positions = route.operation.match_path(path)?;
    let is_itself = route.operation.path == path || !EXACT_PATHS.contains(&path);
    is_itself.then_some(positions)
}

/// The result of looking up a method and a path.
pub enum Match {
    /// A route and the positions of the ids in the path.
    Found(&'static Route, IdPositions),
    /// The path exists, but only for these methods.
    MethodNotAllowed(String),
    NotFound,
}

/// Finds the operation for a method and a path that starts with `/v1/`. HEAD
/// counts as GET.
pub fn find(method: &Method, path: &str) -> Match {
    let method = match *method {
        Method::HEAD => &Method::GET,
        ref other => other,
    };
    for route in ROUTES.iter() {
        if route.operation.method == method
            && let Some(positions) = match_route(route, path)
        {
            return Match::Found(route, positions);
        }
    }
    let on_path = ROUTES
        .iter()
        .filter(|route| match_route(route, path).is_some());
    let methods: Vec<_> = on_path
        .map(|route| match route.operation.method {
            Method::GET => "GET, HEAD",
            ref other => other.as_str(),
        })
        .collect();
    if methods.is_empty() {
        Match::NotFound
    } else {
        Match::MethodNotAllowed(methods.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::operation::MAX_OPERATIONS, *};

    #[test]
    fn paths_lead_to_their_operation() {
        for (method, path, expected) in [
            (Method::GET, "/v1/pets", "listPets"),
            (Method::HEAD, "/v1/pets", "listPets"),
            (Method::PATCH, "/v1/pets/17", "updatePet 17"),
            (Method::GET, "/v1/store/orders/a%2Fb", "getOrder a%2Fb"),
            (Method::POST, "/v1/store/orders/3/cancel", "cancelOrder 3"),
            (
                Method::POST,
                "/v1/webhooks/7/deliveries/evt_1/retry",
                "retryDelivery 7 evt_1",
            ),
            (
                Method::POST,
                "/v1/webhooks/7/deliveries//retry",
                "not found",
            ),
            (
                Method::POST,
                "/v1/webhooks//deliveries/evt_1/retry",
                "not found",
            ),
            (Method::GET, "/v1/webhooks/7/deliveries/evt_1/retry", "POST"),
            (Method::GET, "/v1/pets/", "not found"),
            (Method::GET, "/v1/pets/1/", "not found"),
            (Method::GET, "/v1/pets/1/2", "not found"),
            (Method::POST, "/v1/store/orders//cancel", "not found"),
            (Method::POST, "/v1/store/orders/cancel", "GET, HEAD, PATCH"),
            (Method::PUT, "/v1/pets", "GET, HEAD, POST"),
            (Method::PUT, "/v1/pets/1", "GET, HEAD, PATCH, DELETE"),
            (Method::GET, "/v1/store/orders/1/complete", "POST"),
            (Method::GET, "/v1/keys/current", "getCurrentKey"),
            (Method::DELETE, "/v1/keys/current", "GET, HEAD"),
            (Method::GET, "/v1/keys/claim", "POST"),
            (Method::POST, "/v1/pets/batch", "changePets"),
            (Method::GET, "/v1/pets/batch", "POST"),
            (Method::POST, "/v1/pets/batch/a/undo", "undoBatch a"),
            (Method::DELETE, "/v1/keys/7", "revokeKey 7"),
        ] {
            let found = match find(&method, path) {
                Match::Found(route, positions) => {
                    let ids = positions.ids(path).map(|id| format!(" {id}"));
                    route.operation.id.to_owned() + &ids.collect::<String>()
                }
                Match::MethodNotAllowed(methods) => methods,
                Match::NotFound => "not found".into(),
            };
            assert_eq!(found, expected, "{method} {path}");
        }
    }

    #[test]
    fn the_table_matches_the_contract() {
        let json = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));
        let contract: serde_json::Value = serde_json::from_str(json).unwrap();
        let query_parameters = |operation: &serde_json::Value| {
            let listed = operation["parameters"].as_array();
            let parameters = listed.into_iter().flatten().map(|parameter| {
                let reference = parameter["$ref"].as_str();
                reference.map_or(parameter, |reference| {
                    contract.pointer(&reference[1..]).unwrap()
                })
            });
            let of_query = parameters.filter(|parameter| parameter["in"] == "query");
            let mut names: Vec<_> = of_query.map(|p| p["name"].as_str().unwrap()).collect();
            names.sort();
            names.join(" ")
        };
        assert!(ROUTES.len() <= MAX_OPERATIONS);
        let mut documented = Vec::new();
        for (path, item) in contract["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if let Some(id) = operation["operationId"].as_str() {
                    let method = method.to_uppercase();
                    let query = query_parameters(operation);
                    documented.push(format!("{method} /v1{path} {id} {query}"));
                }
            }
        }
        let describe = |route: &Route| {
            let Operation {
                method, path, id, ..
            } = &route.operation;
            let mut query = route.operation.query_parameters.to_vec();
            query.sort();
            format!("{method} {path} {id} {}", query.join(" "))
        };
        let mut routed: Vec<_> = ROUTES.iter().map(describe).collect();
        documented.sort();
        routed.sort();
        assert_eq!(routed, documented);
    }
}
