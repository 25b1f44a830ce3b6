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
    pet_record::{PetRecord, RecordError, Records, ResolvedPet},
    status,
};
use domain::{
    category::CategoryNames,
    import::ImportId,
    pet::{Microchip, PetId},
};
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
}

/// The content of the store that decides whether a record is valid.
struct Checks {
    names: CategoryNames,
    /// The animals that are not sold and have a microchip of the file.
    holders: HashMap<Microchip, PetId>,
    /// The number of records that an earlier command has imported.
    done: u64,
}

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

    /// Reads the file from its start.
    fn records(&self, bar: &ProgressBar) -> Result<Records, String> {
        let file = BufReader::with_capacity(1 << 16, bar.wrap_read(self.rewind()?));
        pet_file::read(self.format, file)
            .map_err(|error| format!("cannot import {}: {error}", self.name))
    }

    /// Returns the microchips in the file.
    fn microchips(&self, interrupt: &Interrupt) -> Result<Vec<Microchip>, Box<dyn Error>> {
        let bar = interrupt.progress_bar("bytes read");
        bar.set_length(self.file.metadata()?.len());
        let pets = self.records(&bar)?.filter_map(|(_, record)| record.ok());
        let microchips = pets.filter_map(|record| record.pet.microchip).collect();
        bar.finish_and_clear();
        Ok(microchips)
    }

    /// Reads the file from its start. Yields each record with the number of its first line.
    fn checked_records<'a>(
        &self,
        checks: &'a Checks,
        bar: &ProgressBar,
    ) -> Result<impl Iterator<Item = (u64, Result<ResolvedPet, RecordError>)> + use<'a>, String>
    {
        let mut names = checks.names.clone();
        // The line of each microchip that no other animal may have.
        let mut lines = HashMap::new();
        let mut check = move |number, line, record: PetRecord| {
            if let Some(microchip) = record.pet.claimed_microchip() {
                if let Some(first) = lines.get(microchip) {
                    return Err(format!("microchip: line {first} has the same number"));
                }
                // The animals that were imported have their microchips themselves.
                let is_new = number >= checks.done;
                if let Some(holder) = checks.holders.get(microchip).filter(|_| is_new) {
                    let holder = holder.get();
                    return Err(format!("microchip: animal {holder} has this number"));
                }
            }
            let resolved = record.resolve(&mut names)?;
            let microchip = resolved.0.claimed_microchip().cloned();
            lines.extend(microchip.map(|microchip| (microchip, line)));
            Ok(resolved)
        };
        let records = (0..).zip(self.records(bar)?);
        Ok(records.map(move |(number, (line, record))| {
            let checked =
                record.and_then(|record| check(number, line, record).map_err(RecordError::Invalid));
            (line, checked)
        }))
    }

    /// Reads the whole file, and reports its invalid lines.
    fn check(&self, checks: &Checks, interrupt: &Interrupt) -> Result<FileSummary, Box<dyn Error>> {
        let bar = interrupt.progress_bar("bytes checked");
        bar.set_length(self.file.metadata()?.len());
        let mut summary = FileSummary::default();
        for (line, record) in self.checked_records(checks, &bar)? {
            match record {
                Ok((_, category)) => {
                    summary.valid += 1;
                    summary.new_names += u64::from(category.is_some());
                }
                Err(RecordError::Invalid(reason)) => {
                    summary.invalid += 1;
                    if summary.invalid <= MAX_REPORTED {
                        bar.suspend(|| status!("{}, line {line}: {reason}", self.name));
                    }
                }
                Err(RecordError::Fatal(reason)) => {
                    let name = &self.name;
                    let reason = format!("{name}, line {line}: {reason}; nothing was imported");
                    return Err(reason.into());
                }
            }
        }
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
