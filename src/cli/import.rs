//! `petstore import`: adds the animals of a file.

use std::{
    collections::HashMap,
    env,
    error::Error,
    fs::File,
    io::{self, BufReader, Read, Seek},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use clap::Args;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

use super::{
    CommandResult, Database, Interrupt, block_on,
    bulk::{self, Wait},
    counted, escape_path,
    importer::Importer,
    pet_file::{self, Format},
    pet_record::{PetRecord, RecordError, ResolvedPet},
    status,
};
use domain::{category::CategoryNames, import::ImportId};
use store::{DatabaseUrl, category_names, explain, find_import, find_microchips};

/// The maximum number of invalid lines that are reported one by one. Further ones are only
/// counted.
const MAX_REPORTED: u64 = 100;

#[derive(Args)]
pub struct Import {
    /// File to import, .csv or .jsonl, or - for standard input.
    ///
    /// CSV starts with a header line that names the columns: name, categoryId
    /// and, optionally, those that an export has. JSON Lines has one JSON
    /// object per line. A category can also be given by its name, as category
    /// instead of categoryId. With both, a category that has no name yet gets
    /// this one.
    file: PathBuf,
    /// Input format; by default, the file's extension decides.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<Format>,
    /// Skip invalid lines and import the rest.
    #[arg(long, env = "PETSTORE_SKIP_INVALID")]
    skip_invalid: bool,
    /// Only check the file; import nothing.
    #[arg(long, env = "PETSTORE_DRY_RUN")]
    dry_run: bool,
    /// Import the file from its beginning, although it was imported before.
    ///
    /// The animals that were imported before, completely or until an interruption, are then
    /// imported again.
    #[arg(long, env = "PETSTORE_RESTART", conflicts_with = "dry_run")]
    restart: bool,
    #[command(flatten)]
    pub database: Database,
}

impl Import {
    pub fn run(self) -> CommandResult {
        let interrupt = Interrupt::listen("interrupted; nothing was imported")?;
        let format = Format::of(&self.file, self.format)?;
        let source = Source::open(&self.file, format)?;
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
        let id = source.id()?;
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
        let names = category_names(&database).await?;
        let done = earlier.map_or(0, |import| import.records as u64);
        let FileSummary {
            valid,
            invalid,
            new_names,
            taken,
        } = source.check(&names, done, &database, &interrupt).await?;
        let animals = counted(valid, "animal");
        let content = match new_names {
            0 => animals.clone(),
            1.. => format!("{animals} and {}", counted(new_names, "category name")),
        };
        let skipped = match invalid {
            0 => String::new(),
            1.. => format!(", skipped {}", counted(invalid, "invalid line")),
        };
        if invalid > 0 && !self.skip_invalid {
            let (are, them) = match invalid {
                1 => ("is", "it"),
                _ => ("are", "them"),
            };
            return Err(format!(
                "nothing was imported, because {} {are} invalid; correct {them}, or leave {them} \
                 out with --skip-invalid",
                counted(invalid, "line")
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
        let mut records = source.records(&names, taken, &ProgressBar::hidden())?;
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
                        return Err(format!("{name} has changed, line {line}: {reason}"));
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

/// A file to import. It is read several times.
struct Source {
    /// The name in messages.
    name: String,
    format: Format,
    file: File,
}

/// The content of a file.
#[derive(Default)]
struct FileSummary {
    valid: u64,
    invalid: u64,
    /// The number of categories that get a name.
    new_names: u64,
    /// The lines whose microchip another animal has.
    taken: TakenMicrochips,
}

/// The reason why the microchip of an animal is taken, by the number of its line.
type TakenMicrochips = HashMap<u64, String>;

impl Source {
    /// Opens a file. Input that cannot be read twice, such as a pipe, is copied to a temporary
    /// file.
    fn open(path: &Path, format: Format) -> Result<Self, Box<dyn Error>> {
        let is_stdin = path.as_os_str() == "-";
        let (name, opened) = if is_stdin {
            let stdin = io::stdin().as_fd().try_clone_to_owned();
            ("standard input".into(), stdin.map(File::from))
        } else {
            (escape_path(path), File::open(path))
        };
        let failed = |cause: io::Error| format!("cannot read {name}: {}", explain(path, &cause));
        let mut file = opened.map_err(failed)?;
        let kind = file.metadata().map_err(failed)?;
        if kind.is_dir() {
            return Err(format!("{name} is a folder; name a .csv or .jsonl file in it").into());
        }
        // A part of standard input that was read before does not belong to the import.
        if is_stdin || !kind.is_file() {
            file = spool(&name, file)?;
        }
        Ok(Self { name, format, file })
    }

    /// Returns the file, to be read from its start.
    fn rewind(&self) -> Result<File, String> {
        let rewound = (&self.file).rewind();
        let file = rewound.and_then(|()| self.file.try_clone());
        file.map_err(|cause| self.unreadable(&cause))
    }

    fn unreadable(&self, cause: &io::Error) -> String {
        format!("cannot read {}: {cause}", self.name)
    }

    /// Reads the file from its start. Yields each record with the number of its first line.
    fn records(
        &self,
        names: &CategoryNames,
        taken: TakenMicrochips,
        bar: &ProgressBar,
    ) -> Result<impl Iterator<Item = (u64, Result<ResolvedPet, RecordError>)> + use<>, String> {
        let file = BufReader::with_capacity(1 << 16, bar.wrap_read(self.rewind()?));
        let records = pet_file::read(self.format, file)
            .map_err(|error| format!("cannot import {}: {error}", self.name))?;
        let mut names = names.clone();
        let mut resolve =
            move |pet: PetRecord| pet.resolve(&mut names).map_err(RecordError::Invalid);
        Ok(records.map(move |(line, record)| match taken.get(&line) {
            Some(reason) => (line, Err(RecordError::Invalid(reason.clone()))),
            None => (line, record.and_then(&mut resolve)),
        }))
    }

    /// Reads the whole file, and reports its invalid lines. The first `done` records are in the
    /// store already.
    async fn check(
        &self,
        names: &CategoryNames,
        done: u64,
        database: &DatabaseUrl,
        interrupt: &Interrupt,
    ) -> Result<FileSummary, Box<dyn Error>> {
        let bar = interrupt.progress_bar("bytes checked");
        bar.set_length(self.file.metadata()?.len());
        let mut summary = FileSummary::default();
        let mut report = |bar: &ProgressBar, line, reason: &str| {
            summary.invalid += 1;
            if summary.invalid <= MAX_REPORTED {
                bar.suspend(|| status!("{}, line {line}: {reason}", self.name));
            }
        };
        // The first line with each microchip that no other animal may have.
        let mut microchips = HashMap::new();
        let no_line = TakenMicrochips::new();
        for (number, (line, record)) in (0..).zip(self.records(names, no_line, &bar)?) {
            match record {
                Ok((pet, category)) => {
                    summary.valid += 1;
                    summary.new_names += u64::from(category.is_some());
                    let is_new = number >= done;
                    if let Some(microchip) = pet.claimed_microchip().filter(|_| is_new)
                        && let Some(first) = microchips.insert(microchip.clone(), line)
                    {
                        let reason = format!("microchip: line {first} has the same number");
                        report(&bar, line, &reason);
                        summary.taken.insert(line, reason);
                        microchips.insert(microchip.clone(), first);
                    }
                }
                Err(RecordError::Invalid(reason)) => report(&bar, line, &reason),
                Err(RecordError::Fatal(reason)) => {
                    let name = &self.name;
                    let reason = format!("{name}, line {line}: {reason}; nothing was imported");
                    return Err(reason.into());
                }
            }
        }
        let asked: Vec<_> = microchips.keys().cloned().collect();
        for (microchip, holder) in find_microchips(database, &asked).await? {
            let line = microchips[&microchip];
            let reason = format!("microchip: animal {} has this number", holder.get());
            report(&bar, line, &reason);
            summary.taken.insert(line, reason);
        }
        summary.valid -= summary.taken.len() as u64;
        bar.finish_and_clear();
        if summary.invalid > MAX_REPORTED {
            status!("… and {} more", summary.invalid - MAX_REPORTED);
        }
        Ok(summary)
    }

    /// Returns an id that is the same for every import of this content.
    fn id(&self) -> Result<ImportId, String> {
        let mut hash = Sha256::new();
        hash.update([self.format as u8]);
        let mut file = self.rewind()?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut buffer);
            match read.map_err(|cause| self.unreadable(&cause))? {
                0 => return Ok(ImportId(hash.finalize().into())),
                length => hash.update(&buffer[..length]),
            }
        }
    }
}

/// Copies a stream to a temporary file without a name, which vanishes with the process.
fn spool(name: &str, mut from: File) -> Result<File, String> {
    let failed = |cause| {
        format!(
            "cannot copy {name} to a temporary file in {}: {cause}; to use another folder, set \
             TMPDIR",
            env::temp_dir().display()
        )
    };
    let mut file = tempfile::tempfile().map_err(failed)?;
    io::copy(&mut from, &mut file).map_err(failed)?;
    Ok(file)
}
