//! The definition of a breaking change: it removes something that clients may rely on, or
//! requires something that they did not have to send.

use serde_json::{Map, Value, json};

/// Lists the changes in `new` that could break a client written for `old`. Operations and schemas
/// marked `x-stability: experimental` or `beta` may change.
pub fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut comparison = Comparison {
        old,
        new,
        breaking: Vec::new(),
    };
    for (path, operations) in members(&old["paths"]) {
        for (method, operation) in members(operations) {
            if is_stable(operation) {
                let location = format!("{method} {path}");
                comparison.operation(&location, operation, &new["paths"][path][method]);
            }
        }
    }
    comparison.breaking
}

/// The schema keywords that the comparison understands. Any other is reported as
/// breaking until there is a rule for it.
const SUPPORTED_KEYWORDS: [&str; 20] = [
    "type",
    "format",
    "const",
    "enum",
    "default",
    "description",
    "examples",
    "example",
    "title",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "properties",
    "required",
    "items",
    "additionalProperties",
];

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    breaking: Vec<String>,
}

/// Who sends the value. Clients must not have to send more, and the service must not
/// send less.
#[derive(Clone, Copy, PartialEq)]
enum Sender {
    Client,
    Service,
}

impl<'a> Comparison<'a> {
    fn report(&mut self, location: &str, what: &str) {
        self.breaking.push(format!("{location}: {what}"));
    }

    fn operation(&mut self, location: &str, old: &'a Value, new: &'a Value) {
        if new.is_null() {
            return self.report(location, "removed");
        }
        if !new["x-stability"].is_null() {
            self.report(location, "no longer stable");
        }
        if old["operationId"] != new["operationId"] {
            self.report(location, "operationId changed");
        }
        self.parameters(location, &old["parameters"], &new["parameters"]);
        let body = resolve(self.old, &old["requestBody"]);
        let new_body = resolve(self.new, &new["requestBody"]);
        if new_body["required"] == true && body["required"] != true {
            self.report(location, "body newly required");
        }
        self.content(&format!("{location} body"), body, new_body, Sender::Client);
        for (status, response) in members(&old["responses"]) {
            let location = format!("{location} response {status}");
            let response = resolve(self.old, response);
            let new_response = resolve(self.new, &new["responses"][status]);
            if new_response.is_null() {
                self.report(&location, "removed");
                continue;
            }
            self.headers(&location, response, new_response);
            self.content(&location, response, new_response, Sender::Service);
        }
    }

    fn parameters(&mut self, location: &str, old: &'a Value, new: &'a Value) {
        let list = |root, parameters: &'a Value| -> Vec<&'a Value> {
            let parameters = parameters.as_array().into_iter().flatten();
            parameters
                .map(|parameter| resolve(root, parameter))
                .collect()
        };
        let old = list(self.old, old);
        let new = list(self.new, new);
        let same = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
        for parameter in &new {
            let before = old.iter().find(|before| same(before, parameter));
            let location = format!("{location} parameter {}", text(&parameter["name"]));
            if parameter["required"] == true
                && before.is_none_or(|before| before["required"] != true)
            {
                self.report(&location, "newly required");
            }
            if let Some(before) = before {
                self.schema(
                    &location,
                    &before["schema"],
                    &parameter["schema"],
                    Sender::Client,
                );
            }
        }
        for parameter in &old {
            if !new.iter().any(|after| same(parameter, after)) {
                self.report(
                    &format!("{location} parameter {}", text(&parameter["name"])),
                    "removed",
                );
            }
        }
    }

    fn headers(&mut self, location: &str, old: &'a Value, new: &'a Value) {
        for (name, header) in members(&old["headers"]) {
            let location = format!("{location} header {name}");
            let header = resolve(self.old, header);
            let new_header = resolve(self.new, &new["headers"][name]);
            if new_header.is_null() {
                self.report(&location, "removed");
            } else if header["required"] == true && new_header["required"] != true {
                self.report(&location, "no longer guaranteed");
            }
            self.schema(
                &location,
                &header["schema"],
                &new_header["schema"],
                Sender::Service,
            );
        }
    }

    fn content(&mut self, location: &str, old: &'a Value, new: &'a Value, sender: Sender) {
        for (media_type, content) in members(&old["content"]) {
            let location = format!("{location} {media_type}");
            match &new["content"][media_type] {
                Value::Null => self.report(&location, "removed"),
                new => self.schema(&location, &content["schema"], &new["schema"], sender),
            }
        }
    }

    fn schema(&mut self, location: &str, old: &'a Value, new: &'a Value, sender: Sender) {
        let old = resolve(self.old, old);
        let new = resolve(self.new, new);
        if !is_stable(old) {
            return;
        }
        for keyword in ["type", "format", "const"] {
            if old[keyword] != new[keyword] {
                self.report(location, &format!("{keyword} changed"));
            }
        }
        for (keyword, _) in members(new) {
            if !SUPPORTED_KEYWORDS.contains(&&**keyword) {
                self.report(location, &format!("unsupported keyword {keyword}"));
            }
        }
        // What the service sends must stay open, too: later values would be breaking.
        if old["enum"].is_null() && !new["enum"].is_null() {
            self.report(location, "newly restricted to an enum");
        }
        if new["additionalProperties"] == false && old["additionalProperties"] != false {
            self.report(location, "additional members newly forbidden");
        }
        if sender == Sender::Client && old["default"] != new["default"] {
            self.report(location, "default changed");
        }
        for value in old["enum"].as_array().into_iter().flatten() {
            if new["enum"]
                .as_array()
                .is_some_and(|values| !values.contains(value))
            {
                self.report(location, &format!("value {value}: removed"));
            }
        }
        // Generated clients reject values that they do not know.
        if sender == Sender::Service
            && let (Some(known), Some(values)) = (old["enum"].as_array(), new["enum"].as_array())
        {
            for value in values.iter().filter(|value| !known.contains(value)) {
                self.report(location, &format!("value {value}: added to a closed enum"));
            }
        }
        if sender == Sender::Client {
            self.limits(location, old, new);
        }
        let required = |schema: &Value, name: &str| {
            schema["required"]
                .as_array()
                .is_some_and(|names| names.iter().any(|n| n == name))
        };
        for (name, property) in members(&old["properties"]) {
            let location = format!("{location} {name}");
            match &new["properties"][name] {
                Value::Null => self.report(&location, "removed"),
                new => self.schema(&location, property, new, sender),
            }
            if sender == Sender::Service && required(old, name) && !required(new, name) {
                self.report(&location, "no longer guaranteed");
            }
        }
        for name in new["required"].as_array().into_iter().flatten() {
            if sender == Sender::Client && !required(old, text(name)) {
                self.report(&format!("{location} {}", text(name)), "newly required");
            }
        }
        if old["items"].is_object() {
            self.schema(
                &format!("{location} items"),
                &old["items"],
                &new["items"],
                sender,
            );
        }
    }

    /// Limits on what a client may send must not become stricter.
    fn limits(&mut self, location: &str, old: &Value, new: &Value) {
        for limit in ["minimum", "minLength", "minItems"] {
            let old = old[limit].as_i64().unwrap_or(i64::MIN);
            let new = new[limit].as_i64().unwrap_or(i64::MIN);
            if new > old {
                self.report(location, &format!("{limit} raised"));
            }
        }
        for limit in ["maximum", "maxLength", "maxItems"] {
            let old = old[limit].as_i64().unwrap_or(i64::MAX);
            let new = new[limit].as_i64().unwrap_or(i64::MAX);
            if new < old {
                self.report(location, &format!("{limit} lowered"));
            }
        }
        if !new["pattern"].is_null()
            && new["pattern"] != old["pattern"]
            && !is_wider(&old["enum"], new)
        {
            self.report(location, "pattern changed");
        }
    }
}

/// True if a pattern takes the place of an enum and accepts all of its values.
fn is_wider(values: &Value, new: &Value) -> bool {
    let pattern = json!({"pattern": new["pattern"]});
    let pattern = jsonschema::draft202012::new(&pattern).unwrap();
    let values = values.as_array().filter(|_| new["enum"].is_null());
    values.is_some_and(|values| values.iter().all(|value| pattern.is_valid(value)))
}

fn is_stable(part: &Value) -> bool {
    !["experimental", "beta"].contains(&text(&part["x-stability"]))
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Follows references. One with sibling keywords is not resolved, so that it is reported
/// as an unsupported keyword.
fn resolve<'a>(root: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) if members(value).count() == 1 => resolve(
            root,
            root.pointer(reference.trim_start_matches('#')).unwrap(),
        ),
        _ => value,
    }
}
