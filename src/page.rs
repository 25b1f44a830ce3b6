//! Keyset pagination: page limits, cursors, status filters and pages.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::invalid::{Invalid, quoted};

/// The maximum number of items on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageLimit(u8);

impl PageLimit {
    pub const MIN: u8 = 1;
    pub const MAX: u8 = 100;
    pub const DEFAULT: Self = Self(20);

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse_positive_decimal(text)
            .and_then(|limit| u8::try_from(limit).ok())
            .filter(|limit| (Self::MIN..=Self::MAX).contains(limit))
            .map(Self)
            .ok_or_else(|| {
                let (min, max) = (Self::MIN, Self::MAX);
                let got = quoted(text);
                Invalid::new(
                    "limit",
                    format!("must be an integer from {min} to {max}, got {got}"),
                )
            })
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

/// The list that a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ListKind {
    Pets = b'p',
    Orders = b'o',
}

/// A keyset cursor: the id of the last item that was returned.
///
/// Clients treat it as opaque text. It encodes a version, the list, the id and a
/// checksum in URL-safe base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor(i64);

impl Cursor {
    /// Before the first item.
    pub const START: Self = Self(0);
    const VERSION: u8 = 1;

    pub fn after(id: i64) -> Self {
        Self(id)
    }

    /// The last id that was returned.
    pub fn id(self) -> i64 {
        self.0
    }

    pub fn encode(self, list: ListKind) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes(list))
    }

    pub fn parse(text: &str, list: ListKind) -> Result<Self, Invalid> {
        URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|bytes| {
                let id = i64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?);
                let cursor = Self(id);
                (id >= 0 && cursor.to_bytes(list).as_slice() == bytes).then_some(cursor)
            })
            .ok_or_else(|| {
                let reason = "not a valid cursor for this list; take it from the link of \
                              the previous page, or omit it to start at the beginning";
                Invalid::new("cursor", reason)
            })
    }

    fn to_bytes(self, list: ListKind) -> [u8; 14] {
        let mut bytes = [0; 14];
        bytes[0] = Self::VERSION;
        bytes[1] = list as u8;
        bytes[2..10].copy_from_slice(&self.0.to_be_bytes());
        let checksum = crc32fast::hash(&bytes[..10]);
        bytes[10..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

/// A status that a list can be filtered by. The type also determines the list.
pub trait Status: Copy + 'static {
    const LIST: ListKind;
    const ALL: &[Self];

    fn as_str(self) -> &'static str;

    fn parse(text: &str) -> Result<Self, Invalid> {
        let mut all = Self::ALL.iter().copied();
        all.find(|status| status.as_str() == text)
            .ok_or_else(|| Self::invalid(&quoted(text)))
    }

    /// The error for a value that is not a status.
    fn invalid(got: &str) -> Invalid {
        let all: Vec<_> = Self::ALL.iter().map(|status| status.as_str()).collect();
        let all = all.join(", ");
        Invalid::new("status", format!("must be one of {all}, got {got}"))
    }
}

/// The query parameters of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListQuery<S> {
    pub status: Option<S>,
    pub limit: PageLimit,
    pub after: Cursor,
}

/// One page of a list, and the cursor of the next page if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// Builds a page from up to `limit + 1` items. The extra item only shows that
    /// there is a next page.
    pub(crate) fn from_lookahead(
        mut items: Vec<T>,
        limit: PageLimit,
        id: impl Fn(&T) -> i64,
    ) -> Self {
        let limit = usize::from(limit.get());
        let has_next = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(|item| Cursor::after(id(item)));
        Self {
            next: last.filter(|_| has_next),
            items,
        }
    }
}

/// Parses a positive int64 in its canonical form: digits only, no sign, no
/// leading zero.
pub(crate) fn parse_positive_decimal(text: &str) -> Option<i64> {
    let canonical = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| canonical)
}
