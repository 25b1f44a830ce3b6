//! The only thread that writes to the SQLite file.
//!
//! Writes that arrive while a commit is in flight share the next one, so one
//! fsync pays for all of them. Nobody is answered before it.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    super::{
        Error, Options, Role, Version,
        commits::Commits,
        queue::{hand_over, wait},
    },
    failure, open,
};

/// How many writes share a commit at the most.
const BATCH: usize = 1024;

enum Message {
    Write(Box<dyn Write>),
    Stop,
}

#[derive(Debug)]
pub struct Writer {
    queue: Sender<Message>,
    progress: Arc<Progress>,
    patience: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub fn start(db: Connection, path: &Path, options: &Options) -> Self {
        let (queue, waiting) = bounded(options.write_queue);
        let progress = Arc::new(Progress::default());
        let desk = Desk {
            db: Some(db),
            file: identity(path),
            path: path.into(),
            role: options.role,
            progress: progress.clone(),
        };
        let thread = thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || desk.work(&waiting))
            .expect("a thread can be started");
        Self {
            queue,
            progress,
            patience: match options.role {
                Role::Service => Duration::from_secs(10),
                // Longer than it asks for the database.
                Role::Tool => Duration::from_secs(60),
            },
            thread: Mutex::new(Some(thread)),
        }
    }

    pub fn version(&self) -> Version {
        self.progress.version()
    }

    /// How many writes wait for the thread.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub fn commits(&self) -> &Commits {
        &self.progress.commits
    }

    /// Carries out a write, in a savepoint of its own, and returns once it is
    /// on disk. It goes on if the caller goes away. `effect` tells from its
    /// result what it did.
    pub async fn run<T: Send + 'static>(
        &self,
        effect: fn(&T) -> Effect,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.queue_up(effect, true, work).await
    }

    /// The same for a write of a single statement. SQLite undoes one that
    /// fails, so it needs no savepoint, which is a good part of its cost.
    pub async fn run_statement<T: Send + 'static>(
        &self,
        effect: fn(&T) -> Effect,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.queue_up(effect, false, work).await
    }

    async fn queue_up<T: Send + 'static>(
        &self,
        effect: fn(&T) -> Effect,
        savepoint: bool,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let write = Box::new(Waiting {
            work: Some(work),
            result: None,
            reply,
            effect,
            savepoint,
        });
        hand_over(&self.queue, Message::Write(write))?;
        wait(
            answer,
            self.patience,
            Error::OutcomeUnknown,
            Error::OutcomeUnknown,
        )
        .await
    }

    /// Carries out what is waiting, then ends the thread.
    pub async fn close(&self) {
        let thread = self
            .thread
            .lock()
            .expect("no thread panics with the lock")
            .take();
        let queue = self.queue.clone();
        let closing = tokio::task::spawn_blocking(move || {
            let _ = queue.send(Message::Stop);
            thread.map(JoinHandle::join)
        });
        let _ = closing.await;
    }
}

/// One write of a batch: it is run first and answered after the commit.
trait Write: Send {
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()>;

    fn effect(&self) -> Effect;

    fn needs_savepoint(&self) -> bool;

    /// Tells the caller. A write that `fate` fails keeps no result.
    fn answer(self: Box<Self>, fate: Result<(), Error>);
}

struct Waiting<W, T> {
    work: Option<W>,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
    effect: fn(&T) -> Effect,
    savepoint: bool,
}

impl<W, T> Write for Waiting<W, T>
where
    W: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let work = self.work.take().expect("a write is run once");
        self.result = Some(work(db)?);
        Ok(())
    }

    fn effect(&self) -> Effect {
        self.result.as_ref().map_or(Effect::Unseen, self.effect)
    }

    fn needs_savepoint(&self) -> bool {
        self.savepoint
    }

    fn answer(self: Box<Self>, fate: Result<(), Error>) {
        let result = self.result;
        let answer = fate.map(|()| result.expect("a write that succeeded has a result"));
        // Whoever asked may have gone away.
        let _ = self.reply.send(answer);
    }
}

/// What a write does to what others have read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Something with a new id is there.
    Adds,
    /// Something that was there is another now, whatever else is new.
    Changes,
    /// Nothing that a page shows.
    Unseen,
}

/// How far the store has come, told by the writing thread alone.
#[derive(Debug, Default)]
struct Progress {
    added: AtomicU64,
    changed: AtomicU64,
    commits: Commits,
}

impl Progress {
    fn version(&self) -> Version {
        Version {
            added: self.added.load(Ordering::Acquire),
            changed: self.changed.load(Ordering::Acquire),
        }
    }

    fn count(&self, batch: &[Box<dyn Write>]) {
        let has = |effect| batch.iter().any(|write| write.effect() == effect);
        if has(Effect::Adds) {
            self.added.fetch_add(1, Ordering::Release);
        }
        if has(Effect::Changes) {
            self.changed.fetch_add(1, Ordering::Release);
        }
    }
}

/// The writing thread's own things.
struct Desk {
    /// Gone after a failure that may have spoilt it, until it is opened anew.
    db: Option<Connection>,
    path: PathBuf,
    /// Which file it is, whatever its name.
    file: Option<(u64, u64)>,
    role: Role,
    progress: Arc<Progress>,
}

impl Desk {
    fn work(mut self, waiting: &Receiver<Message>) {
        let mut open = true;
        while open && let Ok(Message::Write(first)) = waiting.recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(next) = waiting.try_recv()
            {
                match next {
                    Message::Write(write) => batch.push(write),
                    Message::Stop => {
                        open = false;
                        break;
                    }
                }
            }
            self.carry_out(batch);
        }
    }

    /// Runs a batch, commits it, and answers everyone in it.
    fn carry_out(&mut self, mut batch: Vec<Box<dyn Write>>) {
        let began = Instant::now();
        let fates = self.commit(&mut batch);
        let effects = batch.iter().map(|write| write.effect());
        let writes = effects.filter(|effect| *effect != Effect::Unseen).count();
        if writes > 0 || fates.is_err() {
            let commits = &self.progress.commits;
            commits.count(writes, began, fates.is_ok());
        }
        // Raised before tls is answered: who then asks for a page cannot be
        // given one from before the write.
        self.progress.count(&batch);
        match fates {
            Ok(fates) => {
                for (write, fate) in batch.into_iter().zip(fates) {
                    write.answer(fate);
                }
            }
            Err(error) => {
                tracing::error!(%error, writes = batch.len(), "a batch of writes failed");
                self.db = None;
                for write in batch {
                    write.answer(Err(error.clone()));
                }
            }
        }
    }

    /// Gives the fate of each write once the commit is on disk, or the error
    /// that all of them share.
    fn commit(&mut self, batch: &mut [Box<dyn Write>]) -> Result<Vec<Result<(), Error>>, Error> {
        // A file that was moved away would take the writes with it.
        if identity(&self.path) != self.file {
            return Err(Error::Unavailable(Arc::new(MovedAway)));
        }
        let db = match &mut self.db {
            Some(db) => db,
            none => none.insert(open::connect(&self.path, self.role).map_err(failure)?),
        };
        execute(db, "BEGIN IMMEDIATE").map_err(failure)?;
        let fates = batch.iter_mut().map(|write| run_one(db, write.as_mut()));
        match fates.collect::<Result<_, _>>() {
            Ok(fates) => match execute(db, "COMMIT") {
                Ok(()) => Ok(fates),
                // The log may hold the writes all the same: a crash now could
                // bring them back.
                Err(cause) => Err(Error::OutcomeUnknown(Arc::new(cause))),
            },
            // SQLite has rolled back already, or does when the connection is
            // closed.
            Err(error) => Err(error),
        }
    }
}

/// Runs one write, in a savepoint if it has more than one statement. The inner
/// result is its own fate, the outer error is everyone's: the transaction is
/// lost.
fn run_one(db: &Connection, write: &mut dyn Write) -> Result<Result<(), Error>, Error> {
    let savepoint = write.needs_savepoint();
    if savepoint {
        execute(db, "SAVEPOINT one").map_err(failure)?;
    }
    let error = match catch_unwind(AssertUnwindSafe(|| write.run(db))) {
        Ok(ran) => ran.map_err(failure).err(),
        Err(_) if savepoint => Some(Error::Internal(Arc::new(Panicked))),
        // Its statement may have succeeded before, and nothing undoes it alone.
        Err(_) => return Err(Error::Unavailable(Arc::new(Panicked))),
    };
    // A full disk or an I/O error makes SQLite roll back the whole transaction
    // by itself. What ran next would then be committed alone.
    if db.is_autocommit() {
        return Err(match error {
            Some(error) => Error::Unavailable(Arc::new(error)),
            None => Error::Unavailable(Arc::new(RolledBack)),
        });
    }
    match error {
        None => {
            if savepoint {
                execute(db, "RELEASE one").map_err(failure)?;
            }
            Ok(Ok(()))
        }
        Some(Error::Internal(cause)) if !savepoint => Ok(Err(Error::Internal(cause))),
        Some(Error::Internal(cause)) => {
            execute(db, "ROLLBACK TO one").map_err(failure)?;
            execute(db, "RELEASE one").map_err(failure)?;
            Ok(Err(Error::Internal(cause)))
        }
        Some(error) => Err(error),
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[derive(Debug, thiserror::Error)]
#[error("the database file was moved or removed; put it back, or restart the service")]
struct MovedAway;

#[derive(Debug, thiserror::Error)]
#[error("a write panicked")]
struct Panicked;

#[derive(Debug, thiserror::Error)]
#[error("the transaction was rolled back")]
struct RolledBack;

fn execute(db: &Connection, statement: &str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests;
