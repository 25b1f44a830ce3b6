//! The file of an import.

use std::{
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
    pet_file::{Format, Layout, Records, Table, TableOptions},
};
use domain::{import::ImportId, pet::Microchip};
use store::explain;

/// A file to import. It is read several times.
pub struct Source {
    /// The name in messages.
    pub name: String,
    /// The same for every import of this content.
    pub id: ImportId,
    pub layout: Layout,
    file: File,
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
        let bar = self.progress_bar("bytes read", interrupt)?;
        let pets = self.records(&bar)?.filter_map(|(_, record)| record.ok());
        let microchips = pets.filter_map(|record| record.pet.microchip).collect();
        bar.finish_and_clear();
        Ok(microchips)
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
