//! Group commit on PostgreSQL: queued commands share a transaction, and so its round trips and
//! its commit.

use std::{
    iter,
    panic::AssertUnwindSafe,
    slice,
    sync::{Arc, RwLock},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    sync::{
        Mutex, Notify,
        mpsc::{Receiver, Sender, channel, error::TrySendError},
    },
    task::JoinSet,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    super::{
        Fault,
        command::{MAX_GROUP_BYTES, PendingCommand},
        error::{Error, RowLocked},
        metrics::CommitMetrics,
        queue::StoreClosed,
    },
    commit_group::{self, QueueEntry},
    pool::{LOCK, Pool},
    session::{Failure, Session},
};

/// The maximum number of commands in a transaction.
const MAX_GROUP_SIZE: usize = 1024;
/// The maximum time that a caller waits for a command. It is longer than a transaction may take,
/// because the command may have to wait for the transaction before its own.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(25);
/// The time that closing the store waits for queued commands.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// The time after which a command fails because one of its rows is still locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The time after which a command no longer retries, but waits for its rows in the lock queue of
/// the server. Retries starve on a row that others lock again and again.
const MAX_RETRY_TIME: Duration = Duration::from_millis(100);
/// The maximum number of commands that wait in the lock queue at a time.
pub(super) const LOCK_QUEUE_CAPACITY: usize = 32;
/// The bounds of the pause before a command tries again to lock its rows. A replica that competes
/// for them commits within milliseconds.
const MIN_LOCK_DELAY: Duration = Duration::from_millis(1);
const MAX_LOCK_DELAY: Duration = Duration::from_millis(20);

/// The number of times that a group is run before its halves are run instead.
const MAX_ATTEMPTS: usize = 3;
/// The number of times that a single command is run.
const MAX_COMMAND_ATTEMPTS: usize = 20;

/// A queue of commands, and the tasks that execute them.
#[derive(Debug)]
pub(super) struct Writer {
    /// One pool of one connection for each task.
    pools: Vec<Arc<Pool>>,
    /// The sending side of the queue, or `None` once the store is closed. Dropping it lets the
    /// tasks end when the queue is empty.
    queue: RwLock<Option<Sender<QueueEntry>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Writer {
    /// Starts a task for each pool. A pool must have one connection, so that a warning of the
    /// server can be attributed to a transaction. With several tasks, one gathers and sends the
    /// next group while the server still flushes the commit of another.
    ///
    /// `lock_queue` is the lock-queue writer, to which commands move that keep finding their rows
    /// locked. Without it, the started writer is the lock-queue writer: its groups wait for locked
    /// rows.
    pub(super) fn start(
        pools: Vec<Pool>,
        capacity: usize,
        commits: &Arc<CommitMetrics>,
        committed: &Arc<Notify>,
        lock_queue: Option<&Self>,
        fault: Option<Fault>,
    ) -> Self {
        let (queue, queued) = channel(capacity);
        let queued = Arc::new(Mutex::new(queued));
        let lock_queue = lock_queue.and_then(|writer| writer.queue.read().expect(LOCK).clone());
        let mut tasks = JoinSet::new();
        let pools: Vec<_> = pools.into_iter().map(Arc::new).collect();
        for pool in &pools {
            let mut worker = Worker {
                pool: pool.clone(),
                queued: queued.clone(),
                lock_queue: lock_queue.clone(),
                commits: commits.clone(),
                committed: committed.clone(),
                deferred: Vec::new(),
                fault,
            };
            tasks.spawn(async move {
                // A panic fails the commands in flight, not the task. It may have left a
                // transaction open.
                while AssertUnwindSafe(worker.run()).catch_unwind().await.is_err() {
                    worker.pool.discard_all();
                }
            });
        }
        Self {
            pools,
            queue: RwLock::new(Some(queue)),
            tasks: Mutex::new(tasks),
        }
    }

    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().map(Arc::as_ref)
    }

    /// Returns the number of commands waiting for a connection.
    pub fn queue_depth(&self) -> usize {
        let queue = self.queue.read().expect(LOCK);
        queue
            .as_ref()
            .map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    pub(super) fn enqueue(&self, command: Box<dyn PendingCommand>) -> Result<(), Error> {
        let closed = || Error::Unavailable(Arc::new(StoreClosed));
        let queue = self.queue.read().expect(LOCK);
        let queued = QueueEntry {
            command,
            locked_since: None,
            last_timeout: None,
            is_deferred: false,
        };
        let sent = queue.as_ref().ok_or_else(closed)?.try_send(queued);
        sent.map_err(|error| match error {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Closed(_) => closed(),
        })
    }

    /// Drains the queue, as far as the server is reachable.
    pub(super) async fn close(&self) {
        drop(self.queue.write().expect(LOCK).take());
        let mut tasks = self.tasks.lock().await;
        let drained = async { while tasks.join_next().await.is_some() {} };
        if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::warn!("queued changes abandoned; the server did not respond in time");
            tasks.abort_all();
        }
    }
}

/// One of the tasks that execute queued commands.
struct Worker {
    /// The connection of this task.
    pool: Arc<Pool>,
    /// The receiving side of the queue, which the tasks of a writer share. A task holds the lock
    /// while it waits for a command and takes what is queued.
    queued: Arc<Mutex<Receiver<QueueEntry>>>,
    /// The queue of the lock-queue writer, or `None` if this is its task.
    lock_queue: Option<Sender<QueueEntry>>,
    commits: Arc<CommitMetrics>,
    /// Notified after every commit, so that the event log is polled.
    committed: Arc<Notify>,
    /// Commands that found a row locked, each with the time of its next attempt.
    deferred: Vec<(Instant, QueueEntry)>,
    /// A fault to inject, in tests.
    fault: Option<Fault>,
}

impl Worker {
    /// Runs until the store is closed and nothing is left to execute.
    async fn run(&mut self) {
        while let Some(group) = self.next_group().await {
            self.execute(group).await;
        }
    }

    /// Waits for the next group: the commands that are queued, and the deferred ones that are due.
    /// Returns `None` once the queue is closed and no command is left.
    async fn next_group(&mut self) -> Option<Vec<QueueEntry>> {
        let receive = async {
            let mut received = Vec::new();
            let mut queued = self.queued.lock().await;
            queued.recv_many(&mut received, MAX_GROUP_SIZE).await;
            received
        };
        let retry_at = self.deferred.iter().map(|(retry_at, _)| *retry_at).min();
        let received = match retry_at {
            None => receive.await,
            Some(retry_at) => timeout_at(retry_at, receive).await.unwrap_or_default(),
        };
        if received.is_empty() {
            sleep_until(retry_at?).await;
        }
        let now = Instant::now();
        let due = self
            .deferred
            .extract_if(.., |(retry_at, _)| *retry_at <= now)
            .map(|(_, queued)| queued);
        let mut group: Vec<_> = due.chain(received).collect();
        if self.lock_queue.is_none() {
            // The group waits for the rows of its first command, so commands take turns: the one
            // whose last wait is longest ago comes first.
            group.sort_by_key(|queued| queued.last_timeout.or(queued.locked_since));
        }
        Some(group)
    }

    /// Executes a group. If the server rejects it, its halves are run again, down to the
    /// command at fault.
    async fn execute(&mut self, group: Vec<QueueEntry>) {
        let mut groups = vec![group];
        while let Some(mut group) = groups.pop() {
            if group.is_empty() {
                continue;
            }
            if group.len() > 1 && is_too_large(&group) {
                groups.extend(halves(group));
                continue;
            }
            let started = Instant::now();
            match self.run_group(&mut group).await {
                Ok(()) => {
                    for queued in group {
                        if queued.is_deferred {
                            self.defer(queued, started);
                        } else {
                            queued.command.finish(Ok(()));
                        }
                    }
                }
                Err(Failure::RolledBack(error)) if error.is_lock_timeout() => {
                    if self.lock_queue.is_none() {
                        groups.push(self.defer_blocked(group, started).await);
                        continue;
                    }
                    let timely = group.into_iter().filter_map(|it| in_time(it, started));
                    let group: Vec<_> = timely.collect();
                    if group.len() > 1 {
                        groups.extend(halves(group));
                    } else {
                        group.into_iter().for_each(|it| self.defer(it, started));
                    }
                }
                Err(failure) if failure.is_rejection() && group.len() > 1 => {
                    groups.extend(halves(group));
                }
                Err(failure) => {
                    let error = failure.classify();
                    self.commits.failures.increment();
                    tracing::error!(%error, writes = group.len(), "commit group failed");
                    for queued in group {
                        queued.command.finish(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Runs a group until it is committed, or has failed for good.
    async fn run_group(&mut self, group: &mut [QueueEntry]) -> Result<(), Failure> {
        let started = std::time::Instant::now();
        let mut attempts = if group.len() == 1 {
            MAX_COMMAND_ATTEMPTS
        } else {
            MAX_ATTEMPTS
        };
        loop {
            attempts -= 1;
            let _in_flight = self.pool.track();
            let session = Session::open(&self.pool).await.map_err(Failure::Final)?;
            let waits_for_locks = self.lock_queue.is_none();
            match commit_group::run(&session, group, waits_for_locks, self.fault).await {
                Ok(0) => return Ok(()),
                Ok(writes) => {
                    self.commits.record(writes, started, true);
                    self.committed.notify_one();
                    return Ok(());
                }
                // The next attempt sees the row of the conflicting transaction, or has a new
                // session.
                Err(Failure::RolledBack(error))
                    if (error.is_conflict() || error.is_transient()) && attempts > 0 => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Defers the first command of a group that waits for locks, after its wait has timed out,
    /// together with all commands that need one of these rows, including those that were queued
    /// during the wait. Returns the other commands.
    async fn defer_blocked(&mut self, group: Vec<QueueEntry>, started: Instant) -> Vec<QueueEntry> {
        let mut received = Vec::new();
        while let Ok(queued) = self.queued.lock().await.try_recv() {
            received.push(queued);
        }
        let mut group = group.into_iter().chain(received);
        let Some(first) = group.next() else {
            return Vec::new();
        };
        let awaited = commit_group::keys_of(slice::from_ref(&first));
        let (blocked, others): (Vec<_>, Vec<_>) = group
            .partition(|queued| commit_group::keys_of(slice::from_ref(queued)).overlaps(&awaited));
        for mut queued in iter::once(first).chain(blocked) {
            queued.last_timeout = Some(Instant::now());
            self.defer(queued, started);
        }
        others
    }

    /// Schedules another attempt of a command that found a row locked, or passes it on to the
    /// lock-queue writer. Fails the command if the row has been locked for too long, or too many
    /// commands are deferred. `started` is the time at which its group was started.
    fn defer(&mut self, queued: QueueEntry, started: Instant) {
        let Some(mut queued) = in_time(queued, started) else {
            return;
        };
        let waited = queued
            .locked_since
            .map_or(Duration::ZERO, |it| it.elapsed());
        if waited >= MAX_RETRY_TIME
            && self.fault != Some(Fault::NoLockQueue)
            && let Some(lock_queue) = &self.lock_queue
        {
            match lock_queue.try_send(queued) {
                Ok(()) => return,
                Err(error) => queued = error.into_inner(),
            }
        }
        if self.deferred.len() >= MAX_GROUP_SIZE {
            return queued.command.finish(Err(Error::Overloaded));
        }
        let delay = (waited / 4).clamp(MIN_LOCK_DELAY, MAX_LOCK_DELAY);
        self.deferred.push((Instant::now() + delay, queued));
    }
}

/// Returns true if the large writes of a group should not share a commit.
fn is_too_large(group: &[QueueEntry]) -> bool {
    let bytes = group.iter().map(|queued| queued.command.payload_bytes());
    bytes.sum::<usize>() > MAX_GROUP_BYTES
}

/// Divides a group for a stack: the second half, and then the first, which is popped first.
fn halves(mut group: Vec<QueueEntry>) -> [Vec<QueueEntry>; 2] {
    let second = group.split_off(group.len() / 2);
    [second, group]
}

/// Returns a command that found a row locked, or fails it if the row has been locked for too long.
/// `started` is the time at which its group was started.
fn in_time(mut queued: QueueEntry, started: Instant) -> Option<QueueEntry> {
    let since = *queued.locked_since.get_or_insert(started);
    if since.elapsed() < LOCK_TIMEOUT {
        return Some(queued);
    }
    let error = Error::Unavailable(Arc::new(RowLocked));
    queued.command.finish(Err(error));
    None
}
