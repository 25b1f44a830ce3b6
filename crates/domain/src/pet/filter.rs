//! Filters of the list of pets: by status, category, name, words, microchip and id.

use std::sync::Arc;

use compact_str::CompactString;

use super::{Microchip, Pet, PetId, PetStatuses, Search};
use crate::{
    case_fold::fold,
    invalid::{Invalid, quoted},
    page::{
        Filter, ListKind, ListQuery, MAX_NAME_CHARS, Page, Parameters, Position, Sort,
        parse_decimal, set_once,
    },
    text::check,
};

/// The filter of a list of pets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PetFilter {
    pub statuses: Option<PetStatuses>,
    pub category_id: Option<i64>,
    /// If it is set, the list is sorted by name.
    pub name: Option<NamePrefix>,
    pub search: Option<Search>,
    pub ids: Option<PetIds>,
    pub microchip: Option<Microchip>,
}

impl PetFilter {
    /// The size of the filter on the heap: a list of ids, and a search.
    pub fn heap_size(&self) -> usize {
        let ids = self.ids.as_ref().map(|ids| size_of_val(ids.as_slice()));
        let search = self.search.as_ref().map(Search::heap_size);
        ids.unwrap_or(0) + search.unwrap_or(0)
    }

    /// Returns true if a pet that was found by its id matches the filter, but for its name.
    pub fn matches(&self, pet: &Pet) -> bool {
        self.statuses
            .is_none_or(|statuses| statuses.contains(pet.status))
            && self.category_id.is_none_or(|id| pet.category_id == id)
            && (self.microchip.is_none() || self.microchip == pet.microchip)
            && self
                .search
                .as_ref()
                .is_none_or(|search| search.matches(pet))
    }
}

impl ListQuery<PetFilter> {
    /// Builds the page of a list of known ids, from the pets that exist.
    pub fn page_of(&self, pets: Vec<Pet>) -> Page<Pet> {
        let filter = &self.filter;
        let mut items: Vec<_> = pets
            .into_iter()
            .filter(|pet| filter.matches(pet))
            .map(|pet| (filter.position(&pet), pet))
            .filter(|(position, _)| {
                let prefix = filter.name.as_ref();
                prefix.is_none_or(|prefix| position.key.starts_with(prefix.as_str()))
            })
            .filter(|(position, _)| match (&self.after, self.sort) {
                (None, _) => true,
                (Some(after), Sort::Asc) => position > after,
                (Some(after), Sort::Desc) => position < after,
            })
            .collect();
        items.sort_unstable_by(|(one, _), (other, _)| match self.sort {
            Sort::Asc => one.cmp(other),
            Sort::Desc => other.cmp(one),
        });
        let pets = items.into_iter().map(|(_, pet)| pet).collect();
        self.page(pets, None)
    }
}

impl Filter for PetFilter {
    const LIST: ListKind = ListKind::Pets;

    type Item = Pet;

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        match name {
            "status" => set_once("status", &mut self.statuses, PetStatuses::parse(value)?)?,
            "categoryId" => {
                let id = parse_decimal(value).ok_or_else(|| {
                    let reason = format!("must be an integer (int64), got {}", quoted(value));
                    Invalid::new("categoryId", reason)
                })?;
                set_once("categoryId", &mut self.category_id, id)?;
            }
            "name" => set_once("name", &mut self.name, NamePrefix::parse(value)?)?,
            "q" => set_once("q", &mut self.search, Search::parse(value)?)?,
            "id" => set_once("id", &mut self.ids, PetIds::parse(value)?)?,
            "microchip" => {
                let microchip = Microchip::parse(value);
                let microchip = microchip.map_err(|reason| Invalid::new("microchip", reason))?;
                set_once("microchip", &mut self.microchip, microchip)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn position(&self, pet: &Pet) -> Position {
        let key = match self.name {
            Some(_) => search_name(pet.name.as_str()),
            None => CompactString::default(),
        };
        Position {
            key,
            id: pet.id.get(),
        }
    }

    fn parameters(&self) -> Parameters<'_> {
        let Self {
            statuses,
            category_id,
            name,
            search,
            ids,
            microchip,
        } = self;
        let mut parameters = Parameters::new();
        if let Some(statuses) = statuses {
            parameters.push(("status", statuses.to_string().into()));
        }
        if let Some(id) = category_id {
            parameters.push(("categoryId", id.to_string().into()));
        }
        if let Some(prefix) = name {
            parameters.push(("name", prefix.as_str().into()));
        }
        if let Some(search) = search {
            parameters.push(("q", search.as_str().into()));
        }
        if let Some(ids) = ids {
            let ids: Vec<_> = ids.iter().map(|id| id.to_string()).collect();
            parameters.push(("id", ids.join(",").into()));
        }
        if let Some(microchip) = microchip {
            parameters.push(("microchip", microchip.as_str().into()));
        }
        parameters
    }

    fn clamp(&self, position: Position) -> Position {
        let Some(prefix) = &self.name else {
            return Position::of_id(position.id);
        };
        if position.key.as_str() < prefix.as_str() {
            return Position {
                key: prefix.as_str().into(),
                id: i64::MIN,
            };
        }
        match prefix.end() {
            Some(key) if position.key >= key => Position { key, id: i64::MIN },
            _ => position,
        }
    }

    fn is_sorted_by_id(&self) -> bool {
        self.name.is_none()
    }

    fn default_sort(&self) -> Sort {
        if self.search.is_some() && self.is_sorted_by_id() {
            Sort::Desc
        } else {
            Sort::Asc
        }
    }
}

/// Returns the text that is stored to find a name: its start, folded.
pub fn search_name(name: &str) -> CompactString {
    let folded = fold(name);
    match folded.char_indices().nth(MAX_NAME_CHARS) {
        None => folded.into(),
        Some((end, _)) => folded[..end].into(),
    }
}

/// The folded start of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamePrefix(CompactString);

impl NamePrefix {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |reason| Invalid::new("name", reason);
        check(text, MAX_NAME_CHARS).map_err(invalid)?;
        let folded = fold(text);
        if folded.chars().count() > MAX_NAME_CHARS {
            return Err(invalid(format!(
                "must be at most {MAX_NAME_CHARS} characters long after case folding"
            )));
        }
        Ok(Self(folded.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// See [`prefix_end`].
    pub fn end(&self) -> Option<CompactString> {
        prefix_end(&self.0)
    }
}

/// Returns the first text after all those that start with a prefix, by code points; `None` if
/// there is none.
pub fn prefix_end(prefix: &str) -> Option<CompactString> {
    let mut end = CompactString::from(prefix);
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            _ => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// A set of ids, ascending and distinct.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PetIds(Arc<[i64]>);

impl PetIds {
    pub const MAX: usize = 100;

    /// Parses ids that are separated by commas.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |got: String| {
            let max = Self::MAX;
            let max_id = PetId::MAX;
            Invalid::new(
                "id",
                format!(
                    "must be 1 to {max} ids from 1 to {max_id}, separated by commas, got {got}"
                ),
            )
        };
        let count = text.split(',').count();
        if count > Self::MAX {
            return Err(invalid(format!("{count} ids")));
        }
        let mut ids = Vec::new();
        for text in text.split(',') {
            let id = PetId::parse(text).filter(|id| id.get() <= PetId::MAX);
            ids.push(id.ok_or_else(|| invalid(quoted(text)))?.get());
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(Self(ids.into()))
    }

    pub fn iter(&self) -> impl Iterator<Item = i64> {
        self.0.iter().copied()
    }

    pub fn as_slice(&self) -> &[i64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_text() {
        for (prefix, end) in [
            ("rex", Some("rey")),
            ("a%", Some("a&")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            let end = end.map(CompactString::from);
            assert_eq!(NamePrefix::parse(prefix).unwrap().end(), end);
        }
    }

    #[test]
    fn a_position_is_clamped_to_the_prefix() {
        let filter = PetFilter {
            name: Some(NamePrefix::parse("re").unwrap()),
            ..PetFilter::default()
        };
        let position = |key: &str, id| Position {
            key: key.into(),
            id,
        };
        for (before, after) in [
            (position("rex", 7), position("rex", 7)),
            (position("ra", 7), position("re", i64::MIN)),
            (position("rf", 7), position("rf", i64::MIN)),
            (position("z", 7), position("rf", i64::MIN)),
        ] {
            assert_eq!(filter.clamp(before), after);
        }
    }

    #[test]
    fn a_search_name_is_short_and_starts_with_every_prefix() {
        // 255 characters, each of which becomes three in NFC, of four bytes each.
        let longest = "\u{1d160}".repeat(255);
        assert!(search_name(&longest).len() <= 4 * MAX_NAME_CHARS);
        for name in ["Rex", "ÉCLAIR", "Straße", "  Two spaces", "ﬃ"] {
            let folded = search_name(name);
            for (end, _) in name.char_indices().skip(1) {
                let prefix = NamePrefix::parse(&name[..end]).unwrap();
                assert!(folded.starts_with(prefix.as_str()), "{name} {prefix:?}");
            }
        }
    }
}
