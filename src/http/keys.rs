//! The keys as the database has them, held in memory and swapped whole; and
//! what is written down of their use.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{self, Duration},
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use quick_cache::sync::Cache;
use tokio::{sync::Mutex, time::Instant};

use super::{
    App,
    chores::ErrorLatch,
    rate::{Level, Limiter, Quota, RateLimit},
};
use crate::{
    api_key::{ApiKey, ApiKeyUsage, KeyHash, Scopes},
    store::{self, Store},
};

/// How often the table of keys is read again. A revoked key is refused within
/// a second, so this leaves room for the reading itself.
const REFRESH: Duration = Duration::from_millis(500);
/// How far apart readings are at the least, however many unknown keys come.
const REFRESH_PAUSE: Duration = Duration::from_millis(20);
/// How far apart the notes of a key's last use are, in microseconds.
const USE_NOTED: i64 = 60_000_000;

pub struct Keys {
    store: Arc<Store>,
    table: ArcSwap<HashMap<KeyHash, Known>>,
    /// Well-formed keys that a reading of the table did not find. A key is
    /// random, so one that was unknown once will not be made later; if it is
    /// brought in from a copy, the next regular reading finds it.
    unknown: Cache<KeyHash, ()>,
    limiter: Option<Limiter>,
    /// When the last reading that succeeded began.
    refreshed: Mutex<Option<Instant>>,
}

/// A key that may be used.
pub struct Valid {
    pub id: i64,
    pub scopes: Scopes,
    /// How it stands with its limit, if there is one.
    pub quota: Option<Quota>,
}

struct Known {
    key: ApiKey,
    /// The same from one reading of the table to the next.
    usage: Arc<Usage>,
}

/// How a key is used while this process runs. Times are microseconds since
/// 1970; 0 if never.
#[derive(Debug, Default)]
struct Usage {
    last_used: AtomicI64,
    deprecated_at: AtomicI64,
    deprecated_calls: AtomicI64,
    /// How many of those calls are written down.
    deprecated_noted: AtomicI64,
    /// What it has used of its limit.
    level: Level,
}

impl Keys {
    pub fn new(store: Arc<Store>, limit: Option<RateLimit>) -> Self {
        Self {
            store,
            table: ArcSwap::default(),
            unknown: Cache::new(4096),
            limiter: limit.map(Limiter::new),
            refreshed: Mutex::new(None),
        }
    }

    /// Gives a key that is valid, and counts the request, which came `at` that
    /// moment. Whether the table is read again for one that it does not have is
    /// up to `may_look`.
    pub async fn find(
        &self,
        hash: &KeyHash,
        now: Timestamp,
        at: time::Instant,
        may_look: impl FnOnce() -> bool,
    ) -> Result<Option<Valid>, store::Error> {
        if let Some(judged) = self.judge(hash, now, at) {
            return Ok(judged);
        }
        // It may be a new one.
        if self.unknown.get(hash).is_some() || !may_look() {
            return Ok(None);
        }
        self.refresh().await?;
        Ok(self.judge(hash, now, at).unwrap_or_else(|| {
            self.unknown.insert(*hash, ());
            None
        }))
    }

    /// Judges a key that the table has.
    fn judge(&self, hash: &KeyHash, now: Timestamp, at: time::Instant) -> Option<Option<Valid>> {
        let table = self.table.load();
        let Known { key, usage } = table.get(hash)?;
        if !key.is_valid_at(now) {
            return Some(None);
        }
        let time = now.as_microsecond();
        if time - usage.last_used.load(Ordering::Relaxed) >= USE_NOTED {
            usage.last_used.store(time, Ordering::Relaxed);
        }
        let limiter = self.limiter.as_ref();
        Some(Some(Valid {
            id: key.id,
            scopes: key.scopes,
            quota: limiter.map(|limiter| limiter.take(&usage.level, at)),
        }))
    }

    /// Counts a call of an operation that is going to be removed.
    pub fn count_deprecated(&self, hash: &KeyHash, now: Timestamp) {
        if let Some(Known { usage, .. }) = self.table.load().get(hash) {
            usage.deprecated_calls.fetch_add(1, Ordering::Relaxed);
            let time = now.as_microsecond();
            usage.deprecated_at.store(time, Ordering::Relaxed);
        }
    }

    /// The calls of deprecated operations while this process runs, by the id of
    /// the key.
    pub fn deprecated_calls(&self) -> Vec<(i64, i64)> {
        let table = self.table.load();
        let calls = table.values().map(|Known { key, usage }| {
            let calls = usage.deprecated_calls.load(Ordering::Relaxed);
            (key.id, calls)
        });
        let mut calls: Vec<_> = calls.filter(|(_, calls)| *calls > 0).collect();
        calls.sort_unstable();
        calls
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
            let usage = table
                .get(&hash)
                .map_or_else(Arc::default, |old| old.usage.clone());
            let noted = key.last_used_at.map_or(0, Timestamp::as_microsecond);
            usage.last_used.fetch_max(noted, Ordering::Relaxed);
            (hash, Known { key, usage })
        });
        let fresh = fresh.collect();
        if refreshed.is_some() {
            audit(&table, &fresh);
        }
        self.table.store(Arc::new(fresh));
        *refreshed = Some(began);
        Ok(())
    }

    /// Writes down how keys were used.
    pub async fn note_used(&self) -> Result<(), store::Error> {
        let table = self.table.load_full();
        let (mut noted, mut notes) = (Vec::new(), Vec::new());
        for Known { key, usage } in table.values() {
            let last_used = usage.last_used.load(Ordering::Relaxed);
            let known = key.last_used_at.map_or(0, Timestamp::as_microsecond);
            let calls = usage.deprecated_calls.load(Ordering::Relaxed);
            let calls = calls - usage.deprecated_noted.load(Ordering::Relaxed);
            let Ok(last_used_at) = Timestamp::from_microsecond(last_used) else {
                continue;
            };
            if last_used > known || calls > 0 {
                let deprecated_at = usage.deprecated_at.load(Ordering::Relaxed);
                let deprecated_at = Timestamp::from_microsecond(deprecated_at).ok();
                notes.push(ApiKeyUsage {
                    id: key.id,
                    last_used_at,
                    deprecated_calls: calls,
                    deprecated_at: deprecated_at.filter(|_| calls > 0),
                });
                // Before it is written: a note whose writing is given up on the
                // way is made all the same.
                usage.deprecated_noted.fetch_add(calls, Ordering::Relaxed);
                noted.push((usage, calls));
            }
        }
        if notes.is_empty() {
            return Ok(());
        }
        let written = self.store.key_used(notes).await;
        if written.is_err() {
            for (usage, calls) in noted {
                usage.deprecated_noted.fetch_sub(calls, Ordering::Relaxed);
            }
        }
        written
    }
}

/// Tells the log what has happened to keys, whoever did it.
fn audit(before: &HashMap<KeyHash, Known>, after: &HashMap<KeyHash, Known>) {
    macro_rules! event {
        ($key:expr, $message:literal) => {
            let (key_id, name, scopes) = ($key.id, $key.name.as_str(), &$key.scopes);
            tracing::info!(audit = true, key_id, name, %scopes, $message);
        };
    }
    for (hash, Known { key, .. }) in after {
        let old = before.get(hash).map(|old| &old.key);
        if old.is_none() {
            event!(key, "key created");
        }
        if key.revoked_at.is_some() && old.is_none_or(|old| old.revoked_at.is_none()) {
            event!(key, "key revoked");
        }
    }
    for (_, Known { key, .. }) in before.iter().filter(|(hash, _)| !after.contains_key(*hash)) {
        event!(key, "key removed");
    }
}

/// Reads the keys again and again.
pub async fn keep_fresh(app: Arc<App>) {
    let mut ticks = tokio::time::interval(REFRESH);
    let mut trouble = ErrorLatch::with("the keys are not read again");
    loop {
        ticks.tick().await;
        trouble.tell(app.keys.refresh().await);
    }
}

/// Notes again and again how keys were used. It waits for the writer, so
/// `keep_fresh` does not wait for it.
pub async fn keep_noting(app: Arc<App>) {
    let mut ticks = tokio::time::interval(REFRESH);
    let mut trouble = ErrorLatch::with("the use of keys is not noted");
    loop {
        ticks.tick().await;
        trouble.tell(app.keys.note_used().await);
    }
}
