//! Group commit on PostgreSQL: queued commands share a transaction, and so its round trips and
//! its commit.

use std::{
    panic::AssertUnwindSafe,
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
        command::PendingCommand,
        error::{Error, RowLocked},
        metrics::CommitMetrics,
        queue::StoreClosed,
    },
    batch::{self, Outcome},
    pool::Pool,
    session::Failure,
};

/// The maximum number of commands in a transaction.
const MAX_BATCH_SIZE: usize = 1024;
/// Longer than a transaction may take, as a command may wait for the one before.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(25);
/// The time that closing the store waits for queued commands.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// The time that a command waits for a locked row.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before a command tries again to lock its rows: a replica that competes for them
/// commits within milliseconds.
const MIN_LOCK_DELAY: Duration = Duration::from_millis(1);
const MAX_LOCK_DELAY: Duration = Duration::from_millis(20);

/// The number of times that a batch is run before it is divided.
const MAX_ATTEMPTS: usize = 3;
/// The number of times that a single command is run.
const MAX_COMMAND_ATTEMPTS: usize = 20;

struct Queued {
    command: Box<dyn PendingCommand>,
    /// The time at which one of its rows was first found locked.
    locked_since: Option<Instant>,
}

/// A queue of commands, and the tasks that execute them.
#[derive(Debug)]
pub(super) struct Writer {
    pools: Vec<Arc<Pool>>,
    /// `None` once the store is closed.
    queue: RwLock<Option<Sender<Queued>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Writer {
    /// Starts a task for each pool, which must have one connection: then a warning of the
    /// server can be attributed to its transaction. While the server waits for its disk, the
    /// next batch is gathered and sent on another one.
    pub(super) fn start(
        pools: Vec<Pool>,
        capacity: usize,
        commits: &Arc<CommitMetrics>,
        committed: &Arc<Notify>,
        fault: Option<Fault>,
    ) -> Self {
        let (queue, queued) = channel(capacity);
        let queued = Arc::new(Mutex::new(queued));
        let mut tasks = JoinSet::new();
        let pools: Vec<_> = pools.into_iter().map(Arc::new).collect();
        for pool in &pools {
            let mut worker = Worker {
                pool: pool.clone(),
                queued: queued.clone(),
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

    pub(super) fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().map(Arc::as_ref)
    }

    /// The number of commands waiting for a connection.
    pub(super) fn queue_depth(&self) -> usize {
        let queue = self.queue.read().expect(LOCK);
        queue
            .as_ref()
            .map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    pub(super) fn enqueue(&self, command: Box<dyn PendingCommand>) -> Result<(), Error> {
        let closed = || Error::Unavailable(Arc::new(StoreClosed));
        let queue = self.queue.read().expect(LOCK);
        let queued = Queued {
            command,
            locked_since: None,
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

const LOCK: &str = "no task panics while holding the lock";

/// One of the tasks that execute queued commands, with its own connection.
struct Worker {
    pool: Arc<Pool>,
    queued: Arc<Mutex<Receiver<Queued>>>,
    commits: Arc<CommitMetrics>,
    /// Notified after every commit.
    committed: Arc<Notify>,
    /// Commands that wait for a locked row, with the time of their next attempt.
    deferred: Vec<(Instant, Queued)>,
    fault: Option<Fault>,
}

impl Worker {
    /// Runs until the store is closed and nothing is left to execute.
    async fn run(&mut self) {
        while let Some(batch) = self.next_batch().await {
            self.execute(batch).await;
        }
    }

    /// The commands that are queued, and those deferred that are due.
    async fn next_batch(&mut self) -> Option<Vec<Queued>> {
        let mut received = Vec::new();
        let receive = async {
            let mut queued = self.queued.lock().await;
            queued.recv_many(&mut received, MAX_BATCH_SIZE).await
        };
        let retry_at = self.deferred.iter().map(|(retry_at, _)| *retry_at).min();
        let is_closed = match retry_at {
            None => receive.await == 0,
            Some(retry_at) => timeout_at(retry_at, receive).await == Ok(0),
        };
        match retry_at {
            None if is_closed => return None,
            Some(retry_at) if is_closed => sleep_until(retry_at).await,
            _ => {}
        }
        let now = Instant::now();
        let due = self
            .deferred
            .extract_if(.., |(retry_at, _)| *retry_at <= now);
        let mut batch: Vec<_> = due.map(|(_, queued)| queued).collect();
        batch.append(&mut received);
        Some(batch)
    }

    /// Executes a batch. If the server rejects it, its halves are run again, down to the
    /// command at fault.
    async fn execute(&mut self, batch: Vec<Queued>) {
        let mut batches = vec![batch];
        while let Some(mut batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            let (mut commands, locked_since): (Vec<_>, Vec<_>) = batch
                .drain(..)
                .map(|queued| (queued.command, queued.locked_since))
                .unzip();
            let result = self.run_batch(&mut commands).await;
            let mut batch: Vec<_> = commands
                .into_iter()
                .zip(locked_since)
                .map(|(command, locked_since)| Queued {
                    command,
                    locked_since,
                })
                .collect();
            match result {
                Ok(Outcome { deferred, .. }) => {
                    for (queued, is_deferred) in batch.into_iter().zip(deferred) {
                        if is_deferred {
                            self.defer(queued);
                        } else {
                            queued.command.finish(Ok(()));
                        }
                    }
                }
                Err(BatchError::Rejected(_)) if batch.len() > 1 => {
                    batches.push(batch.split_off(batch.len() / 2));
                    batches.push(batch);
                }
                Err(BatchError::Rejected(error) | BatchError::Failed(error)) => {
                    tracing::error!(%error, writes = batch.len(), "write batch failed");
                    for queued in batch {
                        queued.command.finish(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Runs a batch until it is committed, or has failed for good.
    async fn run_batch(
        &mut self,
        commands: &mut [Box<dyn PendingCommand>],
    ) -> Result<Outcome, BatchError> {
        let started = std::time::Instant::now();
        let max_attempts = if commands.len() == 1 {
            MAX_COMMAND_ATTEMPTS
        } else {
            MAX_ATTEMPTS
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let _in_flight = self.pool.track();
            let session = self.pool.session().await.map_err(BatchError::Failed)?;
            let failure = match batch::run(&session, commands, self.fault).await {
                Ok(outcome) => {
                    if outcome.writes > 0 {
                        self.commits.record(outcome.writes, started, true);
                        self.committed.notify_one();
                    }
                    return Ok(outcome);
                }
                Err(failure) => failure,
            };
            let is_last = attempts >= max_attempts;
            match failure {
                // The row of another transaction is visible now, or the session is a new one.
                Failure::RolledBack(error)
                    if (error.is_conflict() || error.is_transient()) && !is_last => {}
                Failure::RolledBack(error) => {
                    self.commits.record(commands.len(), started, false);
                    let is_rejection = error.is_rejection();
                    let error = error.classify();
                    return Err(if is_rejection {
                        BatchError::Rejected(error)
                    } else {
                        BatchError::Failed(error)
                    });
                }
                Failure::Corrupt(error) => return Err(BatchError::Rejected(error)),
                Failure::Unknown(error) => {
                    self.commits.record(commands.len(), started, false);
                    return Err(BatchError::Failed(error));
                }
            }
        }
    }

    /// Schedules another attempt, unless a row has been locked for too long.
    fn defer(&mut self, queued: Queued) {
        let now = Instant::now();
        let since = queued.locked_since.unwrap_or(now);
        let waited = now - since;
        if waited >= LOCK_TIMEOUT {
            return queued
                .command
                .finish(Err(Error::Unavailable(Arc::new(RowLocked))));
        }
        if self.deferred.len() >= MAX_BATCH_SIZE {
            return queued.command.finish(Err(Error::Overloaded));
        }
        let retry_at = now + (waited / 4).clamp(MIN_LOCK_DELAY, MAX_LOCK_DELAY);
        let queued = Queued {
            locked_since: Some(since),
            ..queued
        };
        self.deferred.push((retry_at, queued));
    }
}

/// The reason why a batch was not executed.
enum BatchError {
    /// One of its commands may be at fault.
    Rejected(Error),
    Failed(Error),
}
