//! The file of an import.

use std::{
    collections::HashSet,
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
    pet_file::{ImportFormat, Layout, Records, Table, TableOptions},
};
use domain::{import::ImportId, pet::Microchip, price::Currency};
use store::explain;

/// A file to import. It is read several times.
pub struct ImportFile {
    /// The name in messages.
    pub name: String,
    /// The same for every import of this content.
    pub id: ImportId,
    pub layout: Layout,
    /// The currency of prices that have none in a table, if there are any.
    pub currency: Option<Currency>,
    file: File,
}

impl ImportFile {
    /// Opens a file. Input that cannot be read twice, such as a pipe, is copied to a temporary
    /// file.
    pub fn open(
        path: &Path,
        format: Option<ImportFormat>,
        options: TableOptions,
    ) -> Result<Self, Box<dyn Error>> {
        let is_stdin = path.as_os_str() == "-";
        if is_stdin {
            // It may never end.
            ImportFormat::of(path, format)?;
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
        let format = ImportFormat::detect(&mut file, path, format).map_err(refused)?;
        let original = file.try_clone().map_err(failed)?;
        let (file, layout) = Layout::examine(file, format, options).map_err(refused)?;
        let sheet = layout.sheet().map(|(sheet, _)| sheet);
        let id = content_id(&original, sheet).map_err(failed)?;
        Ok(Self {
            name,
            id,
            layout,
            currency: None,
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

    /// Examines the prices and dates of a table, which are read as the whole column is written.
    /// `currency` is that of the shop.
    pub fn examine_columns(&mut self, currency: Option<Currency>) -> Result<(), String> {
        let file = BufReader::new(self.rewind()?);
        let found = self.layout.examine_columns(file, currency);
        let found = found.map_err(|reason| format!("cannot import {}: {reason}", self.name))?;
        self.currency = self.layout.currency().filter(|_| found.lacks_currency);
        Ok(())
    }

    /// Returns the microchips and the numbers of categories in the file.
    pub fn numbers(
        &self,
        interrupt: &Interrupt,
    ) -> Result<(Vec<Microchip>, HashSet<i64>), Box<dyn Error>> {
        let bar = self.progress_bar("bytes read", interrupt)?;
        let mut microchips = Vec::new();
        let mut categories = HashSet::new();
        for record in self.records(&bar)?.filter_map(|(_, record)| record.ok()) {
            categories.extend(record.category.number());
            microchips.extend(record.pet.microchip);
        }
        bar.finish_and_clear();
        Ok((microchips, categories))
    }

    /// Returns a progress bar for reading the file.
    pub fn progress_bar(
        &self,
        unit: &'static str,
        interrupt: &Interrupt,
    ) -> Result<ProgressBar, io::Error> {
        let bar = interrupt.progress_bar(unit);
        bar.set_length(self.file.metadata()?.len());
        Ok(bar)
    }
}

/// Returns an id that is the same for every import of this content, which is one sheet of a
/// workbook, also in the console and over the API.
fn content_id(mut file: &File, sheet: Option<&str>) -> io::Result<ImportId> {
    let mut hash = Sha256::new();
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
