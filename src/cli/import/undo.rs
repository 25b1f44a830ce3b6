//! `petstore import --undo`: undoes an import.

use std::collections::HashSet;

use super::super::{
    CommandResult, Database, Interrupt, block_on,
    bulk::{MAX_REPORTED, WriteProgress, report_rest},
    counted,
    importer::Importer,
    plural, status,
};
use domain::{import::ImportRun, pet::batch::BatchId, undo::KeptPet};
use store::has_changes;

pub fn parse_id(text: &str) -> Result<BatchId, &'static str> {
    BatchId::parse(text).ok_or("must be the id that the import has printed")
}

pub fn run(database: &Database, id: &BatchId) -> CommandResult {
    let interrupt = Interrupt::listen("interrupted; nothing was undone")?;
    block_on(undo(database, id, interrupt))
}

async fn undo(database: &Database, id: &BatchId, interrupt: Interrupt) -> CommandResult {
    let url = database.url()?;
    if !has_changes(&url, id).await? {
        return Err(format!(
            "no changes of {} are in the log of {}: the id is wrong, or its events are not kept \
             anymore",
            id.as_str(),
            database.location()
        )
        .into());
    }
    let run = ImportRun {
        batch_id: id.clone(),
        last_known_id: 0,
    };
    let mut importer = Importer::open(&url, None, run).await?;
    interrupt.notice();
    let bar = interrupt.progress_bar("animals");
    let progress = WriteProgress {
        bar: &bar,
        interrupt: &interrupt,
    };
    let mut undone = 0;
    let mut categories = 0;
    let mut purged = 0;
    let mut purged_photos = 0;
    let mut kept: Vec<KeptPet> = Vec::new();
    let mut reported = HashSet::new();
    let mut below = None;
    loop {
        let is_atomic = importer.is_atomic();
        let part = progress.reply(importer.writer_name(), importer.undo(id, below));
        let failure = match part.await {
            Some(Ok(Some(part))) => {
                undone += part.undone as u64;
                bar.set_position(undone);
                categories += part.categories as u64;
                purged = part.purged as u64;
                purged_photos += part.purged_photos as u64;
                // An import that was still running is read from its newest change once more.
                kept.extend(part.kept.into_iter().filter(|it| reported.insert(it.id)));
                below = part.next;
                if below.is_none() {
                    break;
                }
                None
            }
            Some(Ok(None)) => break,
            Some(Err(error)) => Some(error.to_string()),
            None => None,
        };
        let failure = failure.or_else(|| interrupt.is_set().then(|| "interrupted".into()));
        if let Some(reason) = failure {
            bar.finish_and_clear();
            let undone = if is_atomic { 0 } else { undone };
            return Err(interrupt.error(format!(
                "{reason}; {} undone so far; run the same command again to undo the rest",
                counted(undone, "change")
            )));
        }
    }
    importer.finish().await?;
    bar.finish_and_clear();
    for kept in kept.iter().take(MAX_REPORTED as usize) {
        status!("Animal {} is kept: {}.", kept.id.get(), kept.reason);
    }
    report_rest(kept.len() as u64);
    if purged > 0 {
        status!(
            "{} of the import {}, because the log has no older events anymore.",
            counted(purged, "change"),
            plural(purged, "stays", "stay")
        );
    }
    if purged_photos > 0 {
        status!(
            "{} of restored animals {} not restored: photos of a deleted animal are kept for 24 \
             hours.",
            counted(purged_photos, "photo"),
            plural(purged_photos, "was", "were")
        );
    }
    let categories = match categories {
        0 => String::new(),
        _ => format!("; categories deleted or restored: {categories}"),
    };
    status!(
        "Undone: {}; kept: {}{categories}.",
        counted(undone, "change"),
        counted(kept.len() as u64, "animal")
    );
    Ok(())
}
