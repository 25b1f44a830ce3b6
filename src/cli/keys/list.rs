//! `petstore keys list`: a table for people, or JSON.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    super::{
        CommandResult, Database, counted, escape_for_terminal, print, status,
        table::{cut, table, width},
    },
    shown,
};
use domain::{
    api_key::{ApiKey, Scope, Scopes},
    clock::Clock,
};
use store::list_keys;

/// The width of the table.
const COLUMNS: usize = 100;
/// The maximum width of a name. Wider names are cut off.
const NAME_WIDTH: usize = 22;

#[derive(Args)]
pub struct List {
    /// Print JSON, one object per line, with all details.
    #[arg(long, env = "PETSTORE_JSON")]
    json: bool,
    #[command(flatten)]
    pub database: Database,
}

impl List {
    pub async fn run(self) -> CommandResult {
        let keys = list_keys(&self.database.url()?).await?;
        let location = self.database.location();
        let now = Clock::system().now();
        if keys.is_empty() {
            let options = self.database.options();
            status!(
                "There are no API keys in {location} yet. Create one with: petstore keys create \
                 NAME{options}"
            );
        } else {
            status!("{} in {location}:", counted(keys.len() as u64, "API key"));
        }
        if self.json {
            print(json_lines(&keys, now)?.as_bytes())
        } else if keys.is_empty() {
            Ok(())
        } else {
            print(text(&keys, now).as_bytes())
        }
    }
}

/// A key as JSON, with the members that the API has, and more.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonKey<'a> {
    #[serde(flatten)]
    key: &'a ApiKey,
    state: &'static str,
    deprecated_calls: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_deprecated_call_at: Option<Timestamp>,
}

fn json_lines(keys: &[ApiKey], now: Timestamp) -> serde_json::Result<String> {
    let mut lines = String::new();
    for key in keys {
        let json = JsonKey {
            key,
            state: state(key, now),
            deprecated_calls: key.deprecated_calls,
            last_deprecated_call_at: key.last_deprecated_call_at,
        };
        lines += &serde_json::to_string(&json)?;
        lines.push('\n');
    }
    Ok(lines)
}

/// Formats the table, and a line for each key that calls deprecated operations.
fn text(keys: &[ApiKey], now: Timestamp) -> String {
    let header = [
        "ID",
        "NAME",
        "STATE",
        "CREATED",
        "LAST USED",
        "EXPIRES",
        "SCOPES",
    ];
    let rows: Vec<_> = keys.iter().map(|key| row(key, now)).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| width(&row[column]));
        cells.max().unwrap_or(0).max(header[column].len())
    };
    let others: usize = (0..6).map(|column| width(column) + 2).sum();
    let scope_width = COLUMNS.saturating_sub(others);
    let rows = keys.iter().zip(&rows).flat_map(|(key, row)| {
        let lines = wrap(key.reach(), scope_width).into_iter().enumerate();
        lines.map(|(n, scopes)| {
            let [a, b, c, d, e, f] = if n == 0 {
                row.clone()
            } else {
                Default::default()
            };
            [a, b, c, d, e, f, scopes]
        })
    });
    let mut text = table(header, rows);
    for key in keys {
        if let Some(last) = key.last_deprecated_call_at {
            let calls = counted(key.deprecated_calls as u64, "deprecated call");
            text += &format!("{}: {calls}, last {last:.0}\n", shown(key));
        }
    }
    text
}

/// Returns all cells except the scopes.
fn row(key: &ApiKey, now: Timestamp) -> [String; 6] {
    let day = |at: Option<Timestamp>| at.map_or("never".into(), |at| at.strftime("%F").to_string());
    let minute = |at: Timestamp| at.strftime("%F %R").to_string();
    [
        key.id.to_string(),
        cut(&escape_for_terminal(key.name.as_str()), NAME_WIDTH),
        state(key, now).into(),
        day(Some(key.created_at)),
        day(key.last_used_at),
        key.expires_at.map_or("never".into(), minute),
    ]
}

fn state(key: &ApiKey, now: Timestamp) -> &'static str {
    match key.revoked_at {
        Some(_) => "revoked",
        None if key.is_valid_at(now) && key.invitation.is_some() => "invited",
        None if key.is_valid_at(now) => "valid",
        None => "expired",
    }
}

/// Breaks the scopes into lines of at most `width` characters, or of one scope.
fn wrap(scopes: Scopes, width: usize) -> Vec<String> {
    if scopes == Scopes::all() {
        return vec!["all".into()];
    }
    if scopes == Scopes::all_but_keys() {
        return vec!["all except keys".into()];
    }
    let mut lines = vec![String::new()];
    for name in scopes.iter().map(Scope::as_str) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = name.into(),
            Some(line) if line.len() + 1 + name.len() <= width => *line += &format!(" {name}"),
            _ => lines.push(name.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the widest possible rows, short of an id of more than 8 digits.
    #[test]
    fn the_table_fits_100_columns() {
        let now: Timestamp = "2026-11-16T09:30:00Z".parse().expect("a time");
        let key = |name: &str| ApiKey {
            id: 12_345_678,
            name: name.parse().expect("a name"),
            scopes: Scope::ALL[..5].iter().copied().collect(),
            created_at: now,
            last_used_at: Some(now),
            expires_at: Some(now),
            revoked_at: None,
            successor: None,
            invitation: None,
            deprecated_calls: 3,
            last_deprecated_call_at: None,
        };
        let names = ["ä".repeat(100), "犬".repeat(100), "e\u{301}".repeat(50)];
        let text = text(&names.each_ref().map(|name| key(name)), now);
        assert!(text.lines().count() > 4, "{text}");
        for line in text.lines() {
            assert!(width(line) <= COLUMNS, "{line}");
        }
        // The columns are aligned, although a character of one name takes two of them.
        let state = |line: &str| Some(width(line.split_once("expired")?.0));
        let states: Vec<_> = text.lines().filter_map(state).collect();
        assert_eq!(states, [states[0]; 3], "{text}");
        for scope in &Scope::ALL[..5] {
            assert!(text.contains(scope.as_str()), "{text}");
        }
    }
}
