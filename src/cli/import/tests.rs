//! Tables as people have them, in tests/import-files.

use std::{collections::BTreeMap, fs, path::Path};

use clap::Parser;
use domain::price::Currency;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};

use super::{
    super::pet_file::{CategoryReference, PetRecord, RecordError, TableOptions},
    file::ImportFile,
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import-files");

/// The options of a person.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    table: TableOptions,
}

#[test]
fn tables_are_read_as_expected() {
    let mut read = 0;
    for entry in fs::read_dir(format!("{FOLDER}/expected")).unwrap() {
        let path = entry.unwrap().path();
        let expected = fs::read_to_string(&path).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert_as_expected(name, &expected);
        read += 1;
    }
    assert!(read >= 85, "only {read} files were found");
}

fn assert_as_expected(name: &str, expected: &Value) {
    let path = Path::new(FOLDER).join(name);
    let options = options(&expected["options"]);
    let file = ImportFile::open(&path, None, options).map_err(|error| error.to_string());
    let file = file.and_then(|mut file| {
        let currency = expected["options"]["shopCurrency"].as_str();
        file.examine_columns(currency.map(|code| Currency::parse(code).unwrap()))?;
        Ok(file)
    });
    let records = file.and_then(|file| {
        let records: Vec<_> = file.records(&ProgressBar::hidden())?.collect();
        let mut fatal = records.iter().filter_map(|(line, record)| match record {
            Err(RecordError::Fatal(reason)) => Some(format!("line {line}: {reason}")),
            _ => None,
        });
        fatal.next().map_or(Ok((records, file)), Err)
    });
    let (records, file) = match (records, expected["error"].as_array()) {
        (Err(error), Some(texts)) => {
            for text in texts {
                let text = text.as_str().unwrap().to_lowercase();
                assert!(error.to_lowercase().contains(&text), "{name}: {error}");
            }
            return;
        }
        (Ok(read), None) => read,
        (Err(error), None) => panic!("{name}: {error}"),
        (Ok(_), Some(_)) => panic!("{name} was not refused"),
    };
    let mut rows = Vec::new();
    let mut invalid = BTreeMap::new();
    for (line, record) in records {
        match record {
            Ok(record) => rows.push(row(line, &record)),
            Err(RecordError::Invalid(reason) | RecordError::Fatal(reason)) => {
                invalid.insert(line, reason);
            }
        }
    }
    assert_eq!(&Value::from(rows), &expected["rows"], "{name}");
    let expected_invalid = expected["invalid"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let lines: Vec<_> = invalid.keys().map(|line| json!(line)).collect();
    let expected_lines: Vec<_> = expected_invalid.iter().map(|row| &row["line"]).collect();
    assert_eq!(lines.iter().collect::<Vec<_>>(), expected_lines, "{name}");
    for (row, reason) in expected_invalid.iter().zip(invalid.values()) {
        let mention = row["mentions"].as_str().unwrap_or_default();
        assert!(reason.contains(mention), "{name}: {reason}");
    }
    let headings = file.table().unwrap().columns.headings;
    let recognised = headings.iter().filter_map(|(heading, column)| {
        let column = column.as_ref()?;
        Some((heading.clone(), json!(column)))
    });
    let recognised: Map<_, _> = recognised.collect();
    let ignored: Vec<_> = headings
        .iter()
        .filter(|(heading, column)| column.is_none() && !heading.is_empty())
        .map(|(heading, _)| heading)
        .collect();
    let (sheet, others) = file.layout.sheet().unzip();
    for (member, found) in [
        ("columns", json!(recognised)),
        ("ignored", json!(ignored)),
        ("sheet", json!(sheet)),
        ("otherSheets", json!(others)),
    ] {
        if let Some(expected) = expected.get(member) {
            assert_eq!(&found, expected, "{name}: {member}");
        }
    }
    let is_windows_1252 = expected["encoding"] == "windows-1252";
    assert_eq!(file.layout.is_windows_1252(), is_windows_1252, "{name}");
}

fn options(chosen: &Value) -> TableOptions {
    let mut arguments = vec!["petstore".to_owned()];
    for (member, option) in [("columns", "--column"), ("values", "--value")] {
        for (from, to) in chosen[member].as_object().into_iter().flatten() {
            arguments.push(format!("{option}={from}={}", to.as_str().unwrap()));
        }
    }
    for (member, option) in [
        ("sheet", "--sheet"),
        ("defaultStatus", "--default-status"),
        ("currency", "--currency"),
        ("dateOrder", "--date-order"),
    ] {
        let value = chosen[member].as_str();
        arguments.extend(value.map(|value| format!("{option}={value}")));
    }
    Options::parse_from(arguments).table
}

/// Returns an animal as the expectations have it.
fn row(line: u64, record: &PetRecord) -> Value {
    let mut row = serde_json::to_value(&record.pet).unwrap();
    let (id, name) = match &record.category {
        CategoryReference::Id(id) => (Some(id), None),
        CategoryReference::Name(name) => (None, Some(name)),
        CategoryReference::Both(id, name) => (Some(id), Some(name)),
        CategoryReference::Unchanged => (None, None),
    };
    let members = row.as_object_mut().unwrap();
    members.remove("categoryId");
    members.insert("line".into(), json!(line));
    members.extend(record.id.map(|id| ("id".into(), json!(id))));
    members.extend(id.map(|id| ("categoryId".into(), json!(id))));
    members.extend(name.map(|name| ("category".into(), json!(name.trim()))));
    row
}
