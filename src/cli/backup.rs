//! `petstore backup`: an online backup of an SQLite store.

use std::{
    error::Error,
    fs::File,
    io::{self, IsTerminal},
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::PathBuf,
};

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, copy_progress, escape_path, print_warning, status, stdout,
};
use store::{DatabaseUrl, backup, backup_to_stream};

#[derive(Args)]
pub struct Backup {
    /// File to create, which must not exist yet, or - for standard output.
    ///
    /// Standard output gets the whole backup at the end. Until then it is a file beside the
    /// store.
    file: PathBuf,
    #[command(flatten)]
    pub database: Database,
}

impl Backup {
    pub fn run(self) -> CommandResult {
        let DatabaseUrl::Sqlite(source) = &self.database.database else {
            let message = "`petstore backup` is for SQLite files; back up PostgreSQL with its own \
                           tools, see docs/operations.md";
            return Err(message.into());
        };
        let interrupt = Interrupt::listen("interrupted; no backup was made")?;
        let bar = interrupt.progress_bar("pages");
        let is_stdout = self.file.as_os_str() == "-";
        let from = self.database.location();
        let to = if is_stdout {
            "standard output".into()
        } else {
            escape_path(&self.file)
        };
        let mut progress = copy_progress(&bar, format!("Copying {from} to {to}"));
        let report = |done, total| {
            progress(done, total);
            if done == total {
                bar.finish_and_clear();
                status!("Verifying the backup");
            }
        };
        if is_stdout {
            backup_to_stream(source, private_stdout()?, report)?;
        } else {
            backup(source, &self.file, report)?;
        }
        status!("Backup complete and verified.");
        Ok(())
    }
}

/// Returns standard output for a backup. Warns if it is a file that others can read.
fn private_stdout() -> Result<File, Box<dyn Error>> {
    if stdout::is_closed() || io::stdout().is_terminal() {
        return Err("standard output is closed or a terminal; redirect it to a file".into());
    }
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let found = file.metadata()?;
    if found.is_file() && found.mode() & 0o004 != 0 {
        print_warning(
            "all users of this machine can read the backup; restrict it with chmod 600, or run \
             umask 077 first"
                .into(),
        );
    }
    Ok(file)
}
