//! What counts as breaking: taking away what a client may rely on, or demanding
//! what it did not have to send.

use serde_json::{Map, Value};

/// Lists what in `new` could break a client that was made for `old`. Operations
/// that were marked as not stable may change.
pub fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut gate = Gate {
        old,
        new,
        breaks: Vec::new(),
    };
    for (path, operations) in members(&old["paths"]) {
        for (method, operation) in members(operations) {
            if !["experimental", "beta"].contains(&text(&operation["x-stability"])) {
                let place = format!("{method} {path}");
                gate.operation(&place, operation, &new["paths"][path][method]);
            }
        }
    }
    gate.breaks
}

/// What the gate can judge in a schema. Anything else is refused until a rule
/// for it is written.
const KNOWN: [&str; 20] = [
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

struct Gate<'a> {
    old: &'a Value,
    new: &'a Value,
    breaks: Vec<String>,
}

/// Who makes the value: a client, or the service.
#[derive(Clone, Copy, PartialEq)]
enum Maker {
    Client,
    Service,
}

impl<'a> Gate<'a> {
    fn breaks(&mut self, place: &str, what: &str) {
        self.breaks.push(format!("{place}: {what}"));
    }

    fn operation(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        if new.is_null() {
            return self.breaks(place, "removed");
        }
        if !new["x-stability"].is_null() {
            self.breaks(place, "no longer stable");
        }
        if old["operationId"] != new["operationId"] {
            self.breaks(place, "another operationId");
        }
        self.parameters(place, &old["parameters"], &new["parameters"]);
        let (body, new_body) = (
            resolve(self.old, &old["requestBody"]),
            resolve(self.new, &new["requestBody"]),
        );
        if new_body["required"] == true && body["required"] != true {
            self.breaks(place, "a body is newly required");
        }
        self.content(&format!("{place} body"), body, new_body, Maker::Client);
        for (status, response) in members(&old["responses"]) {
            let place = format!("{place} response {status}");
            let response = resolve(self.old, response);
            let new_response = resolve(self.new, &new["responses"][status]);
            if new_response.is_null() {
                self.breaks(&place, "removed");
                continue;
            }
            self.headers(&place, response, new_response);
            self.content(&place, response, new_response, Maker::Service);
        }
    }

    fn parameters(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        let list = |root, parameters: &'a Value| -> Vec<&'a Value> {
            let parameters = parameters.as_array().into_iter().flatten();
            parameters
                .map(|parameter| resolve(root, parameter))
                .collect()
        };
        let (old, new) = (list(self.old, old), list(self.new, new));
        let same = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
        for parameter in &new {
            let before = old.iter().find(|before| same(before, parameter));
            let place = format!("{place} parameter {}", text(&parameter["name"]));
            if parameter["required"] == true
                && before.is_none_or(|before| before["required"] != true)
            {
                self.breaks(&place, "newly required");
            }
            if let Some(before) = before {
                self.schema(
                    &place,
                    &before["schema"],
                    &parameter["schema"],
                    Maker::Client,
                );
            }
        }
        for parameter in &old {
            if !new.iter().any(|after| same(parameter, after)) {
                self.breaks(
                    &format!("{place} parameter {}", text(&parameter["name"])),
                    "removed",
                );
            }
        }
    }

    fn headers(&mut self, place: &str, old: &'a Value, new: &'a Value) {
        for (name, header) in members(&old["headers"]) {
            let place = format!("{place} header {name}");
            let header = resolve(self.old, header);
            let new_header = resolve(self.new, &new["headers"][name]);
            if new_header.is_null() {
                self.breaks(&place, "removed");
            } else if header["required"] == true && new_header["required"] != true {
                self.breaks(&place, "no longer certain");
            }
            self.schema(
                &place,
                &header["schema"],
                &new_header["schema"],
                Maker::Service,
            );
        }
    }

    fn content(&mut self, place: &str, old: &'a Value, new: &'a Value, maker: Maker) {
        for (media_type, content) in members(&old["content"]) {
            let place = format!("{place} {media_type}");
            match &new["content"][media_type] {
                Value::Null => self.breaks(&place, "removed"),
                new => self.schema(&place, &content["schema"], &new["schema"], maker),
            }
        }
    }

    fn schema(&mut self, place: &str, old: &'a Value, new: &'a Value, maker: Maker) {
        let (old, new) = (resolve(self.old, old), resolve(self.new, new));
        for keyword in ["type", "format", "const"] {
            if old[keyword] != new[keyword] {
                self.breaks(place, &format!("another {keyword}"));
            }
        }
        for (keyword, _) in members(new) {
            if !KNOWN.contains(&&**keyword) {
                self.breaks(place, &format!("the gate does not know {keyword}"));
            }
        }
        if maker == Maker::Client && old["enum"].is_null() && !new["enum"].is_null() {
            self.breaks(place, "newly limited to some values");
        }
        if new["additionalProperties"] == false && old["additionalProperties"] != false {
            self.breaks(place, "newly closed to other members");
        }
        if maker == Maker::Client && old["default"] != new["default"] {
            self.breaks(place, "another default");
        }
        for value in old["enum"].as_array().into_iter().flatten() {
            if new["enum"]
                .as_array()
                .is_some_and(|values| !values.contains(value))
            {
                self.breaks(place, &format!("value {value}: removed"));
            }
        }
        if maker == Maker::Client {
            self.limits(place, old, new);
        }
        let required = |schema: &Value, name: &str| {
            schema["required"]
                .as_array()
                .is_some_and(|names| names.iter().any(|n| n == name))
        };
        for (name, property) in members(&old["properties"]) {
            let place = format!("{place} {name}");
            match &new["properties"][name] {
                Value::Null => self.breaks(&place, "removed"),
                new => self.schema(&place, property, new, maker),
            }
            if maker == Maker::Service && required(old, name) && !required(new, name) {
                self.breaks(&place, "no longer certain");
            }
        }
        for name in new["required"].as_array().into_iter().flatten() {
            if maker == Maker::Client && !required(old, text(name)) {
                self.breaks(&format!("{place} {}", text(name)), "newly required");
            }
        }
        if old["items"].is_object() {
            self.schema(
                &format!("{place} items"),
                &old["items"],
                &new["items"],
                maker,
            );
        }
    }

    /// What a client may send must not shrink.
    fn limits(&mut self, place: &str, old: &Value, new: &Value) {
        for limit in ["minimum", "minLength", "minItems"] {
            let (old, new) = (
                old[limit].as_i64().unwrap_or(i64::MIN),
                new[limit].as_i64().unwrap_or(i64::MIN),
            );
            if new > old {
                self.breaks(place, &format!("a higher {limit}"));
            }
        }
        for limit in ["maximum", "maxLength", "maxItems"] {
            let (old, new) = (
                old[limit].as_i64().unwrap_or(i64::MAX),
                new[limit].as_i64().unwrap_or(i64::MAX),
            );
            if new < old {
                self.breaks(place, &format!("a lower {limit}"));
            }
        }
        if !new["pattern"].is_null() && new["pattern"] != old["pattern"] {
            self.breaks(place, "another pattern");
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Follows references. One with further keywords beside it stays as it is: the
/// gate does not know `$ref` there.
fn resolve<'a>(root: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) if members(value).count() == 1 => resolve(
            root,
            root.pointer(reference.trim_start_matches('#')).unwrap(),
        ),
        _ => value,
    }
}
