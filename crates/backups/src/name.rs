//! The name of a backup. It has everything that a list of backups shows, and a checksum, so that
//! neither a folder nor a bucket needs an index beside its files.

use std::{fmt, str::FromStr};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use sha2::{Digest, Sha256};

const PREFIX: &str = "petstore-";
const SUFFIX: &str = ".db";
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// The name of a backup, such as
/// `petstore-20261119T101112Z-1234-5eb63bbbe01eeed0-b94d27b9934d3e08.db`: the time (UTC), the
/// number of animals, the store, and the checksum of the content. Names sort by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupName {
    /// The time at which the copy was started.
    pub time: Timestamp,
    pub pets: u64,
    pub store: StoreId,
    checksum: Checksum,
}

/// The first eight bytes of a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Checksum([u8; 8]);

/// The identity of a store: a hash of the source of its events, which a restored store keeps.
/// Backups of several stores can share a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreId(Checksum);

impl StoreId {
    pub fn new(event_source: &str) -> Self {
        Self(Checksum::of(&Sha256::digest(event_source)))
    }
}

impl BackupName {
    /// Names a backup. `hash` has read its content.
    pub fn new(time: Timestamp, pets: u64, store: StoreId, hash: Sha256) -> Self {
        let second = Timestamp::from_second(time.as_second());
        Self {
            time: second.unwrap_or(time),
            pets,
            store,
            checksum: Checksum::of(&hash.finalize()),
        }
    }

    /// Returns true if the content that `hash` has read is that of this backup.
    pub fn matches(&self, hash: Sha256) -> bool {
        self.checksum == Checksum::of(&hash.finalize())
    }
}

impl Checksum {
    fn of(digest: &[u8]) -> Self {
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Self(first)
    }

    fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let number = u64::from_str_radix(text, 16).ok()?;
        (text.len() == 16 && text.bytes().all(is_hex)).then(|| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BackupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            pets,
            store,
            checksum,
        } = self;
        let time = time.strftime(TIME);
        write!(f, "{PREFIX}{time}-{pets}-{store}-{checksum}{SUFFIX}")
    }
}

/// The name is not one of a backup.
#[derive(Debug, PartialEq, Eq)]
pub struct ForeignName;

impl FromStr for BackupName {
    type Err = ForeignName;

    fn from_str(text: &str) -> Result<Self, ForeignName> {
        let parse = || {
            let parts = text.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
            let mut parts = parts.split('-');
            let time = DateTime::strptime(TIME, parts.next()?).ok()?;
            let name = Self {
                time: time.to_zoned(TimeZone::UTC).ok()?.timestamp(),
                pets: parts.next()?.parse().ok()?,
                store: StoreId(Checksum::parse(parts.next()?)?),
                checksum: Checksum::parse(parts.next()?)?,
            };
            // There is one way to write a name, and nothing follows.
            (name.to_string() == text).then_some(name)
        };
        parse().ok_or(ForeignName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "petstore-20261119T101112Z-1234-5eb63bbbe01eeed0-b94d27b9934d3e08.db";

    fn hash(content: &str) -> Sha256 {
        Sha256::new_with_prefix(content)
    }

    #[test]
    fn a_name_says_what_a_backup_has() {
        let name: BackupName = NAME.parse().unwrap();
        assert_eq!(name.time, "2026-11-19T10:11:12Z".parse().unwrap());
        assert_eq!(name.pets, 1234);
        assert_eq!(name.to_string(), NAME);
        assert!(name.matches(hash("hello world")));
        assert!(!name.matches(hash("hello worle")));
        let time = name.time + jiff::SignedDuration::from_millis(500);
        let made = BackupName::new(time, 1234, name.store, hash("hello world"));
        assert_eq!(made, name);
    }

    #[test]
    fn other_files_are_foreign() {
        for (from, to) in [
            ("petstore-", "petstore_"),
            (".db", ".db-wal"),
            (".db", ".db.petstore.partial-abc123"),
            ("20261119", "20261319"),
            ("101112Z", "101112"),
            ("-1234-", "-01234-"),
            ("-1234-", "-+1234-"),
            ("-1234-", "--1234-"),
            ("b94d27", "B94D27"),
            ("b94d27", "94d27"),
            ("3e08", "3e08-1"),
            (".db", ".DB"),
        ] {
            let name = NAME.replace(from, to);
            assert_eq!(name.parse::<BackupName>(), Err(ForeignName), "{name}");
        }
    }
}
