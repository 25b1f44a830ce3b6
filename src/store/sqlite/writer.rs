//! Group commit: the only thread of the service that writes to the SQLite file.
//!
//! Writes that arrive while a commit is in flight share the next one, so one
//! fsync pays for all of them. No caller gets its result before its commit is
//! durable.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rusqlite::{Connection, ErrorCode, ffi};
use tokio::sync::{oneshot, watch};

use super::{
    super::{
        Options, Role, Version,
        error::Error,
        metrics::{CommitMetrics, WalMetrics},
        queue::{try_enqueue, wait},
    },
    classify,
    events::last_sequence,
    health::Health,
    readers::Readers,
    recovery::Opened,
    report_damage,
    version::VersionCounter,
    writable_file::WritableFile,
};

/// The maximum number of writes that share a commit.
const MAX_BATCH_SIZE: usize = 1024;

const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than the busy handler of a tool waits for the database.
const TOOL_WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// The pauses between the attempts to overwrite a failed commit.
const OVERWRITE_DELAYS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(750),
];

/// How often the files are checked while there is nothing to write.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// If checkpoints fail, the service is not ready once the WAL is larger than this.
const MAX_WAL_SIZE: i64 = 64 << 20;
/// Even if they are only delayed, as by a long backup.
const MAX_DELAYED_WAL_SIZE: i64 = 1 << 30;

/// Writes a page without a net effect.
const TOUCH: [&str; 2] = [
    "UPDATE counts SET pets = pets + 1",
    "UPDATE counts SET pets = pets - 1",
];

enum Message {
    Write(Box<dyn PendingWrite>),
    Stop,
}

#[derive(Debug)]
pub(super) struct Writer {
    queue: Sender<Message>,
    shared: Arc<Shared>,
    timeout: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread. The readers are those of the same store.
    pub(super) fn start(
        opened: Opened,
        path: &Path,
        readers: Readers,
        health: &Arc<Health>,
        options: &Options,
    ) -> rusqlite::Result<Self> {
        let (queue, messages) = bounded(options.write_queue_capacity);
        let shared = Arc::new(Shared {
            health: health.clone(),
            ..Shared::default()
        });
        shared.event_head.send_replace(last_sequence(&opened.db)?);
        let (version, wal) = (shared.version.clone(), shared.wal.clone());
        let file = WritableFile::new(opened, path, options.role, readers, version, wal)?;
        let thread = WriterThread {
            file,
            shared: shared.clone(),
        };
        let thread = thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || thread.run_loop(&messages))
            .expect("the system can start a thread");
        Ok(Self {
            queue,
            shared,
            timeout: match options.role {
                Role::Service => WRITE_TIMEOUT,
                Role::Command => TOOL_WRITE_TIMEOUT,
            },
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(super) fn version(&self) -> Version {
        self.shared.version.get()
    }

    /// The number of writes waiting for the thread.
    pub(super) fn queue_depth(&self) -> usize {
        self.queue.len()
    }

    /// Follows the sequence number of the newest committed event.
    pub(super) fn event_head(&self) -> watch::Receiver<i64> {
        self.shared.event_head.subscribe()
    }

    pub(super) fn commits(&self) -> &CommitMetrics {
        &self.shared.commits
    }

    pub(super) fn wal(&self) -> &WalMetrics {
        &self.shared.wal
    }

    /// Health check: fails unless a page can be written now and the WAL is bounded.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        let wal = &self.shared.wal;
        let limit = match wal.failing.load(Ordering::Relaxed) {
            true => MAX_WAL_SIZE,
            false => MAX_DELAYED_WAL_SIZE,
        };
        if wal.size.get() > limit {
            return Err(Error::Unavailable(Arc::new(WalTooLarge)));
        }
        self.run(|()| Effect::None, touch).await
    }

    /// Runs a write in its own savepoint and returns once it is durable. It is
    /// not cancelled if the caller disconnects. `effect` derives from the result
    /// how the write affects cached reads.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        effect: fn(&T) -> Effect,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.enqueue(effect, true, work).await
    }

    /// Like [`run`](Self::run), for a write of a single statement. SQLite undoes
    /// a failed statement by itself, so this saves the cost of a savepoint.
    pub(super) async fn run_statement<T: Send + 'static>(
        &self,
        effect: fn(&T) -> Effect,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.enqueue(effect, false, work).await
    }

    async fn enqueue<T: Send + 'static>(
        &self,
        effect: fn(&T) -> Effect,
        savepoint: bool,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        let write = Box::new(QueuedWrite {
            work: Some(work),
            value: None,
            sender,
            effect,
            savepoint,
        });
        try_enqueue(&self.queue, Message::Write(write))?;
        let unknown = Error::OutcomeUnknown;
        wait(result, self.timeout, unknown, unknown).await
    }

    /// Drains the queue, then joins the thread.
    pub(super) async fn close(&self) {
        let thread = self
            .thread
            .lock()
            .expect("no thread panics while holding the lock")
            .take();
        let queue = self.queue.clone();
        let closing = tokio::task::spawn_blocking(move || {
            let _ = queue.send(Message::Stop);
            thread.map(JoinHandle::join)
        });
        let _ = closing.await;
    }
}

/// One write of a batch: it runs before the commit, and responds after it.
trait PendingWrite: Send {
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()>;

    fn effect(&self) -> Effect;

    fn needs_savepoint(&self) -> bool;

    /// Sends the caller its value, or the error of `result`.
    fn respond(self: Box<Self>, result: Result<(), Error>);
}

struct QueuedWrite<W, T> {
    work: Option<W>,
    value: Option<T>,
    sender: oneshot::Sender<Result<T, Error>>,
    effect: fn(&T) -> Effect,
    savepoint: bool,
}

impl<W, T> PendingWrite for QueuedWrite<W, T>
where
    W: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let work = self.work.take().expect("a write runs once");
        self.value = Some(work(db)?);
        Ok(())
    }

    fn effect(&self) -> Effect {
        self.value.as_ref().map_or(Effect::None, self.effect)
    }

    fn needs_savepoint(&self) -> bool {
        self.savepoint
    }

    fn respond(self: Box<Self>, result: Result<(), Error>) {
        let value = self.value;
        let result = result.map(|()| value.expect("a write that succeeded has a value"));
        // The caller may have disconnected.
        let _ = self.sender.send(result);
    }
}

/// How a write affects cached reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Only rows with a new id were added.
    Insert,
    /// An existing row changed; others may have been added.
    Update,
    /// Nothing that is cached changed.
    None,
}

/// State that the writer thread publishes. No other thread changes it, except for the health.
#[derive(Debug, Default)]
struct Shared {
    health: Arc<Health>,
    version: Arc<VersionCounter>,
    commits: CommitMetrics,
    wal: Arc<WalMetrics>,
    event_head: watch::Sender<i64>,
}

/// The state of the writer thread.
struct WriterThread {
    file: WritableFile,
    shared: Arc<Shared>,
}

impl WriterThread {
    fn run_loop(mut self, messages: &Receiver<Message>) {
        let mut open = true;
        while open {
            match messages.recv_timeout(IDLE_CHECK_INTERVAL) {
                Ok(Message::Write(first)) => {
                    let mut batch = vec![first];
                    while batch.len() < MAX_BATCH_SIZE
                        && let Ok(next) = messages.try_recv()
                    {
                        match next {
                            Message::Write(write) => batch.push(write),
                            Message::Stop => {
                                open = false;
                                break;
                            }
                        }
                    }
                    self.process_batch(batch);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.file.check();
                    self.refresh_event_head();
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => open = false,
            }
            self.file.checkpoint_if_due();
        }
        self.file.close();
    }

    /// Recovery may have brought back a commit of unknown outcome.
    fn refresh_event_head(&self) {
        if let Some(Ok(head)) = self.file.connection().map(last_sequence) {
            self.publish_event_head(head);
        }
    }

    fn publish_event_head(&self, new: i64) {
        let head = &self.shared.event_head;
        head.send_if_modified(|head| mem::replace(head, new) != new);
    }

    /// Runs and commits a batch, then responds to every caller in it.
    fn process_batch(&mut self, mut batch: Vec<Box<dyn PendingWrite>>) {
        let started = Instant::now();
        let results = self.run_batch(&mut batch);
        let effects = batch.iter().map(|write| write.effect());
        let writes = effects.filter(|effect| *effect != Effect::None).count();
        if writes > 0 || results.is_err() {
            let commits = &self.shared.commits;
            commits.record(writes, started, results.is_ok());
        }
        // Before any response: a client that has seen its write acknowledged
        // must not get a cached read from before it.
        let has = |effect| batch.iter().any(|write| write.effect() == effect);
        let version = &self.shared.version;
        version.advance(has(Effect::Insert), has(Effect::Update));
        match results {
            Ok((results, event_head)) => {
                self.publish_event_head(event_head);
                for (write, result) in batch.into_iter().zip(results) {
                    write.respond(result);
                }
            }
            Err(error) => {
                tracing::error!(%error, writes = batch.len(), "write batch failed");
                if is_failure_of_file(&error) {
                    self.shared.health.write_failed(&error);
                }
                report_damage(&self.shared.health, &error);
                for write in batch {
                    write.respond(Err(error.clone()));
                }
            }
        }
    }

    /// Returns the result of each write and the newest event once the commit is durable, or
    /// the error that failed the whole batch.
    fn run_batch(
        &mut self,
        batch: &mut [Box<dyn PendingWrite>],
    ) -> Result<(Vec<Result<(), Error>>, i64), Error> {
        self.file.transact(|db| commit_batch(db, batch))
    }
}

/// Runs a batch in one transaction. Returns the results and the newest event.
fn commit_batch(
    db: &Connection,
    batch: &mut [Box<dyn PendingWrite>],
) -> Result<(Vec<Result<(), Error>>, i64), Error> {
    execute_statement(db, "BEGIN IMMEDIATE").map_err(classify)?;
    let results = batch.iter_mut().map(|write| run_one(db, write.as_mut()));
    let results = results.collect::<Result<_, _>>()?;
    let event_head = last_sequence(db).map_err(classify)?;
    match execute_statement(db, "COMMIT") {
        Ok(()) => Ok((results, event_head)),
        Err(cause) => Err(settle_failed_commit(db, cause)),
    }
}

/// Decides the outcome of a commit that failed, if possible.
///
/// If a write to the WAL failed, the commit record, which comes last, is not in it.
/// If the fsync failed, it is: readers do not see the commit, but recovery after a
/// crash would bring it back. The next commit overwrites it.
fn settle_failed_commit(db: &Connection, cause: rusqlite::Error) -> Error {
    let write_failed = cause.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_WRITE
    });
    let overwritten = || {
        OVERWRITE_DELAYS.iter().any(|delay| {
            thread::sleep(*delay);
            overwrite(db).is_ok()
        })
    };
    match write_failed || overwritten() {
        true => Error::Unavailable(Arc::new(cause)),
        false => Error::OutcomeUnknown(Arc::new(cause)),
    }
}

fn overwrite(db: &Connection) -> rusqlite::Result<()> {
    if !db.is_autocommit() {
        execute_statement(db, "ROLLBACK")?;
    }
    execute_statement(db, "BEGIN IMMEDIATE")?;
    touch(db)?;
    execute_statement(db, "COMMIT")
}

fn touch(db: &Connection) -> rusqlite::Result<()> {
    TOUCH.iter().try_for_each(|sql| execute_statement(db, sql))
}

/// Runs one write, in a savepoint if it has more than one statement. The inner
/// result is that of the write alone; the outer error fails the whole batch,
/// because the transaction is lost.
fn run_one(db: &Connection, write: &mut dyn PendingWrite) -> Result<Result<(), Error>, Error> {
    let savepoint = write.needs_savepoint();
    if savepoint {
        execute_statement(db, "SAVEPOINT write").map_err(classify)?;
    }
    let error = match catch_unwind(AssertUnwindSafe(|| write.run(db))) {
        Ok(ran) => ran.map_err(classify).err(),
        Err(_) if savepoint => Some(Error::Internal(Arc::new(Panicked))),
        // Its statement may have succeeded before the panic. Without a savepoint,
        // only rolling back the whole transaction undoes it.
        Err(_) => return Err(Error::Unavailable(Arc::new(Panicked))),
    };
    // On SQLITE_FULL, SQLITE_IOERR or SQLITE_NOMEM, SQLite may roll back the whole
    // transaction by itself. Later writes would then autocommit one by one.
    if db.is_autocommit() {
        return Err(match error {
            Some(error @ Error::Unavailable(_)) => error,
            Some(error) => Error::Unavailable(Arc::new(error)),
            None => Error::Unavailable(Arc::new(RolledBack)),
        });
    }
    match error {
        None => {
            if savepoint {
                execute_statement(db, "RELEASE write").map_err(classify)?;
            }
            Ok(Ok(()))
        }
        Some(Error::Internal(cause)) if !savepoint => Ok(Err(Error::Internal(cause))),
        Some(Error::Internal(cause)) => {
            execute_statement(db, "ROLLBACK TO write").map_err(classify)?;
            execute_statement(db, "RELEASE write").map_err(classify)?;
            Ok(Err(Error::Internal(cause)))
        }
        Some(error) => Err(error),
    }
}

/// Returns true if the writes of others would fail, too: not if a write has panicked, or another
/// process has the file locked.
fn is_failure_of_file(error: &Error) -> bool {
    let (Error::Unavailable(cause) | Error::OutcomeUnknown(cause)) = error else {
        return false;
    };
    let code = cause
        .downcast_ref()
        .and_then(rusqlite::Error::sqlite_error_code);
    let is_locked = matches!(
        code,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    );
    !is_locked && !cause.is::<Panicked>()
}

#[derive(Debug, thiserror::Error)]
#[error("checkpoints fail or are delayed, and the write-ahead log exceeds its limit")]
struct WalTooLarge;

#[derive(Debug, thiserror::Error)]
#[error("a write panicked")]
struct Panicked;

#[derive(Debug, thiserror::Error)]
#[error("the transaction was rolled back")]
struct RolledBack;

fn execute_statement(db: &Connection, statement: &str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests;
