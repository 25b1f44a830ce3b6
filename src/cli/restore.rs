//! `petstore restore`: lists backups, and puts one in place of an SQLite store.

mod backup_bucket;
mod backup_folder;

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, copy_progress, counted, escape_path, shell_quote, status,
};
use backups::S3Url;
use store::{DatabaseUrl, RestoreSummary, explain, require_closed, restore};
use system::atomic_file::AtomicFile;

#[derive(Args)]
pub struct Restore {
    /// Backup to restore, which is only read, or - for standard input.
    ///
    /// Of a folder or a bucket (s3://BUCKET/PREFIX) with backups that `petstore serve` has made,
    /// the newest one of this store is restored; add its name to restore another. Standard input
    /// and objects of a bucket are first copied to a file beside the store. For a bucket, set
    /// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION or AWS_ENDPOINT_URL.
    #[arg(value_name = "BACKUP")]
    file: PathBuf,
    /// List the backups in a folder or a bucket, the newest first, and restore none.
    #[arg(long, env = "PETSTORE_RESTORE_LIST")]
    pub list: bool,
    #[command(flatten)]
    pub database: Database,
}

impl Restore {
    pub fn run(self) -> CommandResult {
        if self.list {
            return match self.bucket()? {
                Some(bucket) => backup_bucket::list(bucket),
                None => backup_folder::list(&self.file),
            };
        }
        let DatabaseUrl::Sqlite(store) = &self.database.database else {
            let message = "`petstore restore` is for SQLite files; restore PostgreSQL with its own \
                           tools: create an empty database, load the dump with pg_restore, and \
                           check it with `petstore check`";
            return Err(message.into());
        };
        let interrupt = Interrupt::listen("interrupted; the store is as it was")?;
        let Source {
            file,
            spooled,
            name,
        } = self.source(store, &interrupt)?;
        let bar = interrupt.progress_bar("pages");
        let backup = spooled.as_ref().map_or(&*file, AtomicFile::path);
        let announcement = format!("Copying {name} to {}", escape_path(store));
        let mut progress = copy_progress(&bar, announcement);
        let restored = restore(backup, store, |done, total| {
            progress(done, total);
            if done == total {
                bar.finish_and_clear();
                status!("Verifying the copy");
            }
        });
        let summary = restored.map_err(|error| {
            // The name of the copy means nothing to the operator.
            let copy = spooled
                .as_ref()
                .map(|copy| copy.path().display().to_string());
            copy.map_or(error.to_string(), |copy| {
                error.to_string().replace(&copy, &name)
            })
        })?;
        report(summary, &self.database.options());
        Ok(())
    }
}

/// Says what was restored, and what to do next. `options` name the database.
fn report(summary: RestoreSummary, options: &str) {
    let RestoreSummary {
        store,
        kept,
        content,
    } = summary;
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
}

/// A backup to restore.
struct Source {
    file: PathBuf,
    /// The copy beside the store of a backup that is not a file.
    spooled: Option<AtomicFile>,
    /// The backup as shown to people.
    name: String,
}

impl Restore {
    fn bucket(&self) -> Result<Option<S3Url>, String> {
        let text = self.file.to_str().unwrap_or_default();
        if !text.starts_with(S3Url::SCHEME) {
            return Ok(None);
        }
        let url = text.parse().map_err(|reason| format!("{text} {reason}"))?;
        Ok(Some(url))
    }

    fn source(&self, store: &Path, interrupt: &Interrupt) -> Result<Source, Box<dyn Error>> {
        // Before a download, which takes long.
        require_closed(store)?;
        if let Some(url) = self.bucket()? {
            let bar = interrupt.progress_bar("MiB");
            let (spooled, name) =
                backup_bucket::download(url, store, &self.database.options(), &bar)?;
            return Ok(Source {
                file: self.file.clone(),
                spooled: Some(spooled),
                name,
            });
        }
        if self.file.as_os_str() == "-" {
            return Ok(Source {
                file: self.file.clone(),
                spooled: Some(spool(store)?),
                name: "standard input".into(),
            });
        }
        let file = if self.file.is_dir() {
            backup_folder::newest(&self.file, store, &self.database.options())?
        } else {
            backup_folder::check_by_name(&self.file)?;
            self.file.clone()
        };
        Ok(Source {
            name: escape_path(&file),
            file,
            spooled: None,
        })
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
