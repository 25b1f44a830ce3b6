//! Group commit: the only thread of the service that writes to the SQLite file.
//!
//! Commands that arrive while a commit is in flight share the next one, and with it one fsync.
//! Other writes are rare, and each has its own commit. No caller gets its result before its commit
//! is durable.

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
        command::{MAX_GROUP_BYTES, PendingCommand, WritePanic},
        error::Error,
        metrics::{CommitMetrics, WalMetrics},
        queue::{try_enqueue, wait},
        sales::LogIdentity,
        working_set::{Times, WorkingSet},
    },
    classify, commit_group, error_code,
    events::last_sequence,
    health::Health,
    lock,
    readers::Readers,
    recovery::WritableConnection,
    report_damage,
    version::VersionCounter,
    writable_file::WritableFile,
};

/// The maximum number of commands that share a commit.
const MAX_GROUP_SIZE: usize = 1024;

/// The maximum time that a caller waits for a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for command-line processes, whose busy handler may first wait for the service.
const CLI_WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// The pauses between the attempts to overwrite a failed commit.
const OVERWRITE_DELAYS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(750),
];

/// The interval between checks of the files while there is nothing to write.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The size of the WAL beyond which the service is not ready, if checkpoints fail.
const MAX_WAL_SIZE: i64 = 64 << 20;
/// The same if checkpoints do not fail, but are delayed, for example by a long backup.
const MAX_DELAYED_WAL_SIZE: i64 = 1 << 30;

/// Statements that write a page without a net effect.
const TOUCH: [&str; 2] = [
    "UPDATE counts SET pets = pets + 1",
    "UPDATE counts SET pets = pets - 1",
];

/// A message to the writer thread.
enum Message {
    Command(Box<dyn PendingCommand>),
    Task(Task),
    /// Close the file and end. Everything that was queued before is written first.
    Stop,
}

/// Work that is not a command: a write in a transaction of its own, or a read, which sends the
/// caller its result.
type Task = Box<dyn FnOnce(&mut WriterThread) + Send>;

/// Handle to the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    /// The bounded queue of the thread.
    queue: Sender<Message>,
    pub(super) shared: Arc<PublishedState>,
    /// The maximum time that a caller waits for a write.
    timeout: Duration,
    /// The thread, until it is joined.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread. It suspends `readers`, which are those of the same store, while it
    /// reopens the file after a failure.
    pub(super) fn start(
        opened: WritableConnection,
        path: &Path,
        readers: Readers,
        health: &Arc<Health>,
        options: &Options,
        times: impl Fn() -> Times + Send + 'static,
    ) -> rusqlite::Result<Self> {
        let (queue, messages) = bounded(options.write_queue_capacity);
        let shared = Arc::new(PublishedState {
            health: health.clone(),
            ..PublishedState::default()
        });
        shared.event_head.send_replace(last_sequence(&opened.db)?);
        let version = shared.version.clone();
        let wal = shared.wal.clone();
        let file = WritableFile::new(opened, path, options.role, readers, version, wal)?;
        let state = WriterThread {
            file,
            shared: shared.clone(),
            times: Box::new(times),
        };
        let thread = thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || state.run_loop(&messages))
            .expect("the system can start a thread");
        Ok(Self {
            queue,
            shared,
            timeout: match options.role {
                Role::Service => WRITE_TIMEOUT,
                Role::Cli => CLI_WRITE_TIMEOUT,
            },
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(super) fn version(&self) -> Version {
        self.shared.version.get()
    }

    /// Returns the number of writes waiting for the thread.
    pub fn queue_depth(&self) -> usize {
        self.queue.len()
    }

    /// Follows the sequence number of the newest committed event.
    pub(super) fn event_head(&self) -> watch::Receiver<i64> {
        self.shared.event_head.subscribe()
    }

    /// Health check: fails unless a page can be written now and the WAL is bounded.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        let wal = &self.shared.wal;
        let limit = if wal.failing.load(Ordering::Relaxed) {
            MAX_WAL_SIZE
        } else {
            MAX_DELAYED_WAL_SIZE
        };
        if wal.size.get() > limit {
            return Err(Error::Unavailable(Arc::new(WalTooLarge)));
        }
        self.run(touch).await
    }

    /// Queues a command. Returns the maximum time to wait for it.
    pub(super) fn enqueue(&self, command: Box<dyn PendingCommand>) -> Result<Duration, Error> {
        try_enqueue(&self.queue, Message::Command(command))?;
        Ok(self.timeout)
    }

    /// Runs a write that no cached read depends on, in a transaction of its own, and returns
    /// once it is durable. It is not cancelled if the caller disconnects.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        let write: Task = Box::new(move |thread| {
            let started = Instant::now();
            let written = thread.transact(work);
            if let Err(error @ (Error::Unavailable(_) | Error::OutcomeUnknown(_))) = &written {
                thread.report_failure(error, 1, started);
            }
            // The caller may have disconnected.
            let _ = sender.send(written);
        });
        try_enqueue(&self.queue, Message::Task(write))?;
        let unknown = Error::OutcomeUnknown;
        wait(result, self.timeout, unknown, unknown).await
    }

    /// Returns numbers that change when another program has changed the file.
    pub(super) async fn outside_changes(&self) -> Result<LogIdentity, Error> {
        let (sender, result) = oneshot::channel();
        let read: Task = Box::new(move |thread| {
            let _ = sender.send(thread.file.outside_changes());
        });
        try_enqueue(&self.queue, Message::Task(read))?;
        let unavailable = Error::Unavailable;
        wait(result, self.timeout, Error::Internal, unavailable).await
    }

    /// Drains the queue, then joins the thread.
    pub(super) async fn close(&self) {
        let thread = lock(&self.thread).take();
        let queue = self.queue.clone();
        let closing = tokio::task::spawn_blocking(move || {
            let _ = queue.send(Message::Stop);
            thread.map(JoinHandle::join)
        });
        let _ = closing.await;
    }
}

/// The state of the writer thread that it publishes. Other threads only read it, except for
/// `health`.
#[derive(Debug, Default)]
pub(super) struct PublishedState {
    /// The condition of the file, for readiness.
    health: Arc<Health>,
    /// The version of the store, which is raised before a write is acknowledged.
    version: Arc<VersionCounter>,
    pub(super) commits: CommitMetrics,
    pub(super) wal: Arc<WalMetrics>,
    /// The sequence number of the newest committed event.
    event_head: watch::Sender<i64>,
}

/// The state of the writer thread.
struct WriterThread {
    file: WritableFile,
    shared: Arc<PublishedState>,
    /// The times that commands are decided by.
    times: Box<dyn Fn() -> Times + Send>,
}

impl WriterThread {
    /// Writes what is queued, until the store is closed.
    fn run_loop(mut self, messages: &Receiver<Message>) {
        let mut next = None;
        loop {
            let message = match next.take() {
                Some(message) => Ok(message),
                None => messages.recv_timeout(IDLE_CHECK_INTERVAL),
            };
            match message {
                Ok(Message::Command(first)) => {
                    let mut bytes = first.payload_bytes();
                    let mut commands = vec![first];
                    while commands.len() < MAX_GROUP_SIZE && next.is_none() {
                        match messages.try_recv() {
                            Ok(Message::Command(command)) => {
                                bytes += command.payload_bytes();
                                if bytes > MAX_GROUP_BYTES && command.payload_bytes() > 0 {
                                    next = Some(Message::Command(command));
                                } else {
                                    commands.push(command);
                                }
                            }
                            Ok(other) => next = Some(other),
                            Err(_) => break,
                        }
                    }
                    self.process(commands);
                }
                Ok(Message::Task(task)) => {
                    task(&mut self);
                    self.refresh_event_head();
                }
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.file.check();
                    self.refresh_event_head();
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.file.checkpoint_if_due();
        }
        self.file.close();
    }

    /// Reads the newest event again and publishes it: recovery may have brought back a commit whose
    /// outcome was unknown.
    fn refresh_event_head(&self) {
        if let Some(Ok(head)) = self.file.connection().map(last_sequence) {
            self.publish_event_head(head);
        }
    }

    fn publish_event_head(&self, new: i64) {
        let head = &self.shared.event_head;
        head.send_if_modified(|head| mem::replace(head, new) != new);
    }

    /// Runs and commits a group, and then sends every caller its result. If the database rejects
    /// the group, its halves run again, down to the command at fault.
    fn process(&mut self, mut commands: Vec<Box<dyn PendingCommand>>) {
        let started = Instant::now();
        let times = (self.times)();
        match self.transact(|db| commit_group::run(db, &mut commands, times)) {
            Ok(set) => {
                self.publish(&set, started);
                for command in commands {
                    command.finish(Ok(()));
                }
            }
            Err(Error::Internal(_)) if commands.len() > 1 => {
                let others = commands.split_off(commands.len().div_ceil(2));
                self.process(commands);
                self.process(others);
            }
            Err(error) => {
                self.report_failure(&error, commands.len(), started);
                for command in commands {
                    command.finish(Err(error.clone()));
                }
            }
        }
    }

    /// Runs and commits a transaction.
    fn transact<T>(
        &mut self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        self.file.with_connection(|db| {
            execute_statement(db, "BEGIN IMMEDIATE").map_err(classify)?;
            let result = catch_unwind(AssertUnwindSafe(|| run(db)))
                .map_err(|_| Error::Internal(Arc::new(WritePanic)))?;
            let value = result.map_err(classify)?;
            execute_statement(db, "COMMIT").map_err(|cause| undo_failed_commit(db, cause))?;
            Ok(value)
        })
    }

    /// Publishes a commit. This comes before any response: a client that has seen its write
    /// acknowledged must not get a cached read from before it.
    fn publish(&self, set: &WorkingSet, started: Instant) {
        if set.writes > 0 {
            self.shared.commits.record(set.writes, started, true);
        }
        let version = &self.shared.version;
        version.advance(set.has_inserts, set.has_updates);
        self.publish_event_head(set.last_event + set.events.len() as i64);
    }

    fn report_failure(&self, error: &Error, writes: usize, started: Instant) {
        tracing::error!(%error, writes, "commit group failed");
        self.shared.commits.record(writes, started, false);
        // The group may have been committed nevertheless.
        self.shared.version.advance(true, true);
        if is_failure_of_file(error) {
            self.shared.health.write_failed(error);
        }
        report_damage(&self.shared.health, error);
    }
}

/// Makes sure that a commit that failed has no effect, and returns the error of its callers. The
/// outcome is unknown if that is impossible.
///
/// If a write to the WAL failed, the commit record, which is written last, is not in the WAL, and
/// the transaction is undone. If the fsync failed, the record is there: readers do not see the
/// commit, but recovery after a crash would bring it back, until another commit overwrites it.
fn undo_failed_commit(db: &Connection, cause: rusqlite::Error) -> Error {
    let write_failed = cause.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_WRITE
    });
    let overwritten = || {
        OVERWRITE_DELAYS.iter().any(|delay| {
            thread::sleep(*delay);
            overwrite(db).is_ok()
        })
    };
    if write_failed || overwritten() {
        Error::Unavailable(Arc::new(cause))
    } else {
        Error::OutcomeUnknown(Arc::new(cause))
    }
}

/// Overwrites the record of a failed commit in the WAL by another commit.
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

/// Returns true if the file itself is the cause, so that other writes would fail, too. That another
/// process has it locked is not.
fn is_failure_of_file(error: &Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked};
    match error {
        Error::Unavailable(cause) | Error::OutcomeUnknown(cause) => {
            !matches!(error_code(cause), Some(DatabaseBusy | DatabaseLocked))
        }
        Error::Overloaded | Error::Internal(_) => false,
    }
}

#[derive(Debug, thiserror::Error)]
#[error("checkpoints fail or are delayed, and the write-ahead log exceeds its limit")]
struct WalTooLarge;

fn execute_statement(db: &Connection, statement: &str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests;
