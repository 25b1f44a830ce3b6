//! Adding and changing many animals, for `petstore import` and `petstore seed`.

use std::{mem, pin::pin, time::Duration};

use indicatif::ProgressBar;
use tokio::{select, time::sleep};

use super::{
    Interrupt, counted,
    importer::{ImportError, Importer, Part},
    status,
};
use domain::{
    category::Category,
    import::{ChunkRejection, FULL_CHUNK_BYTES, MAX_CHUNK_SIZE, PetUpdate},
    pet::NewPet,
};

/// The time to wait before a wait is reported.
const QUIET_TIME: Duration = Duration::from_secs(3);

/// The maximum time that a write in progress may still take after a signal.
const SIGNAL_GRACE: Duration = Duration::from_secs(2);

const INTERRUPTED: &str = "interrupted";

/// The reason why not all animals were added.
pub struct Interruption {
    reason: String,
    /// The number of animals that were added.
    pub added: u64,
    /// The number of animals that may have been added in addition.
    pub perhaps: u64,
    /// True if the command can be repeated to add the rest.
    pub can_continue: bool,
    /// True if another command adds the rest.
    is_outdated: bool,
}

impl Interruption {
    /// Formats a message such as "interrupted; 3 of 12 animals were added".
    pub fn message(&self, all: u64, done: &str) -> String {
        let reason = &self.reason;
        let were = if all == 1 { "was" } else { "were" };
        let all = counted(all, "animal");
        match (self.added, self.perhaps) {
            _ if self.is_outdated => reason.clone(),
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

/// A write with a name for a category that has none yet, and the number of records that are done
/// once it is made.
pub type NumberedWrite = (u64, PetWrite, Option<Category>);

/// Makes the writes that `next` returns until `None`, and names categories. The progress bar
/// counts those that are in the store.
pub async fn add(
    mut importer: Importer,
    mut categories: Vec<Category>,
    mut next: impl FnMut() -> Result<Option<NumberedWrite>, String>,
    wait: Wait<'_>,
) -> Result<(), Interruption> {
    let Wait { bar, interrupt } = wait;
    let is_atomic = importer.is_atomic();
    // An earlier command has added these animals, through a service.
    let earlier = bar.position();
    let interruption = |reason: String, perhaps, is_outdated: bool| Interruption {
        reason,
        added: if is_atomic { earlier } else { bar.position() },
        perhaps,
        can_continue: !is_outdated && (!is_atomic || earlier > 0),
        is_outdated,
    };
    let failed = |reason| interruption(reason, 0, false);
    // Read ahead, so that the last chunk is known to be the last.
    let mut following = next().map_err(failed)?;
    while following.is_some() {
        let mut part = Part::default();
        let mut done = 0;
        let mut size = 0;
        while part.len() < MAX_CHUNK_SIZE
            && size < FULL_CHUNK_BYTES
            && let Some((number, write, category)) = following.take()
        {
            done = number;
            let json = match write {
                PetWrite::Add(pet) => {
                    let json = serde_json::to_string(&pet);
                    part.pets.push(*pet);
                    json
                }
                PetWrite::Change(update) => {
                    let json = serde_json::to_string(&update);
                    part.updates.push(*update);
                    json
                }
            };
            size += json.map_or(0, |json| json.len());
            categories.extend(category);
            following = next().map_err(failed)?;
        }
        let is_last = following.is_none();
        if interrupt.is_set() {
            return Err(failed(INTERRUPTED.into()));
        }
        let count = part.len() as u64;
        part.categories = mem::take(&mut categories);
        // All commands use the same order, so that they don't lock each other out on a server.
        part.categories.sort_by_key(|category| category.id.get());
        let writer = importer.writer();
        let written = wait.reply(writer, importer.write(part, done, is_last));
        let error = match written.await {
            Some(Ok(pause)) => {
                bar.inc(count);
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
            Some(true) if is_last => return Ok(()),
            Some(true) => {
                bar.inc(count);
                0
            }
            Some(false) => 0,
            None => count,
        };
        let is_outdated = matches!(error, Some(ImportError::Rejected(ChunkRejection::Outdated)));
        let reason = error.map_or(INTERRUPTED.into(), |error| error.to_string());
        return Err(interruption(reason, perhaps, is_outdated));
    }
    match wait.reply(importer.writer(), importer.finish()).await {
        Some(Err(error)) if is_atomic => Err(failed(error.to_string())),
        // All animals are in the store.
        _ => Ok(()),
    }
}

/// Waits for the current writer.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    pub bar: &'a ProgressBar,
    pub interrupt: &'a Interrupt,
}

impl Wait<'_> {
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
