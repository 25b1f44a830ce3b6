//! Who is calling, and may they: judged before anything else of a request.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use http::{HeaderMap, header};
use jiff::Timestamp;
use quick_cache::sync::Cache;
use tokio::{sync::Mutex, time::Instant};

use super::{App, error::ApiError};
use crate::{
    key::{Key, KeyHash, Scope, Scopes},
    store::{self, Store},
};

/// How often the table of keys is read again. A revoked key is refused within
/// a second, so this leaves room for the reading itself.
const REFRESH: Duration = Duration::from_millis(500);
/// How far apart readings are at the least, however many unknown keys come.
const REFRESH_PAUSE: Duration = Duration::from_millis(20);
/// How far apart the notes of a key's last use are, in microseconds.
const USE_NOTED: i64 = 60_000_000;

/// A client with a valid key.
pub struct Caller {
    now: Timestamp,
    key_id: i64,
    scopes: Scopes,
}

impl Caller {
    /// Gives what a handler cannot be called without, if the key has the scope.
    pub fn may(&self, scope: Scope) -> Result<Permit, ApiError> {
        if self.scopes.has(scope) {
            Ok(Permit {
                now: self.now,
                key_id: self.key_id,
            })
        } else {
            Err(ApiError::InsufficientScope(scope))
        }
    }
}

/// The leave to carry out an operation.
pub struct Permit {
    /// When the request came. The clock is read once a request, so a key
    /// cannot expire halfway through.
    pub now: Timestamp,
    pub key_id: i64,
}

/// The keys as the database has them, held in memory and swapped whole.
pub struct Keys {
    store: Arc<Store>,
    table: ArcSwap<HashMap<KeyHash, Known>>,
    /// Well-formed keys that a reading of the table did not find. A key is
    /// random, so one that was unknown once will not be made later; if it is
    /// brought in from a copy, the next regular reading finds it.
    unknown: Cache<KeyHash, ()>,
    /// When the last reading that succeeded began.
    refreshed: Mutex<Option<Instant>>,
}

struct Known {
    key: Key,
    /// Microseconds since 1970; 0 if never.
    last_used: AtomicI64,
}

impl Keys {
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            table: ArcSwap::default(),
            unknown: Cache::new(4096),
            refreshed: Mutex::new(None),
        }
    }

    /// Says who the client is, if it has a valid key.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Caller, ApiError> {
        let hash = presented(headers)?;
        if let Some(judged) = self.judge(&hash, now) {
            return judged;
        }
        // It may be a new one.
        if self.unknown.get(&hash).is_some() {
            return Err(REFUSED);
        }
        self.refresh().await?;
        self.judge(&hash, now).unwrap_or_else(|| {
            self.unknown.insert(hash, ());
            Err(REFUSED)
        })
    }

    /// Judges a key that the table has.
    fn judge(&self, hash: &KeyHash, now: Timestamp) -> Option<Result<Caller, ApiError>> {
        let table = self.table.load();
        let known = table.get(hash)?;
        if !known.key.is_valid_at(now) {
            return Some(Err(REFUSED));
        }
        let time = now.as_microsecond();
        if time - known.last_used.load(Ordering::Relaxed) >= USE_NOTED {
            known.last_used.store(time, Ordering::Relaxed);
        }
        Some(Ok(Caller {
            now,
            key_id: known.key.id,
            scopes: known.key.scopes,
        }))
    }

    /// Reads the table again. Those who ask at the same time share a reading,
    /// as long as it began after they asked.
    async fn refresh(&self) -> Result<(), store::Error> {
        let asked = Instant::now();
        let mut refreshed = self.refreshed.lock().await;
        if let Some(began) = *refreshed {
            if began >= asked {
                return Ok(());
            }
            tokio::time::sleep_until(began + REFRESH_PAUSE).await;
        }
        let began = Instant::now();
        let stored = self.store.key_list().await?;
        let table = self.table.load();
        let fresh = stored.into_iter().map(|(hash, key)| {
            let noted = key.last_used_at.map_or(0, Timestamp::as_microsecond);
            let seen = table
                .get(&hash)
                .map_or(0, |old| old.last_used.load(Ordering::Relaxed));
            let last_used = AtomicI64::new(noted.max(seen));
            (hash, Known { key, last_used })
        });
        self.table.store(Arc::new(fresh.collect()));
        *refreshed = Some(began);
        Ok(())
    }

    /// Writes down when keys were last used.
    pub async fn note_used(&self) {
        let table = self.table.load_full();
        let used = table.values().filter_map(|known| {
            let last_used = known.last_used.load(Ordering::Relaxed);
            let noted = known.key.last_used_at.map_or(0, Timestamp::as_microsecond);
            let time = Timestamp::from_microsecond(last_used).ok()?;
            (last_used > noted).then_some((known.key.id, time))
        });
        let used: Vec<_> = used.collect();
        if !used.is_empty()
            && let Err(error) = self.store.key_used(used).await
        {
            tracing::warn!(%error, "the last use of keys was not noted");
        }
    }
}

/// Reads the keys again and again.
pub async fn keep_fresh(app: Arc<App>) {
    let mut ticks = tokio::time::interval(REFRESH);
    loop {
        ticks.tick().await;
        if let Err(error) = app.keys.refresh().await {
            tracing::warn!(%error, "the keys were not read again");
        }
    }
}

/// Notes again and again which keys were used. It waits for the writer, so
/// `keep_fresh` does not wait for it.
pub async fn keep_noting(app: Arc<App>) {
    let mut ticks = tokio::time::interval(REFRESH);
    loop {
        ticks.tick().await;
        app.keys.note_used().await;
    }
}

const REFUSED: ApiError =
    ApiError::InvalidApiKey("Authorization: the API key is unknown, revoked or expired");

/// The hash of the one key that a request presents.
fn presented(headers: &HeaderMap) -> Result<KeyHash, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(ApiError::MissingApiKey)?;
    if values.next().is_some() {
        return Err(ApiError::InvalidApiKey(
            "Authorization: must be given only once",
        ));
    }
    let Ok(value) = value.to_str() else {
        return Err(ApiError::InvalidApiKey(
            "Authorization: must be plain ASCII",
        ));
    };
    match value.trim().split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => KeyHash::of_presented(
            key.trim_start(),
        )
        .ok_or(ApiError::InvalidApiKey(
            "Authorization: the API key is malformed; one has 42 characters and starts with psk_",
        )),
        _ => Err(ApiError::MissingApiKey),
    }
}
