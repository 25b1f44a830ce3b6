//! The measurable part of the style: comments name the thing that they describe, and the actor;
//! expressions are the ones that a reader knows.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A comment that opens with one of these describes a question instead of a thing.
const OPENINGS: [&str; 7] = ["What", "Whether", "How", "Why", "Which", "When", "Where"];

/// Words and phrases for an actor, a time or a quantity that the text should name.
const VAGUE: [&str; 9] = [
    "somebody",
    "nobody",
    "whoever",
    "meanwhile",
    "anew",
    "goes on",
    "go on",
    "all that",
    "mend",
];

/// The maximum width of a line; `cargo fmt` does not wrap comments.
const MAX_WIDTH: usize = 100;

/// The language of a file, by its extension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    /// JavaScript and style sheets. Their strings are read by users, so they are checked like
    /// comments.
    Console,
    Sql,
    /// All of it is read by users: the contract, and documents.
    Text,
}

impl Language {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "rs" => Some(Self::Rust),
            "js" | "ts" | "css" => Some(Self::Console),
            "sql" => Some(Self::Sql),
            "yaml" | "md" => Some(Self::Text),
            _ => None,
        }
    }

    /// Returns the text of a line that is a comment whose first word is checked.
    fn comment(self, line: &str) -> Option<&str> {
        let prefixes: &[&str] = match self {
            Self::Rust => &["///", "//!"],
            Self::Console => &["/**", "/*", "//", "*"],
            Self::Sql => &["--"],
            Self::Text => &[],
        };
        prefixes.iter().find_map(|prefix| line.strip_prefix(prefix))
    }

    /// Returns the part of a line in which vague words are looked for.
    fn prose(self, line: &str) -> &str {
        match self {
            Self::Rust => line.strip_prefix("//").unwrap_or_default(),
            Self::Sql => line.strip_prefix("--").unwrap_or_default(),
            Self::Console | Self::Text => line,
        }
    }
}

/// Returns the lines of a file that do not follow the style, with their numbers.
fn find_violations(source: &str, language: Language) -> Vec<(usize, &str)> {
    let mut violations = Vec::new();
    let mut is_continued = false;
    let mut rebound = ("", 0);
    for (number, line) in (1..).zip(source.lines()) {
        let width = line.chars().count();
        let line = line.trim_start();
        let opening = language
            .comment(line)
            .and_then(|comment| comment.split_whitespace().next());
        let is_question = !is_continued && opening.is_some_and(|word| OPENINGS.contains(&word));
        // An empty line ends a paragraph.
        is_continued = opening.is_some();
        let is_code = language == Language::Rust;
        let name = is_code.then(|| bound_name(line)).flatten();
        rebound = match name {
            Some(name) if name == rebound.0 => (name, rebound.1 + 1),
            Some(name) => (name, 1),
            None => ("", 0),
        };
        if is_question
            || is_vague(language.prose(line))
            || is_code && (matches_boolean(line) || binds_in_parallel(line))
            || is_code && opening.is_some() && width > MAX_WIDTH
            || language == Language::Console && destructures_in_parallel(line)
            || rebound.1 == 3
        {
            violations.push((number, line));
        }
    }
    violations
}

fn is_vague(prose: &str) -> bool {
    let lowercase = prose.to_lowercase();
    let words: Vec<_> = lowercase
        .split(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty())
        .collect();
    let text = format!(" {} ", words.join(" "));
    VAGUE.iter().any(|it| text.contains(&format!(" {it} ")))
}

/// `match condition { true => …, false => … }` is an `if`, and so is a match on several conditions
/// if one of them alone decides, as in `(true, _) => …`.
fn matches_boolean(line: &str) -> bool {
    let Some((pattern, _)) = line.split_once(" =>") else {
        return false;
    };
    let conditions = pattern
        .strip_prefix('(')
        .and_then(|it| it.strip_suffix(')'));
    let is_boolean = |pattern: &str| ["true", "false"].contains(&pattern);
    is_boolean(pattern)
        || conditions.is_some_and(|conditions| {
            let conditions: Vec<_> = conditions.split(", ").collect();
            conditions.contains(&"_")
                && conditions.iter().any(|it| is_boolean(it))
                && conditions.iter().all(|it| is_boolean(it) || *it == "_")
        })
}

/// `let (a, b) = (c, d);` are two bindings.
fn binds_in_parallel(line: &str) -> bool {
    let pattern = line
        .strip_prefix("let (")
        .and_then(|rest| rest.split_once(") = ("));
    pattern.is_some_and(|(names, _)| !names.contains('('))
}

/// `const [a, b] = [c, d];` are two bindings.
fn destructures_in_parallel(line: &str) -> bool {
    let is_binding = line.starts_with("const [") || line.starts_with("let [");
    is_binding && line.contains("] = [") && line.ends_with("];")
}

/// Returns the name that a line binds. Three such lines in a row that bind the same are a chain.
fn bound_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("let ")?;
    let (name, _) = rest.split_once(" = ")?;
    (line.ends_with(';') && name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'))
        .then_some(name)
}

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        return found.push(path.into());
    }
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("node_modules") {
            files(&path, found);
        }
    }
}

#[test]
fn the_sources_follow_the_style() {
    let mut paths = Vec::new();
    for root in [
        "src",
        "crates",
        "tests",
        "bench/src",
        "fuzz/fuzz_targets",
        "openapi.yaml",
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "docs",
    ] {
        files(Path::new(root), &mut paths);
    }
    let mut violations = Vec::new();
    for path in paths {
        let Some(language) = Language::of(&path) else {
            continue;
        };
        if path.ends_with("tests/language.rs") {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let found = find_violations(&source, language).into_iter();
        violations.extend(found.map(|(line, text)| format!("{}:{line}: {text}", path.display())));
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Tests the test.
#[test]
fn violations_are_found() {
    let find = |lines: &[&str], language| -> Vec<usize> {
        let source = lines.join("\n");
        let found = find_violations(&source, language).into_iter();
        found.map(|(line, _)| line).collect()
    };
    let rust = [
        "//! Pets.",
        "//! How they live.",
        "",
        "/// Whether it lives.",
        "let a = 1;",
        "// Nobody knows.",
        "/// A pet.",
        "///",
        "/// When it is sold.",
        "let whoever = \"nobody\";",
        "// Trade goes on; this is not all, that neither.",
        "    true => a,",
        "let (a, b) = (1, 2);",
        "let (Some(a), Some(b)) = (c, d) else {",
        "let name = parse(name);",
        "let name = name.trim();",
        "let name = name.to_lowercase();",
        "    (true, _) => a,",
        "    (true, false) => a,",
        "    (_, Some(true)) => a,",
        &format!("    /// {}", "long ".repeat(19)),
        &format!("    /// {}", "long".repeat(23)),
    ];
    assert_eq!(
        find(&rust, Language::Rust),
        [4, 6, 9, 11, 12, 13, 17, 18, 21]
    );
    let script = [
        "/** Whether it lives. */",
        "toast(\"Somebody was faster\");",
        "/** A pet. */",
        "let a = 1; // Mending is not in the list.",
        "const [a, b] = [1, 2];",
        "const [a, b] = [1, 2].map(String);",
    ];
    assert_eq!(find(&script, Language::Console), [1, 2, 5]);
    let sql = ["-- What is sold.", "SELECT 'nobody';"];
    assert_eq!(find(&sql, Language::Sql), [1]);
    let contract = ["description: It goes on.", "x: 1"];
    assert_eq!(find(&contract, Language::Text), [1]);
}
