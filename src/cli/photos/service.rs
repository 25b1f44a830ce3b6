//! The animals and photos of a service, requested until there is a response.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::super::{
    client::{Client, Failure},
    explain_os_errors, status,
};
use domain::{
    members::Choice,
    pet::{PetId, PetStatus},
    photo::PhotoId,
};

const MAX_RETRIES: u32 = 5;

const REPLAYED: &str = "idempotent-replayed";

/// The members of a Pet that matter here.
#[derive(Deserialize)]
pub struct Animal {
    pub id: PetId,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    pub photos: Vec<PhotoMembers>,
}

#[derive(Deserialize)]
pub struct PhotoMembers {
    id: PhotoId,
}

impl Animal {
    pub fn is_sold(&self) -> bool {
        self.status.as_deref() == Some(PetStatus::Sold.as_str())
    }

    pub fn has_photo(&self, id: PhotoId) -> bool {
        self.photos.iter().any(|photo| photo.id == id)
    }
}

/// A photo that was added, by this request or by an earlier one with the same key.
pub struct AddedPhoto {
    pub id: PhotoId,
    /// The photo as the API sends it.
    pub json: Box<RawValue>,
    pub is_replayed: bool,
}

/// The path of a list with the animal that has an id. `GET /pets/{petId}` is removed in 2030.
pub fn path_of(id: PetId) -> String {
    format!("/pets?id={}", id.get())
}

/// The message for an id that no animal has.
pub fn no_animal(id: PetId) -> String {
    format!("no animal has the id {}", id.get())
}

pub struct PhotoService {
    client: Client,
    /// True if there was a response. Before that, the URL is probably wrong.
    is_connected: bool,
    /// The progress that is shown while a request is retried.
    pub bar: ProgressBar,
}

impl PhotoService {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            is_connected: false,
            bar: ProgressBar::hidden(),
        }
    }

    /// Returns the animal with an id, if there is one.
    pub async fn animal(&mut self, id: PetId) -> Result<Option<Animal>, Failure> {
        let found: Vec<Animal> = self.get(&path_of(id)).await?;
        Ok(found.into_iter().next())
    }

    /// Returns the animals with a microchip: at most one that is not sold, and the last ones that
    /// are.
    pub async fn animals_with(&mut self, microchip: &str) -> Result<Vec<Animal>, Failure> {
        self.get(&format!("/pets?microchip={microchip}&sort=desc&limit=100"))
            .await
    }

    /// Adds a photo to an animal. With the same key, it is added once.
    pub async fn add(
        &mut self,
        pet: PetId,
        image: Bytes,
        idempotency_key: &str,
    ) -> Result<AddedPhoto, Failure> {
        let path = format!("/pets/{}/photos", pet.get());
        let (headers, body) = self.send(&path, Some((image, idempotency_key))).await?;
        let json: Box<RawValue> = parse(&body)?;
        let photo: PhotoMembers = parse(json.get().as_bytes())?;
        Ok(AddedPhoto {
            id: photo.id,
            json,
            is_replayed: headers.contains_key(REPLAYED),
        })
    }

    async fn get<T: for<'de> Deserialize<'de>>(&mut self, path: &str) -> Result<T, Failure> {
        let (_, body) = self.send(path, None).await?;
        parse(&body)
    }

    /// Sends a request, with an image and its key if there is one. Retries for as long as the
    /// service may only have been restarted or be busy.
    async fn send(
        &mut self,
        path: &str,
        upload: Option<(Bytes, &str)>,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let mut retries = 0;
        loop {
            let client = &mut self.client;
            let response = match &upload {
                Some((image, key)) => client.upload(path, image.clone(), key).await,
                None => {
                    client
                        .request(Method::GET, path, None, Duration::ZERO)
                        .await
                }
            };
            let failure = match response {
                Ok(response) => {
                    self.is_connected = true;
                    return Ok(response);
                }
                Err(failure) => failure,
            };
            let delay = Duration::from_secs(1 << retries);
            let delay = match &failure {
                _ if retries == MAX_RETRIES => return Err(failure),
                Failure::Unavailable { retry_after, .. } => delay.max(*retry_after),
                Failure::NoResponse(_) if self.is_connected => delay,
                _ => return Err(failure),
            };
            if retries == 0 {
                let cause = match &failure {
                    Failure::NoResponse(cause) => explain_os_errors(cause),
                    other => other.to_string(),
                };
                self.bar.suspend(|| status!("petstore: {cause}; retrying"));
            }
            retries += 1;
            sleep(delay).await;
        }
    }
}

fn parse<'de, T: Deserialize<'de>>(json: &'de [u8]) -> Result<T, Failure> {
    serde_json::from_slice(json).map_err(|_| Failure::NotPetstore)
}
