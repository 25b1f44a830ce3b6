//! The uploads of a command: what was added, and the files that were left out.

use std::{
    error::Error,
    fs::File,
    io::{self, Read},
    path::Path,
};

use bytes::Bytes;
use http::StatusCode;
use sha2::{Digest, Sha256};
use store::explain;

use super::{
    super::{Interrupt, client::Failure, counted, escape_path, explain_os_errors, plural, status},
    service::{AddedPhoto, PhotoService},
};
use domain::{pet::PetId, photo::MAX_IMAGE_BYTES};

pub struct Uploads<'a> {
    pub service: PhotoService,
    interrupt: &'a Interrupt,
    /// The advice in the message after an interruption.
    advice: &'static str,
    /// The number of files that are to be added.
    files: u64,
    pub added: u64,
    pub left_out: u64,
}

impl<'a> Uploads<'a> {
    pub fn new(service: PhotoService, interrupt: &'a Interrupt, advice: &'static str) -> Self {
        Self {
            service,
            interrupt,
            advice,
            files: 0,
            added: 0,
            left_out: 0,
        }
    }

    /// Shows the progress of what comes next.
    pub fn show_progress(&mut self, unit: &str, steps: usize) {
        self.service.bar.finish_and_clear();
        self.service.bar = self.interrupt.progress_bar(unit);
        self.service.bar.set_length(steps as u64);
    }

    /// Expects this many files to be added.
    pub fn expect(&mut self, files: usize) {
        self.files = files as u64;
        self.show_progress("photos", files);
    }

    /// Reports a file that is not added.
    pub fn leave_out(&mut self, file: &Path, reason: &str) {
        let shown = escape_path(file);
        self.service.bar.suspend(|| status!("{shown}: {reason}"));
        self.left_out += 1;
    }

    /// Adds a file to an animal under the idempotency key that `key` returns for its digest.
    /// Leaves the file out, and returns `None`, if it is refused. Fails if others would be, too.
    pub async fn add(
        &mut self,
        pet: PetId,
        file: &Path,
        key: impl FnOnce([u8; 32]) -> String,
    ) -> Result<Option<AddedPhoto>, Box<dyn Error>> {
        let perhaps = ", and perhaps one more";
        self.interrupt
            .end_with(&self.stopped("interrupted", perhaps));
        let image = match read_image(file) {
            Ok(image) => image,
            Err(reason) => {
                self.leave_out(file, &reason);
                self.service.bar.inc(1);
                return Ok(None);
            }
        };
        let key = key(Sha256::digest(&image).into());
        let added = self.service.add(pet, image, &key).await;
        self.service.bar.inc(1);
        match added {
            Ok(added) => Ok(Some(added)),
            Err(Failure::Rejected { status, message }) if !concerns_all_files(status) => {
                // The body is the file.
                let reason = message.strip_prefix("body: ").unwrap_or(&message);
                self.leave_out(file, reason);
                Ok(None)
            }
            Err(failure @ Failure::Rejected { .. }) => {
                Err(self.stopped(&failure.to_string(), "").into())
            }
            Err(failure) => Err(self.stopped(&failure.to_string(), perhaps).into()),
        }
    }

    /// Describes how far the command came, such as "interrupted; 3 of 12 photos were added".
    fn stopped(&self, reason: &str, perhaps: &str) -> String {
        let all = counted(self.files, "photo");
        let were = plural(self.files, "was", "were");
        let added = self.added;
        format!(
            "{reason}; {added} of {all} {were} added{perhaps}{}",
            self.advice
        )
    }
}

/// Returns true if the service refuses everything with this API key.
fn concerns_all_files(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Reads a file that may be sent. Returns the reason if it may not.
fn read_image(path: &Path) -> Result<Bytes, String> {
    let failed = |cause| unreadable(path, &cause);
    check_size(path)?;
    let mut image = Vec::new();
    let file = File::open(path).map_err(failed)?;
    // It may have grown.
    file.take(MAX_IMAGE_BYTES as u64 + 1)
        .read_to_end(&mut image)
        .map_err(failed)?;
    Ok(image.into())
}

fn unreadable(path: &Path, cause: &io::Error) -> String {
    let cause = explain_os_errors(&explain(path, cause));
    format!("cannot be read: {cause}")
}

/// Checks that a file may be sent, without its content. Returns the reason if it may not.
pub fn check_size(path: &Path) -> Result<(), String> {
    let metadata = path.metadata().map_err(|cause| unreadable(path, &cause))?;
    if !metadata.is_file() {
        return Err("is not a file".into());
    }
    if metadata.len() > MAX_IMAGE_BYTES as u64 {
        return Err(format!("is larger than {} MiB", MAX_IMAGE_BYTES >> 20));
    }
    Ok(())
}
