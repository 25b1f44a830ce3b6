//! The address of backups in a bucket.

use std::{fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::name::BackupName;

/// The characters that S3 encodes in a path: all but the unreserved ones, and the slash.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

/// The address of a bucket, and of a prefix in it: `s3://bucket/prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Url {
    bucket: String,
    /// Empty, or ends with a slash.
    prefix: String,
}

impl S3Url {
    pub const SCHEME: &str = "s3://";

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the encoded path of the bucket, or of a backup in it. The bucket is a part of the
    /// path, not of the host, so that any endpoint and any certificate fits.
    pub(super) fn path(&self, name: Option<&BackupName>) -> String {
        let Self { bucket, prefix } = self;
        let path = name.map_or_else(
            || format!("/{bucket}"),
            |name| format!("/{bucket}/{prefix}{name}"),
        );
        utf8_percent_encode(&path, PATH).to_string()
    }

    /// Divides the address of one backup into that of its folder, and its name.
    pub fn split_name(mut self) -> (Self, Option<BackupName>) {
        let path = self.prefix.trim_end_matches('/');
        let (folder, last) = path.rsplit_once('/').unwrap_or(("", path));
        let Ok(name) = last.parse() else {
            return (self, None);
        };
        self.prefix = with_slash(folder);
        (self, Some(name))
    }
}

fn with_slash(prefix: &str) -> String {
    if prefix.is_empty() {
        return String::new();
    }
    format!("{prefix}/")
}

impl fmt::Display for S3Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = format!("{}{}/{}", Self::SCHEME, self.bucket, self.prefix);
        f.write_str(address.trim_end_matches('/'))
    }
}

impl FromStr for S3Url {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parse = || {
            let rest = text.strip_prefix(Self::SCHEME)?;
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let is_name = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte)
            };
            let is_bucket = (3..=63).contains(&bucket.len()) && bucket.bytes().all(is_name);
            let prefix = prefix.trim_matches('/');
            // Such a segment would be resolved on the way.
            let is_odd = |segment: &str| matches!(segment, "." | "..");
            let is_prefix = prefix.len() <= 512
                && !prefix.chars().any(char::is_control)
                && !prefix.split('/').any(is_odd)
                && !prefix.contains("//");
            (is_bucket && is_prefix).then(|| Self {
                bucket: bucket.into(),
                prefix: with_slash(prefix),
            })
        };
        parse().ok_or("must be an address such as s3://bucket/prefix")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        for (text, shown, path) in [
            ("s3://pets", "s3://pets", "/pets/"),
            ("s3://pets/", "s3://pets", "/pets/"),
            ("s3://pets/a b/ü/", "s3://pets/a b/ü", "/pets/a%20b/%C3%BC/"),
        ] {
            let url: S3Url = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            let name = "petstore-20261119T101112Z-1-5eb63bbbe01eeed0-b94d27b9934d3e08.db";
            let name: BackupName = name.parse().unwrap();
            assert_eq!(url.path(Some(&name)), format!("{path}{name}"));
            assert_eq!(url.path(None), "/pets");
            assert_eq!(url.clone().split_name(), (url.clone(), None));
            let named: S3Url = format!("{shown}/{name}").parse().unwrap();
            assert_eq!(named.split_name(), (url, Some(name)));
        }
        for text in [
            "pets",
            "s3:/pets",
            "s3://",
            "s3://Pets",
            "s3://pets/../a",
            "s3://p/a//b",
        ] {
            assert!(text.parse::<S3Url>().is_err(), "{text}");
        }
    }
}
