//! Errors of the PostgreSQL driver and server, and what they mean for a write.

use std::{
    error::Error as _,
    io::{self, ErrorKind},
};

use tokio::time::error::Elapsed;
use tokio_postgres::error::{Severity, SqlState};

/// An error of a connection or a statement.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("{}", reason(error))]
    Server {
        #[from]
        error: tokio_postgres::Error,
    },
    #[error("the server does not respond; check the host and port in the URL, and the firewall")]
    Timeout(#[from] Elapsed),
    #[error(
        "warnings are suppressed, but they report unconfirmed commits; run ALTER ROLE … SET \
         client_min_messages = 'warning'"
    )]
    WarningsSuppressed,
}

/// Explains why the server or the driver failed and, where a setting is wrong, what to do about it.
fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(rejected) = error.as_db_error() {
        let message = rejected.message();
        return match *rejected.code() {
            SqlState::INVALID_PASSWORD => {
                format!("{message}; correct the password in the URL or in the password file")
            }
            SqlState::INVALID_CATALOG_NAME => {
                format!("{message}; create it with createdb, or correct the URL")
            }
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                format!("{message}; correct the user in the URL, or pg_hba.conf on the server")
            }
            // Raised by the statements that write rows.
            SqlState::DIVISION_BY_ZERO => {
                format!("{message}: not every row was changed; was a trigger or rule added?")
            }
            // Without the detail, which has the rejected row, and so the buyer of an order.
            _ => {
                let hint = rejected.hint().map(|hint| format!("; {hint}"));
                let hint = hint.unwrap_or_default();
                format!("{}: {message}{hint}", rejected.severity())
            }
        };
    }
    // These errors do not come from the server, so there is no SQLSTATE. The driver keeps their kind
    // to itself, and most sources are texts without a type: some are recognised by their text.
    let source = error.source();
    match source.and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(cause) if cause.raw_os_error().is_some() => match cause.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
                "nothing listens there; start PostgreSQL, or correct the host and port in the URL"
                    .into()
            }
            _ => format!("{error}: {cause}"),
        },
        // The resolver has codes of its own, which the standard library does not pass on.
        Some(cause) if cause.to_string().starts_with("failed to lookup") => {
            "the host is unknown; correct its name in the URL".into()
        }
        // A mistake in the configuration, for the driver.
        None if source.is_some_and(|source| source.to_string() == "password missing") => {
            "the server wants a password; name a file that has it with --database-password-file"
                .into()
        }
        // Its source is an I/O error, unless the server offers no TLS.
        _ if error.to_string().contains("TLS handshake") => {
            let cause = source.map_or(String::new(), |source| format!(" ({source})"));
            format!("TLS failed{cause}; correct sslmode or sslrootcert in the URL, or the server")
        }
        // The driver's own message is short; its source has the details.
        _ => source.map_or(error.to_string(), |source| format!("{error}: {source}")),
    }
}

impl PostgresError {
    fn server(&self) -> Option<&tokio_postgres::Error> {
        match self {
            Self::Server { error } => Some(error),
            Self::Timeout(_) | Self::WarningsSuppressed => None,
        }
    }

    fn code(&self) -> Option<&SqlState> {
        self.server()?.code()
    }

    /// Returns true if the connection was closed before the response.
    pub(super) fn is_closed(&self) -> bool {
        self.server().is_some_and(tokio_postgres::Error::is_closed)
    }

    /// Returns true if another transaction inserted a row with the same key first, or deleted a
    /// row that was read, for which statements that write rows divide by zero.
    pub(super) fn is_conflict(&self) -> bool {
        let code = self.code();
        code == Some(&SqlState::UNIQUE_VIOLATION) || code == Some(&SqlState::DIVISION_BY_ZERO)
    }

    /// Returns true if the same commit group may succeed if it is run again: the server ended the
    /// session, or chose it to resolve a deadlock.
    pub(super) fn is_transient(&self) -> bool {
        let code = self.code();
        self.is_closed()
            || code == Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT)
            || code == Some(&SqlState::T_R_DEADLOCK_DETECTED)
            || code == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
    }

    /// Returns true if another transaction kept a lock for too long.
    pub(super) fn is_lock_timeout(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Returns true if one command may be at fault, so that the others are run without it.
    pub(super) fn is_rejection(&self) -> bool {
        let class = self.code().map(class);
        matches!(class, Some("22" | "23" | "40" | "42" | "P0"))
    }

    /// Returns true if the server reported that it rolled the statement back. Otherwise a
    /// write may have been committed.
    pub(super) fn is_rolled_back(&self) -> bool {
        let error = self.server().and_then(tokio_postgres::Error::as_db_error);
        error.is_some_and(|e| {
            // statement_completion_unknown, and connection exceptions.
            let unknown = e.code().code() == "40003" || class(e.code()) == "08";
            // A session that was idle for too long had not received COMMIT.
            let was_idle = *e.code() == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
            was_idle || (e.parsed_severity() == Some(Severity::Error) && !unknown)
        })
    }

    /// Returns true for a bug: a data exception, a constraint violation, a syntax error or a
    /// missing privilege. Otherwise the environment is at fault.
    pub(crate) fn is_bug(&self) -> bool {
        matches!(self.code().map(class), Some("22" | "23" | "42"))
    }
}

/// Returns the class of an SQLSTATE: its first two characters.
fn class(state: &SqlState) -> &str {
    &state.code()[..2]
}
