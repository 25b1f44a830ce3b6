//! `petstore import`: adds the animals of a file, all or nothing.

use std::{fs::File, io::BufReader, path::PathBuf};

use clap::Args;

use super::{
    CommandResult, Database, block_on, counted,
    pet_file::{self, Format, PetRecord, RecordError},
    progress_bar, status,
};
use crate::{category::CategoryNames, store::import};

/// Invalid lines reported one by one; further ones are only counted.
const MAX_REPORTED: u64 = 100;

#[derive(Args)]
pub struct Import {
    /// File to import, .csv or .jsonl.
    ///
    /// CSV starts with a header line that names the columns: name, categoryId
    /// and, optionally, status. JSON Lines has one JSON object per line. A
    /// category can also be given by its name, as category instead of
    /// categoryId.
    file: PathBuf,
    /// Input format; by default, the file's extension decides.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<Format>,
    /// Skip invalid lines and import the rest.
    #[arg(long, env = "PETSTORE_SKIP_INVALID")]
    skip_invalid: bool,
    #[command(flatten)]
    database: Database,
}

impl Import {
    pub fn run(self) -> CommandResult {
        let path = self.file.display().to_string();
        let format = self.format.or_else(|| Format::from_extension(&self.file));
        let format = format.ok_or_else(|| {
            format!("{path} is neither .csv nor .jsonl; set the format with --format")
        })?;
        let failed = |cause| format!("cannot read {path}: {cause}");
        let file = File::open(&self.file).map_err(failed)?;
        let database = self.database.url()?;
        let bar = progress_bar("bytes");
        bar.set_length(file.metadata().map_err(failed)?.len());
        let file = BufReader::with_capacity(1 << 16, bar.wrap_read(file));
        let records = pet_file::read(format, file);
        let mut records = records.map_err(|error| format!("cannot import {path}: {error}"))?;
        status!("Importing {path} into {database}");

        let mut invalid = 0;
        let skip = self.skip_invalid;
        let mut next = |names: &CategoryNames| {
            loop {
                let record = records.next().map(|(line, record)| {
                    let resolve = |pet: PetRecord| pet.resolve(names).map_err(RecordError::Invalid);
                    (line, record.and_then(resolve))
                });
                match record {
                    Some((_, Ok(pet))) if invalid == 0 || skip => return Ok(Some(pet)),
                    // The import has failed; read on only to report all errors.
                    Some((_, Ok(_))) => {}
                    Some((line, Err(RecordError::Invalid(reason)))) => {
                        invalid += 1;
                        if invalid <= MAX_REPORTED {
                            bar.suspend(|| status!("{path}, line {line}: {reason}"));
                        }
                    }
                    Some((line, Err(RecordError::Fatal(reason)))) => {
                        return Err(format!(
                            "{path}, line {line}: {reason}; nothing was imported"
                        ));
                    }
                    None if invalid > 0 && !skip => return Err("nothing was imported".into()),
                    None => return Ok(None),
                }
            }
        };
        let imported = block_on(async { Ok(import(&database, &mut next).await) })?;
        bar.finish_and_clear();
        if invalid > MAX_REPORTED {
            status!("… and {} more", invalid - MAX_REPORTED);
        }
        let invalid = (invalid > 0).then(|| counted(invalid, "invalid line"));
        match (imported.map(|count| counted(count, "animal")), invalid) {
            (Ok(animals), Some(lines)) => status!("Imported {animals}, skipped {lines}."),
            (Ok(animals), None) => status!("Imported {animals}."),
            (Err(error), Some(lines)) => return Err(format!("{error}: {lines}").into()),
            (Err(error), None) => return Err(error.into()),
        }
        Ok(())
    }
}
