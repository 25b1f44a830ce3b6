//! The text of a statement, assembled once, so that it can be printed and explained.

use std::{
    collections::BTreeMap,
    sync::{OnceLock, RwLock},
};

use super::table::Kind;

/// A statement and the types of its parameters, which are `$1`, `$2` and so on. SQLite
/// numbers them by their first appearance, so they must appear in this order.
#[derive(Debug)]
pub(super) struct Sql {
    pub(super) name: &'static str,
    pub(super) kinds: &'static [Kind],
    build: fn() -> String,
    text: OnceLock<String>,
}

impl Sql {
    pub(super) const fn new(
        name: &'static str,
        kinds: &'static [Kind],
        build: fn() -> String,
    ) -> Self {
        Self {
            name,
            kinds,
            build,
            text: OnceLock::new(),
        }
    }

    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(self.build)
    }

    /// A statement of a table.
    pub(super) fn owned(
        name: &'static str,
        text: String,
        kinds: impl Iterator<Item = Kind>,
    ) -> Self {
        Self {
            name,
            kinds: kinds.collect::<Vec<_>>().leak(),
            build: String::new,
            text: OnceLock::from(text),
        }
    }

    /// A statement that depends on a request. It is kept for good: there must be few of them.
    pub(super) fn interned(text: &str, kinds: &[Kind]) -> &'static Self {
        static INTERNED: RwLock<BTreeMap<String, &'static Sql>> = RwLock::new(BTreeMap::new());
        const LOCK: &str = "no thread panics while holding the lock";
        if let Some(sql) = INTERNED.read().expect(LOCK).get(text) {
            return sql;
        }
        let mut interned = INTERNED.write().expect(LOCK);
        interned.entry(text.into()).or_insert_with(|| {
            let kinds = kinds.iter().copied();
            Box::leak(Box::new(Self::owned("list", text.into(), kinds)))
        })
    }
}

/// Declares statements, each with the types of its parameters, and `ALL` of them.
macro_rules! statements {
    ($(
        $(#[$meta:meta])*
        $name:ident($($kind:ident),*) = $build:expr;
    )+) => {
        $(
            $(#[$meta])*
            pub(in $crate::store) static $name: $crate::store::sql::Sql = $crate::store::sql::Sql::new(
                concat!(module_path!(), "::", stringify!($name)),
                &[$($crate::store::table::Kind::$kind),*],
                || String::from($build),
            );
        )+

        /// Every statement of this module.
        pub(in $crate::store) static ALL: &[&$crate::store::sql::Sql] = &[$(&$name),+];
    };
}
