//! `petstore backup`: a copy of an SQLite store, also while it is served.

use std::path::PathBuf;

use clap::Args;

use super::{Database, Outcome, progress_bar, say};
use crate::store::{DatabaseUrl, backup};

#[derive(Args)]
pub struct Backup {
    /// The file to make. It must not be there yet.
    file: PathBuf,
    #[command(flatten)]
    database: Database,
}

impl Backup {
    pub fn run(self) -> Outcome {
        let DatabaseUrl::Sqlite(from) = &self.database.database else {
            let use_theirs = "a backup is made of an SQLite file; PostgreSQL has its own, see \
                              docs/operations.md";
            return Err(use_theirs.into());
        };
        let bar = progress_bar("pages");
        say!("Copies {} to {}", from.display(), self.file.display());
        let made = backup(from, &self.file, |done, total| {
            bar.set_length(total);
            bar.set_position(done);
            if done == total {
                bar.finish_and_clear();
                say!("Looks the copy through");
            }
        });
        made?;
        say!("The copy is whole and verified.");
        Ok(())
    }
}
