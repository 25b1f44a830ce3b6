//! The address of a database, as given on the command line.

use std::{fmt, path::PathBuf, str::FromStr};

use super::postgres::PostgresUrl;
use domain::invalid::Invalid;

/// The location of the data. The scheme selects the database; a path without one is an SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(Box<PostgresUrl>),
}

impl FromStr for DatabaseUrl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let path = text.strip_prefix("sqlite:");
        let is_folder = |path: &str| path.ends_with('/');
        if path
            .or(is_path(text).then_some(text))
            .is_some_and(is_folder)
        {
            let reason = "must be a file, so it cannot end with /; remove that, or add a name";
            return Err(Invalid::new("database", reason));
        }
        match path {
            Some(path) if !path.is_empty() && !path.starts_with(':') => {
                Ok(Self::Sqlite(path.strip_prefix("//").unwrap_or(path).into()))
            }
            None if PostgresUrl::SCHEMES.iter().any(|s| text.starts_with(s)) => {
                Ok(Self::Postgres(Box::new(text.parse()?)))
            }
            None if is_path(text) => Ok(Self::Sqlite(text.into())),
            _ => {
                let reason = "must be a file such as pets.db or sqlite:PATH, or \
                              postgres://USER@HOST/DATABASE";
                Err(Invalid::new("database", reason))
            }
        }
    }
}

/// Returns true if a text without a known scheme is evidently a path: a misspelt scheme is
/// not, nor is a word that may have been meant as the name of a database.
fn is_path(text: &str) -> bool {
    let start = text.split('/').next().unwrap_or_default();
    let extensions = [".db", ".sqlite", ".sqlite3"];
    !start.contains([':', '@'])
        && (text.contains('/') || extensions.iter().any(|e| text.ends_with(e)))
}

/// Never shows a password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

/// Redacts a URL that could not be parsed, for use in an error message. If it may contain a
/// password, only the scheme is kept, because the position of the password is unknown.
pub fn redact_password(text: &str) -> String {
    if !text.contains(['@', '=', '?']) {
        return text.into();
    }
    let scheme = text
        .split_once("://")
        .map(|(scheme, _)| scheme)
        .filter(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    scheme.map_or("…".into(), |scheme| format!("{scheme}://…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_need_no_scheme() {
        for (text, path) in [
            ("pets.db", "pets.db"),
            ("./pets.db", "./pets.db"),
            ("/var/lib/pets", "/var/lib/pets"),
            ("shop/a:b.sqlite", "shop/a:b.sqlite"),
            ("pets.sqlite3", "pets.sqlite3"),
            ("sqlite:pets", "pets"),
        ] {
            assert_eq!(text.parse(), Ok(DatabaseUrl::Sqlite(path.into())), "{text}");
        }
        for text in [
            "pets",
            "",
            "mysql://x/y",
            "sqllite:pets.db",
            "sqlite:",
            "sqlite::memory:",
            "sqlite:pets.db/",
            "./pets.db/",
            "petstore:secret@db/petstore",
            "user@db/petstore",
        ] {
            assert!(text.parse::<DatabaseUrl>().is_err(), "{text}");
        }
    }
}
