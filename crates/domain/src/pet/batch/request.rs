//! A batch as a client sends it.

use std::{borrow::Cow, collections::HashMap};

use super::{BatchId, ImportPart, MAX_CHANGES};
use crate::{
    invalid::Invalid,
    json::{KnownMember, Object, Value},
    members::Scalar,
    pet::PetId,
};

/// A batch as it was sent. The pets in it are not validated yet: an invalid one rejects only its
/// change.
pub struct BatchRequest<'a> {
    pub id: Option<BatchId>,
    pub import: Option<ImportPart>,
    pub is_atomic: bool,
    pub changes: Vec<RequestedChange<'a>>,
}

pub struct RequestedChange<'a> {
    /// The change with all its members.
    pub object: Object<'a>,
    pub action: Action<'a>,
    /// The index of an earlier change of the same pet.
    pub repeats: Option<usize>,
}

#[derive(Debug)]
pub enum Action<'a> {
    Create(Object<'a>),
    Update {
        id: PetId,
        change: Object<'a>,
        expected: Option<Object<'a>>,
        if_match: Option<Cow<'a, str>>,
    },
    Delete {
        id: PetId,
        if_match: Option<Cow<'a, str>>,
    },
}

const ID: KnownMember = KnownMember::scalar("id");
const IF_MATCH: KnownMember = KnownMember::scalar("ifMatch");
const CREATE: KnownMember = KnownMember::scalar("create");
const UPDATE: KnownMember = KnownMember::scalar("update");
const EXPECTED: KnownMember = KnownMember::scalar("expected");
const DELETE: KnownMember = KnownMember::scalar("delete");

impl Action<'_> {
    /// Returns the members of such a change that are not ignored.
    pub fn members(&self) -> &'static [KnownMember] {
        match self {
            Self::Create(_) => &[CREATE],
            Self::Update { .. } => &[ID, UPDATE, EXPECTED, IF_MATCH],
            Self::Delete { .. } => &[ID, DELETE, IF_MATCH],
        }
    }

    /// Returns the pet that is changed, unless it is a new one.
    pub fn id(&self) -> Option<PetId> {
        match self {
            Self::Create(_) => None,
            Self::Update { id, .. } | Self::Delete { id, .. } => Some(*id),
        }
    }
}

impl<'a> BatchRequest<'a> {
    /// The members that are not ignored.
    pub const MEMBERS: &'static [KnownMember] = &[
        KnownMember::scalar("changes"),
        KnownMember::scalar("atomic"),
        KnownMember::scalar("batchId"),
        ImportPart::MEMBER,
    ];

    /// Parses a batch, or returns the first error.
    pub fn parse(object: &Object<'a>) -> Result<Self, Invalid> {
        let id = object
            .get("batchId")
            .map(<BatchId as Scalar>::from_json)
            .transpose()
            .map_err(|reason| Invalid::new("batchId", reason))?;
        let import = object
            .get("import")
            .map(ImportPart::from_json)
            .transpose()
            .map_err(|mut errors| errors.swap_remove(0).within("import"))?;
        if import.is_some() && id.is_none() {
            let reason = "required with import; all batches of an import have the same";
            return Err(Invalid::new("batchId", reason));
        }
        let is_atomic = object.get("atomic").map_or(Ok(false), |value| {
            value.as_bool().ok_or_else(|| {
                let reason = format!("must be true or false, got {}", value.describe());
                Invalid::new("atomic", reason)
            })
        })?;
        let changes = parse_changes(object.get("changes"))?;
        if let Some(import) = &import {
            import.ensure_contains(changes.len())?;
        }
        Ok(Self {
            id,
            import,
            is_atomic,
            changes,
        })
    }
}

fn parse_changes(value: Option<Value<'_>>) -> Result<Vec<RequestedChange<'_>>, Invalid> {
    let wanted = format!("must be an array of 1 to {MAX_CHANGES} changes");
    let invalid = |reason: String| Invalid::new("changes", reason);
    let Some(value) = value else {
        return Err(invalid(format!("required; {wanted}")));
    };
    let Some(values) = value.as_array() else {
        return Err(invalid(format!("{wanted}, got {}", value.describe())));
    };
    if !(1..=MAX_CHANGES).contains(&values.len()) {
        return Err(invalid(format!("{wanted}, got {}", values.len())));
    }
    let mut first_changes = HashMap::new();
    let parsed = values.into_iter().enumerate().map(|(index, value)| {
        let (object, action) = parse_change(value).map_err(|(member, reason)| {
            let field = if member.is_empty() {
                format!("changes[{index}]")
            } else {
                format!("changes[{index}].{member}")
            };
            Invalid::new(field, reason)
        })?;
        let first = action
            .id()
            .map(|id| *first_changes.entry(id).or_insert(index));
        Ok(RequestedChange {
            object,
            action,
            repeats: first.filter(|first| *first != index),
        })
    });
    parsed.collect()
}

/// The member of a change that is invalid, and the reason.
type Fault = (&'static str, String);

fn object_of<'a>(member: &'static str, value: Value<'a>) -> Result<Object<'a>, Fault> {
    let object = value.as_object();
    object.ok_or_else(|| {
        let got = value.describe();
        (member, format!("must be an object, got {got}"))
    })
}

fn parse_change<'a>(value: Value<'a>) -> Result<(Object<'a>, Action<'a>), Fault> {
    let object = object_of("", value)?;
    let id = || {
        let id = PetId::from_json(object.get("id"));
        id.map_err(|invalid| ("id", invalid.reason))
    };
    let if_match = || match object.get("ifMatch") {
        None => Ok(None),
        Some(value) => value.as_string().map(Some).ok_or_else(|| {
            let got = value.describe();
            ("ifMatch", format!("must be a string, got {got}"))
        }),
    };
    let members = ["create", "update", "delete"].map(|name| object.get(name));
    let action = match members {
        [Some(new), None, None] => Action::Create(object_of("create", new)?),
        [None, Some(change), None] => Action::Update {
            id: id()?,
            change: object_of("update", change)?,
            expected: object
                .get("expected")
                .map(|value| object_of("expected", value))
                .transpose()?,
            if_match: if_match()?,
        },
        [None, None, Some(delete)] => {
            if delete.as_bool() != Some(true) {
                let got = delete.describe();
                return Err(("delete", format!("must be true, got {got}")));
            }
            Action::Delete {
                id: id()?,
                if_match: if_match()?,
            }
        }
        _ => {
            let got = members.iter().flatten().count();
            let reason = format!("must have one of create, update and delete, got {got} of them");
            return Err(("", reason));
        }
    };
    Ok((object, action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_is_not_one_is_rejected_with_the_first_error() {
        for (body, expected) in [
            (
                r#"{}"#,
                "changes: required; must be an array of 1 to 1000 changes",
            ),
            (
                r#"{"changes":{}}"#,
                "changes: must be an array of 1 to 1000 changes, got an object",
            ),
            (
                r#"{"changes":[]}"#,
                "changes: must be an array of 1 to 1000 changes, got 0",
            ),
            (r#"{"changes":[1]}"#, "changes[0]: must be an object, got 1"),
            (
                r#"{"changes":[{"create":{}},{"id":1}]}"#,
                "changes[1]: must have one of create, update and delete, got 0 of them",
            ),
            (
                r#"{"changes":[{"create":{},"delete":true,"id":1}]}"#,
                "changes[0]: must have one of create, update and delete, got 2 of them",
            ),
            (
                r#"{"changes":[{"create":[]}]}"#,
                "changes[0].create: must be an object, got an array",
            ),
            (
                r#"{"changes":[{"create":{}}],"batchId":"undo-a"}"#,
                "batchId: must not start with undo-, which names the undo of a batch",
            ),
            (
                r#"{"changes":[{"update":{}}]}"#,
                "changes[0].id: required; must be the id of a pet",
            ),
            (
                r#"{"changes":[{"id":0,"update":{}}]}"#,
                "changes[0].id: must be an integer from 1 to 9007199254740991, got 0",
            ),
            (
                r#"{"changes":[{"id":1,"delete":false}]}"#,
                "changes[0].delete: must be true, got a boolean",
            ),
            (
                r#"{"changes":[{"id":1,"delete":true,"ifMatch":null}]}"#,
                "changes[0].ifMatch: must be a string, got null",
            ),
            (
                r#"{"changes":[{"id":1,"update":{},"expected":null}]}"#,
                "changes[0].expected: must be an object, got null",
            ),
            (
                r#"{"changes":[{"create":{}}],"atomic":1}"#,
                "atomic: must be true or false, got 1",
            ),
            (
                r#"{"changes":[{"create":{}}],"batchId":"a b"}"#,
                "batchId: must be 1 to 64 of the characters A-Z a-z 0-9 _ -, got \"a b\"",
            ),
        ] {
            let object = Object::parse(body.as_bytes()).unwrap();
            let rejected = BatchRequest::parse(&object).err();
            assert_eq!(rejected.unwrap().to_string(), expected, "{body}");
        }
    }

    #[test]
    fn a_second_change_of_a_pet_names_the_first() {
        let body = r#"{"changes":[{"id":1,"update":{}},{"id":2,"delete":true},{"create":{}},{"id":1.0,"delete":true}]}"#;
        let object = Object::parse(body.as_bytes()).unwrap();
        let batch = BatchRequest::parse(&object).unwrap();
        let repeats: Vec<_> = batch.changes.iter().map(|it| it.repeats).collect();
        assert_eq!(repeats, [None, None, None, Some(0)]);
    }
}
