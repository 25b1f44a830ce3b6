//! The address of a database, as given on the command line.

use std::{fmt, path::PathBuf, str::FromStr};

use super::postgres::PostgresUrl;
use crate::invalid::Invalid;

/// Where the data is stored. The scheme selects the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(Box<PostgresUrl>),
}

impl FromStr for DatabaseUrl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() && !path.starts_with(':') => {
                Ok(Self::Sqlite(path.strip_prefix("//").unwrap_or(path).into()))
            }
            None if PostgresUrl::SCHEMES.iter().any(|s| text.starts_with(s)) => {
                Ok(Self::Postgres(Box::new(text.parse()?)))
            }
            _ => {
                let reason = "must be sqlite:PATH or postgres://USER@HOST/DATABASE";
                Err(Invalid::new("database", reason))
            }
        }
    }
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

/// Redacts a URL that could not be parsed, for use in an error message. If it
/// may contain a password, only the scheme is kept: where the password would
/// be is unknown.
pub(crate) fn redact_password(text: &str) -> String {
    if !text.contains(['@', '=', '?']) {
        return text.into();
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let scheme = scheme.filter(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    scheme.map_or("…".into(), |scheme| format!("{scheme}://…"))
}
