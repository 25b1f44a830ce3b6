//! The measurable part of the style of comments: they name the thing that they describe, and
//! the actor.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

/// A doc comment that opens with one of these describes a question instead of a thing.
const OPENINGS: [&str; 7] = ["What", "Whether", "How", "Why", "Which", "When", "Where"];

/// Words for an actor or a time that the comment should name.
const VAGUE: [&str; 5] = ["somebody", "nobody", "whoever", "meanwhile", "anew"];

/// Returns the comments of a file that do not follow the style, with the numbers of their lines.
fn find_violations(source: &str) -> Vec<(usize, &str)> {
    let mut violations = Vec::new();
    let mut is_continued = false;
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let opening = doc.and_then(|doc| doc.split_whitespace().next());
        let is_question = !is_continued && opening.is_some_and(|word| OPENINGS.contains(&word));
        // An empty line ends a paragraph.
        is_continued = opening.is_some();
        let comment = line.strip_prefix("//").unwrap_or_default().to_lowercase();
        let mut words = comment.split(|c: char| !c.is_alphabetic());
        if is_question || words.any(|word| VAGUE.contains(&word)) {
            violations.push((number, line));
        }
    }
    violations
}

fn check_folder(folder: &Path, violations: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_folder(&path, violations);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let found = find_violations(&source).into_iter();
            violations
                .extend(found.map(|(line, text)| format!("{}:{line}: {text}", path.display())));
        }
    }
}

#[test]
fn comments_name_what_they_describe() {
    let mut violations = Vec::new();
    for folder in ["src", "crates", "tests", "bench/src", "fuzz/fuzz_targets"] {
        check_folder(Path::new(folder), &mut violations);
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Tests the test.
#[test]
fn vague_comments_are_found() {
    let source = [
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
    ]
    .join("\n");
    let lines: Vec<_> = find_violations(&source)
        .iter()
        .map(|(line, _)| *line)
        .collect();
    assert_eq!(lines, [4, 6, 9]);
}
