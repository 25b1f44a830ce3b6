//! `petstore backup`: an online backup of an SQLite store.

use std::path::PathBuf;

use clap::Args;

use super::{CommandResult, Database, Interrupt, copy_progress, status, visible_path};
use crate::store::{DatabaseUrl, backup};

#[derive(Args)]
pub struct Backup {
    /// File to create; it must not exist yet.
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
        let (from, to) = (self.database.location(), visible_path(&self.file));
        let mut progress = copy_progress(&bar, format!("Copying {from} to {to}"));
        let result = backup(source, &self.file, |done, total| {
            progress(done, total);
            if done == total {
                bar.finish_and_clear();
                status!("Verifying the backup");
            }
        });
        result?;
        status!("Backup complete and verified.");
        Ok(())
    }
}
