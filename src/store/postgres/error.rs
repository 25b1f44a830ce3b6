//! Errors of the PostgreSQL driver and server, and what they mean for a write.

use std::{error::Error as _, sync::Arc};

use tokio::time::error::Elapsed;
use tokio_postgres::error::{Severity, SqlState};

use super::super::error::Error;

/// An error of a connection or a statement.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("{error}{}", source_of(error))]
    Server {
        #[from]
        error: tokio_postgres::Error,
    },
    #[error("timed out")]
    Timeout(#[from] Elapsed),
    #[error(
        "warnings are suppressed, but they report unconfirmed commits; run ALTER ROLE … SET \
         client_min_messages = 'warning'"
    )]
    WarningsSuppressed,
}

/// The driver's own message is short; its source has the details.
fn source_of(error: &tokio_postgres::Error) -> String {
    let source = error.source();
    source.map_or(String::new(), |source| format!(": {source}"))
}

impl PostgresError {
    fn server(&self) -> Option<&tokio_postgres::Error> {
        match self {
            Self::Server { error } => Some(error),
            Self::Timeout(_) | Self::WarningsSuppressed => None,
        }
    }

    /// The constraint that the statement violated.
    pub(super) fn constraint(&self) -> Option<&str> {
        self.server()?.as_db_error()?.constraint()
    }

    /// Whether the server reported that it rolled the statement back. Otherwise
    /// a write may have been committed.
    pub(super) fn is_rolled_back(&self) -> bool {
        let error = self.server().and_then(tokio_postgres::Error::as_db_error);
        error.is_some_and(|e| {
            // statement_completion_unknown, and connection exceptions.
            let unknown = e.code().code() == "40003" || class(e.code()) == "08";
            e.parsed_severity() == Some(Severity::Error) && !unknown
        })
    }

    /// Classifies an error after which nothing is changed: the environment, or a
    /// bug (data exception, constraint violation, syntax or access rule).
    pub(super) fn classify(self) -> Error {
        let state = self.server().and_then(tokio_postgres::Error::code);
        match state.map(class) {
            Some("22" | "23" | "42") => Error::Internal(Arc::new(self)),
            _ => Error::Unavailable(Arc::new(self)),
        }
    }
}

/// The class of an SQLSTATE: its first two characters.
fn class(state: &SqlState) -> &str {
    &state.code()[..2]
}

/// A row that a statement always returns is missing.
#[derive(Debug, thiserror::Error)]
#[error("a statement returned no row; was a trigger or rule added to the table?")]
pub(super) struct MissingRow;

impl From<MissingRow> for Error {
    fn from(missing: MissingRow) -> Self {
        Self::Internal(Arc::new(missing))
    }
}
