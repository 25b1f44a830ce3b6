//! `petstore restore`: puts a backup in place of an SQLite store.

use std::path::PathBuf;

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, copy_progress, counted, shell_quote, status, visible_path,
};
use crate::store::{DatabaseUrl, Restored, restore};

#[derive(Args)]
pub struct Restore {
    /// Backup to restore. It is only read.
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
        let announcement = format!(
            "Copying {} to {}",
            visible_path(&self.file),
            visible_path(store)
        );
        let mut progress = copy_progress(&bar, announcement);
        let restored = restore(&self.file, store, |done, total| {
            progress(done, total);
            if done == total {
                bar.finish_and_clear();
                status!("Verifying the copy");
            }
        });
        let options = self.database.options();
        let Restored {
            store,
            kept,
            content,
        } = restored?;
        status!("Restored {}.", visible_path(&store));
        match content {
            Some(content) => {
                let counted = |count: i64, noun| counted(count.unsigned_abs(), noun);
                let (pets, orders) = (
                    counted(content.pets, "animal"),
                    counted(content.orders, "order"),
                );
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
            status!("  The store that was there is {} now.", visible_path(&kept));
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
