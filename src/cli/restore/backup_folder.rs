//! The backups in a folder: lists them, and chooses the newest.

use std::{
    error::Error,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::super::{CommandResult, counted, escape_path, print, shell_quote, status, table::table};
use backups::{BackupFile, BackupName, Folder, StoreId, past};
use store::{event_source, explain};

/// Prints the backups in a folder, the newest first.
pub fn list(folder: &Path) -> CommandResult {
    let found = read(folder)?;
    print_list(&found, &escape_path(folder))
}

/// Prints backups, which are sorted, the newest first. The store is that part of their names by
/// which those of several stores in one place are told apart.
pub fn print_list(found: &[BackupFile], place: &str) -> CommandResult {
    if found.is_empty() {
        status!("There are no backups in {place}.");
        return Ok(());
    }
    let rows = found.iter().rev().map(|BackupFile { name, bytes }| {
        [
            name.time.to_string(),
            bytes.to_string(),
            name.pets.to_string(),
            name.store.to_string(),
            name.to_string(),
        ]
    });
    print(table(["TIME", "BYTES", "ANIMALS", "STORE", "BACKUP"], rows).as_bytes())
}

/// Returns the newest backup in a folder. Its content is that with which it was made.
/// `options` name the store.
pub fn newest(path: &Path, store: &Path, options: &str) -> Result<PathBuf, Box<dyn Error>> {
    let found = read(path)?;
    let newest = choose_newest(&found, store, &escape_path(path))?;
    let folder = Folder::new(path);
    let name = &newest.name;
    status!("Reading {}", describe(newest));
    if folder.is_intact(name, |_| true).map_err(failed(path))? {
        return Ok(folder.file(name));
    }
    let advice = name_older(&found, name, &path.to_string_lossy(), options);
    Err(damaged(&escape_path(&folder.file(name)), &advice).into())
}

/// Names the backup before a damaged one, if there is one in that place.
pub fn name_older(
    found: &[BackupFile],
    damaged: &BackupName,
    place: &str,
    options: &str,
) -> String {
    let is_older = |it: &&BackupFile| it.name < *damaged && it.name.store == damaged.store;
    let older = found.iter().rfind(is_older);
    older.map_or_else(String::new, |older| {
        let backup = format!("{}/{}", place.trim_end_matches('/'), older.name);
        let backup = shell_quote(&backup);
        format!(", such as `petstore restore {backup}{options}`")
    })
}

/// Fails if the name of a file tells that it is a backup with another content.
pub fn check_by_name(file: &Path) -> Result<(), String> {
    let name = file.file_name().and_then(OsStr::to_str);
    let name: Option<BackupName> = name.and_then(|name| name.parse().ok());
    let Some((name, folder)) = name.zip(file.parent()) else {
        return Ok(());
    };
    // A file that cannot be read is reported when it is restored.
    match Folder::new(folder).is_intact(&name, |_| true) {
        Ok(false) => Err(damaged(
            &escape_path(file),
            ", or give this one another name to restore it nevertheless",
        )),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Says that a backup, as shown to people, is damaged.
pub fn damaged(backup: &str, advice: &str) -> String {
    format!(
        "{backup} is damaged: it is not what was written; the store was not changed, restore \
         another backup{advice}"
    )
}

/// Returns the newest of the backups in `place`: of the store that it is to replace or, if there
/// is none, of the only one.
pub fn choose_newest<'a>(
    found: &'a [BackupFile],
    store: &Path,
    place: &str,
) -> Result<&'a BackupFile, String> {
    let see = "list them with `petstore restore --list`, and name the one to restore";
    let last = found.last().ok_or_else(|| {
        format!("{place} has no backup that `petstore serve` has made; specify another place")
    })?;
    let shown = escape_path(store);
    let newest = match event_source(store).map(|source| StoreId::new(&source)) {
        Some(own) => {
            let newest = found.iter().rfind(|it| it.name.store == own);
            newest.ok_or_else(|| format!("{place} has backups, but none of {shown}; {see}"))?
        }
        None if found.iter().any(|it| it.name.store != last.name.store) => {
            return Err(format!(
                "{place} has backups of several stores, and {shown}, which would say which one is \
                 meant, is missing or damaged; {see}"
            ));
        }
        None => last,
    };
    if !past(found, Timestamp::now()).any(|it| it == newest) {
        let name = &newest.name;
        return Err(format!(
            "{name} in {place} is from the future: the clock is wrong, or was when it was made; \
             {see}"
        ));
    }
    Ok(newest)
}

/// Describes a backup by what its name says.
pub fn describe(BackupFile { name, .. }: &BackupFile) -> String {
    let pets = counted(name.pets, "animal");
    format!("{name}, from {}, with {pets}", name.time)
}

fn read(folder: &Path) -> Result<Vec<BackupFile>, String> {
    Folder::new(folder).list(None).map_err(failed(folder))
}

fn failed(folder: &Path) -> impl Fn(io::Error) -> String {
    move |cause| {
        let reason = if folder.is_file() {
            "it is a file; name a folder or a bucket".into()
        } else {
            explain(folder, &cause)
        };
        format!("cannot read {}: {reason}", escape_path(folder))
    }
}
