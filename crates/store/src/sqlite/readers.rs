//! Reader threads, each with its own read-only connection and prepared
//! statements. In WAL mode they never wait for the writer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Barrier, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    super::{
        error::Error,
        queue::{try_enqueue, wait},
    },
    classify,
    connect::connect_read_only,
    health::Health,
    lock, report_damage,
};

const QUEUE_CAPACITY: usize = 4096;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs on a thread's connection, or takes the error of opening it.
type Query = Box<dyn FnOnce(rusqlite::Result<&Connection>) + Send>;

enum Message {
    Query(Query),
    /// Closes the connection, waits at the barrier, and waits there again before continuing.
    Suspend(Arc<Barrier>),
    Stop,
}

#[derive(Debug, Clone)]
pub(super) struct Readers {
    queue: Sender<Message>,
    /// Locked while the threads are suspended or joined.
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    health: Arc<Health>,
}

impl Readers {
    pub(super) fn start(path: &Path, count: usize, health: &Arc<Health>) -> rusqlite::Result<Self> {
        let (queue, messages) = bounded(QUEUE_CAPACITY);
        let threads = (0..count)
            .map(|n| {
                let thread = ReaderThread {
                    db: Some(connect_read_only(path)?),
                    path: path.into(),
                };
                let messages: Receiver<Message> = messages.clone();
                Ok(thread::Builder::new()
                    .name(format!("sqlite-reader-{n}"))
                    .spawn(move || thread.run_loop(&messages))
                    .expect("the system can start a thread"))
            })
            .collect::<rusqlite::Result<_>>()?;
        Ok(Self {
            queue,
            threads: Arc::new(Mutex::new(threads)),
            health: health.clone(),
        })
    }

    /// Runs a query on one of the threads. A query that panics is an internal
    /// error.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        let query = Box::new(move |db: rusqlite::Result<&Connection>| {
            // The caller may have disconnected.
            let _ = sender.send(db.and_then(query).map_err(classify));
        });
        try_enqueue(&self.queue, Message::Query(query))?;
        let result = wait(result, READ_TIMEOUT, Error::Internal, Error::Unavailable).await;
        result.inspect_err(|error| report_damage(&self.health, error))
    }

    /// Returns the number of queries waiting for a thread.
    pub fn queue_depth(&self) -> usize {
        self.queue.len()
    }

    /// Closes all connections. Queries wait until the returned guard is dropped; then the
    /// threads open new connections.
    pub(super) fn suspend(&self) -> Suspension<'_> {
        let threads = lock(&self.threads);
        // A thread that waits at the barrier takes no second message, so every
        // thread takes one.
        let barrier = Arc::new(Barrier::new(threads.len() + 1));
        for _ in threads.iter() {
            let _ = self.queue.send(Message::Suspend(barrier.clone()));
        }
        barrier.wait();
        Suspension {
            barrier,
            _threads: threads,
        }
    }

    /// Drains the queue, then joins the threads.
    pub(super) async fn close(&self) {
        let Self { queue, threads, .. } = self.clone();
        let closing = tokio::task::spawn_blocking(move || {
            let mut threads = lock(&threads);
            for _ in threads.iter() {
                let _ = queue.send(Message::Stop);
            }
            for thread in threads.drain(..) {
                let _ = thread.join();
            }
        });
        let _ = closing.await;
    }
}

/// Resumes the threads when it is dropped.
pub(super) struct Suspension<'a> {
    barrier: Arc<Barrier>,
    _threads: MutexGuard<'a, Vec<JoinHandle<()>>>,
}

impl Drop for Suspension<'_> {
    fn drop(&mut self) {
        self.barrier.wait();
    }
}

struct ReaderThread {
    /// `None` after a suspension, until the next query.
    db: Option<Connection>,
    path: PathBuf,
}

impl ReaderThread {
    fn run_loop(mut self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            match message {
                // A panic fails the query that caused it, not the thread.
                Message::Query(query) => {
                    let _ = catch_unwind(AssertUnwindSafe(|| query(self.connection())));
                }
                Message::Suspend(barrier) => {
                    self.db = None;
                    barrier.wait();
                    barrier.wait();
                }
                Message::Stop => return,
            }
        }
    }

    fn connection(&mut self) -> rusqlite::Result<&Connection> {
        match &mut self.db {
            Some(db) => Ok(db),
            none => Ok(none.insert(connect_read_only(&self.path)?)),
        }
    }
}
