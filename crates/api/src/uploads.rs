//! Limits on the uploads that are worked on at a time: each takes as much memory and time as
//! thousands of other requests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{error::ApiError, request::ApiRequest};
use domain::photo::DECODE_TIMEOUT;

/// Limits on uploads.
#[derive(Debug, Clone)]
pub struct UploadLimits {
    /// Uploads that are read, decoded or written at a time.
    pub max: usize,
    /// The same for one API key.
    pub max_of_key: usize,
    /// The maximum time that a request waits for its turn.
    pub max_wait: Duration,
    /// The time limit for decoding one photo. Large ones take a second or two.
    pub decode_timeout: Duration,
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self {
            max: 8,
            max_of_key: 4,
            max_wait: Duration::from_secs(10),
            decode_timeout: DECODE_TIMEOUT,
        }
    }
}

/// The permits for uploads. Requests wait for them in the order of their arrival.
pub struct Uploads {
    limits: UploadLimits,
    all: Arc<Semaphore>,
    /// The permits of each API key that has an upload in progress.
    of_keys: Mutex<HashMap<i64, Arc<Semaphore>>>,
}

/// The permit for one upload, until it is dropped.
#[derive(Debug)]
pub struct UploadPermit {
    _of_key: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Uploads {
    pub fn new(limits: UploadLimits) -> Self {
        Self {
            all: Arc::new(Semaphore::new(limits.max)),
            limits,
            of_keys: Mutex::default(),
        }
    }

    /// Admits an upload, or waits until others have ended. A request that waits does not count as
    /// in flight.
    pub async fn admit(&self, request: &mut ApiRequest<'_>) -> Result<UploadPermit, ApiError> {
        let of_key = self.permits_of(request.api_key_id());
        let all = self.all.clone();
        let acquired = async {
            Some(UploadPermit {
                _of_key: of_key.acquire_owned().await.ok()?,
                _of_all: all.acquire_owned().await.ok()?,
            })
        };
        request.release();
        let acquired = timeout(self.limits.max_wait, acquired).await;
        acquired.ok().flatten().ok_or(ApiError::TOO_MANY_UPLOADS)
    }

    fn permits_of(&self, api_key_id: i64) -> Arc<Semaphore> {
        let of_keys = self.of_keys.lock();
        let mut of_keys = of_keys.expect("no thread panics while holding the lock");
        // A permit, and a request that waits for one, has a reference.
        of_keys.retain(|_, permits| Arc::strong_count(permits) > 1);
        let new = || Arc::new(Semaphore::new(self.limits.max_of_key));
        of_keys.entry(api_key_id).or_insert_with(new).clone()
    }
}
