//! Opening the file: what is taken for a petstore's, who may serve it, and how
//! an older one is brought up to date.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::super::{OpenError, Options, Role};

/// The schema, one step a file, in order. A step that was released is never
/// changed; `user_version` says how many a file has seen.
const MIGRATIONS: [&str; 1] = [include_str!(
    "../../../migrations/sqlite/1_animals_orders_keys.sql"
)];

/// "PETS", as the first step writes it.
const APPLICATION_ID: i64 = 0x5045_5453;

/// How long a process waits for one that holds the file for a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes sure that the file is a petstore's and has the current schema, making
/// it where there is none. Gives its full path and, to a service, the lock.
///
/// Whatever is refused is left as it was.
pub fn prepare(path: &Path, options: &Options) -> Result<(PathBuf, Option<File>), OpenError> {
    let role = options.role;
    let failed = |cause| OpenError::File {
        path: path.into(),
        cause,
    };
    let path = full_path(path).map_err(failed)?;
    if !options.create && !path.exists() {
        return Err(OpenError::Missing(path));
    }
    let give_up = Instant::now() + PATIENCE;
    loop {
        let current = probe(&path)?;
        if current && role == Role::Tool {
            return Ok((path, None));
        }
        // The schema changes only under the lock of the service, so never
        // under the feet of a running one.
        match lock(&path)? {
            Some(lock) => {
                migrate(&path).map_err(|cause| OpenError::Database {
                    path: path.clone(),
                    cause,
                })?;
                return Ok((path, (role == Role::Service).then_some(lock)));
            }
            None if role == Role::Service && current => return Err(OpenError::InUse(path)),
            None if Instant::now() > give_up => return Err(OpenError::InUse(path)),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Opens a file that is known to be a petstore's, to write to it.
pub fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(PATIENCE)?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    Ok(db)
}

/// The same, only to read from it.
pub fn connect_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(PATIENCE)?;
    Ok(db)
}

/// The path with its links followed, so that one file has one lock.
fn full_path(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let name = path.file_name().ok_or(e)?;
            Ok(fs::canonicalize(folder)?.join(name))
        }
        found => found,
    }
}

/// Looks at the file without changing it: does it have the current schema?
///
/// It must not be called in a process that has the file open: closing a file
/// gives up the locks that SQLite holds on it in the same process.
fn probe(path: &Path) -> Result<bool, OpenError> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(16).read_to_end(&mut start)) {
        Ok(0) => return Ok(false),
        Ok(_) if start == MAGIC => {}
        Ok(_) => return Err(OpenError::NotAPetstore(path.into())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(cause) => {
            let path = path.into();
            return Err(OpenError::File { path, cause });
        }
    }
    let read = || {
        let db = connect_read_only(path)?;
        let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let objects = "SELECT count(*) FROM sqlite_schema";
        let objects: i64 = db.query_row(objects, [], |row| row.get(0))?;
        Ok((number("application_id")?, number("user_version")?, objects))
    };
    let known = MIGRATIONS.len() as i64;
    match read() {
        // Without a single table it is nobody's yet.
        Ok((0, 0, 0)) => Ok(false),
        Ok((APPLICATION_ID, found, _)) if found > known => {
            let path = path.into();
            Err(OpenError::Newer { path, found, known })
        }
        Ok((APPLICATION_ID, found, _)) => Ok(found == known),
        Ok(_) => Err(OpenError::NotAPetstore(path.into())),
        Err(cause) => {
            let path = path.into();
            Err(OpenError::Database { path, cause })
        }
    }
}

/// Takes the lock of the process that serves the file, unless another has it.
/// The system gives it back when the process ends, however it ends.
fn lock(path: &Path) -> Result<Option<File>, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    let lock_path = PathBuf::from(name);
    let locked = File::create(&lock_path).map(|file| match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(cause),
    });
    locked.flatten().map_err(|cause| OpenError::File {
        path: lock_path,
        cause,
    })
}

/// Runs the steps that the file has not seen, all of them or none.
fn migrate(path: &Path) -> rusqlite::Result<()> {
    let mut db = Connection::open(path)?;
    db.busy_timeout(PATIENCE)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let seen: u32 = step.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for migration in MIGRATIONS.iter().skip(seen as usize) {
        step.execute_batch(migration)?;
    }
    step.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    step.commit()
}
