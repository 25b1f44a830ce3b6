//! `petstore import`: adds and changes the animals of a file, or undoes an import.

mod plan;
mod report;
mod source;
#[cfg(test)]
mod tests;
mod undo;

use std::{mem, path::PathBuf};

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, block_on,
    bulk::{self, Wait},
    counted,
    importer::Importer,
    pet_file::{Format, TableOptions},
    status,
};
use domain::pet::batch::BatchId;
use plan::{Checks, Plan, Step};
use source::Source;
use store::{DatabaseUrl, KnownPets, category_names, find_import, find_microchips};

#[derive(Args)]
pub struct Import {
    /// File to import, .csv, .xlsx or .jsonl, or - for standard input.
    ///
    /// A table has a header that names the columns: name, categoryId and,
    /// optionally, those that an export has, or common words for them in
    /// several languages. JSON Lines has one JSON object per line. A category
    /// can also be given by its name, as category instead of categoryId. With
    /// both, a category that has no name yet gets this one.
    ///
    /// A record with the id of an animal in the store changes it: an empty
    /// cell removes a detail, and details without a column stay. All others
    /// are added.
    #[arg(required_unless_present = "undo")]
    file: Option<PathBuf>,
    /// Input format; by default, the file's extension decides.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<Format>,
    /// Skip invalid lines and import the rest.
    #[arg(long, env = "PETSTORE_SKIP_INVALID")]
    skip_invalid: bool,
    /// Only check the file, and show its columns and first rows; import nothing.
    #[arg(long, env = "PETSTORE_DRY_RUN")]
    dry_run: bool,
    /// Import the file from its beginning, although it was imported before.
    ///
    /// The animals that were imported before, completely or until an interruption, are then
    /// imported again.
    #[arg(long, env = "PETSTORE_RESTART", conflicts_with = "dry_run")]
    restart: bool,
    /// Change the animal that has the microchip of a record, if the record has no id.
    #[arg(long, env = "PETSTORE_MATCH_MICROCHIP")]
    match_microchip: bool,
    /// Undo an import, whose id it has printed, instead of importing a file.
    ///
    /// The animals that it has added are deleted, and those that it has changed
    /// are changed back, except those changed or ordered since, which are
    /// listed. An import can be undone as long as its events are kept.
    #[arg(
        long,
        value_name = "ID",
        env = "PETSTORE_UNDO",
        value_parser = undo::parse_id,
        conflicts_with_all = ["file", "format", "skip_invalid", "dry_run", "restart", "match_microchip"]
    )]
    undo: Option<BatchId>,
    #[command(flatten)]
    table: TableOptions,
    #[command(flatten)]
    pub database: Database,
}

impl Import {
    pub fn run(mut self) -> CommandResult {
        if let Some(id) = self.undo {
            return undo::run(&self.database, &id);
        }
        let file = self.file.take().expect("required without --undo");
        let interrupt = Interrupt::listen("interrupted; nothing was imported")?;
        let table = mem::take(&mut self.table);
        let source = Source::open(&file, self.format, table)?;
        let database = self.database.url()?;
        block_on(self.import(source, database, interrupt))
    }

    async fn import(
        self,
        source: Source,
        database: DatabaseUrl,
        interrupt: Interrupt,
    ) -> CommandResult {
        let name = source.name.clone();
        let id = source.id;
        let unit = source.layout.unit();
        // This precedes the check of the file: the names of categories may have changed since.
        let earlier = find_import(&database, id).await?.filter(|_| !self.restart);
        if !self.dry_run
            && let Some(import) = &earlier
            && let Some(at) = import.finished_at
        {
            status!(
                "Nothing was imported: the content of {name} was already imported at {at:.0} \
                 ({}). To import it again, use --restart.",
                counted(import.pets as u64, "animal")
            );
            return Ok(());
        }
        let checks = Checks {
            names: category_names(&database).await?,
            holders: find_microchips(&database, &source.microchips(&interrupt)?).await?,
            done: earlier.map_or(0, |import| import.records as usize),
            matches_microchips: self.match_microchip,
        };
        let known = KnownPets::open(&database).await?;
        let plan = Plan::of(&source, checks, &known, &interrupt).await?;
        drop(known);
        source.report(self.dry_run)?;
        let invalid = plan.invalid;
        let content = plan.describe();
        let animals = plan.added() + plan.changed();
        let skipped = match invalid {
            0 => String::new(),
            1.. => format!(", skipped {}", counted(invalid, &format!("invalid {unit}"))),
        };
        if invalid > 0 && !self.skip_invalid {
            if self.dry_run {
                status!(
                    "Checked {name}: {content}{}.",
                    skipped.replace("skipped ", "")
                );
            }
            let (are, them) = match invalid {
                1 => ("is", "it"),
                _ => ("are", "them"),
            };
            return Err(format!(
                "nothing was imported, because {} {are} invalid; correct {them}, or leave {them} \
                 out with --skip-invalid",
                counted(invalid, unit)
            )
            .into());
        }
        if self.dry_run {
            status!("Checked {name}: {content}{skipped}. Nothing was imported.");
            return Ok(());
        }
        if animals == 0 {
            status!("{}", nothing_to_import(&plan, &name, &skipped));
            return Ok(());
        }
        let mut importer = Importer::open(&database, Some(id)).await?;
        interrupt.notice();
        let bar = interrupt.progress_bar("animals");
        let wait = Wait {
            bar: &bar,
            interrupt: &interrupt,
        };
        if self.restart {
            let restarted = wait.reply(importer.writer(), importer.restart()).await;
            let interrupted = || interrupt.error("interrupted; nothing was imported".into());
            restarted.ok_or_else(interrupted)??;
        }
        let mut writes = plan.writes(&source)?;
        let mut number = importer.done;
        let is_write = |step: &&Step| matches!(step, Step::Add | Step::Change(_));
        let done = plan.steps.iter().take(number as usize);
        let earlier = done.filter(is_write).count() as u64;
        if earlier == animals {
            importer.finish().await?;
            bar.finish_and_clear();
            status!(
                "Nothing was imported: another command has imported the content of {name} ({}). To \
                 import it again, use --restart.",
                counted(animals, "animal")
            );
            return Ok(());
        }
        let _ = writes.by_ref().take(number as usize).count();
        status!("Importing {name} into {}", self.database.location());

        bar.set_length(animals);
        bar.set_position(earlier);
        if number > 0 {
            bar.suspend(|| {
                status!(
                    "Continuing: an earlier command has imported {earlier} of {}. To import them \
                     again, use --restart.",
                    counted(animals, "animal")
                );
            });
        }
        let next = || {
            for (line, write) in writes.by_ref() {
                number += 1;
                match write {
                    Ok(Some((write, category))) => return Ok(Some((number, write, category))),
                    Ok(None) => {}
                    Err(reason) => {
                        return Err(format!("{name} has changed, {unit} {line}: {reason}"));
                    }
                }
            }
            Ok(None)
        };
        let added = bulk::add(importer, Vec::new(), next, wait).await;
        bar.finish_and_clear();
        if let Err(interruption) = added {
            let message = interruption.message(animals, "imported");
            return Err(interrupt.error(if !interruption.can_continue {
                message
            } else if self.restart {
                format!("{message}; run the command again without --restart to import the rest")
            } else {
                format!("{message}; run the same command again to import the rest")
            }));
        }
        status!("Imported {content}{skipped}.");
        status!(
            "To undo this: petstore import --undo {}{}",
            id.batch_id().as_str(),
            self.database.options()
        );
        Ok(())
    }
}

fn nothing_to_import(plan: &Plan, name: &str, skipped: &str) -> String {
    match plan.unchanged() {
        0 => format!("Nothing was imported: {name} has no animals{skipped}."),
        unchanged => format!(
            "Nothing was imported: {} of {name} {} in the store as in the file{skipped}.",
            counted(unchanged, "animal"),
            if unchanged == 1 { "is" } else { "are" },
        ),
    }
}
