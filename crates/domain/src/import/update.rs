//! A change of a known pet by an import: only what differs, so that what others have changed since
//! stays.

use std::{borrow::Cow, collections::BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    invalid::join_messages,
    json::{FromObject, Object},
    members::Member,
    party::Source,
    pet::{Pet, PetChange, PetId},
};

/// A change of a known pet by an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PetUpdate {
    pub id: PetId,
    pub members: ComparedMembers,
    /// The merge patch that sets the members.
    #[serde(skip)]
    pub change: PetChange,
}

impl PetUpdate {
    pub fn new(id: PetId, members: ComparedMembers) -> Result<Self, String> {
        let patch = members.patch().to_string();
        let object = Object::parse(patch.as_bytes()).map_err(|error| error.to_string())?;
        let change = PetChange::from_object(&object).map_err(|invalid| join_messages(&invalid))?;
        Ok(Self {
            id,
            members,
            change,
        })
    }
}

/// The members that an import changes, with their values when the file was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComparedMembers(Vec<ComparedMember>);

/// A member by its path, such as `source.name`, with its value before the change and after it.
type ComparedMember = (Cow<'static, str>, Value, Value);

const SOURCE: &str = "source";

impl ComparedMembers {
    /// Returns the members in which two states of a pet differ. Those of the source and of the
    /// metadata are compared one by one.
    pub fn between(before: &Pet, after: &Pet) -> Self {
        let old = members(before);
        let new = members(after);
        let mut paths: BTreeSet<&str> = old.keys().chain(new.keys()).map(String::as_str).collect();
        let source: Vec<_> = Source::MEMBERS
            .iter()
            .map(|it| dotted(SOURCE, it))
            .collect();
        // Every member of the source is removed, also one that another client has added since.
        let removes_source = before.source.is_some() && after.source.is_none();
        if removes_source {
            paths.extend(source.iter().map(String::as_str));
        }
        let value = |members: &Map<String, Value>, path| members.get(path).cloned().into();
        let compared = paths.into_iter().filter_map(|path| {
            let (old, new): (Value, Value) = (value(&old, path), value(&new, path));
            let is_removed = removes_source && path.starts_with("source.");
            (old != new || is_removed).then(|| (path.to_owned().into(), old, new))
        });
        Self(compared.collect())
    }

    /// Returns true if a pet has, in each of the members, the value before the change or after it.
    pub fn agree_with(&self, pet: &Pet) -> bool {
        let members = members(pet);
        self.0.iter().all(|(path, before, after)| {
            let now = members.get(&**path).unwrap_or(&Value::Null);
            now == before || now == after
        })
    }

    /// Returns true if a pet has, in each member that `expected` sets, this value or the one that
    /// `change` gives it.
    pub fn are_expected(pet: &Pet, expected: &PetChange, change: &PetChange) -> bool {
        let apply = |change: &PetChange| change.decide(pet, None, None);
        let (Ok(before), Ok(after)) = (apply(expected), apply(change)) else {
            return false;
        };
        let changed = Self::between(pet, &after);
        let is_changed = |(path, ..): &ComparedMember| {
            let mut paths = changed.0.iter().map(|(path, ..)| path);
            paths.any(|other| other == path)
        };
        !Self::between(pet, &before).0.iter().any(is_changed)
    }

    fn patch(&self) -> Value {
        let mut patch = Map::new();
        for (path, _, after) in &self.0 {
            match path.split_once('.') {
                None => _ = patch.insert(path.to_string(), after.clone()),
                Some((name, member)) => {
                    let object = patch.entry(name).or_insert_with(|| Map::new().into());
                    object[member] = after.clone();
                }
            }
        }
        // Without its name, a source is none.
        if let Some(source) = patch.get_mut(SOURCE)
            && source.get("name") == Some(&Value::Null)
        {
            *source = Value::Null;
        }
        patch.into()
    }
}

/// Returns the members of a pet by their paths, without its id.
fn members(pet: &Pet) -> Map<String, Value> {
    let mut members = Map::new();
    let Ok(Value::Object(pet)) = serde_json::to_value(pet) else {
        unreachable!("a pet is an object");
    };
    for (name, value) in pet {
        match (&*name, value) {
            ("id", _) => {}
            (SOURCE | "metadata", Value::Object(object)) => {
                let inner = object.into_iter();
                members.extend(inner.map(|(member, value)| (dotted(&name, &member), value)));
            }
            (_, value) => _ = members.insert(name, value),
        }
    }
    members
}

fn dotted(name: &str, member: &str) -> String {
    format!("{name}.{member}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pet::NewPet;

    fn pet(members: &str) -> Pet {
        let json = format!(r#"{{"name":"A","categoryId":1{members}}}"#);
        let object = Object::parse(json.as_bytes()).unwrap();
        NewPet::from_object(&object)
            .unwrap()
            .with_id(PetId::from_store(1))
    }

    #[test]
    fn only_what_differs_is_changed() {
        let full = r#","notes":"n","price":{"amount":1,"currency":"EUR"},"source":{"name":"S","address":"T"},"metadata":{"a":"b","c":"d"}"#;
        for (before, after, patch) in [
            ("", "", "{}"),
            ("", r#","status":"sold""#, r#"{"status":"sold"}"#),
            (
                full,
                r#","notes":"n","price":{"amount":2,"currency":"EUR"},"source":{"name":"S"},"metadata":{"a":"b","c":"e"}"#,
                r#"{"price":{"amount":2,"currency":"EUR"},"source":{"address":null},"metadata":{"c":"e"}}"#,
            ),
            (
                full,
                "",
                r#"{"notes":null,"price":null,"source":null,"metadata":{"a":null,"c":null}}"#,
            ),
            (
                "",
                r#","source":{"name":"S"},"metadata":{"a":"b"}"#,
                r#"{"source":{"name":"S"},"metadata":{"a":"b"}}"#,
            ),
        ] {
            let [before, after] = [before, after].map(pet);
            let members = ComparedMembers::between(&before, &after);
            let expected: Value = serde_json::from_str(patch).unwrap();
            assert_eq!(members.patch(), expected);
            assert!(members.agree_with(&before) && members.agree_with(&after));
            let update = PetUpdate::new(before.id, members).unwrap();
            assert_eq!(update.change.decide(&before, None, None), Ok(after));
        }
    }

    #[test]
    fn a_member_that_is_neither_as_before_nor_as_after_does_not_agree() {
        let before = r#","price":{"amount":1,"currency":"EUR"},"source":{"name":"S"}"#;
        let after = r#","price":{"amount":2,"currency":"USD"},"metadata":{"a":"b"}"#;
        let members = ComparedMembers::between(&pet(before), &pet(after));
        for (now, agrees) in [
            (before, true),
            (after, true),
            // Others are free to change.
            (
                r#","notes":"n","price":{"amount":1,"currency":"EUR"},"metadata":{"x":"y"}"#,
                true,
            ),
            ("", false),
            (r#","price":{"amount":1,"currency":"USD"}"#, false),
            (
                r#","price":{"amount":2,"currency":"USD"},"metadata":{"a":"c"}"#,
                false,
            ),
            (
                r#","price":{"amount":2,"currency":"USD"},"source":{"name":"T"}"#,
                false,
            ),
            // The import would remove the address, too.
            (
                r#","price":{"amount":2,"currency":"USD"},"source":{"name":"S","address":"T"}"#,
                false,
            ),
        ] {
            assert_eq!(members.agree_with(&pet(now)), agrees, "{now}");
        }
    }
}
