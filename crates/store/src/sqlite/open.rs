//! Opening an SQLite file: checking that it is a petstore database, and taking the
//! service lock.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read},
    ops::Deref,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    super::{Options, Role, error::OpenError, root_user::reject_shared_folder},
    connect::{BUSY_TIMEOUT, connect_read_only},
    files::identity,
    migrate::{Identity, MIGRATIONS, SCHEMA_VERSION, SchemaState, migrate, schema_state},
    recovery::{WritableConnection, is_open, open_recovered, wal_path},
    regular_file::{open_regular, reject_irregular},
};
use system::atomic_file::{resolve_folder, side_file};

/// Ensures that the file is a petstore database with the current schema,
/// creating or migrating it if necessary. Returns its canonical path and, for a
/// service, the lock.
///
/// A file that is rejected is left unchanged.
pub(super) fn prepare(
    path: &Path,
    options: &Options,
) -> Result<(PathBuf, Option<ServiceLock>), OpenError> {
    let failed = OpenError::file(path);
    let role = options.role;
    let path = canonical_path(path)?;
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        let current = sniff_header(&path, options.create)? == SchemaState::Current;
        if current && role == Role::Cli {
            return Ok((path, None));
        }
        // Migrations run only under the service lock, so never while another
        // process serves the file.
        match lock(&path, options.create).map_err(failed)? {
            Some(lock) => {
                migrate(&path, &MIGRATIONS)?;
                return Ok((path, (role == Role::Service).then_some(lock)));
            }
            None if role == Role::Service && current => return Err(OpenError::InUse(path)),
            None if Instant::now() > deadline => return Err(OpenError::InUse(path)),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A connection for reading that leaves nothing behind.
pub(crate) struct ReadOnly {
    // Dropped in this order.
    db: Connection,
    _side_files: EmptySideFiles,
}

impl ReadOnly {
    /// Opens a file that `prepare` or `sniff_header` has checked.
    fn open(path: &Path) -> Result<Self, OpenError> {
        let db = connect_read_only(path).map_err(OpenError::database(path))?;
        Ok(Self {
            db,
            _side_files: EmptySideFiles(path.into()),
        })
    }
}

impl Deref for ReadOnly {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
    }
}

/// An empty WAL and its index, which SQLite creates even to read a file. Only a connection that
/// can write deletes them, so one is opened and closed on drop. SQLite's own lock ensures that no
/// other process has the file open then. What cannot be deleted is left.
struct EmptySideFiles(PathBuf);

impl Drop for EmptySideFiles {
    fn drop(&mut self) {
        let wal = fs::symlink_metadata(wal_path(&self.0));
        if wal.is_ok_and(|wal| wal.len() == 0)
            && !is_open(&self.0)
            && let Ok(opened) = open_recovered(&self.0, Role::Cli)
        {
            opened.checkpoint_and_close();
        }
    }
}

/// Opens a petstore database read-only, whether or not it is being served. Returns it, and
/// whether its schema is current. Nothing is changed.
pub(crate) fn open_read_only(path: &Path) -> Result<(ReadOnly, bool), OpenError> {
    match inspect(path)? {
        (_, SchemaState::Empty) => Err(OpenError::NotAPetstore(path.into())),
        (db, state) => Ok((db, state == SchemaState::Current)),
    }
}

/// Like [`open_read_only`], but requires the current schema.
pub(crate) fn open_current(path: &Path) -> Result<ReadOnly, OpenError> {
    open_if_created(path)?.ok_or_else(|| OpenError::NotAPetstore(path.into()))
}

/// Like [`open_current`], but returns `None` if the database was never completely created.
pub(crate) fn open_if_created(path: &Path) -> Result<Option<ReadOnly>, OpenError> {
    match inspect(path)? {
        (db, SchemaState::Current) => Ok(Some(db)),
        (_, SchemaState::Older(found)) => Err(OpenError::Older {
            database: path.display().to_string(),
            found,
            supported: SCHEMA_VERSION,
        }),
        (_, SchemaState::Empty) => Ok(None),
    }
}

fn inspect(path: &Path) -> Result<(ReadOnly, SchemaState), OpenError> {
    let path = canonical_path(path)?;
    sniff_header(&path, false)?;
    let db = ReadOnly::open(&path)?;
    let state = schema_state(&db, &path)?;
    Ok((db, state))
}

/// Opens a file that is not being served, for reading. While the lock is held, no
/// service can open it.
pub(crate) fn open_exclusive_read_only(
    path: &Path,
) -> Result<(ReadOnly, Option<ServiceLock>), OpenError> {
    let options = Options {
        create: false,
        ..Options::new(Role::Service)
    };
    let (path, lock) = prepare(path, &options)?;
    Ok((ReadOnly::open(&path)?, lock))
}

/// A file that is not being served, open for writing. While it is locked, no service can
/// open it.
pub(crate) struct ExclusiveFile {
    opened: WritableConnection,
    _lock: Option<ServiceLock>,
}

impl ExclusiveFile {
    /// Opens a file, and creates it if needed.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (_, opened, _lock) = open(path, &Options::new(Role::Service))?;
        Ok(Self { opened, _lock })
    }

    pub fn db(&self) -> &Connection {
        &self.opened.db
    }

    /// Commits the transaction and closes the file.
    pub fn commit(self) -> rusqlite::Result<()> {
        self.opened.db.execute_batch("COMMIT")?;
        self.opened.checkpoint_and_close();
        Ok(())
    }
}

/// Opens a file for the role in `options`.
pub(super) fn open(
    path: &Path,
    options: &Options,
) -> Result<(PathBuf, WritableConnection, Option<ServiceLock>), OpenError> {
    let (path, lock) = prepare(path, options)?;
    let opened = open_recovered(&path, options.role)?;
    // Rejects a newer schema, now that the WAL is visible.
    schema_state(&opened.db, &path)?;
    Ok((path, opened, lock))
}

/// Resolves links in the folder of a store, so that one file has one lock. Fails if one of its
/// files is a link, or something else that SQLite cannot open or would wait for; and for root, if
/// others can change the folder.
pub(crate) fn canonical_path(path: &Path) -> Result<PathBuf, OpenError> {
    let path = resolve_folder(path).map_err(OpenError::file(path))?;
    reject_shared_folder(&path)?;
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let file = side_file(&path, suffix);
        reject_irregular(&file).map_err(OpenError::file(&file))?;
    }
    Ok(path)
}

/// Classifies a file by the first bytes of its header, without SQLite, which
/// would create side files. With `create`, it may be missing or empty. The result is a hint: the
/// WAL may be newer.
///
/// Must not be called while this process has the file open: closing any
/// descriptor of a file drops all POSIX locks that SQLite holds on it in the
/// same process.
pub(super) fn sniff_header(path: &Path, create: bool) -> Result<SchemaState, OpenError> {
    let mut head = Vec::new();
    let opened = open_regular(path, File::options().read(true));
    match opened.and_then(|file| file.take(105).read_to_end(&mut head)) {
        Ok(1..) => {}
        Ok(0) if !create => return Err(OpenError::NotAPetstore(path.into())),
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            return Err(OpenError::file(path)(cause));
        }
        Err(_) if !create => return Err(OpenError::Missing(path.into())),
        Ok(0) | Err(_) => return reject_orphaned_wal(path),
    }
    // Offsets as in the SQLite file format: user_version at 60, application_id
    // at 68, and at 100 the b-tree page header of the schema table.
    let number = |offset: usize| {
        let bytes = head.get(offset..offset + 4)?.try_into().ok()?;
        Some(i64::from(i32::from_be_bytes(bytes)))
    };
    let is_empty_leaf = head.get(100) == Some(&13) && head.get(103..105) == Some(&[0, 0]);
    match (number(60), number(68)) {
        (Some(user_version), Some(application_id)) if head.starts_with(b"SQLite format 3\0") => {
            Identity {
                application_id,
                user_version,
                has_schema: !is_empty_leaf,
            }
            .classify(path)
        }
        _ => Err(OpenError::NotAPetstore(path.into())),
    }
}

/// Fails if a missing or empty file has a write-ahead log with content. SQLite would delete
/// the log, which has the newest changes if the file was moved away.
fn reject_orphaned_wal(path: &Path) -> Result<SchemaState, OpenError> {
    let wal = wal_path(path);
    match fs::symlink_metadata(&wal) {
        Ok(file) if file.len() > 0 => Err(OpenError::OrphanedWal {
            path: path.into(),
            wal,
        }),
        _ => Ok(SchemaState::Empty),
    }
}

/// The lock of the process that serves a file: an advisory `flock` on the whole file,
/// independent of SQLite's POSIX record locks. The kernel releases it when the process ends,
/// however it ends.
#[derive(Debug)]
pub(crate) struct ServiceLock {
    pub(super) file: File,
}

impl Drop for ServiceLock {
    /// Closing the file is not enough: a child process that is being started has it open too.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Takes the service lock, unless another process has it.
///
/// A new file is for its owner only, and SQLite creates the `-wal` and `-shm` files with
/// the same mode.
pub(super) fn lock(path: &Path, create: bool) -> io::Result<Option<ServiceLock>> {
    let mut options = File::options();
    options.read(true).write(true).create(create).mode(0o600);
    let file = open_regular(path, &mut options)?;
    match file.try_lock() {
        // The file may have been replaced by a restored backup, or deleted, since it was opened.
        Ok(()) => Ok(leads_to(path, &file).then_some(ServiceLock { file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

/// Returns true if the path leads to this file.
pub(super) fn leads_to(path: &Path, file: &File) -> bool {
    let found = identity(path);
    found.is_some() && found == file.metadata().ok().map(|file| (file.dev(), file.ino()))
}
