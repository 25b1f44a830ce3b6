//! What `petstore import` and `petstore seed` have in common: adding many animals.

use indicatif::ProgressBar;

use super::{Interrupt, counted};
use crate::{
    category::Category,
    import::MAX_CHUNK_SIZE,
    pet::NewPet,
    store::{DatabaseUrl, ImportError, Importer},
};

/// Why not all animals were added.
pub struct Stopped {
    reason: String,
    /// How many were added, unless nobody knows.
    pub added: Option<u64>,
    /// Whether the command can be repeated to add the rest.
    pub can_continue: bool,
}

impl Stopped {
    /// "interrupted; 3 of 12 animals were added".
    pub fn message(&self, all: u64, done: &str) -> String {
        let Self { reason, added, .. } = self;
        let were = if all == 1 { "was" } else { "were" };
        match added {
            Some(0) => format!("{reason}; nothing was {done}"),
            Some(added) => format!(
                "{reason}; {added} of {} {were} {done}",
                counted(all, "animal")
            ),
            None => format!("{reason}; some animals may have been {done}"),
        }
    }
}

/// An animal, and how many records are done with it.
pub type NumberedPet = (u64, NewPet);

/// Adds the animals that `next` returns until `None`, and names categories. `bar` counts the
/// animals that are in the store.
pub async fn add(
    url: &DatabaseUrl,
    mut importer: Importer,
    mut categories: Vec<Category>,
    mut next: impl FnMut() -> Result<Option<NumberedPet>, String>,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<(), Stopped> {
    let is_atomic = importer.is_atomic();
    // An earlier command has added them, through a service.
    let earlier = bar.position();
    let stopped = |reason, added: Option<u64>| Stopped {
        reason,
        added: if is_atomic { Some(earlier) } else { added },
        can_continue: !is_atomic || earlier > 0,
    };
    loop {
        let (mut pets, mut done) = (Vec::new(), 0);
        while pets.len() < MAX_CHUNK_SIZE {
            match next() {
                Ok(Some((number, pet))) => {
                    done = number;
                    pets.push(pet);
                }
                Ok(None) => break,
                Err(reason) => return Err(stopped(reason, Some(bar.position()))),
            }
        }
        if pets.is_empty() {
            break;
        }
        if interrupt.is_set() {
            return Err(stopped("interrupted".into(), Some(bar.position())));
        }
        let count = pets.len() as u64;
        let names = std::mem::take(&mut categories);
        if let Err(error) = importer.write(pets, names, done).await {
            let reason = error.to_string();
            if let ImportError::Outdated = error {
                return Err(Stopped {
                    can_continue: false,
                    ..stopped(reason, Some(bar.position()))
                });
            }
            // The chunk may have been written although there was no reply.
            let added = match importer.recount(url).await {
                Ok(counted) if counted == done => Some(bar.position() + count),
                Ok(_) => Some(bar.position()),
                Err(_) => None,
            };
            return Err(stopped(reason, added));
        }
        bar.inc(count);
    }
    match importer.finish().await {
        Err(error) if is_atomic => Err(stopped(error.to_string(), None)),
        // All animals are in the store.
        _ => Ok(()),
    }
}
