//! The file of an import.

use std::{
    collections::HashMap,
    env,
    error::Error,
    fs::File,
    io::{self, BufReader, Read, Seek},
    os::fd::AsFd,
    path::Path,
};

use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

use super::super::{
    Interrupt, escape_path,
    pet_file::{Format, Layout, PetRecord, RecordError, Records, ResolvedPet, Table, TableOptions},
    status,
};
use domain::{
    category::CategoryNames,
    import::ImportId,
    pet::{Microchip, PetId},
};
use store::explain;

/// The maximum number of invalid lines that are reported one by one. Further ones are only
/// counted.
const MAX_REPORTED: u64 = 100;

/// A file to import. It is read several times.
pub struct Source {
    /// The name in messages.
    pub name: String,
    /// The same for every import of this content.
    pub id: ImportId,
    pub layout: Layout,
    file: File,
}

/// The content of a file.
#[derive(Default)]
pub struct FileSummary {
    pub valid: u64,
    pub invalid: u64,
    /// The number of categories that get a name.
    pub new_names: u64,
}

/// The content of the store that decides whether a record is valid.
pub struct Checks {
    pub names: CategoryNames,
    /// The animals that are not sold and have a microchip of the file.
    pub holders: HashMap<Microchip, PetId>,
    /// The number of records that an earlier command has imported.
    pub done: u64,
}

impl Source {
    /// Opens a file. Input that cannot be read twice, such as a pipe, is copied to a temporary
    /// file.
    pub fn open(
        path: &Path,
        format: Option<Format>,
        options: TableOptions,
    ) -> Result<Self, Box<dyn Error>> {
        let is_stdin = path.as_os_str() == "-";
        if is_stdin {
            // It may never end.
            Format::of(path, format)?;
        }
        let (name, opened) = if is_stdin {
            let stdin = io::stdin().as_fd().try_clone_to_owned();
            ("standard input".into(), stdin.map(File::from))
        } else {
            (escape_path(path), File::open(path))
        };
        let failed = |cause: io::Error| format!("cannot read {name}: {}", explain(path, &cause));
        let mut file = opened.map_err(failed)?;
        let kind = file.metadata().map_err(failed)?;
        if kind.is_dir() {
            return Err(
                format!("{name} is a folder; name a .csv, .xlsx or .jsonl file in it").into(),
            );
        }
        // A part of standard input that was read before does not belong to the import.
        if is_stdin || !kind.is_file() {
            file = spool(&name, file)?;
        }
        let refused = |reason| format!("cannot import {name}: {reason}");
        let format = Format::detect(&mut file, path, format).map_err(refused)?;
        let original = file.try_clone().map_err(failed)?;
        let (file, layout) = Layout::examine(file, format, options).map_err(refused)?;
        let sheet = layout.sheet().map(|(sheet, _)| sheet);
        let id = content_id(&original, format, sheet).map_err(failed)?;
        Ok(Self {
            name,
            id,
            layout,
            file,
        })
    }

    /// Returns the file, to be read from its start.
    fn rewind(&self) -> Result<File, String> {
        let rewound = (&self.file).rewind();
        let file = rewound.and_then(|()| self.file.try_clone());
        file.map_err(|cause| self.unreadable(&cause))
    }

    fn unreadable(&self, cause: &io::Error) -> String {
        format!("cannot read {}: {cause}", self.name)
    }

    /// Reads the file from its start.
    pub fn records(&self, bar: &ProgressBar) -> Result<Records, String> {
        let file = BufReader::with_capacity(1 << 16, bar.wrap_read(self.rewind()?));
        let records = self.layout.records(file);
        records.map_err(|error| format!("cannot import {}: {error}", self.name))
    }

    /// Reads the table from its start.
    pub fn table(&self) -> Result<Table, String> {
        self.layout.table(BufReader::new(self.rewind()?))
    }

    /// Returns the microchips in the file.
    pub fn microchips(&self, interrupt: &Interrupt) -> Result<Vec<Microchip>, Box<dyn Error>> {
        let bar = interrupt.progress_bar("bytes read");
        bar.set_length(self.file.metadata()?.len());
        let pets = self.records(&bar)?.filter_map(|(_, record)| record.ok());
        let microchips = pets.filter_map(|record| record.pet.microchip).collect();
        bar.finish_and_clear();
        Ok(microchips)
    }

    /// Reads the file from its start. Yields each record with the number of its first line.
    pub fn checked_records<'a>(
        &self,
        checks: &'a Checks,
        bar: &ProgressBar,
    ) -> Result<impl Iterator<Item = (u64, Result<ResolvedPet, RecordError>)> + use<'a>, String>
    {
        let mut names = checks.names.clone();
        let unit = self.layout.unit();
        // The line of each microchip that no other animal may have.
        let mut lines = HashMap::new();
        let mut check = move |number, line, record: PetRecord| {
            if let Some(microchip) = record.pet.claimed_microchip() {
                if let Some(first) = lines.get(microchip) {
                    return Err(format!("microchip: {unit} {first} has the same number"));
                }
                // The animals that were imported have their microchips themselves.
                let is_new = number >= checks.done;
                if let Some(holder) = checks.holders.get(microchip).filter(|_| is_new) {
                    let holder = holder.get();
                    return Err(format!("microchip: animal {holder} has this number"));
                }
            }
            let resolved = record.resolve(&mut names)?;
            let microchip = resolved.0.claimed_microchip().cloned();
            lines.extend(microchip.map(|microchip| (microchip, line)));
            Ok(resolved)
        };
        let records = (0..).zip(self.records(bar)?);
        Ok(records.map(move |(number, (line, record))| {
            let checked =
                record.and_then(|record| check(number, line, record).map_err(RecordError::Invalid));
            (line, checked)
        }))
    }

    /// Reads the whole file, and reports its invalid lines.
    pub fn check(
        &self,
        checks: &Checks,
        interrupt: &Interrupt,
    ) -> Result<FileSummary, Box<dyn Error>> {
        let bar = interrupt.progress_bar("bytes checked");
        bar.set_length(self.file.metadata()?.len());
        let mut summary = FileSummary::default();
        let unit = self.layout.unit();
        for (line, record) in self.checked_records(checks, &bar)? {
            match record {
                Ok((_, category)) => {
                    summary.valid += 1;
                    summary.new_names += u64::from(category.is_some());
                }
                Err(RecordError::Invalid(reason)) => {
                    summary.invalid += 1;
                    if summary.invalid <= MAX_REPORTED {
                        bar.suspend(|| status!("{}, {unit} {line}: {reason}", self.name));
                    }
                }
                Err(RecordError::Fatal(reason)) => {
                    let name = &self.name;
                    let reason = format!("{name}, {unit} {line}: {reason}; nothing was imported");
                    return Err(reason.into());
                }
            }
        }
        bar.finish_and_clear();
        if summary.invalid > MAX_REPORTED {
            status!("… and {} more", summary.invalid - MAX_REPORTED);
        }
        Ok(summary)
    }
}

/// Returns an id that is the same for every import of this content, which is one sheet of a
/// workbook.
fn content_id(mut file: &File, format: Format, sheet: Option<&str>) -> io::Result<ImportId> {
    let mut hash = Sha256::new();
    hash.update([format as u8]);
    file.rewind()?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => hash.update(&buffer[..length]),
        }
    }
    hash.update(sheet.unwrap_or_default());
    Ok(ImportId(hash.finalize().into()))
}

/// Copies a stream to a temporary file without a name, which vanishes with the process.
fn spool(name: &str, mut from: File) -> Result<File, String> {
    let failed = |cause| {
        format!(
            "cannot copy {name} to a temporary file in {}: {cause}; to use another folder, set \
             TMPDIR",
            env::temp_dir().display()
        )
    };
    let mut file = tempfile::tempfile().map_err(failed)?;
    io::copy(&mut from, &mut file).map_err(failed)?;
    Ok(file)
}
