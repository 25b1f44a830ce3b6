//! A warning about files that every user of the machine can read.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// Warns if everyone can read a file that holds secrets. Group access may be intended, so it
/// is not reported. The permissions are not changed.
pub fn warn_if_public(file: &Path) {
    let mode = fs::metadata(file).map_or(0, |file| file.permissions().mode() & 0o777);
    if mode & 0o004 != 0 {
        let file = file.display();
        let mode = format!("{mode:03o}");
        tracing::warn!(%file, mode, "file is readable by all users");
    }
}
