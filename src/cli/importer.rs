//! An import in progress: into a file that is not served, through the service that serves it, or
//! on a database server.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};

use domain::{
    import::{
        Import, ImportChunk, ImportId, ImportRun, NamedCategory, PetUpdate, RejectedRecord,
        StoppedImport,
    },
    pet::{NewPet, batch::BatchId},
    undo::UndoOutcome,
};
use import_socket::{ImportConnection, ServiceError};
use store::{
    DatabaseUrl, FileImport, FileImportError, OpenError, Options, ReadError, Role, Store,
    find_import, holder_and_advice,
};

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
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(
        "{path} accepts no imports ({cause}), and is in use by another petstore process{}",
        holder_and_advice(path)
    )]
    NoService { path: PathBuf, cause: io::Error },
    #[error("{path} belongs to a service of another user; run this command as that user or root")]
    Forbidden { path: PathBuf },
    #[error(transparent)]
    File(#[from] FileImportError),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Stopped(#[from] StoppedImport),
}

impl ImportError {
    /// Returns true if the animals may have been written nevertheless.
    fn is_unknown(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, store::Error::OutcomeUnknown(_)),
            Self::Service(error) => error.is_unknown(),
            _ => false,
        }
    }
}

/// An import in progress, started or continued by this process.
pub struct Importer {
    url: DatabaseUrl,
    id: ImportId,
    run: ImportRun,
    /// True if its record is kept when it is complete, so that it is not repeated.
    is_remembered: bool,
    target: Target,
    /// The number of records that are done, including those of an interrupted run.
    pub done: u64,
    /// The last sequence number of the event log, unless other clients write, too.
    last_event: Option<i64>,
}

/// The result of writing a chunk.
pub struct WriteResult {
    /// The duration for which the caller should pause. If other clients write too, that is the
    /// duration of the write, so that they keep at least half of their throughput.
    pub pause: Duration,
    /// The animals that could not be written, because the store has changed.
    pub rejected: Vec<RejectedRecord>,
}

/// The animals and categories that are written at a time.
#[derive(Default)]
pub struct ChunkContent {
    pub pets: Vec<NewPet>,
    pub updates: Vec<PetUpdate>,
    pub categories: Vec<NamedCategory>,
}

impl ChunkContent {
    /// Returns the number of animals.
    pub fn len(&self) -> usize {
        self.pets.len() + self.updates.len()
    }
}

enum Target {
    File(FileImport),
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
    pub async fn open(
        url: &DatabaseUrl,
        identity: Option<ImportId>,
        run: ImportRun,
    ) -> Result<Self, ImportError> {
        let id = identity.unwrap_or_else(|| ImportId(rand::random()));
        let target = match url {
            DatabaseUrl::Sqlite(path) => open_file(path).await?,
            DatabaseUrl::Postgres(_) => {
                let options = Options {
                    create: true,
                    ..Options::new(Role::Cli)
                };
                Target::Server(Store::open(url, &options).await?)
            }
        };
        let import = match &target {
            Target::File(file) => file.find(id)?,
            _ => find_import(url, id).await?,
        };
        Ok(Self {
            url: url.clone(),
            id,
            run,
            is_remembered: identity.is_some(),
            target,
            done: records(&import),
            last_event: None,
        })
    }

    /// Returns true if nothing is kept unless [`finish`](Self::finish) is called.
    pub fn is_atomic(&self) -> bool {
        matches!(self.target, Target::File(_))
    }

    /// Restarts the import from the first record, after an earlier run of it.
    pub async fn restart(&mut self, earlier: &BatchId) -> Result<(), ImportError> {
        self.forget(earlier).await?;
        self.done = 0;
        Ok(())
    }

    /// Names the component that writes the animals.
    pub fn writer_name(&self) -> &'static str {
        match self.target {
            Target::File(_) => "the disk",
            Target::Service(_) => "the service",
            Target::Server(_) => "the database server",
        }
    }

    /// Writes a chunk of an import. `done` is the number of records that are done after that. With
    /// the last chunk, the import is recorded as finished in the same transaction: it is not
    /// repeated, whatever happens afterwards.
    pub async fn write(
        &mut self,
        content: ChunkContent,
        done: u64,
        is_last: bool,
    ) -> Result<WriteResult, ImportError> {
        let started = Instant::now();
        let events = (content.len() + content.categories.len()) as i64;
        let chunk = ImportChunk {
            id: self.id,
            run: self.run.clone(),
            from: self.done as i64,
            to: done as i64,
            pets: content.pets,
            updates: content.updates,
            categories: content.categories,
            is_last: is_last && self.is_remembered,
        };
        let written = match &mut self.target {
            Target::File(file) => file.write(chunk).await?,
            Target::Service(service) => service.write(&chunk).await?,
            Target::Server(store) => store.pet_import(chunk).await?,
        };
        let written = written?;
        self.done = done;
        let last_event = written.last_event;
        let others_write = (self.last_event).is_some_and(|expected| last_event > expected);
        self.last_event = Some(last_event + events);
        Ok(WriteResult {
            pause: if others_write {
                started.elapsed()
            } else {
                Duration::ZERO
            },
            rejected: written.rejected,
        })
    }

    /// Ends a complete import. An import that is not atomic is durable without it.
    pub async fn finish(mut self) -> Result<(), ImportError> {
        if !self.is_remembered {
            let run = self.run.batch_id.clone();
            self.forget(&run).await?;
        }
        match self.target {
            Target::File(file) => file.commit()?,
            Target::Service(_) => {}
            Target::Server(store) => store.close().await,
        }
        Ok(())
    }

    /// Undoes the newest changes of a batch below a sequence number. Returns `None` if the log has
    /// none.
    pub async fn undo(
        &mut self,
        batch: &BatchId,
        below: Option<i64>,
    ) -> Result<Option<UndoOutcome>, ImportError> {
        Ok(match &mut self.target {
            Target::File(file) => file.undo(batch, below).await?,
            Target::Service(service) => service.undo(batch, below).await?,
            Target::Server(store) => store.undo_part(batch, below).await?,
        })
    }

    async fn forget(&mut self, run: &BatchId) -> Result<(), ImportError> {
        match &mut self.target {
            Target::File(file) => file.forget(self.id, run)?,
            Target::Service(service) => service.forget(self.id, run).await?,
            Target::Server(store) => store.import_forget(self.id, run).await?,
        }
        Ok(())
    }

    /// Returns true if the records up to `done` are in the store, after [`write`](Self::write)
    /// has failed, or was abandoned, in which case there is no error. `None` if that is not known.
    pub async fn is_written(&self, done: u64, error: Option<&ImportError>) -> Option<bool> {
        if self.is_atomic() || error.is_some_and(|error| !error.is_unknown()) {
            return Some(false);
        }
        let service = match &self.target {
            Target::Service(service) => Some(service),
            _ => None,
        };
        let deadline = Instant::now() + SERVICE_TIMEOUT;
        loop {
            let has_ended = service.is_some_and(ImportConnection::has_ended);
            match timeout(RECOUNT_TIMEOUT, find_import(&self.url, self.id)).await {
                Ok(Ok(import)) if records(&import) >= done => return Some(true),
                Ok(Ok(_)) if has_ended => return Some(false),
                // The service may be about to end, and still write.
                _ if service.is_some() && error.is_some() && Instant::now() < deadline => {
                    sleep(RETRY_INTERVAL).await;
                }
                _ => return None,
            }
        }
    }
}

fn records(import: &Option<Import>) -> u64 {
    import.as_ref().map_or(0, |import| import.records as u64)
}

/// Takes the lock of the file, or connects to its service.
async fn open_file(path: &Path) -> Result<Target, ImportError> {
    let deadline = Instant::now() + SERVICE_TIMEOUT;
    loop {
        let path = match FileImport::open(path) {
            Err(OpenError::InUse(path)) => path,
            file => return Ok(Target::File(file?)),
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
