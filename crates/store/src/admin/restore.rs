//! Restoring a backup in place of an SQLite store.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rusqlite::Connection;

use super::{
    super::{
        error::{OpenError, explain},
        sqlite::{self, ClosedStore, is_damage},
    },
    backup::{BackupError, copy_and_check},
    check::UNREADABLE,
    inspect::{event_source_of, last_recorded_change},
};
use system::atomic_file::AtomicFile;

/// The reason why a backup was not restored. The store is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("there is no file {0}; specify a backup")]
    NoBackup(PathBuf),
    #[error("{0} is the store itself; specify a backup of it")]
    Itself(PathBuf),
    #[error("{backup} is damaged: {cause}; the store was not changed, restore another backup")]
    Damaged { backup: PathBuf, cause: String },
    #[error(
        "{backup} has parts that petstore did not create and that could run in the service: \
         {objects}; the store was not changed, restore another backup, or drop them from this one"
    )]
    Added { backup: PathBuf, objects: String },
    #[error(
        "the store {store} belongs to another user, and the restored one cannot be given to \
         them: {cause}; restore as that user"
    )]
    Owner { store: PathBuf, cause: io::Error },
    #[error("{0}; nothing was changed")]
    Open(#[from] OpenError),
    #[error("{0}; nothing was changed")]
    Copy(BackupError),
    #[error("cannot replace {store}: {}", explain(store, cause))]
    Replace { store: PathBuf, cause: io::Error },
}

/// The result of a restore.
#[derive(Debug)]
pub struct RestoreSummary {
    pub store: PathBuf,
    /// The name of the store that was there, if there was one.
    pub kept: Option<PathBuf>,
    /// `None` if the backup is from an older version, with another schema.
    pub content: Option<Content>,
}

/// A summary of the contents of a store.
#[derive(Debug)]
pub struct Content {
    pub pets: i64,
    pub orders: i64,
    pub api_keys: i64,
    /// The last change, or use of an API key, that is recorded.
    pub last_change: Option<Timestamp>,
}

/// Copies a backup beside a store that is not being served, checks the copy, and puts it in
/// place of the store. Calls `progress` with the number of pages copied and in total.
pub fn restore(
    backup: &Path,
    store: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<RestoreSummary, RestoreError> {
    let store = ClosedStore::lock(store)?;
    let path = store.path.clone();
    if store.exists() && is_same_file(backup, &path) {
        return Err(RestoreError::Itself(path));
    }
    let failed = |cause| RestoreError::Replace {
        store: path.clone(),
        cause,
    };
    let file = AtomicFile::create_beside(&path).map_err(failed)?;
    let damaged = |cause: String| RestoreError::Damaged {
        backup: backup.into(),
        cause,
    };
    // Unlike a store, a backup may be a link, to the newest of several for example.
    let canonical = fs::canonicalize(backup);
    let source = canonical.as_deref().unwrap_or(backup);
    let copied = copy_and_check(source, &file, &mut progress);
    let (db, is_current) = copied.map_err(|error| match error {
        BackupError::Open(OpenError::Missing(_)) => RestoreError::NoBackup(backup.into()),
        BackupError::Open(OpenError::Database { cause, .. }) if is_damage(&cause) => {
            damaged(UNREADABLE.into())
        }
        BackupError::Open(error) => error.into(),
        BackupError::Damaged(problems) => damaged(problems),
        BackupError::Copy(cause) if is_damage(&cause) => damaged(UNREADABLE.into()),
        other => RestoreError::Copy(other),
    })?;
    let unread = |cause| RestoreError::Copy(BackupError::Copy(cause));
    if is_short(source, &db).map_err(unread)? {
        return Err(damaged("its end is missing".into()));
    }
    let added = sqlite::added_objects(&db).map_err(unread)?;
    if !added.is_empty() {
        return Err(RestoreError::Added {
            backup: backup.into(),
            objects: added.join(", "),
        });
    }
    let content = is_current
        .then(|| content(&db))
        .transpose()
        .map_err(unread)?;
    db.close().map_err(|(_, cause)| unread(cause))?;
    give_to_owner(&file, &store)?;
    Ok(RestoreSummary {
        kept: store.replace(file).map_err(failed)?,
        store: path,
        content,
    })
}

/// Fails if a process has the store open.
pub fn require_closed(store: &Path) -> Result<(), RestoreError> {
    ClosedStore::lock(store)?;
    Ok(())
}

/// Returns the source of the events of a store, unless it is missing or damaged.
pub fn event_source(store: &Path) -> Option<String> {
    let (db, _) = sqlite::open_read_only(&sqlite::canonical_path(store).ok()?).ok()?;
    event_source_of(&db).ok()
}

/// Returns true if a file is shorter than its header states. SQLite reads the missing part of
/// the last page as zeros.
fn is_short(backup: &Path, copy: &Connection) -> rusqlite::Result<bool> {
    let number = |pragma| copy.pragma_query_value(None, pragma, |row| row.get::<_, u32>(0));
    let expected = u64::from(number("page_count")?) * u64::from(number("page_size")?);
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    // The missing part may be in a WAL.
    Ok(size(backup) < expected && size(&sqlite::wal_path(backup)) == 0)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Gives the new file to the owner of the store: if root restores, the service still has to
/// open it. The mode of the file gives the group no access; the group is kept if possible.
fn give_to_owner(file: &AtomicFile, store: &ClosedStore) -> Result<(), RestoreError> {
    let given = || {
        let old = store.file().metadata()?;
        let new = file.file().metadata()?;
        if old.uid() != new.uid() {
            return fchown(file.file(), Some(old.uid()), Some(old.gid()));
        }
        let _ = fchown(file.file(), None, Some(old.gid()));
        Ok(())
    };
    given().map_err(|cause| RestoreError::Owner {
        store: store.path.clone(),
        cause,
    })
}

fn content(db: &Connection) -> rusqlite::Result<Content> {
    let count = |table| {
        let sql = format!("SELECT count(*) FROM {table}");
        db.query_row(&sql, [], |row| row.get(0))
    };
    Ok(Content {
        pets: count("pets")?,
        orders: count("orders")?,
        api_keys: count("api_keys")?,
        last_change: last_recorded_change(db)?,
    })
}
