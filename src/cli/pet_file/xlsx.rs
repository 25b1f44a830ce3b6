//! Workbooks (.xlsx).

use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write},
    iter, mem,
    ops::ControlFlow,
    rc::Rc,
};

use calamine::{
    DataRef, ExcelDateTime, Reader, Sheet as SheetMetadata, SheetType, SheetVisible, Xlsx,
    XlsxError,
};
use csv::StringRecord;
use zip::ZipArchive;

use super::{
    columns::{is_blank, list},
    options::TableOptions,
    record::{MAX_RECORD_BYTES, RecordError},
    rules::Rules,
    table::{Origin, Rows, SEARCHED_ROWS, Table},
};
use domain::invalid::quoted;

/// The maximum size of a file.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The maximum unpacked size of a file: some files unpack to far more than they need.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;
/// The maximum size of the rows of a sheet as text.
const MAX_SHEET_BYTES: usize = 1 << 30;
/// The size of the largest sheet.
const MAX_ROWS: u32 = 1_048_576;
const MAX_COLUMNS: u32 = 16_384;

/// The sheet of a workbook that is read.
pub struct Sheet {
    pub name: String,
    /// The names of the others.
    pub others: Vec<String>,
    /// The first and the last row of each merged cell that extends over several.
    merged: MergedRows,
}

impl Sheet {
    pub fn origin(&self) -> Origin<'_> {
        Origin::Sheet {
            merged: &self.merged,
        }
    }
}

/// The first and the last row of merged cells.
type MergedRows = Vec<(u64, u64)>;

type Workbook = Xlsx<BufReader<File>>;

/// Copies the rows of a sheet to a temporary file, from which they can be read several times, in
/// bounded memory.
pub fn spool(file: &File, options: &Rc<TableOptions>) -> Result<(File, Sheet), String> {
    check_size(file, MAX_UNPACKED_BYTES)?;
    let file = rewound(file).map_err(|cause| format!("cannot be read: {cause}"))?;
    let mut workbook = Workbook::new(BufReader::new(file)).map_err(damaged)?;
    let (name, merged) = choose(&mut workbook, options)?;
    let others = workbook.sheet_names().into_iter();
    let sheet = Sheet {
        others: others.filter(|other| *other != name).collect(),
        name,
        merged,
    };
    Ok((copy_rows(&mut workbook, &sheet.name)?, sheet))
}

/// Reads the rows of a temporary file of [`spool`] lazily.
pub fn read_spooled(file: impl BufRead + 'static) -> Rows {
    let mut lines = file.lines();
    Box::new(iter::from_fn(move || {
        let line = lines.next()?.and_then(|line| {
            let row: (u64, Vec<Cow<str>>) = serde_json::from_str(&line)?;
            Ok((row.0, row.1.iter().map(|cell| &**cell).collect()))
        });
        Some(match line {
            Ok((number, row)) => (number, Ok(row)),
            Err(cause) => {
                let reason = format!("the temporary file cannot be read: {cause}");
                (0, Err(RecordError::Fatal(reason)))
            }
        })
    }))
}

fn damaged(error: XlsxError) -> String {
    format!(
        "the workbook is damaged ({error}); open it in a spreadsheet program, and save it again"
    )
}

fn rewound(file: &File) -> io::Result<File> {
    let mut file = file.try_clone()?;
    file.rewind()?;
    Ok(file)
}

/// Checks the size of a file, and what it unpacks to, without trusting what it says about that.
fn check_size(file: &File, max_unpacked: u64) -> Result<(), String> {
    let unreadable = |cause: io::Error| format!("cannot be read: {cause}");
    let size = file.metadata().map_err(unreadable)?.len();
    let advice = "save the table as CSV, which may be of any size";
    if size > MAX_FILE_BYTES {
        return Err(format!(
            "the workbook is larger than {} MiB; {advice}",
            MAX_FILE_BYTES >> 20
        ));
    }
    let file = rewound(file).map_err(unreadable)?;
    let mut archive =
        ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(error.into()))?;
    let mut rest = max_unpacked;
    for index in 0..archive.len() {
        let part = archive
            .by_index(index)
            .map_err(|error| damaged(error.into()))?;
        let unpacked = io::copy(&mut part.take(rest + 1), &mut io::sink())
            .map_err(|cause| damaged(cause.into()))?;
        rest = rest.checked_sub(unpacked).ok_or_else(|| {
            let limit = max_unpacked >> 20;
            format!("the workbook unpacks to more than {limit} MiB; {advice}")
        })?;
    }
    Ok(())
}

/// Returns the name of the sheet to read: the chosen one, or else the first one that has a header.
fn choose(
    workbook: &mut Workbook,
    options: &Rc<TableOptions>,
) -> Result<(String, MergedRows), String> {
    let is_sheet = |sheet: &&SheetMetadata| sheet.typ == SheetType::WorkSheet;
    let sheets: Vec<_> = workbook
        .sheets_metadata()
        .iter()
        .filter(is_sheet)
        .cloned()
        .collect();
    if let Some(chosen) = &options.sheet {
        let found = sheets
            .iter()
            .find(|sheet| sheet.name.trim() == chosen.trim())
            .ok_or_else(|| {
                let chosen = quoted(chosen);
                let names = list(sheets.iter().map(|sheet| &*sheet.name));
                format!("the workbook has no sheet {chosen}; its sheets are {names}")
            })?;
        let merged = merged_rows(workbook, &found.name)?;
        return Ok((found.name.clone(), merged));
    }
    let visible = sheets
        .iter()
        .filter(|sheet| sheet.visible == SheetVisible::Visible);
    let mut failure = None;
    for sheet in visible {
        let mut rows = Vec::new();
        each_row(workbook, &sheet.name, |line, row| {
            rows.push((line, Ok(row)));
            Ok(if rows.len() < SEARCHED_ROWS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        if rows.is_empty() {
            continue;
        }
        let merged = merged_rows(workbook, &sheet.name)?;
        let origin = Origin::Sheet { merged: &merged };
        let rules = Rules::default();
        match Table::new(Box::new(rows.into_iter()), origin, options, &rules) {
            Ok(_) => return Ok((sheet.name.clone(), merged)),
            Err(reason) => failure = failure.or(Some((&sheet.name, reason))),
        }
    }
    let (name, reason) = failure.ok_or("the workbook has no table: all of its sheets are empty")?;
    Err(format!(
        "no sheet has a table; in {}: {reason}",
        quoted(name)
    ))
}

/// Returns the rows of merged cells that extend over several rows.
fn merged_rows(workbook: &mut Workbook, sheet: &str) -> Result<MergedRows, String> {
    let merged = workbook.merge_cells_by_sheet_name(sheet).map_err(damaged)?;
    let rows = merged
        .into_iter()
        .map(|cells| (cells.start.0, cells.end.0))
        .filter(|(first, last)| first < last);
    let numbers = rows.map(|(first, last)| (u64::from(first) + 1, u64::from(last) + 1));
    Ok(numbers.collect())
}

/// Copies the rows of a sheet to a temporary file, each as a line of JSON.
fn copy_rows(workbook: &mut Workbook, name: &str) -> Result<File, String> {
    let unwritable = |cause: io::Error| {
        format!("cannot be copied to a temporary file: {cause}; to use another folder, set TMPDIR")
    };
    let mut copy = BufWriter::new(tempfile::tempfile().map_err(unwritable)?);
    let mut size = 0;
    each_row(workbook, name, |number, row| {
        let cells: Vec<_> = row.iter().collect();
        let mut line = serde_json::to_string(&(number, cells)).expect("text");
        line.push('\n');
        size += line.len();
        if size > MAX_SHEET_BYTES {
            let limit = MAX_SHEET_BYTES >> 20;
            return Err(format!("the sheet has more than {limit} MiB of cells"));
        }
        copy.write_all(line.as_bytes()).map_err(unwritable)?;
        Ok(ControlFlow::Continue(()))
    })?;
    copy.into_inner()
        .map_err(|error| unwritable(error.into_error()))
}

/// Calls `each` with every row of a sheet that is not blank, and its number.
fn each_row(
    workbook: &mut Workbook,
    name: &str,
    mut each: impl FnMut(u64, StringRecord) -> Result<ControlFlow<()>, String>,
) -> Result<(), String> {
    let mut cells = workbook.worksheet_cells_reader(name).map_err(damaged)?;
    let mut number = 0;
    let mut row = StringRecord::new();
    loop {
        let cell = cells.next_cell().map_err(damaged)?;
        let position = cell.as_ref().map(|cell| cell.get_position());
        let is_same_row = position.is_some_and(|(at, _)| at == number);
        if !is_same_row && !row.iter().all(is_blank) {
            let row = mem::take(&mut row);
            if each(u64::from(number) + 1, row)?.is_break() {
                return Ok(());
            }
        }
        let (Some(cell), Some((at, column))) = (cell, position) else {
            return Ok(());
        };
        if !is_same_row {
            row.clear();
        }
        if at < number || at >= MAX_ROWS || column >= MAX_COLUMNS || row.len() > column as usize {
            return Err(format!(
                "the workbook is damaged: its cells are not in order in row {}",
                at + 1
            ));
        }
        number = at;
        while row.len() < column as usize {
            row.push_field("");
        }
        row.push_field(&text_of(cell.get_value()));
        if row.as_slice().len() > MAX_RECORD_BYTES {
            let number = number + 1;
            return Err(format!(
                "row {number} is longer than {MAX_RECORD_BYTES} bytes"
            ));
        }
    }
}

/// Returns the text of a cell, as far as possible as the spreadsheet shows it.
fn text_of<'a>(cell: &'a DataRef) -> Cow<'a, str> {
    match cell {
        DataRef::Empty => "".into(),
        DataRef::String(text) | DataRef::DurationIso(text) => text.into(),
        DataRef::SharedString(text) => (*text).into(),
        DataRef::Int(number) => number.to_string().into(),
        DataRef::Float(number) => number_text(*number).into(),
        DataRef::Bool(true) => "TRUE".into(),
        DataRef::Bool(false) => "FALSE".into(),
        DataRef::DateTime(time) => date_text(time).into(),
        DataRef::DateTimeIso(text) => text.split('T').next().unwrap_or(text).into(),
        DataRef::Error(error) => error.to_string().into(),
    }
}

/// Writes a number with 15 significant digits, of which spreadsheets show no more. The others are
/// rounding errors of formulas.
fn number_text(number: f64) -> String {
    let rounded: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    rounded.to_string()
}

fn date_text(time: &ExcelDateTime) -> String {
    let (year, month, day, hours, minutes, seconds, _) = time.to_ymd_hms_milli();
    if time.is_duration() || (0.0..1.0).contains(&time.as_f64()) {
        format!("{hours:02}:{minutes:02}:{seconds:02}")
    } else {
        format!("{year:04}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_unpacks_to_too_much_is_refused() {
        let mut file = tempfile::tempfile().unwrap();
        let mut archive = zip::ZipWriter::new(&mut file);
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file("xl/workbook.xml", options).unwrap();
        archive.write_all(&vec![b' '; 3 << 20]).unwrap();
        archive.finish().unwrap();
        assert!(file.metadata().unwrap().len() < 10_000);
        let refused = check_size(&file, 2 << 20).unwrap_err();
        assert!(refused.starts_with("the workbook unpacks to more than 2 MiB; save"));
        check_size(&file, 3 << 20).unwrap();
    }

    #[test]
    fn numbers_have_fifteen_digits() {
        for (number, text) in [
            (7.0, "7"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.3"),
            (19.990000000000002, "19.99"),
            (276_098_200_000_123.0, "276098200000123"),
            (1e20, "100000000000000000000"),
            (0.0, "0"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }
}
