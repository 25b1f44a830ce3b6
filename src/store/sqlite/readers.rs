//! Reader threads, each with its own read-only connection and prepared
//! statements. In WAL mode they never wait for the writer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Mutex,
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
};

const QUEUE_CAPACITY: usize = 4096;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

type Query = Box<dyn FnOnce(&Connection) + Send>;

enum Message {
    Query(Query),
    Stop,
}

#[derive(Debug)]
pub(super) struct Readers {
    queue: Sender<Message>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(super) fn start(path: &Path, count: usize) -> rusqlite::Result<Self> {
        let (queue, messages) = bounded(QUEUE_CAPACITY);
        let threads = (0..count)
            .map(|n| {
                let db = connect_read_only(path)?;
                let messages: Receiver<Message> = messages.clone();
                Ok(thread::Builder::new()
                    .name(format!("sqlite-reader-{n}"))
                    .spawn(move || work(&db, &messages))
                    .expect("the system can start a thread"))
            })
            .collect::<rusqlite::Result<_>>()?;
        Ok(Self {
            queue,
            threads: Mutex::new(threads),
        })
    }

    /// Runs a query on one of the threads. A query that panics is an internal
    /// error.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        let query = Box::new(move |db: &Connection| {
            // The caller may have disconnected.
            let _ = sender.send(query(db).map_err(classify));
        });
        try_enqueue(&self.queue, Message::Query(query))?;
        wait(result, READ_TIMEOUT, Error::Internal, Error::Unavailable).await
    }

    /// The number of queries waiting for a thread.
    pub(super) fn queue_depth(&self) -> usize {
        self.queue.len()
    }

    /// Drains the queue, then joins the threads.
    pub(super) async fn close(&self) {
        let threads: Vec<_> = self
            .threads
            .lock()
            .expect("no thread panics while holding the lock")
            .drain(..)
            .collect();
        let queue = self.queue.clone();
        let closing = tokio::task::spawn_blocking(move || {
            for _ in &threads {
                let _ = queue.send(Message::Stop);
            }
            for thread in threads {
                let _ = thread.join();
            }
        });
        let _ = closing.await;
    }
}

fn work(db: &Connection, messages: &Receiver<Message>) {
    while let Ok(Message::Query(query)) = messages.recv() {
        // A panic fails the query that caused it, not the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| query(db)));
    }
}
