//! `petstore import --undo`: undoes an import.

use super::super::{
    CommandResult, Database, Interrupt, block_on, bulk::Wait, counted, importer::Importer, status,
};
use domain::{
    import::ImportId,
    pet::{batch::BatchId, undo::KeptPet},
};
use store::has_batch;

/// The maximum number of animals that are reported one by one. Further ones are only counted.
const MAX_REPORTED: usize = 100;

pub fn parse_id(text: &str) -> Result<BatchId, &'static str> {
    BatchId::parse(text).ok_or("must be the id that the import has printed")
}

pub fn run(database: &Database, id: &BatchId) -> CommandResult {
    let interrupt = Interrupt::listen("interrupted; nothing was undone")?;
    block_on(undo(database, id, interrupt))
}

async fn undo(database: &Database, id: &BatchId, interrupt: Interrupt) -> CommandResult {
    let url = database.url()?;
    if !has_batch(&url, id).await? {
        return Err(format!(
            "no changes of {} are in the log of {}: the id is wrong, or its events are not kept \
             anymore",
            id.as_str(),
            database.location()
        )
        .into());
    }
    let mut importer = Importer::open(&url, ImportId::of_batch(id)).await?;
    interrupt.notice();
    let bar = interrupt.progress_bar("animals");
    let wait = Wait {
        bar: &bar,
        interrupt: &interrupt,
    };
    let mut undone = 0;
    let mut kept: Vec<KeptPet> = Vec::new();
    let mut below = None;
    loop {
        let is_atomic = importer.is_atomic();
        let part = wait.reply(importer.writer(), importer.undo(id, below));
        let part = match part.await {
            Some(undone) => undone?,
            None => None,
        };
        if let Some(part) = part {
            undone += part.undone as u64;
            bar.set_position(undone);
            kept.extend(part.kept);
            below = part.next;
            if below.is_none() {
                break;
            }
        } else if !interrupt.is_set() {
            break;
        }
        if interrupt.is_set() {
            bar.finish_and_clear();
            let undone = if is_atomic { 0 } else { undone };
            return Err(interrupt.error(format!(
                "interrupted; {} undone so far; run the same command again to undo the rest",
                counted(undone, "change")
            )));
        }
    }
    // The same file can be imported again.
    importer.restart().await?;
    importer.finish().await?;
    bar.finish_and_clear();
    for kept in kept.iter().take(MAX_REPORTED) {
        status!("Animal {} is kept: {}.", kept.id.get(), kept.reason);
    }
    if kept.len() > MAX_REPORTED {
        status!("… and {} more", kept.len() - MAX_REPORTED);
    }
    status!(
        "Undone: {}; kept: {}.",
        counted(undone, "change"),
        counted(kept.len() as u64, "animal")
    );
    Ok(())
}
