//! `petstore import`: adds the animals of a file.

mod report;
mod source;
#[cfg(test)]
mod tests;

use std::{mem, path::PathBuf};

use clap::Args;
use indicatif::ProgressBar;

use super::{
    CommandResult, Database, Interrupt, block_on,
    bulk::{self, Wait},
    counted,
    importer::Importer,
    pet_file::{Format, RecordError, TableOptions},
    status,
};
use source::{Checks, FileSummary, Source};
use store::{DatabaseUrl, category_names, find_import, find_microchips};

#[derive(Args)]
pub struct Import {
    /// File to import, .csv, .xlsx or .jsonl, or - for standard input.
    ///
    /// A table has a header that names the columns: name, categoryId and,
    /// optionally, those that an export has, or common words for them in
    /// several languages. JSON Lines has one JSON object per line. A category
    /// can also be given by its name, as category instead of categoryId. With
    /// both, a category that has no name yet gets this one.
    file: PathBuf,
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
    #[command(flatten)]
    table: TableOptions,
    #[command(flatten)]
    pub database: Database,
}

impl Import {
    pub fn run(mut self) -> CommandResult {
        let interrupt = Interrupt::listen("interrupted; nothing was imported")?;
        let table = mem::take(&mut self.table);
        let source = Source::open(&self.file, self.format, table)?;
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
            done: earlier.map_or(0, |import| import.records as u64),
        };
        let FileSummary {
            valid,
            invalid,
            new_names,
        } = source.check(&checks, &interrupt)?;
        source.report(self.dry_run)?;
        let animals = counted(valid, "animal");
        let content = match new_names {
            0 => animals.clone(),
            1.. => format!("{animals} and {}", counted(new_names, "category name")),
        };
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
        if valid == 0 {
            status!("Nothing was imported: {name} has no animals{skipped}.");
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
        let mut records = source.checked_records(&checks, &ProgressBar::hidden())?;
        let mut number = importer.done;
        let done = records.by_ref().take(number as usize);
        let earlier = done.filter(|(_, record)| record.is_ok()).count() as u64;
        if earlier == valid {
            importer.finish().await?;
            bar.finish_and_clear();
            status!(
                "Nothing was imported: another command has imported the content of {name} \
                 ({animals}). To import it again, use --restart."
            );
            return Ok(());
        }
        status!("Importing {name} into {}", self.database.location());

        bar.set_length(valid);
        bar.set_position(earlier);
        if number > 0 {
            bar.suspend(|| {
                status!(
                    "Continuing: an earlier command has imported {earlier} of {animals}. To import \
                     them again, use --restart."
                );
            });
        }
        let next = || {
            for (line, record) in records.by_ref() {
                number += 1;
                match record {
                    Ok(pet) => return Ok(Some((number, pet))),
                    Err(RecordError::Invalid(_)) if self.skip_invalid => {}
                    Err(RecordError::Invalid(reason) | RecordError::Fatal(reason)) => {
                        return Err(format!("{name} has changed, {unit} {line}: {reason}"));
                    }
                }
            }
            Ok(None)
        };
        let added = bulk::add(importer, Vec::new(), next, wait).await;
        bar.finish_and_clear();
        if let Err(interruption) = added {
            let message = interruption.message(valid, "imported");
            return Err(interrupt.error(if !interruption.can_continue {
                message
            } else if self.restart {
                format!("{message}; run the command again without --restart to import the rest")
            } else {
                format!("{message}; run the same command again to import the rest")
            }));
        }
        status!("Imported {content}{skipped}.");
        Ok(())
    }
}
