//! `petstore import`: animals from a file, all of them or none.

use std::{fs::File, io::BufReader, path::PathBuf};

use clap::Args;

use super::{
    Database, Outcome, block_on,
    pet_file::{self, Fault, Format},
    progress_bar, say,
};
use crate::store::import;

/// How many faults are told one by one.
const TOLD: u64 = 100;

#[derive(Args)]
pub struct Import {
    /// The file: .csv with a line of headers (name, categoryId, status), or
    /// .jsonl with a JSON object a line.
    file: PathBuf,
    /// What the file is, if its name does not say.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<Format>,
    /// Leave out what is invalid and import the rest.
    #[arg(long, env = "PETSTORE_SKIP_INVALID")]
    skip_invalid: bool,
    #[command(flatten)]
    database: Database,
}

impl Import {
    pub fn run(self) -> Outcome {
        let shown = self.file.display().to_string();
        let format = self.format.or_else(|| Format::of(&self.file));
        let format = format.ok_or_else(|| {
            format!("{shown} is neither .csv nor .jsonl; say which it is with --format")
        })?;
        let failed = |cause| format!("cannot read {shown}: {cause}");
        let file = File::open(&self.file).map_err(failed)?;
        let bar = progress_bar("bytes");
        bar.set_length(file.metadata().map_err(failed)?.len());
        let file = BufReader::with_capacity(1 << 16, bar.wrap_read(file));
        let lines = pet_file::read(format, file);
        let mut lines = lines.map_err(|wrong| format!("cannot import {shown}: {wrong}"))?;
        say!("Imports {shown} into {}", self.database.database);

        let mut wrong = 0;
        let skip = self.skip_invalid;
        let mut next = || {
            loop {
                match lines.next() {
                    Some((_, Ok(pet))) if wrong == 0 || skip => return Ok(Some(pet)),
                    // Nothing is imported any more, but all faults are told.
                    Some((_, Ok(_))) => {}
                    Some((line, Err(Fault::Invalid(fault)))) => {
                        wrong += 1;
                        if wrong <= TOLD {
                            bar.suspend(|| say!("{shown}, line {line}: {fault}"));
                        }
                    }
                    Some((line, Err(Fault::Fatal(fault)))) => {
                        return Err(format!(
                            "{shown}, line {line}: {fault}; nothing was imported"
                        ));
                    }
                    None if wrong > 0 && !skip => return Err("nothing was imported".into()),
                    None => return Ok(None),
                }
            }
        };
        let imported = block_on(async { Ok(import(&self.database.database, &mut next).await) })?;
        bar.finish_and_clear();
        if wrong > TOLD {
            say!("… and {} more", wrong - TOLD);
        }
        match imported {
            Ok(count) if wrong > 0 => say!("Imported {count} animals, left out {wrong} lines."),
            Ok(count) => say!("Imported {count} animals."),
            Err(error) if wrong > 0 => {
                return Err(format!("{error}: {wrong} lines are invalid").into());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
