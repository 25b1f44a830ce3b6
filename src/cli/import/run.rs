//! A run of an import: looks for an earlier one, checks the file, and writes its animals.

use std::error::Error;

use super::{
    super::{
        CommandResult, Interrupt,
        bulk::{self, WriteProgress, report_rest},
        counted,
        importer::Importer,
        plural, status,
    },
    ImportArgs,
    file::ImportFile,
    plan::{Plan, PlanInput, Step},
};
use domain::import::{Import, ImportRun, ImportUndo};
use store::{
    DatabaseUrl, KnownPets, category_names, find_import, find_microchips, used_categories,
};

impl ImportArgs {
    pub(super) async fn import(
        &self,
        file: &ImportFile,
        database: &DatabaseUrl,
        interrupt: &Interrupt,
    ) -> CommandResult {
        let found = find_import(database, file.id).await?;
        let is_undone = found
            .as_ref()
            .is_some_and(|it| it.undo == Some(ImportUndo::Finished));
        if let Some(undone) = found.as_ref().filter(|_| !self.restart && is_undone) {
            self.report_kept(undone, &file.name)?;
        }
        let found_run = found.as_ref().map(|it| it.run.batch_id.clone());
        let earlier = found.filter(|_| !self.restart && !is_undone);
        // This precedes the check of the file: the names of categories may have changed since.
        if let Some(import) = &earlier {
            self.ensure_continuable(import, &file.name)?;
            let was_imported = self.report_earlier(import, &file.name);
            if was_imported && !self.dry_run {
                return Ok(());
            }
        }
        // An import that only changes animals can be repeated, to change them once more.
        let is_repeated = earlier.as_ref().is_some_and(|it| it.finished_at.is_some());
        let interrupted = earlier.filter(|_| !is_repeated);
        let known = KnownPets::open(database).await?;
        let run = match &interrupted {
            Some(import) => import.run.clone(),
            None => ImportRun::start(known.last_id().await?),
        };
        let (microchips, mut used) = file.numbers(interrupt)?;
        if self.create_categories {
            used.extend(used_categories(database).await?);
        }
        let input = PlanInput {
            names: category_names(database).await?.with_used(used),
            holders: find_microchips(database, &microchips).await?,
            done: interrupted.map_or(0, |import| import.records as usize),
            last_known_id: run.last_known_id,
            creates_categories: self.create_categories,
            matches_microchips: self.match_microchip,
        };
        let is_continued = input.done > 0;
        let plan = Plan::of(file, input, &known, interrupt).await?;
        drop(known);
        file.report(self.dry_run)?;
        if !self.check(&plan, file, is_continued)? {
            return Ok(());
        }
        let mut importer = Importer::open(database, Some(file.id), run.clone()).await?;
        interrupt.notice();
        if let Some(found_run) = found_run.filter(|_| self.restart || is_repeated || is_undone) {
            let bar = interrupt.progress_bar("animals");
            let progress = WriteProgress {
                bar: &bar,
                interrupt,
            };
            let restarted = progress
                .reply(importer.writer_name(), importer.restart(&found_run))
                .await;
            let interrupted = || interrupt.error("interrupted; nothing was imported".into());
            restarted.ok_or_else(interrupted)??;
        }
        self.write(&plan, file, importer, &run, interrupt).await
    }

    /// Fails if an earlier import of the same file is at a place where this command cannot continue
    /// it.
    fn ensure_continuable(&self, import: &Import, name: &str) -> Result<(), String> {
        let undo = self.undo_command(&import.run);
        if import.undo.is_some() {
            return Err(format!(
                "an earlier import of the content of {name} was undone in part; undo the rest \
                 first: {undo}; or import everything again, with --restart"
            ));
        }
        if import.rows.is_some() && import.finished_at.is_none() {
            return Err(format!(
                "the content of {name} is being imported over the API, or such an import was \
                 interrupted after {} and {}; continue it there, such as in the console; or undo \
                 it first: {undo}; or import everything again, with --restart",
                counted(import.added as u64, "new animal"),
                counted(import.changed as u64, "change")
            ));
        }
        Ok(())
    }

    /// Fails if the undo of an earlier import of the same file has kept animals that it may have
    /// added, unless nothing is imported.
    fn report_kept(&self, import: &Import, name: &str) -> Result<(), String> {
        if import.kept == 0 || import.added == 0 {
            return Ok(());
        }
        let kept = counted(import.kept as u64, "animal");
        let reason = format!(
            "an earlier import of the content of {name} was undone, except for {kept} changed or \
             ordered since; to import everything again, also what was kept, use --restart"
        );
        if self.dry_run {
            status!("Nothing would be imported: {reason}");
            return Ok(());
        }
        Err(reason)
    }

    /// Reports an earlier import of the same file, if it has added animals. Returns true if it has.
    fn report_earlier(&self, import: &Import, name: &str) -> bool {
        let Some(at) = import.finished_at.filter(|_| import.added > 0) else {
            return false;
        };
        let nothing = if self.dry_run {
            "Nothing would be imported"
        } else {
            "Nothing was imported"
        };
        status!(
            "{nothing}: the content of {name} was already imported at {at:.0} ({}). To import it \
             again, use --restart.",
            counted(import.added as u64, "animal"),
        );
        status!("To undo it: {}", self.undo_command(&import.run));
        true
    }

    /// Reports what the plan does. Returns true if that is to be done, and fails if the file has
    /// invalid records that are not skipped.
    fn check(
        &self,
        plan: &Plan,
        file: &ImportFile,
        is_continued: bool,
    ) -> Result<bool, Box<dyn Error>> {
        let name = &file.name;
        let unit = file.layout.unit();
        let content = plan.describe();
        let skipped = skipped(plan, unit);
        if plan.invalid > 0 && !self.skip_invalid {
            if self.dry_run {
                status!(
                    "Checked {name}: {content}{}.",
                    skipped.replace("skipped ", "")
                );
            }
            let nothing = if is_continued {
                "nothing more was imported"
            } else {
                "nothing was imported"
            };
            let are = plural(plan.invalid, "is", "are");
            let them = plural(plan.invalid, "it", "them");
            return Err(format!(
                "{nothing}, because {} {are} invalid; correct {them}, or leave {them} out with \
                 --skip-invalid",
                counted(plan.invalid, unit)
            )
            .into());
        }
        if plan.unknown_ids > 0 {
            status!(
                "{} of {name} {} an id that no animal has; {} added with new ids.",
                counted(plan.unknown_ids, unit),
                plural(plan.unknown_ids, "has", "have"),
                plural(plan.unknown_ids, "it is", "they are"),
            );
        }
        if self.dry_run {
            status!("Checked {name}: {content}{skipped}. Nothing was imported.");
            return Ok(false);
        }
        if plan.added() + plan.changed() > 0 || !plan.categories.is_empty() {
            return Ok(true);
        }
        match plan.unchanged() {
            0 => status!("Nothing was imported: {name} has no animals{skipped}."),
            unchanged => status!(
                "Nothing was imported: {} of {name} {} in the store as in the file{skipped}.",
                counted(unchanged, "animal"),
                plural(unchanged, "is", "are"),
            ),
        }
        Ok(false)
    }

    /// Writes the animals that are not in the store yet.
    async fn write(
        &self,
        plan: &Plan,
        file: &ImportFile,
        importer: Importer,
        run: &ImportRun,
        interrupt: &Interrupt,
    ) -> CommandResult {
        let name = &file.name;
        let unit = file.layout.unit();
        let animals = plan.added() + plan.changed();
        let bar = interrupt.progress_bar("animals");
        let mut writes = plan.writes(file)?;
        let mut number = importer.done;
        let is_write = |step: &&Step| matches!(step, Step::Add | Step::Change(..));
        let done = plan.steps.iter().take(number as usize);
        let earlier = done.filter(is_write).count() as u64;
        if number > 0 && earlier == animals {
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
            let Some((line, write)) = writes.next() else {
                return Ok(None);
            };
            number += 1;
            let changed = |reason| format!("{name} has changed, {unit} {line}: {reason}");
            Ok(Some((number, write.map_err(changed)?)))
        };
        let progress = WriteProgress {
            bar: &bar,
            interrupt,
        };
        let categories = plan.categories.clone();
        let written = bulk::write_all(importer, categories, next, progress).await;
        bar.finish_and_clear();
        let undo = self.undo_command(run);
        let rejected = match written {
            Ok(rejected) => rejected,
            Err(interruption) => {
                let message = interruption.message(animals, "imported");
                let rest = if self.restart {
                    "run the command again without --restart to import the rest"
                } else {
                    "run the same command again to import the rest"
                };
                if !interruption.can_continue {
                    return Err(interrupt.error(message));
                }
                status!("To undo what was imported: {undo}");
                return Err(interrupt.error(format!("{message}; {rest}")));
            }
        };
        report_rest(rejected);
        let content = plan.describe();
        let skipped = skipped(plan, unit);
        if rejected == 0 {
            status!("Imported {content}{skipped}.");
        }
        status!("To undo this: {undo}");
        if rejected > 0 {
            return Err(format!(
                "imported {content}{skipped}, except {}, because the store has changed since the \
                 file was checked; correct the file, and import it again",
                counted(rejected, "animal")
            )
            .into());
        }
        Ok(())
    }

    fn undo_command(&self, run: &ImportRun) -> String {
        let id = run.batch_id.as_str();
        format!("petstore import --undo {id}{}", self.database.options())
    }
}

/// Describes how many records of the plan are skipped, if any.
fn skipped(plan: &Plan, unit: &str) -> String {
    match plan.invalid {
        0 => String::new(),
        invalid => format!(", skipped {}", counted(invalid, &format!("invalid {unit}"))),
    }
}
