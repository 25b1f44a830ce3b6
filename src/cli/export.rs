//! `petstore export`: all animals, as a file.

use std::{io, path::PathBuf};

use clap::Args;

use super::{
    Database, Outcome, block_on,
    pet_file::{Format, Writing},
    progress_bar, say,
};
use crate::store::{AtomicFile, export};

#[derive(Args)]
pub struct Export {
    /// The file to make, .csv or .jsonl. It must not be there yet. Standard
    /// output, if left out.
    file: Option<PathBuf>,
    /// What to write, if the file's name does not say.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    database: Database,
}

impl Export {
    pub fn run(self) -> Outcome {
        let named = self.file.as_deref().and_then(Format::of);
        let format = self.format.or(named).unwrap_or(Format::Jsonl);
        match &self.file {
            None => self.write(format, io::stdout().lock()),
            Some(path) => {
                let failed = |cause| format!("cannot make {}: {cause}", path.display());
                let file = AtomicFile::create(path).map_err(failed)?;
                self.write(format, file.file())?;
                file.persist().map_err(failed)?;
                Ok(())
            }
        }
    }

    fn write(&self, format: Format, file: impl io::Write) -> Outcome {
        let bar = progress_bar("animals");
        let mut writing = Writing::new(format, file)?;
        let mut unread = false;
        let take = |pet| {
            bar.inc(1);
            writing.write(&pet).map_err(|cause| {
                unread = cause.kind() == io::ErrorKind::BrokenPipe;
                format!("cannot write: {cause}")
            })
        };
        let exported = block_on(async { Ok(export(&self.database.database, take).await?) });
        bar.finish_and_clear();
        if unread {
            // Whoever reads it has seen enough.
            return Ok(());
        }
        let count = exported?;
        writing.finish()?;
        say!("Exported {count} animals.");
        Ok(())
    }
}
