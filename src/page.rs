//! Paging: how many, from where on, and what came back.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::invalid::{Invalid, quoted};

/// How many items a page holds at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageLimit(u8);

impl PageLimit {
    pub const MIN: u8 = 1;
    pub const MAX: u8 = 100;
    pub const DEFAULT: Self = Self(20);

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        decimal(text)
            .and_then(|limit| u8::try_from(limit).ok())
            .filter(|limit| (Self::MIN..=Self::MAX).contains(limit))
            .map(Self)
            .ok_or_else(|| {
                let (min, max) = (Self::MIN, Self::MAX);
                let got = quoted(text);
                Invalid::new(
                    "limit",
                    format!("must be a whole number from {min} to {max}, got {got}"),
                )
            })
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

/// The list that a cursor walks through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ListKind {
    Pets = b'p',
    Orders = b'o',
}

/// A place in a list: everything up to this id has been seen.
///
/// Clients carry it as opaque text: a version, the list, the id and a checksum,
/// in URL-safe base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor(i64);

impl Cursor {
    /// Before the first item.
    pub const START: Self = Self(0);
    const VERSION: u8 = 1;

    pub fn after(id: i64) -> Self {
        Self(id)
    }

    /// The last id that was seen.
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
                let reason = "is not one of this list's; take it from the Link header of the page \
                              before, or leave it out to start at the beginning";
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

/// A status by which a list can be narrowed; it also tells which list.
pub trait Filter: Copy + 'static {
    const LIST: ListKind;
    const ALL: &[Self];

    fn as_str(self) -> &'static str;

    fn parse(text: &str) -> Result<Self, Invalid> {
        let mut all = Self::ALL.iter().copied();
        all.find(|status| status.as_str() == text)
            .ok_or_else(|| Self::invalid(&quoted(text)))
    }

    /// Says that something else was found where one of the values belongs.
    fn invalid(got: &str) -> Invalid {
        let all: Vec<_> = Self::ALL.iter().map(|status| status.as_str()).collect();
        let all = all.join(", ");
        Invalid::new("status", format!("must be one of {all}, got {got}"))
    }
}

/// Which items of a list are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListQuery<S> {
    pub status: Option<S>,
    pub limit: PageLimit,
    pub after: Cursor,
}

/// One page of a list, and where the next one starts if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// Makes a page of what was found when one more than `limit` was asked
    /// for: the surplus item only says that there is a next page.
    pub fn from_surplus(mut items: Vec<T>, limit: PageLimit, id: impl Fn(&T) -> i64) -> Self {
        let limit = usize::from(limit.get());
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(|item| Cursor::after(id(item)));
        Self {
            next: last.filter(|_| more),
            items,
        }
    }
}

/// Reads a positive int64 in the one way it is written: digits, no sign, no
/// leading zero.
pub fn decimal(text: &str) -> Option<i64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}
