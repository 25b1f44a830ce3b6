//! The backups in a bucket: lists them, and downloads one.

use std::{env, error::Error, os::unix::fs::FileExt, path::Path, sync::Arc};

use indicatif::ProgressBar;

use super::{
    super::{CommandResult, block_on, escape_for_terminal, escape_path, status},
    backup_folder::{choose_newest, damaged, describe, name_older, print_list},
};
use backups::{Bucket, S3Error, S3Settings, S3Url};
use store::explain;
use system::atomic_file::AtomicFile;

/// Prints the backups in a bucket, the newest first.
pub fn list(url: S3Url) -> CommandResult {
    block_on(async {
        let mut bucket = open(url)?;
        let place = shown(&bucket);
        let found = bucket.list().await;
        let found = found.map_err(|error| format!("{place}: {error}"))?;
        print_list(&found, &place)
    })
}

/// Downloads a backup, by default the newest, to a temporary file beside the store, which
/// `options` name. Returns the file, and the address of the backup as shown to people.
pub fn download(
    url: S3Url,
    store: &Path,
    options: &str,
    bar: &ProgressBar,
) -> Result<(AtomicFile, String), Box<dyn Error>> {
    let (folder, name) = url.split_name();
    let file = AtomicFile::create_beside(store).map_err(|cause| {
        let reason = explain(store, &cause);
        format!("cannot write beside {}: {reason}", escape_path(store))
    })?;
    block_on(async {
        let mut bucket = open(folder)?;
        let place = shown(&bucket);
        let found = bucket.list().await.map_err(failed(&place))?;
        let backup = match &name {
            Some(name) => found
                .iter()
                .find(|it| it.name == *name)
                .ok_or_else(|| format!("there is no {name} in {place}"))?,
            None => choose_newest(&found, store, &place)?,
        };
        status!("Downloading {}", describe(backup));
        bar.set_length(backup.bytes >> 20);
        let write = |part: &[u8], position: u64| {
            bar.set_position((position + part.len() as u64) >> 20);
            file.file().write_all_at(part, position)
        };
        let shown = format!("{place}/{}", backup.name);
        let read = bucket.read(backup, write).await;
        read.map_err(|error| match error {
            S3Error::Damaged(_) => {
                let older = name_older(&found, &backup.name, &place, options);
                damaged(&shown, &older)
            }
            error => failed(&place)(error),
        })?;
        bar.finish_and_clear();
        Ok((file, shown))
    })
}

fn open(url: S3Url) -> Result<Bucket, &'static str> {
    let settings = S3Settings::read(|name| env::var(name).ok())?;
    Ok(Bucket::new(url, Arc::new(settings)))
}

fn failed(place: &str) -> impl Fn(S3Error) -> String {
    move |error| format!("{place}: {error}; the store was not changed")
}

fn shown(bucket: &Bucket) -> String {
    escape_for_terminal(&bucket.url().to_string())
}
