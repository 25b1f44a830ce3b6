//! Adding and changing many animals, for `petstore import` and `petstore seed`.

use std::{pin::pin, time::Duration};

use indicatif::ProgressBar;
use tokio::{select, time::sleep};

use super::{
    Interrupt, counted,
    importer::{ChunkContent, ImportError, Importer, WriteResult},
    plural, status,
};
use domain::{
    import::{FULL_CHUNK_BYTES, MAX_CHUNK_SIZE, NamedCategory, PetUpdate},
    pet::NewPet,
};

/// The time to wait before a wait is reported.
const QUIET_TIME: Duration = Duration::from_secs(3);

/// The maximum time that a write in progress may still take after a signal.
const SIGNAL_GRACE: Duration = Duration::from_secs(2);

const INTERRUPTED: &str = "interrupted";

/// The maximum number of animals or lines that are reported one by one. Further ones are only
/// counted.
pub const MAX_REPORTED: u64 = 100;

/// Reports how many were not reported one by one.
pub fn report_rest(count: u64) {
    if count > MAX_REPORTED {
        status!("… and {} more", count - MAX_REPORTED);
    }
}

/// The reason why not all animals were added.
pub struct Interruption {
    reason: String,
    /// The number of animals that were added.
    pub added: u64,
    /// The number of animals that may have been added in addition.
    pub perhaps: u64,
    /// True if the command can be repeated to add the rest.
    pub can_continue: bool,
    /// True if another command adds the rest, or the import was undone.
    is_stopped: bool,
}

impl Interruption {
    /// Formats a message such as "interrupted; 3 of 12 animals were added".
    pub fn message(&self, all: u64, done: &str) -> String {
        let reason = &self.reason;
        let were = plural(all, "was", "were");
        let all = counted(all, "animal");
        match (self.added, self.perhaps) {
            _ if self.is_stopped => reason.clone(),
            (0, 0) => format!("{reason}; nothing was {done}"),
            (added, 0) => format!("{reason}; {added} of {all} {were} {done}"),
            (added, perhaps) => {
                format!("{reason}; {added} of {all} {were} {done}, and perhaps {perhaps} more")
            }
        }
    }
}

/// The change that a record makes.
pub enum PetWrite {
    Add(Box<NewPet>),
    Change(Box<PetUpdate>),
}

/// Makes the writes that `next` returns until `None`, one for each record, each with the number of
/// records that are done then. Names the categories, which are in the order of the records that
/// need them, with the first ones. The progress bar counts the pets that are in the store. Reports
/// those that could not be written, because the store has changed, and returns their number.
pub async fn write_all(
    mut importer: Importer,
    categories: Vec<NamedCategory>,
    mut next: impl FnMut() -> Result<Option<(u64, Option<PetWrite>)>, String>,
    progress: WriteProgress<'_>,
) -> Result<u64, Interruption> {
    let WriteProgress { bar, interrupt } = progress;
    let is_atomic = importer.is_atomic();
    // An earlier command has added these animals, through a service.
    let earlier = bar.position();
    let interruption = |reason: String, perhaps, is_stopped: bool| Interruption {
        reason,
        added: if is_atomic { earlier } else { bar.position() },
        perhaps,
        can_continue: !is_stopped && (!is_atomic || earlier > 0),
        is_stopped,
    };
    let failed = |reason| interruption(reason, 0, false);
    let mut all_rejected = 0;
    // A record needs at most one of them, so each chunk has those of its own records.
    let mut categories = categories.chunks(MAX_CHUNK_SIZE - 1);
    // Read ahead, so that the last chunk is known to be the last.
    let mut following = next().map_err(failed)?;
    while following.is_some() {
        let mut content = ChunkContent {
            categories: categories.next().unwrap_or_default().into(),
            ..ChunkContent::default()
        };
        let mut done = 0;
        let mut size = 0;
        while content.len() + content.categories.len() < MAX_CHUNK_SIZE
            && size < FULL_CHUNK_BYTES
            && let Some((number, write)) = following.take()
        {
            done = number;
            let json = match write {
                Some(PetWrite::Add(pet)) => {
                    let json = serde_json::to_string(&pet);
                    content.pets.push(*pet);
                    json
                }
                Some(PetWrite::Change(update)) => {
                    let json = serde_json::to_string(&update);
                    content.updates.push(*update);
                    json
                }
                None => Ok(String::new()),
            };
            size += json.map_or(0, |json| json.len());
            following = next().map_err(failed)?;
        }
        let is_last = following.is_none();
        if interrupt.is_set() {
            return Err(failed(INTERRUPTED.into()));
        }
        let count = content.len() as u64;
        // All commands use the same order, so that they don't lock each other out on a server.
        content.categories.sort_by_key(|named| named.category.id);
        let writer = importer.writer_name();
        let written = progress.reply(writer, importer.write(content, done, is_last));
        let error = match written.await {
            Some(Ok(WriteResult { pause, rejected })) => {
                bar.inc(count - rejected.len() as u64);
                for record in rejected {
                    all_rejected += 1;
                    if all_rejected <= MAX_REPORTED {
                        bar.suspend(|| status!("{record}"));
                    }
                }
                select! {
                    () = sleep(pause) => {}
                    () = interrupt.received() => {}
                }
                continue;
            }
            Some(Err(error)) => Some(error),
            None => None,
        };
        // The chunk may have been written although there was no reply.
        let perhaps = match importer.is_written(done, error.as_ref()).await {
            Some(true) if is_last => return Ok(all_rejected),
            Some(true) => {
                bar.inc(count);
                0
            }
            Some(false) => 0,
            None => count,
        };
        let is_stopped = matches!(error, Some(ImportError::Stopped(_)));
        let reason = error.map_or(INTERRUPTED.into(), |error| error.to_string());
        return Err(interruption(reason, perhaps, is_stopped));
    }
    match progress
        .reply(importer.writer_name(), importer.finish())
        .await
    {
        Some(Err(error)) if is_atomic => Err(failed(error.to_string())),
        // All animals are in the store.
        _ => Ok(all_rejected),
    }
}

/// The progress bar of writes, and the signal that ends them.
#[derive(Clone, Copy)]
pub struct WriteProgress<'a> {
    pub bar: &'a ProgressBar,
    pub interrupt: &'a Interrupt,
}

impl WriteProgress<'_> {
    /// Returns the output of a future, or `None` if it does not complete soon after a signal.
    /// Reports a long wait.
    pub async fn reply<T>(self, writer: &str, future: impl Future<Output = T>) -> Option<T> {
        let report = async {
            let mut waited = QUIET_TIME;
            sleep(waited).await;
            loop {
                let seconds = waited.as_secs();
                self.bar.suspend(|| {
                    status!(
                        "Waiting for {writer}, which has not replied for {seconds} seconds. \
                         Press Ctrl-C to stop."
                    );
                });
                sleep(waited).await;
                waited *= 2;
            }
        };
        let give_up = async {
            self.interrupt.received().await;
            sleep(SIGNAL_GRACE).await;
        };
        select! {
            biased;
            output = pin!(future) => Some(output),
            () = give_up => None,
            () = report => None,
        }
    }
}
