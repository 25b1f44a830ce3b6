//! Search for pets by the start of their words: those of the name and the breed, and the
//! microchip.

use std::sync::Arc;

use compact_str::{CompactString, format_compact};

use super::{Microchip, Pet, PetId};
use crate::{
    case_fold::simplify,
    invalid::{Invalid, quoted},
    page::MAX_NAME_CHARS,
    text::check,
};

/// The maximum number of characters of a search, as it is typed.
const MAX_CHARS: usize = 100;
const MAX_TERMS: usize = 8;

/// A search for pets: each term is the start of a word of the pet, or its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Search {
    /// The search as it was typed.
    text: CompactString,
    /// Simplified and distinct, the longest first: few pets have a long one.
    terms: Arc<[CompactString]>,
}

impl Search {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |reason| Invalid::new("q", reason);
        check(text, MAX_CHARS).map_err(invalid)?;
        // A scanner or a certificate may show the number of a microchip in groups.
        let mut terms = match Microchip::parse(text) {
            Ok(microchip) => vec![microchip.as_str().into()],
            Err(_) => words_of(text),
        };
        if terms.is_empty() {
            let got = quoted(text);
            return Err(invalid(format!(
                "must contain a word of letters or digits, got {got}"
            )));
        }
        if terms.len() > MAX_TERMS {
            let count = terms.len();
            return Err(invalid(format!(
                "must be at most {MAX_TERMS} different words, got {count}"
            )));
        }
        terms.sort_by_key(|term| std::cmp::Reverse(term.chars().count()));
        Ok(Self {
            text: text.into(),
            terms: terms.into(),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn terms(&self) -> &[CompactString] {
        &self.terms
    }

    pub fn matches(&self, pet: &Pet) -> bool {
        let id = format_compact!("{}", pet.id.get());
        let words = pet_words(pet);
        self.terms.iter().all(|term| {
            let mut words = words.iter();
            *term == id || words.any(|word| word.starts_with(term.as_str()))
        })
    }

    /// The size of the search on the heap.
    pub fn heap_size(&self) -> usize {
        let terms = self.terms.iter().map(|term| size_of_val(term) + term.len());
        self.text.len() + terms.sum::<usize>()
    }
}

/// Returns the id that a term stands for, if it is one.
pub fn id_of_term(term: &str) -> Option<PetId> {
    PetId::parse(term).filter(|id| id.get() <= PetId::MAX)
}

/// Returns the text that is stored to find a pet: its words, separated by blanks.
pub fn search_words(pet: &Pet) -> String {
    pet_words(pet).join(" ")
}

/// Returns the words by which a pet is found.
fn pet_words(pet: &Pet) -> Vec<CompactString> {
    let mut words = words_of(pet.name.as_str());
    let breed = pet.breed.as_ref().map(|breed| words_of(breed.as_str()));
    let microchip = pet.microchip.as_ref().map(|it| it.as_str().into());
    for word in breed.into_iter().flatten().chain(microchip) {
        push_distinct(&mut words, word);
    }
    words
}

/// Returns the distinct words of a text, simplified, in their order. An index limits the length
/// of a word, so the rest of a longer one is left out.
pub fn words_of(text: &str) -> Vec<CompactString> {
    let simplified = simplify(text);
    let mut words = Vec::new();
    for word in simplified.split(|c: char| !c.is_alphanumeric()) {
        if !word.is_empty() {
            push_distinct(&mut words, word.chars().take(MAX_NAME_CHARS).collect());
        }
    }
    words
}

fn push_distinct(words: &mut Vec<CompactString>, word: CompactString) {
    if !words.contains(&word) {
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pet::{Microchip, NewPet, PetName},
        text::Text,
    };

    #[test]
    fn words_are_simplified() {
        for (text, words) in [
            ("Ümläut-Tiger", &["umlaut", "tiger"] as &[_]),
            ("Straße 5", &["strasse", "5"]),
            ("ΣΊΣΥΦΟΣ Σίσυφος", &["σισυφοσ"]),
            ("ᾼ ᾳ α", &["α"]),
            ("İstanbul ISTANBUL", &["istanbul"]),
            ("Işık ışık", &["isık", "ısık"]),
            ("℡ Ⅻ ﬃ １２", &["tel", "xii", "ffi", "12"]),
            ("Ёлка ёлка", &["елка"]),
            ("e\u{301}clair É", &["eclair", "e"]),
            ("小白", &["小白"]),
            ("مُحَمَّد", &["محمد"]),
            ("rex's_dog\u{a0}no.1", &["rex", "s", "dog", "no", "1"]),
            ("🐕 — !", &[]),
        ] {
            assert_eq!(words_of(text), words, "{text}");
            assert_eq!(words_of(&words.join(" ")), words, "{text} twice");
        }
        assert_eq!(words_of("한"), words_of("\u{1112}\u{1161}\u{11ab}"));
        let long = words_of(&"\u{fdfa}".repeat(255));
        assert!(long.iter().all(|word| word.chars().count() <= 64));
        assert_eq!(words_of(&"ä".repeat(255)), ["a".repeat(64)]);
    }

    #[test]
    fn every_term_is_the_start_of_a_word_or_the_id() {
        let new = NewPet::new(PetName::parse("Ümläut-Tiger").unwrap(), 7);
        let pet = NewPet {
            breed: Some(Text::parse("Maine Coon").unwrap()),
            microchip: Some(Microchip::parse("985112004567890").unwrap()),
            ..new
        }
        .with_id(PetId::parse("12").unwrap());
        assert_eq!(
            search_words(&pet),
            "umlaut tiger maine coon 985112004567890"
        );
        for (text, is_match) in [
            ("tiger", true),
            ("UML", true),
            ("tig uml tiger", true),
            ("coon", true),
            ("main ü", true),
            ("12", true),
            ("1", false),
            ("012", false),
            ("985", true),
            ("985112004567890", true),
            ("985 112 004 567 890", true),
            ("985-112004567890\u{a0}", true),
            ("985 112", false),
            ("985 112 004 567 891", false),
            ("9851120045678901", false),
            ("iger", false),
            ("tiger rex", false),
        ] {
            let search = Search::parse(text).unwrap();
            assert_eq!(search.matches(&pet), is_match, "{text}");
            assert_eq!(search.as_str(), text);
        }
    }

    #[test]
    fn a_search_has_a_few_words() {
        for (text, reason) in [
            ("", "must be 1 to 100 characters long, got 0"),
            ("a\tb", "must not contain control characters, got U+0009"),
            (
                " -🐕",
                "must contain a word of letters or digits, got \" -🐕\"",
            ),
            (
                "a b c d e f g h i",
                "must be at most 8 different words, got 9",
            ),
        ] {
            let invalid = Search::parse(text).unwrap_err();
            assert_eq!(invalid.to_string(), format!("q: {reason}"));
        }
        let repeated = Search::parse("a b a B ab ä c").unwrap();
        assert_eq!(repeated.terms(), ["ab", "a", "b", "c"]);
        assert!(Search::parse(&"x".repeat(100)).is_ok());
        assert!(Search::parse(&"x".repeat(101)).is_err());
    }
}
