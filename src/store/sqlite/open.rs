//! Opening the file: what is taken for a petstore's, who may serve it, and how
//! an older one is brought up to date.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};

use super::super::{OpenError, Options, Role};

/// The schema, one step a file, in order. A step that was released is never
/// changed; `user_version` says how many a file has seen.
const MIGRATIONS: [&str; 3] = [
    include_str!("../../../migrations/sqlite/1_animals_orders_keys.sql"),
    include_str!("../../../migrations/sqlite/2_sales.sql"),
    include_str!("../../../migrations/sqlite/3_deprecated_calls.sql"),
];

/// "PETS", as the first step writes it.
const APPLICATION_ID: i64 = 0x5045_5453;

/// How long a process waits for one that holds the file for a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes sure that the file is a petstore's and has the current schema, making
/// it where there is none. Gives its full path and, to a service, the lock.
///
/// Whatever is refused is left as it was.
pub fn prepare(path: &Path, options: &Options) -> Result<(PathBuf, Option<File>), OpenError> {
    let failed = |cause| OpenError::File {
        path: path.into(),
        cause,
    };
    let role = options.role;
    let path = full_path(path).map_err(failed)?;
    let give_up = Instant::now() + PATIENCE;
    loop {
        let current = glance(&path, options)?;
        if current && role == Role::Tool {
            return Ok((path, None));
        }
        // The schema changes only under the lock of the service, so never
        // under the feet of a running one.
        match lock(&path, options.create).map_err(failed)? {
            Some(lock) => {
                migrate(&path)?;
                return Ok((path, (role == Role::Service).then_some(lock)));
            }
            None if role == Role::Service && current => return Err(OpenError::InUse(path)),
            None if Instant::now() > give_up => return Err(OpenError::InUse(path)),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Opens a file that is known to be a petstore's, to write to it.
pub fn connect(path: &Path, role: Role) -> rusqlite::Result<Connection> {
    let mut db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    match role {
        Role::Service => {
            db.busy_timeout(PATIENCE)?;
            // A copy that was restored may be without.
            db.pragma_update(None, "journal_mode", "WAL")?;
        }
        Role::Tool => db.busy_handler(Some(wait_for_a_gap))?,
    }
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // More than there are.
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// A service under load leaves only short gaps between its commits. A tool asks
/// often enough to meet one, for half a minute.
fn wait_for_a_gap(tries: i32) -> bool {
    if tries == 2_000 {
        // If nobody reads it, that is no failure.
        let _ = writeln!(io::stderr(), "The database is busy. Waiting for it.");
    }
    thread::sleep(Duration::from_millis(1));
    tries < 30_000
}

/// The same, only to read from it.
pub fn connect_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(PATIENCE)?;
    // A plan holds for any values; otherwise a list would be planned anew each
    // time.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

/// Opens a file that must be a petstore's to read it, whoever serves it, and
/// says whether its schema is the current one. Nothing is changed.
pub fn open_to_read(path: &Path) -> Result<(Connection, bool), OpenError> {
    let (db, version) = look(path)?;
    Ok((db, version == MIGRATIONS.len() as i64))
}

/// The same for a file whose schema must be the current one.
pub fn open_current(path: &Path) -> Result<Connection, OpenError> {
    let known = MIGRATIONS.len() as i64;
    match look(path)? {
        (db, version) if version == known => Ok(db),
        (_, found) => Err(OpenError::Older {
            place: path.display().to_string(),
            found,
            known,
        }),
    }
}

fn look(path: &Path) -> Result<(Connection, i64), OpenError> {
    let options = Options {
        create: false,
        ..Options::new(Role::Tool)
    };
    let full = full_path(path).map_err(|cause| OpenError::File {
        path: path.into(),
        cause,
    })?;
    glance(&full, &options)?;
    let failed = |cause| OpenError::Database {
        path: full.clone(),
        cause,
    };
    let db = connect_read_only(&full).map_err(failed)?;
    // What the file says may be out of date: the log beside it is newer.
    let (application, version, _) = marks_of(&db).map_err(failed)?;
    judge(&full, application, version)?;
    match application {
        0 => Err(OpenError::NotAPetstore(full)),
        _ => Ok((db, version)),
    }
}

/// What the current schema is made of: the kind, the name and the text of each
/// table, index and trigger.
pub fn schema(db: &Connection) -> rusqlite::Result<Vec<[String; 3]>> {
    let select = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1, 2";
    db.prepare(select)?
        .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
        .collect()
}

/// A fresh store, in memory.
pub fn fresh() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    for migration in MIGRATIONS {
        db.execute_batch(migration)?;
    }
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

/// Looks at the first bytes of the file: does it have the current schema? Only
/// `migrate` knows for sure, as the newest state may be in the log beside it.
///
/// It must not be called in a process that has the file open: closing a file
/// gives up the locks that SQLite holds on it in the same process.
fn glance(path: &Path, options: &Options) -> Result<bool, OpenError> {
    let mut head = Vec::new();
    // Opening a pipe would wait for ever.
    if fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Err(OpenError::NotAPetstore(path.into()));
    }
    match File::open(path).and_then(|file| file.take(105).read_to_end(&mut head)) {
        Ok(0) if options.create => return Ok(false),
        Ok(0) => return Err(OpenError::NotAPetstore(path.into())),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound && options.create => return Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::Missing(path.into()));
        }
        Err(cause) => {
            let path = path.into();
            return Err(OpenError::File { path, cause });
        }
    }
    // The places are those of SQLite's file format.
    let number = |at: usize| {
        let bytes = head.get(at..at + 4)?.try_into().ok()?;
        Some(i64::from(i32::from_be_bytes(bytes)))
    };
    let version = number(60).filter(|_| head.starts_with(b"SQLite format 3\0"));
    // A page of the schema's tree that is not an empty leaf.
    let has_tables = head.get(100) != Some(&13) || head.get(103..105) != Some(&[0, 0]);
    match (number(68), version) {
        (Some(0), Some(_)) if has_tables => Err(OpenError::NotAPetstore(path.into())),
        (Some(application), Some(version)) => judge(path, application, version),
        _ => Err(OpenError::NotAPetstore(path.into())),
    }
}

/// Says whether a file with these marks is a petstore's of the current schema;
/// one without marks may be in the making.
fn judge(path: &Path, application: i64, version: i64) -> Result<bool, OpenError> {
    let known = MIGRATIONS.len() as i64;
    match (application, version) {
        (0, 0) => Ok(false),
        (APPLICATION_ID, found) if found > known => Err(OpenError::Newer {
            place: path.display().to_string(),
            found,
            known,
        }),
        (APPLICATION_ID, found) => Ok(found == known),
        _ => Err(OpenError::NotAPetstore(path.into())),
    }
}

/// Takes the lock of the process that serves the file, unless another has it.
///
/// It is a lock of the system on the file as a whole, which SQLite's own locks
/// do not meet. The system gives it back when the process ends, however it ends.
fn lock(path: &Path, create: bool) -> io::Result<Option<File>> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

/// Refuses a file whose schema a newer petstore has changed in the log beside it.
pub fn refuse_newer(db: &Connection, path: &Path) -> Result<(), OpenError> {
    let version = db.pragma_query_value(None, "user_version", |row| row.get(0));
    let version = version.map_err(|cause| OpenError::Database {
        path: path.into(),
        cause,
    })?;
    judge(path, APPLICATION_ID, version).map(drop)
}

/// Runs the steps that the file has not seen, all of them or none. It is called
/// under the lock, and looks once more before it changes anything.
fn migrate(path: &Path) -> Result<(), OpenError> {
    let failed = |cause| OpenError::Database {
        path: path.into(),
        cause,
    };
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(PATIENCE)?;
        Ok(db)
    };
    // Only to read, so that another program's log stays as it is. That cannot
    // be done where a crash has left a journal to be rolled back.
    let marks = connect_read_only(path).and_then(|db| marks_of(&db));
    let marks = marks.or_else(|_| marks_of(&open()?));
    let (application, version, tables) = marks.map_err(failed)?;
    if judge(path, application, version)? {
        return Ok(());
    }
    if application == 0 && tables > 0 {
        return Err(OpenError::NotAPetstore(path.into()));
    }
    let run = || {
        let mut db = open()?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for migration in MIGRATIONS.iter().skip(version as usize) {
            step.execute_batch(migration)?;
        }
        step.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
        step.commit()
    };
    run().map_err(failed)
}

/// The marks of a file and how many tables, indexes and so on it has.
fn marks_of(db: &Connection) -> rusqlite::Result<(i64, i64, i64)> {
    let number = |sql: &str| db.query_row(sql, [], |row| row.get(0));
    Ok((
        number("PRAGMA application_id")?,
        number("PRAGMA user_version")?,
        number("SELECT count(*) FROM sqlite_schema")?,
    ))
}
