//! Group commit on PostgreSQL: queued changes of one kind become one statement, and so
//! share one round trip and one commit.

use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use tokio::{
    sync::{
        Mutex,
        mpsc::{Receiver, Sender, channel, error::TrySendError},
        oneshot,
    },
    task::JoinSet,
    time::{self, sleep_until, timeout, timeout_at},
};
use tokio_postgres::Row;

use super::{
    super::{
        error::Error,
        metrics::CommitMetrics,
        queue::{StoreClosed, wait},
        replay,
        rows::{Columns, Row as _},
    },
    lock_wait::LockWait,
    pool::Pool,
};
use crate::idempotency::{IdempotentRequest, RecordedRejection};

/// Statements of one kind that may be in flight: while the server waits for its
/// disk, the next batch is gathered and sent.
const CONCURRENT_BATCHES: usize = 2;
/// The maximum number of changes in a statement.
const MAX_BATCH_SIZE: usize = 1024;
/// Longer than a statement may take, as a change may wait for the one before.
const WRITE_TIMEOUT: Duration = Duration::from_secs(25);
/// How long closing the store waits for queued changes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// A change that can be batched with others of its kind.
pub(super) trait BatchedWrite: Send + Sync + Sized + 'static {
    type Rejection: RecordedRejection;

    /// The row that the change competes for, if any: a statement contains at most one
    /// change per row.
    fn contended_row(&self) -> Option<i64>;

    /// The rejection of any further change to the same row, given the rejection of this
    /// one, if any; `None` if it has to be decided by another statement.
    fn rejection_of_next(rejection: Option<Self::Rejection>) -> Option<Self::Rejection>;

    /// The API key that makes the change.
    fn api_key_id(&self) -> i64;

    fn idempotency(&self) -> Option<&IdempotentRequest>;

    /// Runs one statement for all changes. Returns one row per change, in order; each row
    /// starts with the [`OUTCOME_COLUMNS`]. Returns `None`, with nothing changed, if a
    /// concurrent transaction recorded one of the idempotency keys first.
    fn run(
        pool: &Pool,
        changes: &[&Self],
    ) -> impl Future<Output = Result<Option<Vec<Row>>, Error>> + Send;
}

/// The columns with which the row of every change starts: the recorded
/// fingerprint if the idempotency key was used before; the outcome, or null if another
/// transaction has locked the row that decides it; and the resource id.
pub(super) const OUTCOME_COLUMNS: usize = 3;

/// The result of a change.
pub(super) enum WriteResult<R> {
    Executed(Result<ChangedRow, R>),
    /// A retry: the recorded outcome of the first request.
    Replayed(Result<i64, R>),
    KeyReused,
}

/// What a change created or changed.
pub(super) struct ChangedRow {
    pub(super) id: i64,
    /// The row of the statement, starting with its outcome columns.
    pub(super) row: Row,
}

type ResultOf<C> = Result<WriteResult<<C as BatchedWrite>::Rejection>, Error>;

struct QueuedChange<C: BatchedWrite> {
    change: C,
    result: oneshot::Sender<ResultOf<C>>,
    /// Set once the row that it needs was found locked.
    lock_wait: Option<LockWait>,
}

impl<C: BatchedWrite> QueuedChange<C> {
    fn finish(self, result: ResultOf<C>) {
        // The caller may have disconnected.
        let _ = self.result.send(result);
    }
}

#[derive(Debug)]
pub(super) struct Writer<C: BatchedWrite> {
    pools: Vec<Arc<Pool>>,
    /// `None` once the store is closed.
    queue: RwLock<Option<Sender<QueuedChange<C>>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl<C: BatchedWrite> Writer<C> {
    pub(super) fn start(
        pool: impl Fn() -> Pool,
        capacity: usize,
        commits: &Arc<CommitMetrics>,
    ) -> Self {
        let (queue, queued) = channel(capacity);
        let queued = Arc::new(Mutex::new(queued));
        let mut tasks = JoinSet::new();
        // One connection per task and one statement at a time, so that a warning
        // of the server can be attributed to its statement.
        let pools: Vec<_> = (0..CONCURRENT_BATCHES).map(|_| Arc::new(pool())).collect();
        for pool in &pools {
            let mut worker = Worker {
                pool: pool.clone(),
                queued: queued.clone(),
                commits: commits.clone(),
                set_aside: Vec::new(),
            };
            tasks.spawn(async move {
                // A panic fails the changes in flight, not the task.
                while AssertUnwindSafe(worker.run()).catch_unwind().await.is_err() {}
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

    /// The number of changes waiting for a connection.
    pub(super) fn queue_depth(&self) -> usize {
        let queue = self.queue.read().expect(LOCK);
        queue
            .as_ref()
            .map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Executes a change and returns once it is committed. It is not cancelled
    /// if the caller disconnects.
    pub(super) async fn execute(&self, change: C) -> ResultOf<C> {
        let (sender, result) = oneshot::channel();
        let queued = match &*self.queue.read().expect(LOCK) {
            Some(queue) => queue.try_send(QueuedChange {
                change,
                result: sender,
                lock_wait: None,
            }),
            None => return Err(Error::Unavailable(Arc::new(StoreClosed))),
        };
        queued.map_err(|e| match e {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Closed(_) => Error::Unavailable(Arc::new(StoreClosed)),
        })?;
        let unknown = Error::OutcomeUnknown;
        wait(result, WRITE_TIMEOUT, unknown, unknown).await
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

/// One of the tasks that execute queued changes, with its own connection.
struct Worker<C: BatchedWrite> {
    pool: Arc<Pool>,
    queued: Arc<Mutex<Receiver<QueuedChange<C>>>>,
    commits: Arc<CommitMetrics>,
    /// Changes whose row another transaction has locked, with the time of their next
    /// attempt.
    set_aside: Vec<(time::Instant, QueuedChange<C>)>,
}

impl<C: BatchedWrite> Worker<C> {
    /// Runs until the store is closed and nothing is left to execute.
    async fn run(&mut self) {
        while let Some(mut batch) = self.next_batch().await {
            while !batch.is_empty() {
                batch = self.execute(batch).await;
            }
        }
    }

    /// The changes that are queued, and those set aside that are due.
    async fn next_batch(&mut self) -> Option<Vec<QueuedChange<C>>> {
        let mut received = Vec::new();
        let receive = async {
            let mut queued = self.queued.lock().await;
            queued.recv_many(&mut received, MAX_BATCH_SIZE).await
        };
        let retry_at = self.set_aside.iter().map(|(retry_at, _)| *retry_at).min();
        let is_closed = match retry_at {
            None => receive.await == 0,
            Some(retry_at) => timeout_at(retry_at, receive).await == Ok(0),
        };
        match retry_at {
            None if is_closed => return None,
            Some(retry_at) if is_closed => sleep_until(retry_at).await,
            _ => {}
        }
        let now = time::Instant::now();
        let due = self
            .set_aside
            .extract_if(.., |(retry_at, _)| *retry_at <= now);
        let mut batch: Vec<_> = due.map(|(_, queued)| queued).collect();
        batch.append(&mut received);
        Some(batch)
    }

    /// Executes as many changes as fit into one statement. Returns the others.
    async fn execute(&mut self, batch: Vec<QueuedChange<C>>) -> Vec<QueuedChange<C>> {
        let (mut subjects, mut keys) = (HashSet::new(), HashSet::new());
        let (together, later): (Vec<_>, Vec<_>) = batch.into_iter().partition(|queued| {
            let change = &queued.change;
            let key = change.idempotency().map(|r| (r.api_key_id, r.key.clone()));
            // No short circuit: both are recorded, so that a later change with the
            // same key stays behind this one.
            let new_subject = change
                .contended_row()
                .is_none_or(|subject| subjects.insert(subject));
            let new_key = key.is_none_or(|key| keys.insert(key));
            new_subject && new_key
        });
        let changes: Vec<_> = together.iter().map(|queued| &queued.change).collect();
        let started = Instant::now();
        let rows = loop {
            match C::run(&self.pool, &changes).await {
                // Run again: now the recorded key is visible.
                Ok(None) => {}
                Ok(Some(rows)) if rows.len() == changes.len() => break Ok(rows),
                // An operator's trigger may have skipped rows. There is no telling which
                // row belongs to which change.
                Ok(Some(_)) => break Err(Error::OutcomeUnknown(Arc::new(RowCountMismatch))),
                Err(error) => break Err(error),
            }
        };
        let count = match &rows {
            Ok(rows) => rows.iter().filter(|row| is_decided(row)).count(),
            Err(_) => changes.len(),
        };
        if count > 0 {
            self.commits.record(count, started, rows.is_ok());
        }
        // The rejection that a further change to a row gets; `None` if it is locked.
        let mut next_rejection = HashMap::new();
        match rows {
            Ok(rows) => {
                for (queued, row) in together.into_iter().zip(rows) {
                    let contended_row = queued.change.contended_row();
                    let result = read_result(queued.change.idempotency(), row).transpose();
                    match (contended_row, &result) {
                        (Some(subject), None) => {
                            next_rejection.insert(subject, None);
                        }
                        (Some(subject), Some(Ok(WriteResult::Executed(executed)))) => {
                            let rejection = executed.as_ref().err().copied();
                            if let Some(rejection) = C::rejection_of_next(rejection) {
                                next_rejection.insert(subject, Some(rejection));
                            }
                        }
                        _ => {}
                    }
                    match result {
                        Some(result) => queued.finish(result),
                        None => self.set_aside(queued),
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, writes = together.len(), "write batch failed");
                for queued in together {
                    queued.finish(Err(error.clone()));
                }
            }
        }
        // A further change to a row whose outcome is clear is rejected without another
        // statement, as if it had arrived right after. With an idempotency key it must be
        // recorded or replayed, so it stays queued. If the row is locked, so it is for
        // all of them.
        let mut remaining = Vec::new();
        for queued in later {
            let subject = queued.change.contended_row();
            let has_key = queued.change.idempotency().is_some();
            match subject.and_then(|subject| next_rejection.get(&subject)) {
                Some(None) => self.set_aside(queued),
                Some(Some(rejection)) if !has_key => {
                    queued.finish(Ok(WriteResult::Executed(Err(*rejection))));
                }
                _ => remaining.push(queued),
            }
        }
        remaining
    }

    /// Schedules another attempt, unless the row has been locked for too long.
    fn set_aside(&mut self, mut queued: QueuedChange<C>) {
        let lock_wait = queued.lock_wait.get_or_insert_with(LockWait::start);
        match lock_wait.next_attempt() {
            Ok(_) if self.set_aside.len() >= MAX_BATCH_SIZE => {
                queued.finish(Err(Error::Overloaded))
            }
            Ok(retry_at) => self.set_aside.push((retry_at, queued)),
            Err(error) => queued.finish(Err(error)),
        }
    }
}

/// Whether a row has an outcome.
fn is_decided(row: &Row) -> bool {
    !matches!(row.optional_text(1), Ok(None))
}

/// Reads the outcome columns of a row; `None` if the change is undecided because
/// another transaction has locked its row.
fn read_result<R: RecordedRejection>(
    request: Option<&IdempotentRequest>,
    row: Row,
) -> Result<Option<WriteResult<R>>, Error> {
    let mut columns = Columns::of(&row);
    let recorded = columns.optional_bytes()?;
    let expected = request.map(|request| request.fingerprint.as_slice());
    // Another operation's outcome may be one that this one does not know.
    if recorded.is_some() && recorded != expected {
        return Ok(Some(WriteResult::KeyReused));
    }
    let is_replay = recorded.is_some();
    let (Some(outcome), resource_id) = (columns.optional_text()?, columns.optional_int()?) else {
        return Ok(None);
    };
    let outcome =
        replay::from_columns(outcome, resource_id).map_err(|e| Row::corrupt(OUTCOME_COLUMNS, e))?;
    Ok(Some(match is_replay {
        true => WriteResult::Replayed(outcome),
        false => WriteResult::Executed(outcome.map(|id| ChangedRow { id, row })),
    }))
}

#[derive(Debug, thiserror::Error)]
#[error("the server did not return a row for every change; was a trigger or rule added?")]
struct RowCountMismatch;
