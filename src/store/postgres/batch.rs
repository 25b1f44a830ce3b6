//! Changes of a kind that wait at the same time go to the server in one
//! statement, so that one round trip and one commit pay for all of them.

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
    time::timeout,
};
use tokio_postgres::Row;

use super::{
    super::{
        Error,
        commits::Commits,
        queue::{Closed, wait},
        replay::{self, Outcome},
    },
    pool::Pool,
    unreadable,
    url::Server,
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    order::Rejection,
};

/// How many statements of a kind may be on their way: while the server waits
/// for its disk, the next ones are gathered and sent.
const WRITERS: usize = 2;
/// How many changes share a statement at the most.
const BATCH: usize = 1024;
/// How long a change waits: longer than a statement may take, as it may have
/// to wait for one before it.
const PATIENCE: Duration = Duration::from_secs(25);
/// How long the end of the service waits for changes.
const GOODBYE: Duration = Duration::from_secs(15);

/// A change that can be made together with others of its kind.
pub trait Change: Send + Sync + Sized + 'static {
    /// What it is about, if a statement can be about that only once; and why
    /// another about the same is refused right after this one was made.
    fn subject(&self) -> Option<(i64, Rejection)>;

    fn named(&self) -> Option<&IdempotentRequest>;

    /// Runs one statement for all of them, and gives a row for each in their
    /// order: the request that had the name before, the outcome, the id, and
    /// what else belongs to the kind. It gives nothing if somebody else was
    /// faster with one of the names, and so nothing was changed.
    fn run(
        pool: &Pool,
        changes: &[&Self],
    ) -> impl Future<Output = Result<Option<Vec<Row>>, Error>> + Send;
}

/// What a statement gave for a change.
pub type ChangeResult = Idempotent<(Outcome, Option<Row>)>;

type Waiting<C> = (C, oneshot::Sender<Result<ChangeResult, Error>>);

#[derive(Debug)]
pub struct Writer<C> {
    pools: Vec<Arc<Pool>>,
    /// Gone when the store is closed.
    queue: RwLock<Option<Sender<Waiting<C>>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl<C: Change> Writer<C> {
    pub fn start(server: &Server, write_queue: usize, commits: &Arc<Commits>) -> Self {
        let (queue, waiting) = channel(write_queue);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut tasks = JoinSet::new();
        // A connection for each task: one statement at a time, so that a
        // warning of the server belongs to it.
        let pools: Vec<_> = (0..WRITERS)
            .map(|_| Arc::new(Pool::new(server, 1)))
            .collect();
        for pool in &pools {
            let (pool, waiting, commits) = (pool.clone(), waiting.clone(), commits.clone());
            tasks.spawn(async move {
                // A panic ends the changes that it met, never the task.
                while AssertUnwindSafe(write(&pool, &waiting, &commits))
                    .catch_unwind()
                    .await
                    .is_err()
                {}
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

    /// How many changes wait for a connection.
    pub fn waiting(&self) -> usize {
        let queue = self.queue.read().expect("nobody panics with the lock");
        queue
            .as_ref()
            .map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Makes a change and returns once it is committed. It goes on if the
    /// caller goes away.
    pub async fn make(&self, change: C) -> Result<ChangeResult, Error> {
        let (reply, answer) = oneshot::channel();
        let sent = match &*self.queue.read().expect("nobody panics with the lock") {
            Some(queue) => queue.try_send((change, reply)),
            None => return Err(Error::Unavailable(Arc::new(Closed))),
        };
        sent.map_err(|e| match e {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Closed(_) => Error::Unavailable(Arc::new(Closed)),
        })?;
        let unknown = Error::OutcomeUnknown;
        wait(answer, PATIENCE, unknown, unknown).await
    }

    /// Makes the changes that are waiting, as far as the server can be reached:
    /// nobody was told of them yet.
    pub async fn close(&self) {
        drop(
            self.queue
                .write()
                .expect("nobody panics with the lock")
                .take(),
        );
        let mut tasks = self.tasks.lock().await;
        let ended = async { while tasks.join_next().await.is_some() {} };
        if timeout(GOODBYE, ended).await.is_err() {
            tracing::warn!("changes that were waiting are given up");
            tasks.abort_all();
        }
    }
}

async fn write<C: Change>(pool: &Pool, waiting: &Mutex<Receiver<Waiting<C>>>, commits: &Commits) {
    let mut batch = Vec::new();
    loop {
        if waiting.lock().await.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        while !batch.is_empty() {
            batch = write_some(pool, batch, commits).await;
        }
    }
}

/// Makes as many of the changes as can go in one statement, and gives back the
/// others.
async fn write_some<C: Change>(
    pool: &Pool,
    batch: Vec<Waiting<C>>,
    commits: &Commits,
) -> Vec<Waiting<C>> {
    let (mut subjects, mut names) = (HashSet::new(), HashSet::new());
    let (together, mut later): (Vec<_>, Vec<_>) = batch.into_iter().partition(|(change, _)| {
        let name = change.named().map(|n| (n.api_key_id, n.key.clone()));
        // Both are looked at, so that a later one of the same name stays later.
        let new_subject = change
            .subject()
            .is_none_or(|(subject, _)| subjects.insert(subject));
        let new_name = name.is_none_or(|name| names.insert(name));
        new_subject && new_name
    });
    let changes: Vec<_> = together.iter().map(|(change, _)| change).collect();
    let began = Instant::now();
    let rows = loop {
        match C::run(pool, &changes).await {
            // The next time the name is known.
            Ok(None) => {}
            Ok(Some(rows)) if rows.len() == changes.len() => break Ok(rows),
            // A trigger of the operator's may have left some out: whose is whose?
            Ok(Some(_)) => break Err(Error::OutcomeUnknown(Arc::new(LeftOut))),
            Err(error) => break Err(error),
        }
    };
    commits.count(changes.len(), began, rows.is_ok());
    let mut decided = HashMap::new();
    match rows {
        Ok(rows) => {
            for ((change, reply), row) in together.into_iter().zip(rows) {
                let answer = judge(change.named(), row);
                if let (Some((subject, after)), Ok(Idempotent::Executed((outcome, _)))) =
                    (change.subject(), &answer)
                {
                    decided.insert(subject, outcome.err().unwrap_or(after));
                }
                // Whoever asked may have gone away.
                let _ = reply.send(answer);
            }
        }
        Err(error) => {
            tracing::error!(%error, writes = together.len(), "a batch of writes failed");
            for (_, reply) in together {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
    // Those who asked for the same come right after who was first. A name wants
    // a replay, so those with one are sent.
    for (change, reply) in std::mem::take(&mut later) {
        let subject = change.subject().filter(|_| change.named().is_none());
        match subject.and_then(|(subject, _)| decided.get(&subject)) {
            Some(refused) => drop(reply.send(Ok(Idempotent::Executed((Err(*refused), None))))),
            None => later.push((change, reply)),
        }
    }
    later
}

/// Reads what a statement says of a change.
fn judge(named: Option<&IdempotentRequest>, row: Row) -> Result<ChangeResult, Error> {
    let before: Option<&[u8]> = row.get(0);
    let outcome = replay::outcome(row.get(1), row.get(2)).map_err(unreadable)?;
    Ok(match (before, named) {
        (None, _) => Idempotent::Executed((outcome, Some(row))),
        (Some(before), Some(named)) if before == named.fingerprint => {
            Idempotent::Replayed((outcome, None))
        }
        (Some(_), _) => Idempotent::KeyReused,
    })
}

#[derive(Debug, thiserror::Error)]
#[error("the server did not give an outcome for every change")]
struct LeftOut;
