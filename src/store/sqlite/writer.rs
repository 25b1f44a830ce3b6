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
        command::{Panicked, PendingCommand},
        error::Error,
        metrics::{CommitMetrics, WalMetrics},
        queue::{try_enqueue, wait},
        working_set::{Times, WorkingSet},
    },
    batch, classify,
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
    Command(Box<dyn PendingCommand>),
    Write(Box<dyn PendingWrite>),
    Stop,
}

/// The commands and other writes of one transaction.
#[derive(Default)]
struct Batch {
    commands: Vec<Box<dyn PendingCommand>>,
    writes: Vec<Box<dyn PendingWrite>>,
}

impl Batch {
    fn len(&self) -> usize {
        self.commands.len() + self.writes.len()
    }

    fn fail(self, error: &Error) {
        for command in self.commands {
            command.finish(Err(error.clone()));
        }
        for write in self.writes {
            write.respond(Err(error.clone()));
        }
    }
}

/// The outcome of a committed transaction.
struct Committed {
    /// The working set of the commands, with their changes.
    set: Option<WorkingSet>,
    /// The result of each other write.
    results: Vec<Result<(), Error>>,
    event_head: i64,
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
        times: impl Fn() -> Times + Send + 'static,
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
            times: Box::new(times),
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
        self.run(touch).await
    }

    /// Queues a command. Returns how long to wait for it.
    pub(super) fn enqueue(&self, command: Box<dyn PendingCommand>) -> Result<Duration, Error> {
        try_enqueue(&self.queue, Message::Command(command))?;
        Ok(self.timeout)
    }

    /// Runs a write that no cached read depends on, in its own savepoint, and returns once it
    /// is durable. It is not cancelled if the caller disconnects.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        let write = Box::new(QueuedWrite {
            work: Some(work),
            value: None,
            sender,
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

    /// Sends the caller its value, or the error of `result`.
    fn respond(self: Box<Self>, result: Result<(), Error>);
}

struct QueuedWrite<W, T> {
    work: Option<W>,
    value: Option<T>,
    sender: oneshot::Sender<Result<T, Error>>,
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

    fn respond(self: Box<Self>, result: Result<(), Error>) {
        let value = self.value;
        let result = result.map(|()| value.expect("a write that succeeded has a value"));
        // The caller may have disconnected.
        let _ = self.sender.send(result);
    }
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
    /// The times that commands are decided by.
    times: Box<dyn Fn() -> Times + Send>,
}

impl WriterThread {
    fn run_loop(mut self, messages: &Receiver<Message>) {
        let mut open = true;
        while open {
            let mut batch = Batch::default();
            let mut next = messages.recv_timeout(IDLE_CHECK_INTERVAL);
            loop {
                match next {
                    Ok(Message::Command(command)) => batch.commands.push(command),
                    Ok(Message::Write(write)) => batch.writes.push(write),
                    Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => open = false,
                    Err(RecvTimeoutError::Timeout) => break,
                }
                if !open || batch.len() >= MAX_BATCH_SIZE {
                    break;
                }
                next = messages.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            if batch.len() > 0 {
                self.process(batch);
            } else if open {
                let _ = self.file.check();
                self.refresh_event_head();
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

    /// Runs and commits a batch, then responds to every caller in it. If the database rejects
    /// the commands, their halves run again, down to the one at fault.
    fn process(&mut self, mut batch: Batch) {
        let started = Instant::now();
        let times = (self.times)();
        let committed = self.file.transact(|db| commit(db, &mut batch, times));
        let error = match committed {
            Ok(committed) => return self.publish(batch, committed, started),
            Err(error) => error,
        };
        if matches!(error, Error::Internal(_)) && !batch.commands.is_empty() && batch.len() > 1 {
            let writes = mem::take(&mut batch.writes);
            let half = batch.commands.len().div_ceil(2);
            let others = Batch {
                commands: batch.commands.split_off(half),
                writes,
            };
            self.process(batch);
            return self.process(others);
        }
        tracing::error!(%error, writes = batch.len(), "write batch failed");
        self.shared.commits.record(batch.len(), started, false);
        // It may have been committed nevertheless.
        self.shared.version.advance(true, true);
        if is_failure_of_file(&error) {
            self.shared.health.write_failed(&error);
        }
        report_damage(&self.shared.health, &error);
        batch.fail(&error);
    }

    fn publish(&self, batch: Batch, committed: Committed, started: Instant) {
        let Committed {
            set,
            results,
            event_head,
        } = committed;
        if let Some(set) = set {
            if set.writes > 0 {
                self.shared.commits.record(set.writes, started, true);
            }
            // Before any response: a client that has seen its write acknowledged must not get
            // a cached read from before it.
            self.shared
                .version
                .advance(set.has_inserts, set.has_updates);
        }
        self.publish_event_head(event_head);
        for command in batch.commands {
            command.finish(Ok(()));
        }
        for (write, result) in batch.writes.into_iter().zip(results) {
            write.respond(result);
        }
    }
}

/// Runs a batch in one transaction. If commands are rejected, the error is internal, and no
/// other write was run.
fn commit(db: &Connection, batch: &mut Batch, times: Times) -> Result<Committed, Error> {
    execute_statement(db, "BEGIN IMMEDIATE").map_err(classify)?;
    let mut set = None;
    if !batch.commands.is_empty() {
        let run = AssertUnwindSafe(|| batch::run(db, &mut batch.commands, times));
        let run = catch_unwind(run).map_err(|_| Error::Internal(Arc::new(Panicked)))?;
        set = Some(run.map_err(classify)?);
    }
    let results = batch
        .writes
        .iter_mut()
        .map(|write| run_one(db, write.as_mut()));
    let results = results.collect::<Result<_, _>>()?;
    let event_head = match &set {
        Some(set) => set.last_event + set.events.len() as i64,
        None => last_sequence(db).map_err(classify)?,
    };
    match execute_statement(db, "COMMIT") {
        Ok(()) => Ok(Committed {
            set,
            results,
            event_head,
        }),
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

/// Runs one write in a savepoint. The inner result is that of the write alone; the outer error
/// fails the whole batch, because the transaction is lost.
fn run_one(db: &Connection, write: &mut dyn PendingWrite) -> Result<Result<(), Error>, Error> {
    execute_statement(db, "SAVEPOINT write").map_err(unavailable)?;
    let error = match catch_unwind(AssertUnwindSafe(|| write.run(db))) {
        Ok(ran) => ran.map_err(classify).err(),
        Err(_) => Some(Error::Internal(Arc::new(Panicked))),
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
            execute_statement(db, "RELEASE write").map_err(unavailable)?;
            Ok(Ok(()))
        }
        Some(Error::Internal(cause)) => {
            execute_statement(db, "ROLLBACK TO write").map_err(unavailable)?;
            execute_statement(db, "RELEASE write").map_err(unavailable)?;
            Ok(Err(Error::Internal(cause)))
        }
        Some(error) => Err(error),
    }
}

/// The error of a statement without which the batch cannot go on.
fn unavailable(cause: rusqlite::Error) -> Error {
    Error::Unavailable(Arc::new(cause))
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
#[error("the transaction was rolled back")]
struct RolledBack;

fn execute_statement(db: &Connection, statement: &str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests;
