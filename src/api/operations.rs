//! The operations of the contract: method, path, operation id and required scope.
//! The routes that need no API key are in `router`.

use http::Method;

use crate::api_key::Scope;

macro_rules! routes {
    ($($method:ident $path:literal $operation:ident $id:literal $($scope:ident)|*),* $(,)?) => {
        /// An operation of the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operation {
            $($operation),*
        }

        impl Operation {
            pub const ALL: &[Self] = &[$(Self::$operation),*];

            fn route(self) -> &'static Route {
                const ROUTES: &[Route] = &[$(Route {
                    method: Method::$method,
                    path: concat!("/v1/", $path),
                    id: $id,
                    scopes: &[$(Scope::$scope),*],
                }),*];
                &ROUTES[self as usize]
            }
        }
    };
}

struct Route {
    method: Method,
    path: &'static str,
    id: &'static str,
    scopes: &'static [Scope],
}

routes! {
    GET    "pets"                                            ListPets            "listPets"            PetsRead,
    POST   "pets"                                            CreatePet           "createPet"           PetsWrite,
    GET    "pets/{petId}"                                    GetPet              "getPet"              PetsRead,
    PATCH  "pets/{petId}"                                    UpdatePet           "updatePet"           PetsWrite,
    DELETE "pets/{petId}"                                    DeletePet           "deletePet"           PetsWrite,
    GET    "categories"                                      ListCategories      "listCategories"      PetsRead,
    PUT    "categories/{categoryId}"                         PutCategory         "putCategory"         PetsWrite,
    DELETE "categories/{categoryId}"                         DeleteCategory      "deleteCategory"      PetsWrite,
    GET    "store/inventory"                                 GetInventory        "getInventory"        PetsRead,
    GET    "store/orders"                                    ListOrders          "listOrders"          OrdersRead,
    POST   "store/orders"                                    PlaceOrder          "placeOrder"          OrdersWrite,
    GET    "store/orders/{orderId}"                          GetOrder            "getOrder"            OrdersRead,
    POST   "store/orders/{orderId}/complete"                 CompleteOrder       "completeOrder"       OrdersWrite,
    POST   "store/orders/{orderId}/cancel"                   CancelOrder         "cancelOrder"         OrdersWrite,
    POST   "store/orders/{orderId}/return"                   ReturnOrder         "returnOrder"         OrdersWrite,
    GET    "events"                                          ListEvents          "listEvents"          PetsRead | OrdersRead,
    GET    "events/stream"                                   StreamEvents        "streamEvents"        PetsRead | OrdersRead,
    POST   "webhooks"                                        CreateWebhook       "createWebhook"       WebhooksWrite,
    GET    "webhooks"                                        ListWebhooks        "listWebhooks"        WebhooksRead,
    GET    "webhooks/{webhookId}"                            GetWebhook          "getWebhook"          WebhooksRead,
    PATCH  "webhooks/{webhookId}"                            UpdateWebhook       "updateWebhook"       WebhooksWrite,
    DELETE "webhooks/{webhookId}"                            DeleteWebhook       "deleteWebhook"       WebhooksWrite,
    POST   "webhooks/{webhookId}/rotate-secret"              RotateWebhookSecret "rotateWebhookSecret" WebhooksWrite,
    POST   "webhooks/{webhookId}/test"                       TestWebhook         "testWebhook"         WebhooksWrite,
    POST   "webhooks/{webhookId}/replay"                     ReplayWebhook       "replayWebhook"       WebhooksWrite,
    GET    "webhooks/{webhookId}/deliveries"                 ListDeliveries      "listDeliveries"      WebhooksRead,
    POST   "webhooks/{webhookId}/deliveries/{eventId}/retry" RetryDelivery       "retryDelivery"       WebhooksWrite,
    GET    "keys"                                            ListKeys            "listKeys"            PetsRead | OrdersRead | WebhooksRead,
    // Any valid key.
    GET    "keys/current"                                    GetCurrentKey       "getCurrentKey",
}

impl Operation {
    /// The operation id, as in the contract.
    pub fn id(self) -> &'static str {
        self.route().id
    }

    pub fn method(self) -> &'static Method {
        &self.route().method
    }

    /// The path template, as in the contract.
    pub fn path(self) -> &'static str {
        self.route().path
    }

    /// The values of the path parameters.
    pub fn path_parameters(self, path: &str) -> PathParameters<'_> {
        match_path(self.path(), path).unwrap_or_default()
    }

    /// The scopes of which an API key needs one; empty if it needs none.
    pub fn scopes(self) -> &'static [Scope] {
        self.route().scopes
    }

    /// The names of its query parameters.
    pub fn query_parameters(self) -> &'static [&'static str] {
        match self {
            Self::ListPets => &[
                "limit",
                "cursor",
                "sort",
                "status",
                "categoryId",
                "name",
                "id",
            ],
            Self::ListOrders => &["limit", "cursor", "sort", "status", "petId"],
            Self::ListCategories | Self::ListWebhooks | Self::ListKeys => &["limit", "cursor"],
            Self::ListDeliveries => &["limit", "cursor", "state"],
            Self::ListEvents => &["after", "limit", "sort", "types", "subject", "wait"],
            Self::StreamEvents => &["after", "types", "subject"],
            _ => &[],
        }
    }

    /// Deprecated operations are counted per API key, so that an operator knows
    /// who still calls them.
    pub fn is_deprecated(self) -> bool {
        self == Self::GetPet
    }
}

/// The values of path parameters, in the order of the path. Empty if there are fewer.
pub type PathParameters<'a> = [&'a str; 2];

/// What a method and a path lead to.
#[derive(Debug, PartialEq, Eq)]
pub enum Match<'a> {
    /// An operation and the values of its path parameters.
    Found(Operation, PathParameters<'a>),
    /// The path exists, but only for these methods.
    MethodNotAllowed(String),
    NotFound,
}

/// Finds the operation for a method and a path that starts with `/v1/`. HEAD
/// counts as GET.
pub fn find<'a>(method: &Method, path: &'a str) -> Match<'a> {
    let method = match *method {
        Method::HEAD => &Method::GET,
        ref other => other,
    };
    for operation in Operation::ALL {
        if operation.method() == method
            && let Some(parameters) = match_path(operation.path(), path)
        {
            return Match::Found(*operation, parameters);
        }
    }
    let on_path = |operation: &&Operation| match_path(operation.path(), path).is_some();
    let methods = Operation::ALL
        .iter()
        .filter(on_path)
        .map(|operation| operation.method());
    match allow(methods) {
        Some(methods) => Match::MethodNotAllowed(methods),
        None => Match::NotFound,
    }
}

/// The value of an `Allow` header; `None` if there are no methods.
fn allow<'a>(methods: impl Iterator<Item = &'a Method>) -> Option<String> {
    let names = methods.map(|method| match *method {
        Method::GET => "GET, HEAD",
        ref other => other.as_str(),
    });
    Some(names.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
}

/// Matches a path against a template with at most two parameters, each of which takes one
/// segment that is not empty, and returns their values.
fn match_path<'a>(template: &str, path: &'a str) -> Option<PathParameters<'a>> {
    if template == path {
        return Some(["", ""]);
    }
    let (before, rest) = template.split_once('{')?;
    let (_, after) = rest.split_once('}')?;
    let path = path.strip_prefix(before)?;
    let (value, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    let [next, _] = match_path(after, rest)?;
    (!value.is_empty()).then_some([value, next])
}

#[cfg(test)]
mod tests {
    use super::{Match::*, Operation::*, *};

    #[test]
    fn paths_lead_to_their_operation() {
        for (method, path, expected) in [
            (Method::GET, "/v1/pets", Found(ListPets, ["", ""])),
            (Method::HEAD, "/v1/pets", Found(ListPets, ["", ""])),
            (Method::PATCH, "/v1/pets/17", Found(UpdatePet, ["17", ""])),
            (
                Method::GET,
                "/v1/store/orders/a%2Fb",
                Found(GetOrder, ["a%2Fb", ""]),
            ),
            (
                Method::POST,
                "/v1/store/orders/3/cancel",
                Found(CancelOrder, ["3", ""]),
            ),
            (
                Method::POST,
                "/v1/webhooks/7/deliveries/evt_1/retry",
                Found(RetryDelivery, ["7", "evt_1"]),
            ),
            (Method::POST, "/v1/webhooks/7/deliveries//retry", NotFound),
            (
                Method::POST,
                "/v1/webhooks//deliveries/evt_1/retry",
                NotFound,
            ),
            (
                Method::GET,
                "/v1/webhooks/7/deliveries/evt_1/retry",
                MethodNotAllowed("POST".into()),
            ),
            (Method::GET, "/v1/pets/", NotFound),
            (Method::GET, "/v1/pets/1/", NotFound),
            (Method::GET, "/v1/pets/1/2", NotFound),
            (Method::POST, "/v1/store/orders//cancel", NotFound),
            (
                Method::POST,
                "/v1/store/orders/cancel",
                MethodNotAllowed("GET, HEAD".into()),
            ),
            (
                Method::PUT,
                "/v1/pets",
                MethodNotAllowed("GET, HEAD, POST".into()),
            ),
            (
                Method::PUT,
                "/v1/pets/1",
                MethodNotAllowed("GET, HEAD, PATCH, DELETE".into()),
            ),
            (
                Method::GET,
                "/v1/store/orders/1/complete",
                MethodNotAllowed("POST".into()),
            ),
        ] {
            assert_eq!(find(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn the_table_matches_the_contract() {
        let contract = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));
        let contract: serde_json::Value = serde_json::from_str(contract).unwrap();
        let query_parameters = |operation: &serde_json::Value| {
            let parameters = operation["parameters"].as_array();
            let parameters = parameters.into_iter().flatten().map(|parameter| {
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
        let mut documented = Vec::new();
        for (path, item) in contract["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if let Some(id) = operation["operationId"].as_str() {
                    let (method, query) = (method.to_uppercase(), query_parameters(operation));
                    documented.push(format!("{method} /v1{path} {id} {query}"));
                }
            }
        }
        let describe = |operation: &Operation| {
            let (method, path) = (operation.method(), operation.path());
            let mut query = operation.query_parameters().to_vec();
            query.sort();
            format!("{method} {path} {} {}", operation.id(), query.join(" "))
        };
        let mut routed: Vec<_> = Operation::ALL.iter().map(describe).collect();
        documented.sort();
        routed.sort();
        assert_eq!(routed, documented);
    }
}
