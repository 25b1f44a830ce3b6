//! Creates that wait at the same time go to the server in one statement, so
//! that one round trip and one commit pay for all of them.

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use tokio::{
    sync::{
        Mutex,
        mpsc::{Receiver, Sender, channel, error::TrySendError},
        oneshot,
    },
    task::JoinSet,
};
use tokio_postgres::types::Type;

use super::{
    super::{
        Error,
        queue::{Closed, wait},
    },
    pool::{Pool, Sql},
    url::Server,
};
use crate::{
    page::Filter,
    pet::{NewPet, Pet, PetId, PetStatus},
};

/// How many statements may be on their way: while the server waits for its
/// disk, the next ones are gathered and sent.
const WRITERS: usize = 2;
/// How many creates share a statement at the most.
const BATCH: usize = 1024;
/// How long a create waits: longer than a statement may take, as it may have
/// to wait for one before it.
const PATIENCE: Duration = Duration::from_secs(25);

/// The rows are inserted, and their ids come back, in the order of the arrays.
static INSERT: Sql = Sql {
    text: "INSERT INTO pets (name, category_id, status)
           SELECT name, category_id, status
           FROM unnest($1, $2, $3) WITH ORDINALITY AS new (name, category_id, status, place)
           ORDER BY place
           RETURNING id",
    types: &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY],
};

type Waiting = (NewPet, oneshot::Sender<Result<Pet, Error>>);

#[derive(Debug)]
pub struct Writer {
    /// Gone when the store is closed.
    queue: RwLock<Option<Sender<Waiting>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Writer {
    pub fn start(server: &Server, write_queue: usize) -> Self {
        let (queue, waiting) = channel(write_queue);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut tasks = JoinSet::new();
        for _ in 0..WRITERS {
            // A connection of its own: one statement at a time, so that a
            // warning of the server belongs to it.
            let pool = Pool::new(server, 1);
            tasks.spawn(write(pool, waiting.clone()));
        }
        Self {
            queue: RwLock::new(Some(queue)),
            tasks: Mutex::new(tasks),
        }
    }

    /// Carries out a create and returns once it is committed. It goes on if
    /// the caller goes away.
    pub async fn create(&self, new: NewPet) -> Result<Pet, Error> {
        let (reply, answer) = oneshot::channel();
        let sent = match &*self.queue.read().expect("nobody panics with the lock") {
            Some(queue) => queue.try_send((new, reply)),
            None => return Err(Error::Unavailable(Arc::new(Closed))),
        };
        sent.map_err(|e| match e {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Closed(_) => Error::Unavailable(Arc::new(Closed)),
        })?;
        let unknown = Error::OutcomeUnknown;
        wait(answer, PATIENCE, unknown, unknown).await
    }

    /// Carries out what is waiting.
    pub async fn close(&self) {
        drop(
            self.queue
                .write()
                .expect("nobody panics with the lock")
                .take(),
        );
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
    }
}

async fn write(pool: Pool, waiting: Arc<Mutex<Receiver<Waiting>>>) {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        if waiting.lock().await.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let (new, replies): (Vec<NewPet>, Vec<_>) = batch.drain(..).unzip();
        let answers = insert(&pool, new).await;
        for (reply, answer) in replies.into_iter().zip(answers) {
            // Whoever asked may have gone away.
            let _ = reply.send(answer);
        }
    }
}

async fn insert(pool: &Pool, new: Vec<NewPet>) -> Vec<Result<Pet, Error>> {
    let names: Vec<_> = new.iter().map(|pet| pet.name.as_str()).collect();
    let categories: Vec<_> = new.iter().map(|pet| pet.category_id).collect();
    let statuses: Vec<_> = new
        .iter()
        .map(|pet| pet.status.map(PetStatus::as_str))
        .collect();
    let rows = pool.write(&INSERT, &[&names, &categories, &statuses]).await;
    // A trigger of the operator's may have left some out: whose is whose?
    let rows = rows.and_then(|rows| match rows.len() == new.len() {
        true => Ok(rows),
        false => Err(Error::OutcomeUnknown(Arc::new(LeftOut))),
    });
    match rows {
        Ok(rows) => {
            let pets = new
                .into_iter()
                .zip(rows)
                .map(|(new, row)| Ok(new.with_id(PetId::from_store(row.get(0)))));
            pets.collect()
        }
        Err(error) => {
            tracing::error!(%error, writes = new.len(), "a batch of writes failed");
            new.iter().map(|_| Err(error.clone())).collect()
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the server did not insert all rows")]
struct LeftOut;
