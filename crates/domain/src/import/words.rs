//! The words of import files: headings and values in several languages.
//!
//! The console reads the same list.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use serde::Deserialize;

use crate::{
    case_fold,
    members::Choice,
    pet::{Pet, PetStatus, Sex},
    price::Currency,
};

/// The list as JSON.
const WORDS_JSON: &str = include_str!("words.json");

/// The column that has the name of the category of an animal.
pub const CATEGORY: &str = "category";

/// The beginning of the columns of metadata, in front of their keys.
pub const METADATA: &str = "metadata.";

/// The meaning of a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heading {
    /// The own name of a column.
    Own(String),
    /// Another word for a column.
    Word(String),
    /// A status in yes and no: yes means this status, no means available.
    Flag(PetStatus),
}

impl Heading {
    /// Returns the meaning of a heading, if it has one. Clients choose the keys of metadata, which
    /// are kept as they are.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((prefix, key)) = text.split_at_checked(METADATA.len())
            && prefix.eq_ignore_ascii_case(METADATA)
        {
            return Some(Self::Own(format!("{METADATA}{key}")));
        }
        WORDS.headings.get(&simplify(text)).cloned()
    }

    /// Returns the column that the heading stands for.
    pub fn column(&self) -> &str {
        match self {
            Self::Own(column) | Self::Word(column) => column,
            Self::Flag(_) => "status",
        }
    }
}

/// Returns the names of the columns of an import file, apart from those of metadata.
pub fn columns() -> Vec<String> {
    let pet = Pet::columns(&[]);
    let names = pet.iter().map(|name| &**name);
    ["id"]
        .into_iter()
        .chain(names)
        .chain([CATEGORY])
        .map(String::from)
        .collect()
}

/// Returns the value of a column that a cell stands for, if the column has such values.
pub fn value(column: &str, cell: &str) -> Option<&'static str> {
    WORDS.values.get(column)?.get(&simplify(cell)).copied()
}

/// Returns the answer that a cell in a column of yes and no gives.
pub fn flag(cell: &str) -> Option<bool> {
    value(FLAG, cell).map(|answer| answer == "yes")
}

/// Returns true for a cell that is an error of a spreadsheet, such as `#N/A`.
pub fn is_error(cell: &str) -> bool {
    let cell = cell.trim();
    cell.starts_with('#') && WORDS.errors.iter().any(|error| error == cell)
}

/// Returns the currencies that a sign beside an amount may stand for, such as `$` or `EUR`; none if
/// it is not known.
pub fn sign(text: &str) -> Vec<Currency> {
    let text = text.trim();
    if let Ok(currency) = Currency::parse(&text.to_uppercase()) {
        return vec![currency];
    }
    let known = WORDS.signs.get(&text.to_lowercase());
    known.cloned().unwrap_or_default()
}

/// Simplifies a word, so that case, accents, blanks and punctuation do not matter.
pub fn simplify(text: &str) -> String {
    let simplified = case_fold::simplify(text);
    simplified.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The name under which the list has the answers yes and no.
const FLAG: &str = "flag";

/// The list, by simplified word.
struct Words {
    headings: HashMap<String, Heading>,
    /// By column.
    values: HashMap<&'static str, HashMap<String, &'static str>>,
    /// Cells that are errors, as spreadsheets show them.
    errors: Vec<String>,
    /// The currencies that a sign may stand for, by the sign in lower case.
    signs: HashMap<String, Vec<Currency>>,
}

/// The list as it is written.
#[derive(Deserialize)]
struct WordLists {
    headings: BTreeMap<String, Vec<String>>,
    flags: BTreeMap<String, Vec<String>>,
    values: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    errors: Vec<String>,
    signs: BTreeMap<String, Vec<String>>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let lists: WordLists = serde_json::from_str(WORDS_JSON).expect("a valid list of words");
    let mut headings = HashMap::new();
    for (column, words) in lists.headings {
        let words = words.iter().map(|word| simplify(word));
        headings.extend(words.map(|word| (word, Heading::Word(column.clone()))));
    }
    for (status, words) in lists.flags {
        let status = PetStatus::parse(&status).expect("a status");
        let words = words.iter().map(|word| simplify(word));
        headings.extend(words.map(|word| (word, Heading::Flag(status))));
    }
    // The last entry of a word counts, so the own names win.
    let own = columns().into_iter();
    headings.extend(own.map(|column| (simplify(&column), Heading::Own(column))));
    let own_values = [
        ("status", names::<PetStatus>()),
        ("sex", names::<Sex>()),
        (FLAG, vec!["yes", "no"]),
    ];
    let values = own_values.into_iter().map(|(column, names)| {
        let lists = &lists.values[column];
        let words = names.into_iter().flat_map(|name| {
            let words = lists[name].iter().map(|word| simplify(word));
            words.chain([simplify(name)]).map(move |word| (word, name))
        });
        (column, words.collect())
    });
    let mut signs: HashMap<String, Vec<Currency>> = HashMap::new();
    for (code, all) in lists.signs {
        let currency = Currency::parse(&code).expect("a currency");
        for sign in all {
            signs.entry(sign).or_default().push(currency);
        }
    }
    Words {
        values: values.collect(),
        headings,
        errors: lists.errors,
        signs,
    }
});

/// Returns the names of the values of a type.
fn names<T: Choice>() -> Vec<&'static str> {
    T::ALL.iter().map(|choice| choice.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_recognised_in_other_words() {
        let word = |column: &str| Some(Heading::Word(column.into()));
        let own = |column: &str| Some(Heading::Own(column.into()));
        for (text, heading) in [
            ("Name", own("name")),
            ("category ID", own("categoryId")),
            ("birth_date", own("birthDate")),
            ("Source Name", own("source.name")),
            ("id", own("id")),
            ("MetaData.Box", own("metadata.Box")),
            (" Pet Name ", word("name")),
            ("TIERNAME", word("name")),
            ("Kategorie", word("category")),
            ("Espe\u{300}ce", word("category")),
            ("ｐｒｅｉｓ (€)", word("price")),
            ("N° de puce", word("microchip")),
            ("Nº de chip", word("microchip")),
            ("Verkauft?", Some(Heading::Flag(PetStatus::Sold))),
            ("réservée", Some(Heading::Flag(PetStatus::Pending))),
            ("Größe", None),
            ("???", None),
            ("", None),
        ] {
            assert_eq!(Heading::parse(text), heading, "{text}");
        }
    }

    #[test]
    fn values_are_recognised_in_other_words() {
        for (column, cell, expected) in [
            ("status", "Available", Some("available")),
            ("status", "VERFÜGBAR", Some("available")),
            ("status", "Réservée", Some("pending")),
            ("status", "verkauft!", Some("sold")),
            ("status", "no", None),
            ("sex", "Hündin", Some("female")),
            ("sex", "M", Some("male")),
            ("sex", "N/A", Some("unknown")),
            ("breed", "m", None),
        ] {
            assert_eq!(value(column, cell), expected, "{cell}");
        }
        assert_eq!(flag("X"), Some(true));
        assert_eq!(flag("Nein"), Some(false));
        assert_eq!(flag("maybe"), None);
        assert!(is_error(" #N/A "));
        assert!(!is_error("#1"));
    }

    #[test]
    fn signs_stand_for_currencies() {
        let codes = |text| {
            let all = sign(text).into_iter();
            all.map(|currency| currency.as_str().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(codes(" € "), ["EUR"]);
        assert_eq!(codes("eur"), ["EUR"]);
        assert_eq!(codes("Fr."), ["CHF"]);
        assert!(
            ["USD", "CAD"]
                .iter()
                .all(|code| codes("$").contains(&code.to_string()))
        );
        assert_eq!(codes("US$"), ["USD"]);
        assert!(codes("x").is_empty());
        for sign in WORDS.signs.keys() {
            assert_eq!(*sign, sign.trim().to_lowercase());
        }
    }

    /// Each word has one meaning, and none is one that can never be reached.
    #[test]
    fn the_list_has_no_contradictions() {
        let lists: WordLists = serde_json::from_str(WORDS_JSON).unwrap();
        let columns = columns();
        for column in lists.headings.keys() {
            assert!(columns.contains(column), "{column} is no column");
        }
        let own_names = columns.iter().map(|name| (name, name));
        let flags = lists.flags.iter();
        let headings = lists.headings.iter().chain(flags);
        let headings =
            headings.flat_map(|(name, words)| words.iter().map(move |word| (name, word)));
        assert_unambiguous(own_names.chain(headings));
        for values in lists.values.values() {
            let own_names = values.keys().map(|name| (name, name));
            let words = values
                .iter()
                .flat_map(|(name, words)| words.iter().map(move |word| (name, word)));
            assert_unambiguous(own_names.chain(words));
        }
    }

    fn assert_unambiguous<'a>(words: impl Iterator<Item = (&'a String, &'a String)>) {
        let mut seen = HashMap::new();
        for (meaning, word) in words {
            let simple = simplify(word);
            assert!(!simple.is_empty(), "{word}");
            let earlier = seen.insert(simple, meaning);
            assert_eq!(earlier, None, "{word} is listed for {meaning}, too");
        }
    }
}
