//! Files of animals: tables as spreadsheets write them, and JSON Lines.

mod columns;
mod csv;
mod dates;
mod encoding;
mod jsonl;
mod kind;
mod options;
mod prices;
mod record;
mod record_splitter;
mod rules;
mod table;
mod xlsx;

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    rc::Rc,
};

use clap::ValueEnum;

use dates::{DateOrder, DateRules};
use domain::price::Currency;
use encoding::Encoding;
use kind::Kind;
use prices::{PriceColumn, PriceRules};
use rules::Rules;
use table::Origin;
use xlsx::Sheet;

pub use columns::list;
pub use options::TableOptions;
#[cfg(test)]
pub use record::CategoryReference;
pub use record::{PetRecord, RecordError, Records, ResolvedPet};
pub use table::Table;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// CSV: a table with a header, such as name, categoryId or category, status and others.
    Csv,
    /// JSON Lines: one JSON object per line, as in the API.
    Jsonl,
    /// Workbook: a table in one of its sheets, as in CSV.
    Xlsx,
}

impl ImportFormat {
    /// Returns the chosen format, or else that of the file's extension.
    pub fn of(path: &Path, chosen: Option<Self>) -> Result<Self, String> {
        let format = chosen.or_else(|| Self::from_extension(path));
        format.ok_or_else(|| {
            let unknown = if path.as_os_str() == "-" {
                "the format of standard input is not known; add"
            } else {
                "its name does not end with .csv, .xlsx or .jsonl; rename it, or add"
            };
            format!("{unknown} --format csv, --format xlsx or --format jsonl")
        })
    }

    /// Returns the chosen format, or else that of the content and the file's extension. Refuses a
    /// file that has no animals, such as a picture.
    pub fn detect(file: &mut File, path: &Path, chosen: Option<Self>) -> Result<Self, String> {
        let by_name = Self::of(path, chosen);
        match (Kind::of(file).map_err(unreadable)?, &by_name) {
            (Kind::Other(kind, advice), _) => Err(format!("the file is {kind}; {advice}")),
            (Kind::Workbook, _) if chosen.is_none() => Ok(Self::Xlsx),
            (Kind::Text, Ok(Self::Xlsx)) if chosen.is_none() => Ok(Self::Csv),
            (Kind::Workbook, Ok(Self::Csv | Self::Jsonl)) => {
                Err("the file is a workbook (.xlsx); add --format xlsx".into())
            }
            (Kind::Text, Ok(Self::Xlsx)) => {
                Err("the file is not a workbook (.xlsx) but text; add --format csv".into())
            }
            (Kind::Workbook | Kind::Text, _) => by_name,
        }
    }

    fn from_extension(path: &Path) -> Option<Self> {
        let extension = path.extension().and_then(OsStr::to_str)?;
        match &*extension.to_ascii_lowercase() {
            "csv" | "tsv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "xlsx" | "xlsm" => Some(Self::Xlsx),
            _ => None,
        }
    }
}

/// The layout of a file, which is the same each time that it is read.
pub struct Layout {
    content: Content,
    options: Rc<TableOptions>,
    rules: Rules,
}

enum Content {
    Csv(Encoding),
    Jsonl,
    Sheet(Sheet),
}

impl Layout {
    /// Examines a file. Returns the file to read from then on: that of a workbook is a copy.
    pub fn examine(
        mut file: File,
        format: ImportFormat,
        options: TableOptions,
    ) -> Result<(File, Self), String> {
        let options = Rc::new(options);
        let content = match format {
            ImportFormat::Xlsx => {
                let (copy, sheet) = xlsx::spool(&file, &options)?;
                return Ok((copy, Self::new(Content::Sheet(sheet), options)));
            }
            ImportFormat::Csv if options.sheet.is_some() => {
                return Err("only workbooks have sheets; leave --sheet out".into());
            }
            ImportFormat::Csv => Content::Csv(Encoding::detect(&mut file).map_err(unreadable)?),
            ImportFormat::Jsonl => {
                if let Some(option) = options.given() {
                    return Err(format!(
                        "{option} is for tables; leave it out for JSON Lines"
                    ));
                }
                Content::Jsonl
            }
        };
        Ok((file, Self::new(content, options)))
    }

    fn new(content: Content, options: Rc<TableOptions>) -> Self {
        let prices = PriceRules {
            currency: options.currency,
            decimal_mark: None,
            is_sheet: matches!(content, Content::Sheet(_)),
        };
        let dates = DateRules::new(options.date_order);
        Self {
            content,
            options,
            rules: Rules { prices, dates },
        }
    }

    /// Examines the prices and dates of a table, which are then read as the whole column is
    /// written. `currency` is that of the shop.
    pub fn examine_columns(
        &mut self,
        file: impl BufRead + 'static,
        currency: Option<Currency>,
    ) -> Result<PriceColumn, String> {
        if !self.is_table() {
            return Ok(PriceColumn::default());
        }
        let table = self.table(file)?;
        if !table.columns.has("currency") {
            let prices = &mut self.rules.prices;
            prices.currency = prices.currency.or(currency);
        }
        let found = table.examine(&mut self.rules.dates);
        self.rules.prices.decimal_mark = found.decimal_mark;
        Ok(found)
    }

    /// Returns the currency of prices that have none.
    pub fn currency(&self) -> Option<Currency> {
        self.rules.prices.currency
    }

    /// Returns the columns with dates such as 5/6/2020, each with the first of them and the order
    /// in which they are read.
    pub fn ordered_dates(&self) -> impl Iterator<Item = (&'static str, &str, DateOrder)> {
        self.rules.dates.ordered()
    }

    /// Reads a file lazily. Yields each record with the number of its first line.
    pub fn records(&self, mut file: impl BufRead + 'static) -> Result<Records, String> {
        match &self.content {
            Content::Jsonl => {
                refuse_other_text(ImportFormat::Jsonl, &mut file)?;
                jsonl::read_jsonl(file)
            }
            _ => Ok(self.table(file)?.into_records()),
        }
    }

    /// Reads the header of a table.
    pub fn table(&self, file: impl BufRead + 'static) -> Result<Table, String> {
        match &self.content {
            Content::Csv(encoding) => {
                let mut file = BufReader::new(encoding.decode(file));
                refuse_other_text(ImportFormat::Csv, &mut file)?;
                let rows = csv::read_csv(file)?;
                Table::new(rows, Origin::Csv, &self.options, &self.rules)
            }
            Content::Sheet(sheet) => {
                let rows = xlsx::read_spooled(file);
                Table::new(rows, sheet.origin(), &self.options, &self.rules)
            }
            Content::Jsonl => Err("the file is not a table".into()),
        }
    }

    pub fn is_table(&self) -> bool {
        !matches!(self.content, Content::Jsonl)
    }

    /// Returns the sheet that is read, and the names of the others.
    pub fn sheet(&self) -> Option<(&str, &[String])> {
        match &self.content {
            Content::Sheet(sheet) => Some((&sheet.name, &sheet.others)),
            Content::Csv(_) | Content::Jsonl => None,
        }
    }

    /// Returns true if the file has an encoding that had to be guessed.
    pub fn is_windows_1252(&self) -> bool {
        matches!(self.content, Content::Csv(Encoding::Windows1252))
    }

    /// Returns the word for a line in messages.
    pub fn unit(&self) -> &'static str {
        match &self.content {
            Content::Sheet(sheet) => sheet.origin().unit(),
            Content::Csv(_) | Content::Jsonl => Origin::Csv.unit(),
        }
    }
}

/// Refuses text that is evidently not in the format, with advice.
fn refuse_other_text(format: ImportFormat, file: &mut impl BufRead) -> Result<(), String> {
    let start = file.fill_buf().map_err(unreadable)?;
    other_text(format, start).map_or(Ok(()), |reason| Err(reason.into()))
}

fn unreadable(cause: io::Error) -> String {
    format!("cannot be read: {cause}")
}

/// Describes text that is evidently not in the format, with advice.
fn other_text(format: ImportFormat, start: &[u8]) -> Option<&'static str> {
    let without_mark = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = without_mark.trim_ascii_start();
    let line = String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next()?);
    let is_name = |cell: &str| {
        let cell = cell.trim_matches(['"', ' ', '\r']);
        cell.eq_ignore_ascii_case("name")
    };
    let is_header = line.split([',', ';', '\t']).any(is_name);
    let is_utf16 = matches!(start, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
        || encoding::unmarked_utf16(start).is_some();
    match (start, text, format) {
        _ if is_utf16 => Some("the file is encoded in UTF-16; save it in UTF-8"),
        (_, [b'[', ..], _) => Some(
            "the file is a JSON array; JSON Lines has an object on each line, without brackets \
             around them or commas between them; convert it with: jq -c '.[]'",
        ),
        (_, [b'{', ..], ImportFormat::Csv) => {
            Some("the file is not CSV but JSON; add --format jsonl")
        }
        (_, _, ImportFormat::Jsonl) if is_header => {
            Some("the file is not JSON Lines but CSV; add --format csv")
        }
        _ => None,
    }
}
