//! The database file as the writer has it open: it is checked, checkpointed, and
//! reopened after failures.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};

use super::{
    super::{Role, error::Error, metrics::WalMetrics, sales::LogIdentity},
    checkpoint::Checkpoints,
    classify, error_code,
    files::{Files, FilesChanged},
    readers::{Readers, Suspension},
    recovery::{WritableConnection, open_recovered, wal_path},
    version::VersionCounter,
};

/// The pause after the file could not be reopened.
const REOPEN_DELAY: Duration = Duration::from_millis(500);

/// The cause of a delayed checkpoint: a new WAL index needs the file for itself.
const IN_USE: &str = "waiting for other processes to close the database";

pub(super) struct WritableFile {
    /// `None` if it could not be reopened. It is closed only while the readers are
    /// suspended: see [`WalIndex`](super::recovery::WalIndex).
    opened: Option<WritableConnection>,
    /// True if the connection may be unusable after a failure.
    is_broken: bool,
    /// True if a checkpoint failed with the present WAL index. The frames that it copied may
    /// be lost, and yet reads prefer them to the WAL.
    is_index_poisoned: bool,
    path: PathBuf,
    /// The number of times that the file was opened.
    opened_count: i64,
    /// The identity of the files that were opened.
    identity: Files,
    role: Role,
    readers: Readers,
    version: Arc<VersionCounter>,
    checkpoints: Checkpoints,
    /// The earliest time of the next attempt, after reopening has failed.
    reopen_at: Option<Instant>,
}

impl WritableFile {
    /// Takes over an open file. `readers`, those of the same store, are suspended while it is
    /// reopened.
    pub(super) fn new(
        mut opened: WritableConnection,
        path: &Path,
        role: Role,
        readers: Readers,
        version: Arc<VersionCounter>,
        wal: Arc<WalMetrics>,
    ) -> rusqlite::Result<Self> {
        let checkpoints = Checkpoints::new(wal);
        checkpoints.observe(&mut opened.db)?;
        Ok(Self {
            opened: Some(opened),
            is_broken: false,
            is_index_poisoned: false,
            path: path.into(),
            opened_count: 1,
            identity: Files::identify(path),
            role,
            readers,
            version,
            checkpoints,
            reopen_at: None,
        })
    }

    /// Returns the connection, if the file is open.
    pub(super) fn connection(&self) -> Option<&Connection> {
        self.opened.as_ref().map(|opened| &opened.db)
    }

    /// Returns numbers that change when another program has changed the file.
    pub(super) fn outside_changes(&self) -> Result<LogIdentity, Error> {
        let db = self.connection().ok_or(NotOpen);
        let db = db.map_err(|cause| Error::Unavailable(Arc::new(cause)))?;
        // Changes with every commit of another connection, and this process writes with no other.
        let commits = db
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut pragma| pragma.query_row([], |row| row.get(0)));
        Ok(LogIdentity(self.opened_count, commits.map_err(classify)?))
    }

    /// Runs work on the connection, and rolls back a transaction that it leaves open.
    pub(super) fn with_connection<T>(
        &mut self,
        run: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check()?;
        if self.is_broken || self.is_index_poisoned {
            self.recover()?;
        }
        let Some(WritableConnection { db, .. }) = &self.opened else {
            return Err(Error::Unavailable(Arc::new(NotOpen)));
        };
        let result = run(db);
        let rolled_back = db.is_autocommit() || db.execute_batch("ROLLBACK").is_ok();
        self.is_broken = !rolled_back || result.as_ref().is_err_and(breaks_connection);
        // A file may have been deleted since the check.
        match self.check() {
            Err(cause) if result.is_ok() => Err(Error::OutcomeUnknown(Arc::new(cause))),
            _ => result,
        }
    }

    /// Checks that writes are not lost with the process, and saves a WAL that was deleted.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.identity.check() {
            Ok(()) => Ok(()),
            Err(FilesChanged::Deleted(path)) => self.save_deleted_wal(&path),
            Err(replaced) => Err(Error::Unavailable(Arc::new(replaced))),
        }
    }

    /// Reopens the file, but not too often. Fails while another process uses a
    /// poisoned index.
    fn recover(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if self.reopen_at.is_some_and(|at| now < at) {
            return Err(Error::Unavailable(Arc::new(NotOpen)));
        }
        if self.is_index_poisoned && self.is_index_in_use() {
            self.reopen_at = Some(now + REOPEN_DELAY);
            return Err(Error::Unavailable(Arc::new(IndexInUse)));
        }
        let readers = self.readers.clone();
        self.reopen(&readers.suspend())
    }

    fn is_index_in_use(&self) -> bool {
        let file = self.opened.as_ref();
        file.is_some_and(|file| file.index.is_in_use())
    }

    /// Reopens the file, with a new WAL index unless another process uses it.
    fn reopen(&mut self, _: &Suspension) -> Result<(), Error> {
        self.is_broken = true;
        self.opened = None;
        let opened = open_recovered(&self.path, self.role)
            .map_err(|cause| Error::Unavailable(Arc::new(cause)))
            .and_then(|mut file| {
                let observed = self.checkpoints.observe(&mut file.db);
                observed.map(|()| file).map_err(classify)
            });
        // Recovery may have brought back a commit of unknown outcome.
        self.version.advance(true, true);
        match opened {
            Ok(opened) => {
                self.is_broken = false;
                self.is_index_poisoned &= !opened.index.is_new;
                self.reopen_at = None;
                self.identity = Files::identify(&self.path);
                self.opened = Some(opened);
                self.opened_count += 1;
                Ok(())
            }
            Err(error) => {
                self.reopen_at = Some(Instant::now() + REOPEN_DELAY);
                Err(error)
            }
        }
    }

    pub(super) fn checkpoint_if_due(&mut self) {
        if self.checkpoints.is_due() {
            self.checkpoint();
        }
    }

    /// Copies the WAL into the database file.
    ///
    /// After a failure, frames that earlier checkpoints copied may be lost, but reads still
    /// prefer them to the WAL. So nothing is written until a new index ignores them.
    fn checkpoint(&mut self) {
        let has_new_index = |file: &WritableConnection| file.index.is_new;
        if !self.opened.as_ref().is_some_and(has_new_index) {
            if self.is_index_in_use() {
                return self.checkpoints.postpone(IN_USE);
            }
            if let Err(error) = self.check().and_then(|()| self.recover()) {
                return self.checkpoints.postpone(error);
            }
        }
        match &mut self.opened {
            Some(file) if file.index.is_new => {
                if self.checkpoints.run(&file.db).is_err() {
                    file.index.is_new = false;
                    self.is_index_poisoned = true;
                    let _ = self.recover();
                }
            }
            _ => self.checkpoints.postpone(IN_USE),
        }
    }

    /// Saves a WAL that was deleted, through the open descriptor, and reopens the file. If only
    /// the index was deleted, reopening is enough. Another process must not have the file
    /// open: it would keep the index alive, and could write to the deleted WAL.
    fn save_deleted_wal(&mut self, path: &Path) -> Result<(), Error> {
        let unsaved = || Error::Unavailable(Arc::new(FilesChanged::Deleted(path.into())));
        if self.is_index_in_use() {
            return Err(unsaved());
        }
        let readers = self.readers.clone();
        let suspended = readers.suspend();
        let file = self.opened.as_ref().ok_or_else(unsaved)?;
        if path == wal_path(&self.path) {
            let saved = file.save_deleted_wal(&self.path);
            saved.map_err(|cause| Error::Unavailable(Arc::new(cause)))?;
        }
        self.reopen(&suspended)?;
        tracing::warn!(path = %path.display(), "deleted write-ahead log saved and replaced");
        Ok(())
    }

    /// Checkpoints and closes the file.
    pub(super) fn close(mut self) {
        if self.check().is_ok()
            && let Some(opened) = self.opened.take()
        {
            opened.checkpoint_and_close();
        }
    }
}

/// Returns true if the connection should be reopened after an error.
fn breaks_connection(error: &Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull};
    match error {
        Error::Unavailable(cause) => error_code(cause)
            .is_some_and(|code| !matches!(code, DatabaseBusy | DatabaseLocked | DiskFull)),
        Error::OutcomeUnknown(_) => true,
        Error::Overloaded | Error::Internal(_) => false,
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the database file could not be reopened after a failure")]
struct NotOpen;

#[derive(Debug, thiserror::Error)]
#[error("the database must be recovered, but another process has it open")]
struct IndexInUse;
