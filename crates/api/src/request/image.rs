//! The body of a request that is an image.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::body::Body;
use sha2::{Digest, Sha256};
use tokio::{task::spawn_blocking, time::timeout};

use super::{ApiRequest, collect, content::check_content};
use crate::error::{ApiError, BodyLimit};
use domain::{
    idempotency::{IdempotencyKey, IdempotentRequest},
    photo::{MAX_IMAGE_BYTES, MIN_UPLOAD_RATE},
};
use server::{MAX_BODY_BYTES, MAX_LARGE_BODY_BYTES};

/// The media types of an image. Which of them it is, its bytes say; a client that does not know
/// sends the last one.
const IMAGES: &[&str] = &[
    "image/jpeg",
    "image/png",
    "image/webp",
    "application/octet-stream",
];

/// The time after which a client that is still sending an image counts as slow.
const SLOW_UPLOAD: Duration = Duration::from_secs(2);

/// The memory of a body beyond what the transport charges for it.
fn additional_bytes(length: u64) -> usize {
    if length <= MAX_LARGE_BODY_BYTES as u64 {
        return 0;
    }
    length as usize - MAX_BODY_BYTES
}

impl ApiRequest<'_> {
    /// Checks the headers that describe an image, before its bytes are read.
    pub fn check_image(&self) -> Result<(), ApiError> {
        check_content(self.headers(), IMAGES, ApiError::UnsupportedImageType)?;
        let (length, max_bytes) = self.image_length();
        if length > max_bytes as u64 {
            return Err(ApiError::BodyTooLarge(BodyLimit::Image));
        }
        Ok(())
    }

    /// Returns the length of the body, as far as it is known, and the largest that is accepted.
    /// The transport accounts for the memory of a body by its declared length.
    fn image_length(&self) -> (u64, usize) {
        let size = self.body.as_ref().map(Body::size_hint).unwrap_or_default();
        let max_bytes = match size.exact() {
            Some(_) => MAX_IMAGE_BYTES,
            None => MAX_BODY_BYTES,
        };
        (size.lower(), max_bytes)
    }

    /// Reads an image. If its client is slow, `permit` is released, so that others may send
    /// theirs.
    pub async fn image<P>(&mut self, permit: &mut Option<P>) -> Result<Bytes, ApiError> {
        let (length, max_bytes) = self.image_length();
        let Some(body) = self.body.take() else {
            return Ok(Bytes::new());
        };
        let body = async {
            let mut body = pin!(collect(body, length as usize, max_bytes, BodyLimit::Image));
            match timeout(SLOW_UPLOAD, &mut body).await {
                Ok(received) => received,
                Err(_) => {
                    *permit = None;
                    body.await
                }
            }
        };
        let grace = Duration::from_secs(length / MIN_UPLOAD_RATE);
        self.in_flight
            .receive_within(grace, body, self.wait)
            .await?
    }

    /// Charges the memory of the body to the connection, until the result is dropped.
    pub fn hold_image(&self) -> server::HeldMemory {
        let (length, _) = self.image_length();
        self.transport.hold(additional_bytes(length))
    }

    /// Adds the fingerprint of the request, whose body is an image, to its idempotency key.
    pub async fn fingerprint_image(
        &self,
        key: IdempotencyKey,
        image: &Bytes,
    ) -> Result<IdempotentRequest, ApiError> {
        let fingerprint = hash(self.start_fingerprint(), [image.clone()]).await?;
        Ok(IdempotentRequest {
            api_key_id: self.api_key_id(),
            key,
            fingerprint,
        })
    }
}

/// Completes a digest with large chunks, on a thread where that delays no other request.
pub async fn hash<const N: usize>(start: Sha256, chunks: [Bytes; N]) -> Result<[u8; 32], ApiError> {
    let digest = spawn_blocking(move || {
        let digest = chunks.iter().fold(start, Sha256::chain_update);
        digest.finalize().into()
    });
    digest
        .await
        .map_err(|panic| ApiError::Internal(Arc::new(panic)))
}
