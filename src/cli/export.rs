//! `petstore export`: writes all animals to a file.

use std::{io, path::PathBuf};

use clap::Args;

use super::{
    CommandResult, Database, block_on, counted,
    pet_file::{Format, PetWriter},
    progress_bar, status,
};
use crate::{
    category::CategoryNames,
    store::{AtomicFile, export},
};

#[derive(Args)]
pub struct Export {
    /// File to create (.csv or .jsonl); it must not exist yet.
    ///
    /// By default, animals are written to standard output.
    file: Option<PathBuf>,
    /// Output format; by default, the file's extension decides, or else jsonl.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<Format>,
    /// Write the names of categories beside their numbers.
    #[arg(long, env = "PETSTORE_CATEGORY_NAMES")]
    category_names: bool,
    #[command(flatten)]
    database: Database,
}

impl Export {
    pub fn run(self) -> CommandResult {
        let by_extension = self.file.as_deref().and_then(Format::from_extension);
        let format = self.format.or(by_extension).unwrap_or(Format::Jsonl);
        match &self.file {
            None => self.write(format, io::stdout().lock()),
            Some(path) => {
                let failed = |cause| format!("cannot create {}: {cause}", path.display());
                let file = AtomicFile::create(path).map_err(failed)?;
                self.write(format, file.file())?;
                file.persist().map_err(failed)?;
                Ok(())
            }
        }
    }

    fn write(&self, format: Format, file: impl io::Write) -> CommandResult {
        let bar = progress_bar("animals");
        let mut writer = PetWriter::new(format, self.category_names, file)?;
        let mut pipe_closed = false;
        let write = |pet, names: &CategoryNames| {
            bar.inc(1);
            writer.write(&pet, names).map_err(|cause| {
                pipe_closed = cause.kind() == io::ErrorKind::BrokenPipe;
                format!("cannot write the animals: {cause}")
            })
        };
        let exported = block_on(async { Ok(export(&self.database.url()?, write).await?) });
        bar.finish_and_clear();
        if pipe_closed {
            // `head` closes the pipe when it has read enough.
            return Ok(());
        }
        let count = counted(exported?, "animal");
        writer.finish()?;
        status!("Exported {count} from {}.", self.database.location());
        Ok(())
    }
}
