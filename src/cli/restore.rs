//! `petstore restore`: puts a backup in place of an SQLite store.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, copy_progress, counted, escape_path, shell_quote, status,
};
use store::{DatabaseUrl, RestoreSummary, explain, restore};
use system::atomic_file::AtomicFile;

#[derive(Args)]
pub struct Restore {
    /// Backup to restore, which is only read, or - for standard input.
    ///
    /// Standard input is first copied to a file beside the store.
    file: PathBuf,
    #[command(flatten)]
    pub database: Database,
}

impl Restore {
    pub fn run(self) -> CommandResult {
        let DatabaseUrl::Sqlite(store) = &self.database.database else {
            let message = "`petstore restore` is for SQLite files; restore PostgreSQL with its own \
                           tools: create an empty database, load the dump with pg_restore, and \
                           check it with `petstore check`";
            return Err(message.into());
        };
        let interrupt = Interrupt::listen("interrupted; the store is as it was")?;
        let bar = interrupt.progress_bar("pages");
        let (spooled, name) = if self.file.as_os_str() == "-" {
            (Some(spool(store)?), "standard input".into())
        } else {
            (None, escape_path(&self.file))
        };
        let backup = spooled.as_ref().map_or(&*self.file, AtomicFile::path);
        let announcement = format!("Copying {name} to {}", escape_path(store));
        let mut progress = copy_progress(&bar, announcement);
        let restored = restore(backup, store, |done, total| {
            progress(done, total);
            if done == total {
                bar.finish_and_clear();
                status!("Verifying the copy");
            }
        });
        let options = self.database.options();
        let RestoreSummary {
            store,
            kept,
            content,
        } = restored.map_err(|error| {
            // The name of the copy means nothing to the operator.
            let copy = spooled
                .as_ref()
                .map(|copy| copy.path().display().to_string());
            copy.map_or(error.to_string(), |copy| {
                error.to_string().replace(&copy, &name)
            })
        })?;
        status!("Restored {}.", escape_path(&store));
        match content {
            Some(content) => {
                let counted = |count: i64, noun| counted(count.unsigned_abs(), noun);
                let pets = counted(content.pets, "animal");
                let orders = counted(content.orders, "order");
                let keys = counted(content.api_keys, "API key");
                status!("  It contains {pets}, {orders} and {keys}.");
                if let Some(last_change) = content.last_change {
                    status!("  The last change in it is from {last_change:.0}.");
                }
            }
            None => status!("  It is from an older petstore; `petstore serve` upgrades it."),
        }
        if let Some(kept) = kept {
            let file = shell_quote(&kept.to_string_lossy());
            status!("  The store that was there is {} now.", escape_path(&kept));
            status!("  To undo this, run `petstore restore {file}{options}`.");
            status!("  Delete that file when you no longer need it.");
        }
        status!("Next:");
        status!("  Start the service. Clients and webhooks notice that the event log is older.");
        status!("  Run `petstore keys list{options}`:");
        status!("  keys that were revoked after the backup are valid again.");
        Ok(())
    }
}

/// Copies standard input to a temporary file beside the store, where its owner can read it.
fn spool(store: &Path) -> Result<AtomicFile, String> {
    let failed = |cause| {
        let reason = explain(store, &cause);
        format!(
            "cannot copy standard input beside {}: {reason}",
            escape_path(store)
        )
    };
    let file = AtomicFile::create_beside(store).map_err(failed)?;
    io::copy(&mut io::stdin().lock(), &mut file.file()).map_err(failed)?;
    Ok(file)
}
