//! Keyset pagination: filters, sort orders, page limits, cursors and pages.

use std::{borrow::Cow, hash::Hash};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use compact_str::CompactString;

use crate::invalid::{Invalid, quoted};

/// The maximum number of items on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageLimit(u8);

impl PageLimit {
    pub const MIN: u8 = 1;
    pub const MAX: u8 = 100;
    pub const DEFAULT: Self = Self(20);
    pub const LARGEST: Self = Self(Self::MAX);

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse_positive_decimal(text)
            .and_then(|limit| u8::try_from(limit).ok())
            .filter(|limit| (Self::MIN..=Self::MAX).contains(limit))
            .map(Self)
            .ok_or_else(|| {
                let min = Self::MIN;
                let max = Self::MAX;
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

/// The direction of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Sort {
    #[default]
    Asc,
    /// By id: the newest first.
    Desc,
}

impl Sort {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match text {
            "asc" => Ok(Self::Asc),
            "desc" => Ok(Self::Desc),
            _ => {
                let reason = format!("must be one of asc, desc, got {}", quoted(text));
                Err(Invalid::new("sort", reason))
            }
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Asc => "asc",
            Self::Desc => "desc",
        }
    }
}

/// The list that a cursor belongs to, identified by a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ListKind {
    Categories = b'c',
    Deliveries = b'd',
    ApiKeys = b'k',
    Orders = b'o',
    Pets = b'p',
    Register = b'r',
    Webhooks = b'w',
}

/// The end of a page: the sort key of its last item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The sort key before the id: a folded name, a day or a time. Empty if the list is sorted by
    /// id.
    pub key: CompactString,
    pub id: i64,
}

impl Position {
    pub fn of_id(id: i64) -> Self {
        Self {
            key: CompactString::default(),
            id,
        }
    }
}

/// The number of characters of a name that lists are sorted by. An index limits the
/// length, and folding can make a name longer.
pub(crate) const MAX_NAME_CHARS: usize = 64;

/// A keyset cursor: the position at which a page of one query ends.
///
/// Clients treat it as opaque text. It encodes a version, the list, a checksum of the query, the
/// position, and a checksum of these fields, in URL-safe base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub query: u32,
    pub position: Position,
}

impl Cursor {
    const VERSION: u8 = 2;

    pub fn encode(&self, list: ListKind) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes(list))
    }

    pub fn parse(text: &str, list: ListKind) -> Result<Self, Invalid> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let cursor = bytes.and_then(|bytes| {
            let (head, checksum) = bytes.split_last_chunk::<4>()?;
            let (head, key) = head.split_at_checked(14)?;
            let cursor = Self {
                query: u32::from_be_bytes(head[2..6].try_into().ok()?),
                position: Position {
                    id: i64::from_be_bytes(head[6..].try_into().ok()?),
                    key: CompactString::from_utf8(key).ok()?,
                },
            };
            let is_intact =
                crc32fast::hash(&bytes[..bytes.len() - 4]) == u32::from_be_bytes(*checksum);
            // No key contains NUL, and PostgreSQL rejects it.
            let key = &cursor.position.key;
            let is_key = !key.contains('\0') && key.chars().count() <= MAX_NAME_CHARS;
            let is_valid = is_intact && is_key;
            (is_valid && head[..2] == [Self::VERSION, list as u8]).then_some(cursor)
        });
        cursor.ok_or_else(|| {
            let reason = "not a valid cursor for this list; take it from the link of the \
                          previous page, or omit it to start at the beginning";
            Invalid::new("cursor", reason)
        })
    }

    fn to_bytes(&self, list: ListKind) -> Vec<u8> {
        let Self { query, position } = self;
        let mut bytes = vec![Self::VERSION, list as u8];
        bytes.extend(query.to_be_bytes());
        bytes.extend(position.id.to_be_bytes());
        bytes.extend(position.key.as_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }
}

/// Names and values of query parameters.
pub type Parameters<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// The filter of a list. Its type also determines the list.
pub trait Filter: Clone + Eq + Hash + Send + 'static {
    const LIST: ListKind;
    /// True if the list can be reversed.
    const SORTABLE: bool = true;

    type Item;

    /// Sets a query parameter. Ignores those that do not belong to the filter.
    fn set(&mut self, _name: &str, _value: &str) -> Result<(), Invalid> {
        Ok(())
    }

    /// Returns the query parameters that produce this filter, always in the same form.
    fn parameters(&self) -> Parameters<'_> {
        Vec::new()
    }

    /// Returns the position by which the list sorts an item.
    fn position(&self, item: &Self::Item) -> Position;

    /// Moves a position that no page can end at to the edge of the list. A checksum does
    /// not prevent a client from making one up.
    fn clamp(&self, position: Position) -> Position {
        Position::of_id(position.id)
    }

    /// Returns true if the list is sorted by id and new items appear only at its end.
    fn is_sorted_by_id(&self) -> bool {
        true
    }

    /// Returns the direction of the list, if the query does not say.
    fn default_sort(&self) -> Sort {
        Sort::Asc
    }
}

/// Sets a query parameter. Fails if it was set already.
pub fn set_once<T>(name: &'static str, parameter: &mut Option<T>, value: T) -> Result<(), Invalid> {
    match parameter.replace(value) {
        None => Ok(()),
        Some(_) => Err(Invalid::new(name, "must not be repeated")),
    }
}

/// The query of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListQuery<F> {
    pub filter: F,
    pub sort: Sort,
    pub limit: PageLimit,
    /// The end of the previous page.
    pub after: Option<Position>,
}

impl<F: Filter> ListQuery<F> {
    /// Parses a query string. Unknown parameters are ignored. A cursor must come from a
    /// page with the same filter and sort order.
    pub fn parse(query: &str) -> Result<Self, Invalid>
    where
        F: Default,
    {
        Self::parse_with(F::default(), query)
    }

    /// Parses a query string, whose other parameters set the filter.
    pub fn parse_with(mut filter: F, query: &str) -> Result<Self, Invalid> {
        let mut limit = None;
        let mut sort = None;
        let mut cursor = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => set_once("limit", &mut limit, PageLimit::parse(&value)?)?,
                "sort" if F::SORTABLE => {
                    set_once("sort", &mut sort, Sort::parse(&value)?)?;
                }
                "cursor" => set_once("cursor", &mut cursor, Cursor::parse(&value, F::LIST)?)?,
                _ => filter.set(&name, &value)?,
            }
        }
        let mut parsed = Self {
            sort: sort.unwrap_or_else(|| filter.default_sort()),
            filter,
            limit: limit.unwrap_or(PageLimit::DEFAULT),
            after: None,
        };
        if let Some(cursor) = cursor {
            if cursor.query != parsed.checksum() {
                let reason = "belongs to another query; repeat the filters and the sort order of the \
                              page that it is from, or omit it to start at the beginning";
                return Err(Invalid::new("cursor", reason));
            }
            parsed.after = Some(parsed.filter.clamp(cursor.position));
        }
        Ok(parsed)
    }

    /// Returns the query string of the page after `position`.
    pub fn next(&self, position: Position) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &self.limit.get().to_string());
        query.extend_pairs(self.parameters());
        let cursor = Cursor {
            query: self.checksum(),
            position,
        };
        query.append_pair("cursor", &cursor.encode(F::LIST));
        query.finish()
    }

    /// Builds a page from up to `limit + 1` items. The extra item only shows that there is a next
    /// page. So does `examined_to`, if not all items were examined.
    pub fn page(&self, mut items: Vec<F::Item>, examined_to: Option<Position>) -> Page<F::Item> {
        let limit = usize::from(self.limit.get());
        let has_next = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| has_next);
        Page {
            next: last.map(|item| self.filter.position(item)).or(examined_to),
            items,
        }
    }

    /// Returns the parameters that a cursor belongs to.
    fn parameters(&self) -> Parameters<'_> {
        let mut parameters = self.filter.parameters();
        if self.sort != self.filter.default_sort() {
            parameters.push(("sort", self.sort.as_str().into()));
        }
        parameters
    }

    fn checksum(&self) -> u32 {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.parameters());
        crc32fast::hash(query.finish().as_bytes())
    }
}

/// One page of a list, and its end if there is a next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<Position>,
}

/// Parses a positive int64 in its canonical form: digits only, no sign, no
/// leading zero.
pub fn parse_positive_decimal(text: &str) -> Option<i64> {
    parse_decimal(text).filter(|number| *number > 0)
}

/// Parses an int64 in its canonical form: no plus sign, no leading zero.
pub fn parse_decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical =
        digits.bytes().all(|b| b.is_ascii_digit()) && (!digits.starts_with('0') || text == "0");
    text.parse().ok().filter(|_| canonical)
}
