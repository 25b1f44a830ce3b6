//! The part of an import that a batch makes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    idempotency::RecordedRejection,
    invalid::{Invalid, quoted},
    json::{KnownMember, Object, Value},
    members::{Integer, Members, Scalar, all_valid, string},
};

/// Identifies an import by the content of its file: the SHA-256 of the file, followed by the name
/// of the sheet if it is a workbook. Random for animals that are not from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImportId(pub [u8; 32]);

impl ImportId {
    /// Parses 64 hexadecimal digits. Returns the reason if the text is something else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            let got = quoted(text);
            format!("must be a SHA-256 as 64 hexadecimal digits in lower case, got {got}")
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 64 || !text.bytes().all(is_digit) {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for ImportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Scalar for ImportId {
    fn from_json(value: Value) -> Result<Self, String> {
        Self::parse(&string(value)?)
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(cell)
    }

    fn to_cell(&self) -> String {
        self.to_string()
    }
}

/// The maximum number of changes of an import.
const MAX_ROWS: i64 = 1_000_000_000;

/// The part of an import over the API that a batch makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportPart {
    pub file: ImportId,
    /// The position of the first change of the batch among all of the import.
    pub row: Integer<0, MAX_ROWS>,
    /// The number of changes of the import.
    pub rows: Integer<1, MAX_ROWS>,
}

impl ImportPart {
    /// The member of a batch that has it.
    pub(super) const MEMBER: KnownMember = KnownMember {
        name: "import",
        members: &["file", "row", "rows"],
    };

    pub(super) fn from_json(value: Value) -> Result<Self, Vec<Invalid>> {
        let object = value.as_object().ok_or_else(|| {
            let got = value.describe();
            Invalid::new("", format!("must be an object, got {got}"))
        })?;
        Self::from_object(&object)
    }

    /// Checks that the changes of the batch are among those of the import.
    pub(super) fn ensure_contains(&self, changes: usize) -> Result<(), Invalid> {
        let row = self.row.get();
        let rows = self.rows.get();
        if row + changes as i64 <= rows {
            return Ok(());
        }
        let reason = format!(
            "must be at least {}, the number of changes before the batch ({row}) and in it \
             ({changes}), got {rows}",
            row + changes as i64
        );
        Err(Invalid::new("import.rows", reason))
    }

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        all_valid! { Self;
            file: object.required("file"),
            row: object.required("row"),
            rows: object.required("rows"),
        }
    }
}

/// A part of an import was not written, because the import is not where the part begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum StoppedImport {
    /// Another run continues, has finished or has replaced it, or it is not known anymore.
    #[error(
        "another command is importing the same file, so this one has stopped; no animal is \
         imported twice; if no other command is running, run this one again"
    )]
    Replaced,
    #[error("the import was undone while it was running, so it has stopped")]
    Undone,
    /// The number or the name of a category that the import names was taken since.
    #[error(
        "category {0} is not what it was when the file was checked, so the import has stopped; run \
         the command again"
    )]
    CategoryTaken(i64),
}

impl RecordedRejection for StoppedImport {}
