//! `petstore photos`: adds, lists and deletes the photos of animals over the API.

mod import;
mod name;
mod service;
mod upload;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    CommandResult, Interrupt,
    api_output::{Output, View, send, text},
    block_on,
    client::ServiceArgs,
    counted, print, status,
};
use domain::{pet::PetId, photo::PhotoId};
use import::{Import, report};
use service::{AddedPhoto, PhotoService, no_animal, path_of};
use upload::Uploads;

#[derive(Subcommand)]
pub enum Photos {
    /// Add photos to an animal, after those that it has.
    ///
    /// JPEG, PNG and WebP files of up to 10 MiB. The store keeps a JPEG of up to 1,600 pixels of
    /// each, turned upright and without metadata such as the place where it was taken. If a file
    /// is refused, the others are added, and the exit code is 1.
    Add(Add),
    /// List the photos of an animal, the cover first.
    List(List),
    /// Delete a photo of an animal.
    ///
    /// The photo is kept for 24 hours, in which the console or the API can bring it back.
    Delete(Delete),
    /// Add the files of a folder, which are named by the id or the microchip of an animal.
    ///
    /// The files of an animal have a number if there are several, and are added in this order:
    /// 17.jpg, 17-2.jpg, 756097200000001.png, 756097200000001-2.webp. A name with 9, 10 or 15
    /// digits is a microchip if an animal has it, and otherwise an id. Among several animals with
    /// a microchip, it is that of the one that is not sold. Subfolders are not read.
    ///
    /// Files that match no animal or are refused are listed with the reason; the others are
    /// added, and the exit code is 1. If the command is repeated within 24 hours with the same API
    /// key, it adds no file twice; after that, it adds every file again. Ids belong to a store:
    /// in another one, they may be those of other animals.
    Import(Import),
}

#[derive(Args)]
pub struct Add {
    /// Id of the animal.
    #[arg(value_parser = pet_id)]
    id: PetId,
    /// Files to add, in this order.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct List {
    /// Id of the animal.
    #[arg(value_parser = pet_id)]
    id: PetId,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct Delete {
    /// Id of the animal.
    #[arg(value_parser = pet_id)]
    id: PetId,
    /// Id of the photo, as shown by `petstore photos list`.
    #[arg(value_parser = photo_id)]
    photo: PhotoId,
    #[command(flatten)]
    service: ServiceArgs,
}

fn pet_id(text: &str) -> Result<PetId, &'static str> {
    PetId::parse(text).ok_or("must be the id of an animal, a number")
}

fn photo_id(text: &str) -> Result<PhotoId, &'static str> {
    PhotoId::parse(text).ok_or("must be a number; run `petstore photos list` to see the ids")
}

/// The photos of an animal in a response.
#[derive(Deserialize)]
struct PetPhotos {
    #[serde(default)]
    photos: Vec<Box<RawValue>>,
}

const PHOTOS: View<2> = (
    ["PHOTO", "SIZE"],
    |photo| [text(&photo["id"]), size(photo)],
    "The animal has no photos yet. Add one with: petstore photos add ID FILE",
);

fn size(photo: &Value) -> String {
    format!("{} × {}", text(&photo["width"]), text(&photo["height"]))
}

impl Photos {
    pub fn run(self) -> CommandResult {
        block_on(async {
            match self {
                Self::Add(add) => add.run().await,
                Self::List(list) => {
                    let path = path_of(list.id);
                    let found = list.output.request(Method::GET, &path, None).await?;
                    let found: Vec<PetPhotos> = serde_json::from_str(found.get())?;
                    let pet = found.first().ok_or_else(|| no_animal(list.id))?;
                    list.output.print_rows(&pet.photos, PHOTOS)
                }
                Self::Delete(delete) => {
                    let pet_id = delete.id.get();
                    let photo_id = delete.photo.get();
                    let path = format!("/pets/{pet_id}/photos/{photo_id}");
                    send(&delete.service, Method::DELETE, &path, None).await?;
                    status!("Deleted photo {photo_id} of animal {pet_id}.");
                    Ok(())
                }
                Self::Import(import) => import.run().await,
            }
        })
    }
}

impl Add {
    async fn run(self) -> CommandResult {
        let interrupt = Interrupt::listen("interrupted; nothing was added")?;
        let service = PhotoService::new(self.output.service.client()?);
        let mut uploads = Uploads::new(service, &interrupt, "");
        let found = uploads.service.animal(self.id).await?;
        found.ok_or_else(|| no_animal(self.id))?;
        uploads.expect(self.files.len());
        for file in &self.files {
            // A file can be added twice on purpose, so the key protects only retries.
            let key = |_| format!("photos-add-{:032x}", rand::random::<u128>());
            if let Some(photo) = uploads.add(self.id, file, key).await? {
                uploads.added += 1;
                let bar = &uploads.service.bar;
                bar.suspend(|| self.print(&photo))?;
            }
        }
        uploads.service.bar.finish_and_clear();
        if uploads.left_out > 0 {
            let photos = counted(uploads.added, "photo");
            return report(&format!("added {photos}"), uploads.left_out);
        }
        Ok(())
    }

    fn print(&self, photo: &AddedPhoto) -> CommandResult {
        if self.output.is_json() {
            return print(format!("{}\n", photo.json.get()).as_bytes());
        }
        let members: Value = serde_json::from_str(photo.json.get())?;
        let photo_id = photo.id.get();
        let pet_id = self.id.get();
        status!(
            "Added photo {photo_id} ({}) to animal {pet_id}.",
            size(&members)
        );
        Ok(())
    }
}
