//! The text of a statement, assembled once, so that it can be printed and explained.

use std::{
    borrow::Borrow,
    collections::BTreeMap,
    sync::{OnceLock, RwLock},
};

use super::table::Kind;

/// A statement and the types of its parameters, which are `$1`, `$2` and so on. SQLite
/// numbers them by their first appearance, so they must appear in this order; a statement of
/// SQLite that uses them in another order writes `?1`.
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

    /// Creates a statement of a table.
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

    /// Returns a statement that depends on a request. There must be few of them, as each is kept.
    pub(super) fn interned(text: &str, kinds: &[Kind]) -> &'static Self {
        static INTERNED: Memo<String, Sql> = Memo::new();
        INTERNED.get(text, || {
            Self::owned("list", text.into(), kinds.iter().copied())
        })
    }
}

/// Values that are computed once and kept for good.
pub(super) struct Memo<K, V: 'static>(RwLock<BTreeMap<K, &'static V>>);

impl<K: Ord, V> Memo<K, V> {
    pub(super) const fn new() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }

    pub(super) fn get<Q>(&self, key: &Q, make: impl FnOnce() -> V) -> &'static V
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        const LOCK: &str = "no thread panics while holding the lock";
        if let Some(known) = self.0.read().expect(LOCK).get(key) {
            return known;
        }
        let made = make();
        let mut all = self.0.write().expect(LOCK);
        all.entry(key.to_owned())
            .or_insert_with(|| Box::leak(Box::new(made)))
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
            pub(crate) static $name: $crate::sql::Sql = $crate::sql::Sql::new(
                concat!(module_path!(), "::", stringify!($name)),
                &[$($crate::table::Kind::$kind),*],
                || String::from($build),
            );
        )+

        /// Every statement of this module.
        pub(crate) static ALL: &[&$crate::sql::Sql] = &[$(&$name),+];
    };
}
