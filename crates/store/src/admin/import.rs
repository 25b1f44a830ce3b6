//! Import of many pets: into a file that is not served, through the service that serves it,
//! or on a database server.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use tokio::time::{sleep, timeout};

use super::{
    super::{
        Options, Role, Store,
        command::QueuedCommand,
        error::{Error, OpenError, sqlite_reason},
        imports::{FORGET, GET, WriteChunk},
        lock_holder::holder_and_advice,
        sqlite,
        table::Record,
        url::DatabaseUrl,
        working_set::Times,
    },
    reader::{ReadError, Reader},
};
use domain::{
    category::Category,
    import::{FinishedImport, Import, ImportChunk, ImportId},
    pet::NewPet,
};
use import_socket::{ImportConnection, ServiceError};

/// The maximum wait for a service that is just starting or ending.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for reading again how many records are done.
const RECOUNT_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The reason why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "{path} accepts no imports ({cause}), and is in use by another petstore process{}",
        holder_and_advice(path)
    )]
    NoService { path: PathBuf, cause: io::Error },
    #[error("{path} belongs to a service of another user; run this command as that user or root")]
    Forbidden { path: PathBuf },
    #[error("cannot use the database file: {}", sqlite_reason(.0))]
    File(#[from] rusqlite::Error),
    #[error(transparent)]
    Store(#[from] Error),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(
        "another command is importing the same file and continues, so this one has stopped; no \
         animal is imported twice; if no other command is running, run this one again"
    )]
    Outdated,
}

impl ImportError {
    /// Returns true if the animals may have been written nevertheless.
    fn is_unknown(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, Error::OutcomeUnknown(_)),
            Self::Service(error) => error.is_unknown(),
            _ => false,
        }
    }
}

/// An import in progress, started or continued by this process.
pub struct Importer {
    id: ImportId,
    /// True if its record is kept when it is complete, so that it is not repeated.
    is_kept: bool,
    target: Target,
    /// The number of records that are done.
    done: i64,
    /// The last sequence number of the event log, unless other clients write, too.
    last_event: Option<i64>,
}

enum Target {
    /// A file that is not served: one transaction. While the file is locked, no service can
    /// open it.
    File(Box<sqlite::ExclusiveFile>),
    /// The service of a file, which writes each chunk in a transaction of its own, so that its
    /// cache and its event log are right.
    Service(ImportConnection),
    /// A server: each chunk in a transaction of its own, because a long one would keep rows
    /// locked and delay all events.
    Server(Store),
}

impl Importer {
    /// Starts or continues an import. An import without an id can be neither continued nor
    /// recognized. Creates the store if needed.
    pub async fn open(url: &DatabaseUrl, identity: Option<ImportId>) -> Result<Self, ImportError> {
        let id = identity.unwrap_or_else(|| ImportId(rand::random()));
        let (target, done) = match url {
            DatabaseUrl::Sqlite(path) => match open_file(path).await? {
                Target::File(file) => {
                    file.db().execute_batch("BEGIN IMMEDIATE")?;
                    let done = progress(file.db(), id)?;
                    (Target::File(file), done)
                }
                target => (target, progress_in_file(path, id)?),
            },
            DatabaseUrl::Postgres(_) => {
                let options = Options {
                    create: true,
                    ..Options::new(Role::Command)
                };
                let store = Store::open(url, &options).await?;
                let done = store.import_progress(id).await?;
                (Target::Server(store), done)
            }
        };
        Ok(Self {
            id,
            is_kept: identity.is_some(),
            target,
            done,
            last_event: None,
        })
    }

    /// Returns the number of records that are done, including those of an interrupted run.
    pub fn done(&self) -> u64 {
        self.done as u64
    }

    /// Returns true if nothing is kept unless [`finish`](Self::finish) is called.
    pub fn is_atomic(&self) -> bool {
        matches!(self.target, Target::File(_))
    }

    /// Restarts the import from the first record.
    pub async fn restart(&mut self) -> Result<(), ImportError> {
        self.forget().await?;
        self.done = 0;
        Ok(())
    }

    /// Names the component that writes the animals.
    pub fn writer(&self) -> &'static str {
        match self.target {
            Target::File(_) => "the disk",
            Target::Service(_) => "the service",
            Target::Server(_) => "the database server",
        }
    }

    /// Writes pets, and names categories whose ids and names are not taken. `done` is the
    /// number of records that are done after that. With the last pets, the import is recorded
    /// as finished in the same transaction: it is not repeated, whatever happens afterwards.
    ///
    /// Returns how long the caller should pause. If others write too, that is as long as the
    /// write took, so that they keep at least half of their throughput.
    pub async fn write(
        &mut self,
        pets: Vec<NewPet>,
        categories: Vec<Category>,
        done: u64,
        is_last: bool,
    ) -> Result<Duration, ImportError> {
        let started = Instant::now();
        let events = (pets.len() + categories.len()) as i64;
        let chunk = ImportChunk {
            id: self.id,
            from: self.done,
            to: done as i64,
            pets,
            categories,
            is_last: is_last && self.is_kept,
        };
        let last_event = match &mut self.target {
            Target::File(file) => {
                let (command, reply) = QueuedCommand::queue(WriteChunk(chunk), None, None);
                let mut commands = [command];
                let times = Times::of_one_clock(Timestamp::now());
                sqlite::run(file.db(), &mut commands, times)?;
                let [command] = commands;
                command.finish(Ok(()));
                let reply = reply.await.expect("the command was finished")?;
                reply.executed().ok()
            }
            Target::Service(service) => service.write(&chunk).await?,
            Target::Server(store) => store.pet_import(chunk).await?,
        };
        let last_event = last_event.ok_or(ImportError::Outdated)?;
        self.done = done as i64;
        let others_write = (self.last_event).is_some_and(|expected| last_event > expected);
        self.last_event = Some(last_event + events);
        Ok(if others_write {
            started.elapsed()
        } else {
            Duration::ZERO
        })
    }

    /// Ends a complete import. An import that is not atomic is durable without it.
    pub async fn finish(mut self) -> Result<(), ImportError> {
        if !self.is_kept {
            self.forget().await?;
        }
        match self.target {
            Target::File(file) => file.commit()?,
            Target::Service(_) => {}
            Target::Server(store) => store.close().await,
        }
        Ok(())
    }

    async fn forget(&mut self) -> Result<(), ImportError> {
        match &mut self.target {
            Target::File(file) => {
                file.db().execute(FORGET.text(), [self.id.0.as_slice()])?;
            }
            Target::Service(service) => service.forget(self.id).await?,
            Target::Server(store) => store.import_forget(self.id).await?,
        }
        Ok(())
    }

    /// Returns true if the records up to `done` are in the store, after [`write`](Self::write)
    /// has failed, or was abandoned, in which case there is no error. `None` if that is not known.
    pub async fn is_written(
        &self,
        url: &DatabaseUrl,
        done: u64,
        error: Option<&ImportError>,
    ) -> Option<bool> {
        if error.is_some_and(|error| !error.is_unknown()) {
            return Some(false);
        }
        match (&self.target, url) {
            (Target::File(_), _) => Some(false),
            (Target::Service(service), DatabaseUrl::Sqlite(path)) => {
                // The service may be about to end, and still write.
                let deadline = Instant::now() + SERVICE_TIMEOUT;
                loop {
                    let has_ended = service.has_ended();
                    match progress_in_file(path, self.id) {
                        Ok(found) if found >= done as i64 => return Some(true),
                        Ok(_) if has_ended => return Some(false),
                        _ if Instant::now() > deadline || error.is_none() => return None,
                        _ => sleep(RETRY_INTERVAL).await,
                    }
                }
            }
            (Target::Server(store), _) => {
                let found = timeout(RECOUNT_TIMEOUT, store.import_progress(self.id)).await;
                let is_written = found.is_ok_and(|found| found.is_ok_and(|n| n >= done as i64));
                is_written.then_some(true)
            }
            (Target::Service(_), DatabaseUrl::Postgres(_)) => None,
        }
    }
}

/// Returns the record of an import if it was completed. Changes nothing.
pub async fn finished_import(
    url: &DatabaseUrl,
    id: ImportId,
) -> Result<Option<FinishedImport>, ReadError> {
    let import = match Reader::open_if_created(url).await? {
        None => None,
        Some(Reader::File(db)) => find(&db, id)?,
        Some(Reader::Server(client)) => {
            let found = client.query_opt(GET.text(), &[&id.0.as_slice()]).await?;
            found.as_ref().map(Import::from_row).transpose()?
        }
    };
    Ok(import.and_then(|import| {
        Some(FinishedImport {
            pets: import.pets,
            at: import.finished_at?,
        })
    }))
}

fn find(db: &Connection, id: ImportId) -> rusqlite::Result<Option<Import>> {
    let import = db.query_row(GET.text(), [id.0.as_slice()], sqlite::read_row);
    import.optional()
}

/// Returns the number of records that are done; 0 if the import is not known.
fn progress(db: &Connection, id: ImportId) -> rusqlite::Result<i64> {
    Ok(find(db, id)?.map_or(0, |import| import.records))
}

/// Takes the lock of the file, or connects to its service.
async fn open_file(path: &Path) -> Result<Target, ImportError> {
    let deadline = Instant::now() + SERVICE_TIMEOUT;
    loop {
        let path = match sqlite::ExclusiveFile::open(path) {
            Err(OpenError::InUse(path)) => path,
            opened => return Ok(Target::File(Box::new(opened?))),
        };
        match ImportConnection::open(&path).await {
            Ok(service) => return Ok(Target::Service(service)),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
                return Err(ImportError::Forbidden { path });
            }
            Err(cause) if Instant::now() > deadline => {
                return Err(ImportError::NoService { path, cause });
            }
            Err(_) => sleep(RETRY_INTERVAL).await,
        }
    }
}

/// Reads the progress from a file that is being served.
fn progress_in_file(path: &Path, id: ImportId) -> Result<i64, ImportError> {
    let db = sqlite::open_current(path)?;
    Ok(progress(&db, id)?)
}
