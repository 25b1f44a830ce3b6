//! Imports run in one direction. Between crates, Cargo sees to it. In a crate, a module and the
//! files in its folder may use each other; otherwise there are no circles of files.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The path of a module or an item, without `crate`.
type ItemPath = Vec<String>;

/// The modules of a crate that have a file of their own.
#[derive(Default)]
struct Modules {
    /// The paths that each module names.
    named: BTreeMap<ItemPath, Vec<ItemPath>>,
    /// The items that modules re-export, and where they come from.
    reexports: BTreeMap<ItemPath, ItemPath>,
}

impl Modules {
    /// Reads the files in a folder.
    fn read(&mut self, folder: &Path, parent: &[String]) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let module = match name {
                "lib" | "main" | "mod" => parent.to_vec(),
                _ => [parent, &[name.into()]].concat(),
            };
            if path.is_dir() {
                self.read(&path, &module);
            } else if path.extension().is_some_and(|it| it == "rs") && name != "tests" {
                self.add(module, &fs::read_to_string(&path).unwrap());
            }
        }
    }

    fn add(&mut self, module: ItemPath, source: &str) {
        let code = source.split("#[cfg(test)]\nmod ").next().unwrap();
        let tokens = tokenize(code);
        let mut named = Vec::new();
        let mut position = 0;
        while position < tokens.len() {
            if tokens[position..].starts_with(&["pub", "("]) {
                position += tokens[position..].iter().position(|it| *it == ")").unwrap();
            }
            let before = &tokens[..position];
            let is_reexport = before.ends_with(&["pub", "use"]) || before.ends_with(&[")", "use"]);
            let starts_path = matches!(tokens[position], "crate" | "super" | "self") || is_reexport;
            if !starts_path {
                position += 1;
                continue;
            }
            for (path, name) in parse_tree(&tokens, &mut position, Vec::new()) {
                let path = absolute(&module, path);
                if is_reexport {
                    let item = [&module[..], &[name]].concat();
                    self.reexports.insert(item, path.clone());
                }
                named.push(path);
            }
        }
        self.named.entry(module).or_default().extend(named);
    }

    /// The module that defines the item of a path.
    fn definition(&self, path: &[String]) -> Option<ItemPath> {
        let length = (0..=path.len()).rev();
        let length = length
            .into_iter()
            .find(|length| self.named.contains_key(&path[..*length]))?;
        let item = path.get(..length + 1);
        match item.and_then(|item| self.reexports.get(item)) {
            Some(source) if !source.starts_with(path) => self.definition(source),
            _ => Some(path[..length].to_vec()),
        }
    }

    /// The modules that each module imports from, without those in its own folder.
    fn imports(&self) -> BTreeMap<&ItemPath, BTreeSet<ItemPath>> {
        let imports = self.named.iter().map(|(module, named)| {
            let used = named.iter().filter_map(|path| self.definition(path));
            (
                module,
                used.filter(|used| !used.starts_with(module)).collect(),
            )
        });
        imports.collect()
    }

    /// A circle of imports, if there is one.
    fn find_circle(&self) -> Option<Vec<ItemPath>> {
        let imports = self.imports();
        let mut finished = BTreeSet::new();
        imports
            .keys()
            .find_map(|module| visit(module, &imports, &mut Vec::new(), &mut finished))
    }
}

/// Searches depth-first for a module that imports one of those on the way to it.
fn visit(
    module: &ItemPath,
    imports: &BTreeMap<&ItemPath, BTreeSet<ItemPath>>,
    way: &mut Vec<ItemPath>,
    finished: &mut BTreeSet<ItemPath>,
) -> Option<Vec<ItemPath>> {
    if let Some(start) = way.iter().position(|it| it == module) {
        return Some(way[start..].to_vec());
    }
    if finished.contains(module) {
        return None;
    }
    way.push(module.clone());
    let circle = imports[module]
        .iter()
        .find_map(|used| visit(used, imports, way, finished));
    way.pop();
    finished.insert(module.clone());
    circle
}

/// Words and punctuation, without comments and text.
fn tokenize(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for line in code.lines() {
        let mut rest = line.split("//").next().unwrap();
        while !rest.is_empty() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = if rest.starts_with("::") {
                2
            } else {
                match rest.find(|c| !is_word(c)) {
                    Some(0) => rest.chars().next().unwrap().len_utf8(),
                    Some(end) => end,
                    None => rest.len(),
                }
            };
            let (token, after) = rest.split_at(length);
            if !token.trim().is_empty() {
                tokens.push(token);
            }
            rest = after;
        }
    }
    tokens
}

/// Reads a path such as `crate::a::{b, c as d}` from `position` on. Returns each path in it,
/// with the name that it is imported as.
fn parse_tree(tokens: &[&str], position: &mut usize, prefix: ItemPath) -> Vec<(ItemPath, String)> {
    let mut path = prefix;
    loop {
        match tokens.get(*position) {
            Some(&"{") => {
                *position += 1;
                let mut all = Vec::new();
                while !matches!(tokens.get(*position), Some(&"}") | None) {
                    all.extend(parse_tree(tokens, position, path.clone()));
                    if tokens.get(*position) == Some(&",") {
                        *position += 1;
                    }
                }
                *position += 1;
                return all;
            }
            Some(word) => path.push((*word).into()),
            None => return Vec::new(),
        }
        *position += 1;
        match tokens.get(*position) {
            Some(&"::") => *position += 1,
            Some(&"as") => {
                let name = tokens[*position + 1].into();
                *position += 2;
                return vec![(path, name)];
            }
            _ => {
                let name = path.last().unwrap().clone();
                return vec![(path, name)];
            }
        }
    }
}

/// The path from the root of the crate.
fn absolute(module: &[String], path: ItemPath) -> ItemPath {
    let mut absolute = module.to_vec();
    for segment in path {
        match &*segment {
            "crate" => absolute.clear(),
            "super" => drop(absolute.pop()),
            "self" => {}
            _ => absolute.push(segment),
        }
    }
    absolute
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let crates = fs::read_dir("crates").unwrap();
    let folders = crates.map(|entry| entry.unwrap().path().join("src"));
    for folder in folders.chain(["src".into()]) {
        let mut modules = Modules::default();
        modules.read(&folder, &[]);
        let circle = modules.find_circle().map(|circle| {
            let files = circle.iter().map(|module| module.join("/"));
            files.collect::<Vec<_>>().join(" -> ")
        });
        assert_eq!(circle, None, "in {}", folder.display());
    }
}

/// Tests the test.
#[test]
fn a_circle_is_found() {
    for (sources, expected) in [
        (
            [
                ("a", "use crate::b::B;"),
                ("b", "use super::{c::C};"),
                ("c", ""),
            ],
            None,
        ),
        (
            [
                ("a", "use crate::b::B;"),
                ("b", "fn f() { super::c::f() }"),
                ("c", "use crate::{a::A, d};"),
            ],
            Some("a b c"),
        ),
        // Through a module that re-exports.
        (
            [
                ("a", "pub(crate) use b::B;"),
                ("a/b", "use crate::c::C;"),
                ("c", "use crate::a::B;"),
            ],
            Some("a/b c"),
        ),
        // Comments and visibilities do not count.
        (
            [
                ("a", "// crate::b::B\npub(in crate::b) struct A;"),
                ("b", "use crate::a::A;"),
                ("c", ""),
            ],
            None,
        ),
        // A module may use the files of its folder.
        (
            [
                ("a", "use self::b::B;"),
                ("a/b", "use super::A;"),
                ("c", ""),
            ],
            None,
        ),
    ] {
        let mut modules = Modules::default();
        for (module, source) in sources {
            modules.add(module.split('/').map(String::from).collect(), source);
        }
        let circle = modules.find_circle().map(|circle| {
            circle
                .iter()
                .map(|module| module.join("/"))
                .collect::<Vec<_>>()
                .join(" ")
        });
        assert_eq!(circle.as_deref(), expected, "{sources:?}");
    }
}
