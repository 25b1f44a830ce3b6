//! `petstore photos import`: adds the files of a folder.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fs,
    path::PathBuf,
};

use clap::Args;

use super::{
    super::{
        CommandResult, Interrupt,
        client::{Failure, ServiceArgs},
        counted, escape_path, plural, status,
    },
    name::PhotoName,
    service::{Animal, PhotoService},
    upload::{Uploads, check_size},
};
use domain::pet::{Microchip, PetId};
use store::explain;

const ADVICE: &str = "; run the same command again within 24 hours to add the rest";

#[derive(Args)]
pub struct Import {
    /// Folder with the files.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Only match the files with animals; add nothing.
    #[arg(long, env = "PETSTORE_DRY_RUN")]
    dry_run: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// A file whose name may be that of an animal.
struct NamedFile {
    path: PathBuf,
    name: PhotoName,
}

/// An animal with the files that are to be added to it.
struct Target {
    animal: Animal,
    files: Vec<NamedFile>,
}

/// The files of each animal.
type Targets = BTreeMap<PetId, Target>;

impl Import {
    pub async fn run(self) -> CommandResult {
        let interrupt = Interrupt::listen("interrupted; nothing was added")?;
        let service = PhotoService::new(self.service.client()?);
        let mut uploads = Uploads::new(service, &interrupt, ADVICE);
        let files = self.named_files(&mut uploads)?;
        let targets = match_files(files, &mut uploads).await?;
        if self.dry_run {
            return report_matches(&targets, uploads);
        }
        upload(targets, uploads).await
    }

    /// Returns the files of the folder by the digits of their names, and leaves out the others,
    /// except for hidden ones.
    fn named_files(
        &self,
        uploads: &mut Uploads<'_>,
    ) -> Result<BTreeMap<String, Vec<NamedFile>>, String> {
        let failed = |cause| {
            let shown = escape_path(&self.folder);
            format!("cannot read {shown}: {}", explain(&self.folder, &cause))
        };
        let entries = fs::read_dir(&self.folder).map_err(failed)?;
        let paths: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut paths = paths.map_err(failed)?;
        paths.sort();
        let mut files: BTreeMap<String, Vec<NamedFile>> = BTreeMap::new();
        for path in paths {
            let file_name = path.file_name().unwrap_or_default();
            if file_name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let name = match PhotoName::parse(file_name) {
                Ok(name) => name,
                Err(reason) => {
                    uploads.leave_out(&path, reason);
                    continue;
                }
            };
            match check_size(&path) {
                Ok(()) => {
                    let of_number = files.entry(name.digits.clone()).or_default();
                    of_number.push(NamedFile { path, name });
                }
                Err(reason) => uploads.leave_out(&path, &reason),
            }
        }
        Ok(files)
    }
}

/// Finds the animals of files, and leaves out those that match none.
async fn match_files(
    files: BTreeMap<String, Vec<NamedFile>>,
    uploads: &mut Uploads<'_>,
) -> Result<Targets, Failure> {
    uploads.show_progress("animals", files.len());
    let mut targets = Targets::new();
    for (digits, files) in files {
        match find_animal(&digits, &mut uploads.service).await? {
            Ok(animal) => {
                let target = targets.entry(animal.id).or_insert_with(|| Target {
                    animal,
                    files: Vec::new(),
                });
                target.files.extend(files);
            }
            Err(reason) => {
                for file in files {
                    uploads.leave_out(&file.path, &reason);
                }
            }
        }
        uploads.service.bar.inc(1);
    }
    for target in targets.values_mut() {
        // An animal may have files under its id and under its microchip.
        target.files.sort_by_key(|file| file.name.position);
    }
    Ok(targets)
}

/// Returns the animal with a microchip or an id, or the reason why there is none.
async fn find_animal(
    digits: &str,
    service: &mut PhotoService,
) -> Result<Result<Animal, String>, Failure> {
    let microchip = Microchip::parse(digits).ok();
    if let Some(microchip) = &microchip {
        let mut animals = service.animals_with(microchip.as_str()).await?;
        if let Some(unsold) = animals.iter().position(|animal| !animal.is_sold()) {
            return Ok(Ok(animals.swap_remove(unsold)));
        }
        if animals.len() > 1 {
            let ids = animals.iter().map(|animal| animal.id.get().to_string());
            let ids = ids.collect::<Vec<_>>().join(", ");
            let reason = format!("has the microchip of several sold animals: {ids}; use an id");
            return Ok(Err(reason));
        }
        if let Some(animal) = animals.pop() {
            return Ok(Ok(animal));
        }
    }
    let id = PetId::parse(digits.trim_start_matches('0'));
    if let Some(id) = id.filter(|id| id.get() <= PetId::MAX)
        && let Some(animal) = service.animal(id).await?
    {
        return Ok(Ok(animal));
    }
    let named = if microchip.is_some() {
        "id or microchip"
    } else {
        "id"
    };
    Ok(Err(format!("no animal has the {named} {digits}")))
}

async fn upload(targets: Targets, mut uploads: Uploads<'_>) -> CommandResult {
    uploads.expect(targets.values().map(|target| target.files.len()).sum());
    let mut animals = 0;
    let mut present = 0;
    for (id, target) in targets {
        let added_before = uploads.added;
        // Equal files of an animal are added as often as there are of them.
        let mut copies: HashMap<[u8; 32], u32> = HashMap::new();
        for file in target.files {
            let key = |digest| {
                let copy = copies.entry(digest).or_default();
                *copy += 1;
                let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("photos-import-{}-{digest}-{copy}", id.get())
            };
            let Some(photo) = uploads.add(id, &file.path, key).await? else {
                continue;
            };
            if !photo.is_replayed {
                uploads.added += 1;
            } else if target.animal.has_photo(photo.id) {
                present += 1;
            } else if let Some(animal) = uploads.service.animal(id).await?
                && animal.has_photo(photo.id)
            {
                // The response to an earlier attempt of this command was lost.
                uploads.added += 1;
            } else {
                let reason = "was added in the last 24 hours and deleted since; to add it again, \
                              use `petstore photos add`";
                uploads.leave_out(&file.path, reason);
            }
        }
        animals += u64::from(uploads.added > added_before);
    }
    uploads.service.bar.finish_and_clear();
    let mut summary = format!(
        "added {} to {}",
        counted(uploads.added, "photo"),
        counted(animals, "animal")
    );
    if present > 0 {
        let were = plural(present, "was", "were");
        summary += &format!("; {present} {were} there already");
    }
    report(&summary, uploads.left_out)
}

fn report_matches(targets: &Targets, uploads: Uploads<'_>) -> CommandResult {
    uploads.service.bar.finish_and_clear();
    let files = targets
        .values()
        .map(|target| target.files.len() as u64)
        .sum();
    let match_word = plural(files, "matches", "match");
    let files = counted(files, "file");
    let animals = counted(targets.len() as u64, "animal");
    let summary = format!("{files} {match_word} {animals}; nothing was added");
    report(&summary, uploads.left_out)
}

/// Prints the result, as an error if files were left out.
pub fn report(summary: &str, left_out: u64) -> Result<(), Box<dyn Error>> {
    if left_out > 0 {
        let files = counted(left_out, "file");
        let were = plural(left_out, "was", "were");
        return Err(format!("{summary}; {files} {were} left out").into());
    }
    let mut letters = summary.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let sentence: String = first.into_iter().chain(letters).collect();
    status!("{sentence}.");
    Ok(())
}
