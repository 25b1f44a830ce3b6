//! The settings of the service that the Debian package installs, so that commands on the same
//! machine find its database by themselves.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use store::DatabaseUrl;

/// The file with the settings, unless the variable names another one.
pub const SETTINGS: &str = "/etc/petstore/petstore.env";
pub const SETTINGS_VARIABLE: &str = "PETSTORE_PACKAGED_SETTINGS";
/// The values that deploy/petstore.service sets.
const DIRECTORY: &str = "/var/lib/petstore";
const DATABASE: &str = "sqlite:/var/lib/petstore/petstore.db";

/// The settings of the packaged service.
pub struct PackagedSettings {
    pub file: PathBuf,
    text: String,
}

impl PackagedSettings {
    /// Reads the settings. Returns `None` if there is no packaged service, and an error if only
    /// root can read its settings.
    pub fn read(file: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(file) {
            Ok(text) => Ok(Some(Self {
                file: file.into(),
                text,
            })),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => Err(cause),
            Err(_) => Ok(None),
        }
    }

    pub fn value(&self, name: &str) -> Option<String> {
        value(&self.text, name)
    }

    /// Returns the path of a file, which the service looks for in its own directory.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(|file| Path::new(DIRECTORY).join(file))
    }

    pub fn database(&self) -> Result<DatabaseUrl, String> {
        let url = self.value("PETSTORE_DATABASE");
        match url.as_deref().unwrap_or(DATABASE).parse() {
            Ok(DatabaseUrl::Sqlite(file)) => {
                Ok(DatabaseUrl::Sqlite(Path::new(DIRECTORY).join(file)))
            }
            Ok(server) => Ok(server),
            Err(invalid) => {
                let file = self.file.display();
                Err(format!("PETSTORE_DATABASE in {file} {}", invalid.reason))
            }
        }
    }
}

/// Returns the value of a variable in a file that systemd reads as an `EnvironmentFile`. The last
/// assignment counts.
fn value(settings: &str, name: &str) -> Option<String> {
    let mut assignments = settings.lines().filter_map(|line| {
        let (left, right) = line.trim().split_once('=')?;
        (left.trim_end() == name).then(|| unquote(right.trim()))
    });
    assignments.next_back()
}

fn unquote(text: &str) -> String {
    let inside = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(text) = inside('\'') {
        return text.into();
    }
    let text = inside('"').unwrap_or(text);
    let mut unquoted = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        unquoted.extend(if c == '\\' {
            characters.next()
        } else {
            Some(c)
        });
    }
    unquoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_systemd_does() {
        let settings = "# A='no'\n; A=no\nA=first\nAB=other\n A = 'it''s'\nB=\"a \\\"b\\\\\"\n\
                        C=a\\ b\nD=\nE='a\\b'";
        let read = |name| value(settings, name);
        assert_eq!(read("A").as_deref(), Some("it''s"));
        assert_eq!(read("AB").as_deref(), Some("other"));
        assert_eq!(read("B").as_deref(), Some("a \"b\\"));
        assert_eq!(read("C").as_deref(), Some("a b"));
        assert_eq!(read("D").as_deref(), Some(""));
        assert_eq!(read("E").as_deref(), Some("a\\b"));
        assert_eq!(read("F"), None);
    }
}
