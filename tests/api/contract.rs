//! Validates every exchange against `openapi.yaml` and tracks which documented
//! responses the tests have covered.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, LazyLock, Mutex},
};

use api::Contract;
use http::Method;
use serde_json::{Value, json};
use support::Response;

static CONTRACT: LazyLock<Value> = LazyLock::new(|| {
    let address = "http://127.0.0.1:8080/v1".parse().unwrap();
    serde_json::from_str(&Contract::new(address, None).json()).unwrap()
});

/// The operation ids and statuses that the tests have received.
static SEEN: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// Standard HTTP headers, and the CORS and security headers that the contract describes
/// in prose rather than per operation.
const STANDARD_HEADERS: [&str; 11] = [
    "content-type",
    "content-encoding",
    "content-length",
    "transfer-encoding",
    "date",
    "connection",
    "vary",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "x-content-type-options",
    "strict-transport-security",
];

/// A body that is valid for every operation; some ignore it.
pub const BODY: &str = r#"{"name":"A","categoryId":1,"petId":1,"url":"https://receiver.example/","after":"now","scopes":["pets:read"],"changes":[{"create":{"name":"A","categoryId":1}}],"batchId":"1","ids":[]}"#;

/// The id of an event that no store has.
const EVENT: &str = "evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5";

/// Every operation, with its path parameters and required query parameters filled in.
pub fn callable_operations() -> impl Iterator<Item = (Method, String, &'static Value)> {
    operations().into_iter().map(|(method, path, operation)| {
        let parts = path.split('/').map(|part| match part {
            "{eventId}" => EVENT,
            _ if part.starts_with('{') => "1",
            _ => part,
        });
        let mut target = parts.collect::<Vec<_>>().join("/");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.map(resolve) {
            if parameter["in"] == "query" && parameter["required"] == true {
                let name = parameter["name"].as_str().unwrap();
                target += &format!("?{name}={}", parameter["example"].as_str().unwrap());
            }
        }
        (method, target, operation)
    })
}

/// Every callable operation that documents a response with this status.
pub fn operations_with(
    status: &'static str,
) -> impl Iterator<Item = (Method, String, &'static Value)> {
    callable_operations()
        .filter(move |(_, _, operation)| operation["responses"][status].is_object())
}

/// The names of an operation's query parameters, sorted.
pub fn query_parameters(operation: &'static Value) -> Vec<&'static str> {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    let of_query = parameters
        .map(resolve)
        .filter(|parameter| parameter["in"] == "query");
    let mut names: Vec<_> = of_query.map(|p| p["name"].as_str().unwrap()).collect();
    names.sort();
    names
}

/// Every operation of the contract: method, path template and OpenAPI object.
pub fn operations() -> Vec<(Method, String, &'static Value)> {
    let paths = CONTRACT["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        methods
            .as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| {
                let method = method.to_uppercase().parse().unwrap();
                (method, format!("/v1{path}"), operation)
            })
    });
    operations.collect()
}

/// Panics if an exchange violates the contract.
#[track_caller]
pub fn check(method: &Method, target: &str, body: Option<&[u8]>, response: &Response) {
    let context = format!(
        "{method} {target} → {} {}",
        response.status,
        response.text()
    );
    assert!(
        response
            .header("x-request-id")
            .is_some_and(|id| !id.is_empty()),
        "missing x-request-id: {context}"
    );
    assert_eq!(
        response.header("x-content-type-options"),
        Some("nosniff"),
        "{context}"
    );
    if response.status >= 400 && method != Method::HEAD {
        assert_eq!(
            response.header("content-type"),
            Some("application/json"),
            "{context}"
        );
        assert_eq!(response.json()["status"], response.status, "{context}");
        assert_valid(
            &json!({"$ref": "#/components/schemas/Error"}),
            &response.json(),
            &context,
        );
        // The schema is open, so that codes can be added; the contract lists all of today's.
        let known = &CONTRACT["components"]["schemas"]["Error"]["properties"]["code"]["examples"];
        assert!(
            known.as_array().unwrap().contains(&response.json()["code"]),
            "undocumented code: {context}"
        );
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let Some(operation) = find(method, path) else {
        return;
    };
    let code = match method {
        &Method::HEAD => String::new(),
        _ => serde_json::from_slice::<Value>(&response.body)
            .ok()
            .and_then(|body| Some(body.get("code")?.as_str()?.to_string()))
            .unwrap_or_default(),
    };
    // Sent before routing, so they belong to no operation; the contract describes them in prose.
    let before_routing = [
        "invalid_request",
        "head_too_large",
        "http_version_not_supported",
    ];
    if before_routing.contains(&&*code) {
        return;
    }
    check_response(operation, method, response, &context);
    check_request(operation, query, body, response, &code, &context);
    let id = operation["operationId"].as_str().unwrap().to_string();
    SEEN.lock()
        .unwrap()
        .insert((id, response.status.to_string()));
}

/// Panics if the contract documents a response that no test has received.
pub fn assert_all_seen() {
    let seen = SEEN.lock().unwrap();
    let promised = operations().into_iter().flat_map(|(_, _, operation)| {
        let id = operation["operationId"].as_str().unwrap();
        let responses = operation["responses"].as_object().unwrap();
        responses
            .keys()
            .map(move |status| (id.to_string(), status.clone()))
    });
    let unseen: Vec<_> = promised.filter(|promise| !seen.contains(promise)).collect();
    assert!(
        unseen.is_empty(),
        "documented, but never received: {unseen:?}"
    );
}

/// The names of the members of a request's body, sorted.
pub fn body_members(method: &Method, path: &str) -> Vec<&'static str> {
    let operation = find(method, path).unwrap();
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let members = resolve(schema)["properties"].as_object().unwrap();
    let mut names: Vec<_> = members.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn find(method: &Method, path: &str) -> Option<&'static Value> {
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    let matches = |template: &str| {
        let mut a = template.split('/');
        let mut b = path.split('/');
        loop {
            match (a.next(), b.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if a == b || (a.starts_with('{') && !b.is_empty()) => {}
                _ => return false,
            }
        }
    };
    let mut operations = operations().into_iter();
    operations.find_map(|(m, template, op)| (m == *method && matches(&template)).then_some(op))
}

/// The status, every header and the body must be documented and match their schemas.
fn check_response(operation: &'static Value, method: &Method, response: &Response, context: &str) {
    let documented = resolve(&operation["responses"][&response.status.to_string()]);
    assert!(documented.is_object(), "undocumented status: {context}");
    let documented_headers = documented["headers"].as_object().unwrap();
    for (name, header) in documented_headers {
        let header = resolve(header);
        match response.header(name) {
            Some(text) => {
                let value = match header["schema"]["type"].as_str() {
                    Some("integer") => text.parse::<i64>().unwrap().into(),
                    _ => Value::from(text),
                };
                assert_valid(&header["schema"], &value, &format!("{name}: {context}"));
            }
            None => assert_ne!(header["required"], true, "missing header {name}: {context}"),
        }
    }
    for name in response.headers.keys() {
        let known = documented_headers
            .keys()
            .any(|known| known.eq_ignore_ascii_case(name.as_str()));
        assert!(
            known || STANDARD_HEADERS.contains(&name.as_str()),
            "undocumented header {name}: {context}"
        );
    }
    let content = &documented["content"]["application/json"]["schema"];
    if documented["content"]["text/event-stream"].is_object() {
        let media_type = response.header("content-type");
        assert_eq!(media_type, Some("text/event-stream"), "{context}");
    } else if documented["content"]["image/jpeg"].is_object() {
        let media_type = response.header("content-type");
        assert_eq!(media_type, Some("image/jpeg"), "{context}");
    } else if content.is_null() || method == Method::HEAD {
        assert!(response.body.is_empty(), "undocumented body: {context}");
    } else {
        assert_eq!(
            response.header("content-type"),
            Some("application/json"),
            "{context}"
        );
        assert_valid(content, &response.json(), context);
    }
}

/// A request that succeeds must be valid by the contract, and one that is rejected as
/// invalid must not be. With strict handling, unknown names are invalid too.
fn check_request(
    operation: &'static Value,
    query: &str,
    body: Option<&[u8]>,
    response: &Response,
    code: &str,
    context: &str,
) {
    let is_success = response.is_success();
    let is_strict = response.header("preference-applied") == Some("handling=strict");
    let parameters = operation["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(resolve);
    let mut valid = true;
    let mut is_undecided = false;
    let takes_header = parameters
        .clone()
        .any(|known| known["name"] == "Idempotency-Key" || known["name"] == "Last-Event-ID");
    let parameters = parameters.filter(|parameter| parameter["in"] == "query");
    if is_strict {
        let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
        valid &= names.all(|name| parameters.clone().any(|known| known["name"] == *name));
    }
    for parameter in parameters {
        let values = form_urlencoded::parse(query.as_bytes());
        let values: Vec<_> = values
            .filter(|(name, _)| parameter["name"] == **name)
            .collect();
        is_undecided |= parameter["name"] == "cursor" && !values.is_empty();
        is_undecided |= parameter["name"] == "name" && !values.is_empty();
        is_undecided |= parameter["name"] == "q" && !values.is_empty();
        is_undecided |= parameter["name"] == "after" && !values.is_empty();
        is_undecided |= parameter["name"] == "subject" && !values.is_empty();
        is_undecided |= parameter["name"] == "from" && !values.is_empty();
        is_undecided |= parameter["name"] == "timeZone" && !values.is_empty();
        valid &= values.len() <= 1;
        valid &= parameter["required"] != true || !values.is_empty();
        for (_, text) in values {
            let number = text.parse::<i64>().ok().filter(|n| n.to_string() == text);
            let value = match resolve(&parameter["schema"])["type"].as_str() {
                Some("integer") => number.map_or(Value::from(&*text), Value::from),
                _ => Value::from(&*text),
            };
            valid &= is_valid(&parameter["schema"], &value);
        }
    }
    is_undecided |= query.contains("sort=desc") && query.contains("wait=");
    if is_success {
        assert!(
            valid,
            "the contract forbids a request that was accepted: {context}"
        );
    } else if code == "invalid_parameter" {
        // The schema cannot tell whether a well-formed cursor is one of this query, how long a
        // name is after case folding, how many words a search has, which time zones exist, how
        // long a period is, whether a number fits into 64 bits, or that a long poll has no sort
        // order, and this check does not see the headers.
        assert!(
            !valid || is_undecided || takes_header,
            "the contract allows a request that was rejected: {context}"
        );
    }
    // Every media type of a body has the same schema.
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let is_optional = operation["requestBody"]["required"] == false;
    let body = body.filter(|body| schema.is_object() && !(is_optional && body.is_empty()));
    if let Some(body) = body {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        // Whether a URL is allowed, an id has a valid checksum, an animal has a photo, or a batch
        // lies within its import, is beyond a schema.
        let is_undecided = body["url"].is_string()
            || body["after"].is_string()
            || body["ids"].is_array()
            || is_beyond_import(&body);
        let valid = is_valid(schema, &body) && (!is_strict || knows_members(schema, &body));
        match code {
            _ if is_success => assert!(
                valid,
                "the contract forbids a request that was accepted: {context}"
            ),
            "invalid_body" => assert!(
                !valid || is_undecided,
                "the contract allows a request that was rejected: {context}"
            ),
            _ => {}
        }
    }
}

fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => CONTRACT
            .pointer(reference.strip_prefix('#').unwrap())
            .unwrap(),
        None => value,
    }
}

/// Compiles a schema once: that takes a hundred times longer than validating with it.
fn validator(schema: &Value) -> Arc<jsonschema::Validator> {
    static COMPILED: LazyLock<Mutex<HashMap<String, Arc<jsonschema::Validator>>>> =
        LazyLock::new(Mutex::default);
    let compile = || {
        let root = json!({"allOf": [schema], "components": CONTRACT["components"]});
        let compiled = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&root);
        Arc::new(compiled.unwrap())
    };
    let mut compiled = COMPILED.lock().unwrap();
    compiled
        .entry(schema.to_string())
        .or_insert_with(compile)
        .clone()
}

/// True if a schema has every member of a value, also of the objects in it.
fn knows_members(schema: &'static Value, value: &Value) -> bool {
    let schema = resolve(schema);
    if let Some(items) = value.as_array() {
        return items.iter().all(|it| knows_members(&schema["items"], it));
    }
    let Some(object) = value.as_object() else {
        return true;
    };
    if let Some(choices) = schema["anyOf"].as_array() {
        let mut objects = choices.iter().filter(|it| resolve(it)["type"] == "object");
        return objects.any(|schema| is_valid(schema, value) && knows_members(schema, value));
    }
    let Some(known) = schema["properties"].as_object() else {
        return true;
    };
    let mut members = object.iter();
    members.all(|(name, value)| {
        let schema = known.get(name);
        schema.is_some_and(|schema| knows_members(schema, value))
    })
}

fn is_valid(schema: &Value, value: &Value) -> bool {
    validator(schema).is_valid(value)
}

#[track_caller]
fn assert_valid(schema: &Value, value: &Value, context: &str) {
    let errors: Vec<_> = validator(schema)
        .iter_errors(value)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?} in {context}");
}

/// Returns true if a batch has changes after the last one of its import.
fn is_beyond_import(batch: &Value) -> bool {
    let numbers = ["row", "rows"].map(|member| batch["import"][member].as_i64());
    let changes = batch["changes"].as_array().map(|it| it.len() as i64);
    match (numbers, changes) {
        ([Some(row), Some(rows)], Some(changes)) => row + changes > rows,
        _ => false,
    }
}
