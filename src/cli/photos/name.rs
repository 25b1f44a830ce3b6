//! The names of files with photos: the number of an animal, and a position among its photos.

use std::ffi::OsStr;

/// The name of a file such as `17.jpg`, `17-2.jpg` or `756097200000001.png`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhotoName {
    /// The digits of an id or of a microchip.
    pub digits: String,
    /// Files without a position come first.
    pub position: Option<u32>,
}

const EXTENSIONS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// The number of digits of the longest id.
const MAX_DIGITS: usize = 16;

impl PhotoName {
    /// Parses the name of a file. Returns the reason if it cannot be that of a photo.
    pub fn parse(name: &OsStr) -> Result<Self, &'static str> {
        let name = name.to_string_lossy();
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        let extension = extension.to_ascii_lowercase();
        if !EXTENSIONS.contains(&extension.as_str()) {
            return Err("is not a .jpg, .jpeg, .png or .webp file");
        }
        Self::of_stem(stem).ok_or(
            "is not named by the id or the microchip of an animal, such as 17.jpg or 17-2.jpg",
        )
    }

    fn of_stem(stem: &str) -> Option<Self> {
        let (digits, position) = match stem.split_once('-') {
            Some((digits, position)) => (digits, Some(position)),
            None => (stem, None),
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let position = match position {
            Some(text) if is_number(text) => Some(text.parse().ok()?),
            Some(_) => return None,
            None => None,
        };
        let is_valid = is_number(digits) && digits.len() <= MAX_DIGITS;
        is_valid.then(|| Self {
            digits: digits.into(),
            position,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Option<(String, Option<u32>)> {
        let name = PhotoName::parse(name.as_ref()).ok()?;
        Some((name.digits, name.position))
    }

    #[test]
    fn a_name_has_a_number_and_a_position() {
        for (name, digits, position) in [
            ("17.jpg", "17", None),
            ("17-2.JPEG", "17", Some(2)),
            ("017-02.png", "017", Some(2)),
            ("756097200000001-12.webp", "756097200000001", Some(12)),
        ] {
            assert_eq!(parse(name), Some((digits.into(), position)), "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "Rex.jpg",
            "17",
            "17.gif",
            "17.jpg.txt",
            ".jpg",
            "-1.jpg",
            "17-.jpg",
            "17-a.jpg",
            "17-1-2.jpg",
            "+17.jpg",
            "17-+2.jpg",
            "17-99999999999.jpg",
            "12345678901234567.jpg",
            "１７.jpg",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
