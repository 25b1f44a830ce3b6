//! The threads that read from the SQLite file.
//!
//! A small fixed number, each with its own read-only connection and its
//! prepared statements. In WAL mode they never wait for the writer.

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
        Error,
        queue::{hand_over, wait},
    },
    failure, open,
};

const QUEUE: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(10);

type Query = Box<dyn FnOnce(&Connection) + Send>;

enum Message {
    Query(Query),
    Stop,
}

#[derive(Debug)]
pub struct Readers {
    queue: Sender<Message>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub fn start(path: &Path, count: usize) -> rusqlite::Result<Self> {
        let (queue, waiting) = bounded(QUEUE);
        let threads = (0..count)
            .map(|n| {
                let db = open::connect_read_only(path)?;
                let waiting: Receiver<Message> = waiting.clone();
                Ok(thread::Builder::new()
                    .name(format!("sqlite-reader-{n}"))
                    .spawn(move || read(&db, &waiting))
                    .expect("a thread can be started"))
            })
            .collect::<rusqlite::Result<_>>()?;
        Ok(Self {
            queue,
            threads: Mutex::new(threads),
        })
    }

    /// Runs a query on one of the threads.
    pub async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let query = Box::new(move |db: &Connection| {
            // Whoever asked may have gone away.
            let _ = reply.send(query(db).map_err(failure));
        });
        hand_over(&self.queue, Message::Query(query))?;
        wait(answer, PATIENCE, Error::Internal, Error::Unavailable).await
    }

    /// How many queries wait for a thread.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Answers what is waiting, then ends the threads.
    pub async fn close(&self) {
        let threads: Vec<_> = self
            .threads
            .lock()
            .expect("no thread panics with the lock")
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

fn read(db: &Connection, waiting: &Receiver<Message>) {
    while let Ok(Message::Query(query)) = waiting.recv() {
        // A panic ends the query that caused it, never the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| query(db)));
    }
}
