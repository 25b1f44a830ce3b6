//! The folder with the photos of an export.

use std::{error::Error, fs, io, path::Path};

use super::super::{Interrupt, block_on, escape_path, status};
use domain::{
    pet::{Pet, PetId},
    photo::PhotoId,
};
use store::{DatabaseUrl, PhotoReader, explain};
use system::atomic_file::OutputFolder;

/// The photos of the exported animals. A photo that is deleted during the export is stored for a
/// day more, so they can be read after the snapshot of the animals.
#[derive(Default)]
pub struct Pictures(Vec<(PetId, usize, PhotoId)>);

impl Pictures {
    pub fn add(&mut self, pet: &Pet) {
        let numbered = pet.photos().iter().zip(1..);
        let of_pet = numbered.map(|(photo, number)| (pet.id, number, photo.id));
        self.0.extend(of_pet);
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct PhotoCounts {
    pub written: u64,
    pub left_out: u64,
}

/// The folder that photos are exported to.
pub struct PhotoExport<'a> {
    folder: &'a Path,
}

impl<'a> PhotoExport<'a> {
    /// Fails unless the folder is empty or does not exist: an import of it must not read photos of
    /// an earlier export.
    pub fn new(folder: &'a Path) -> Result<Self, String> {
        let shown = escape_path(folder);
        match fs::read_dir(folder).map(|mut files| files.next().is_none()) {
            Ok(true) => {}
            Ok(false) => {
                return Err(format!(
                    "{shown} is not empty; name a new or an empty folder"
                ));
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => {
                return Err(format!(
                    "cannot write to {shown}: {}",
                    explain(folder, &cause)
                ));
            }
        }
        Ok(Self { folder })
    }

    /// Writes the photos, and reports those that cannot be read. Returns the number of both.
    pub fn write(
        &self,
        pictures: &Pictures,
        database: &DatabaseUrl,
        interrupt: &Interrupt,
    ) -> Result<PhotoCounts, Box<dyn Error>> {
        let folder = self.folder;
        let shown = escape_path(folder);
        let failed = |path: &Path, cause: &io::Error| {
            let path_shown = escape_path(path);
            format!("cannot create {path_shown}: {}", explain(path, cause))
        };
        fs::create_dir_all(folder).map_err(|cause| failed(folder, &cause))?;
        let output = OutputFolder::open(folder);
        let all = pictures.0.len();
        let bar = interrupt.progress_bar("photos");
        bar.set_length(all as u64);
        let mut counts = PhotoCounts::default();
        block_on(async {
            let photos = PhotoReader::open(database).await?;
            for (pet_id, number, id) in &pictures.0 {
                let pet_id = pet_id.get();
                interrupt.end_with(&format!(
                    "interrupted; the export is not complete: {shown} has {} of {all} photos",
                    counts.written
                ));
                bar.inc(1);
                let Some(image) = photos.image(*id).await? else {
                    counts.left_out += 1;
                    let id = id.get();
                    bar.suspend(|| {
                        status!(
                            "Photo {id} of animal {pet_id} is damaged or was purged; run \
                             `petstore check`."
                        );
                    });
                    continue;
                };
                let name = format!("{pet_id}-{number}.jpg");
                let written = output.write(&name, &image);
                written.map_err(|cause| failed(&folder.join(name), &cause))?;
                counts.written += 1;
            }
            Ok::<(), Box<dyn Error>>(())
        })?;
        output.sync().map_err(|cause| failed(folder, &cause))?;
        bar.finish_and_clear();
        Ok(counts)
    }
}
