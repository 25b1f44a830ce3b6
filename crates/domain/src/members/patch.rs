//! Merge patches (RFC 7396).

use serde::{Serialize, Serializer};

use super::member::{Errors, Member, within};
use crate::json::{Object, Value};

/// The effect of a merge patch (RFC 7396) on an optional member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// The patch does not have the member.
    #[default]
    Keep,
    /// The patch has `null` for the member.
    Remove,
    Set(T),
}

/// Serialized as in the patch, which does not have members to keep.
impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Remove => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

impl<T> Patch<T> {
    pub(crate) fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T: Clone> Patch<T> {
    /// Reads a member of a patch. Only a value that is not `null` is parsed.
    pub(crate) fn read<E>(
        value: Option<Value>,
        parse: impl FnOnce(Value) -> Result<T, E>,
    ) -> Result<Self, E> {
        match value {
            None => Ok(Self::Keep),
            Some(value) if value.is_null() => Ok(Self::Remove),
            Some(value) => parse(value).map(Self::Set),
        }
    }

    /// Returns the member after the patch.
    pub(crate) fn apply(&self, before: Option<&T>) -> Option<T> {
        match self {
            Self::Keep => before.cloned(),
            Self::Remove => None,
            Self::Set(value) => Some(value.clone()),
        }
    }

    /// Reads the change of a member.
    pub(crate) fn read_member<M: Member<Change = T>>(
        object: &Object,
        name: &'static str,
    ) -> Result<Self, Errors> {
        let patch = Self::read(object.get(name), M::change_from_json);
        patch.map_err(|errors| within(name, errors))
    }

    /// Returns a member after the patch, which may change only parts of it.
    pub(crate) fn merge<M: Member<Change = T>>(
        &self,
        before: Option<&M>,
        name: &'static str,
    ) -> Result<Option<M>, Errors> {
        match self {
            Self::Keep => Ok(before.cloned()),
            Self::Remove => Ok(None),
            Self::Set(change) => match M::changed(before, change) {
                Ok(after) => Ok(Some(after).filter(|after| !after.is_empty())),
                Err(errors) => Err(within(name, errors)),
            },
        }
    }
}
