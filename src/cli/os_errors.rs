//! Explains errors of the operating system, for people who don't know its codes.

use std::{
    borrow::Cow,
    io::{self, ErrorKind},
};

use system::privileges::successor_of_root;

/// Replaces errors of the operating system in a message with explanations. It works on text,
/// because they are also inside the errors of libraries, which expose nothing else of them.
pub fn explain_os_errors(message: &str) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(MARK) {
        let (code, after) = after.split_once(')').unwrap_or((after, ""));
        let cause = io::Error::from_raw_os_error(code.parse().unwrap_or_default());
        let with_code = cause.to_string();
        let shown = with_code.split(MARK).next().unwrap_or_default();
        match (before.strip_suffix(shown), words(cause.kind())) {
            (Some(before), Some(words)) => text.extend([before, &words]),
            _ => text += before,
        }
        rest = without_temporary_name(after);
    }
    text + rest
}

const MARK: &str = " (os error ";

/// Removes the name of a temporary file, which the crate tempfile adds and which means nothing to
/// the user.
fn without_temporary_name(text: &str) -> &str {
    let name = text.strip_prefix(" at path \"");
    name.and_then(|name| name.split_once('"'))
        .map_or(text, |(_, rest)| rest)
}

fn words(kind: ErrorKind) -> Option<Cow<'static, str>> {
    let words = match kind {
        ErrorKind::NotFound => "there is no such file or folder",
        ErrorKind::PermissionDenied if let Some(user) = successor_of_root() => {
            let words = format!(
                "permission denied, because root was given up for user {user}, the owner of the \
                 store; choose a place that this user may use"
            );
            return Some(words.into());
        }
        ErrorKind::PermissionDenied => {
            "permission denied; choose another place, or run this as another user"
        }
        ErrorKind::NotADirectory => "part of the path is a file, not a folder",
        ErrorKind::IsADirectory => "it is a folder; specify a file in it",
        ErrorKind::ReadOnlyFilesystem => {
            "the disk is read-only; mount it for writing, or choose another place"
        }
        ErrorKind::StorageFull => "the disk is full; free some space and try again",
        ErrorKind::QuotaExceeded => "the disk quota is used up; free some space and try again",
        ErrorKind::FileTooLarge => "the file would be too large for the disk or for its limit",
        ErrorKind::ConnectionRefused => "nothing listens there",
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            "the connection was closed"
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "the network has no route there"
        }
        ErrorKind::TimedOut => "it did not respond in time",
        _ => return None,
    };
    Some(words.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_words() {
        let full = io::Error::from_raw_os_error(28);
        let odd = io::Error::from_raw_os_error(9);
        let refused = io::Error::from_raw_os_error(111);
        for (message, words) in [
            (
                format!("cannot write a.csv: {full}"),
                "cannot write a.csv: the disk is full; free some space and try again",
            ),
            (
                format!("one ({refused}), {full}"),
                "one (nothing listens there), the disk is full; free some space and try again",
            ),
            // Without an explanation of our own, that of the system remains.
            (odd.to_string(), "Bad file descriptor"),
            (
                format!("cannot create a.csv: {odd} at path \"/a.csv.partial-1\"; retry"),
                "cannot create a.csv: Bad file descriptor; retry",
            ),
            ("nothing (os error)".into(), "nothing (os error)"),
        ] {
            assert_eq!(explain_os_errors(&message), words);
        }
    }
}
