//! What the service does on its own, again and again, beside all requests.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use jiff::SignedDuration;
use tokio::task::JoinSet;

use super::{App, keys, tls};
use crate::store;

/// How often holds that have lapsed and old names of requests are looked for.
const TIDYING: Duration = Duration::from_secs(1);
/// How long a request's name is known, at the least.
const NAMES_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// Begins with all of them. They end when what is given back is dropped.
pub fn start(app: &Arc<App>) -> JoinSet<()> {
    let mut chores = JoinSet::new();
    chores.spawn(keep_on(app.clone(), keys::keep_fresh));
    chores.spawn(keep_on(app.clone(), keys::keep_noting));
    chores.spawn(keep_on(app.clone(), keep_tidy));
    chores.spawn(keep_on(app.clone(), keep_telling));
    chores.spawn(keep_on(app.clone(), tls::keep_renewed));
    chores
}

/// Begins anew with a chore that panics; nothing else ends one.
async fn keep_on<F: Future<Output = ()>>(app: Arc<App>, chore: fn(Arc<App>) -> F) {
    loop {
        let _ = AssertUnwindSafe(chore(app.clone())).catch_unwind().await;
        tracing::error!("a chore panicked; it begins anew");
        tokio::time::sleep(TIDYING).await;
    }
}

/// Cancels orders whose hold has lapsed, and forgets the names of requests that
/// are old enough.
async fn keep_tidy(app: Arc<App>) {
    let mut ticks = tokio::time::interval(TIDYING);
    let mut lapsing = ErrorLatch::with("lapsed holds are not looked for");
    let mut forgetting = ErrorLatch::with("old names of requests are not forgotten");
    loop {
        ticks.tick().await;
        let lapse = || app.store.order_lapse(app.clock.now());
        let lapsed = until_none(lapse).await;
        if let Ok(orders @ 1..) = lapsed {
            tracing::info!(orders, "holds have lapsed");
        }
        lapsing.tell(lapsed);
        let forget = || app.store.named_forget(app.clock.now() - NAMES_KEPT);
        forgetting.tell(until_none(forget).await);
    }
}

/// Tells the log of a trouble when it begins and when it is over, not each time.
pub struct ErrorLatch {
    what: &'static str,
    lasts: bool,
}

impl ErrorLatch {
    pub fn with(what: &'static str) -> Self {
        Self { what, lasts: false }
    }

    pub fn tell<T>(&mut self, outcome: Result<T, store::Error>) {
        let what = self.what;
        match outcome {
            Err(error) if !self.lasts => tracing::warn!(%error, "{what}"),
            Ok(_) if self.lasts => tracing::info!("over: {what}"),
            _ => return,
        }
        self.lasts = !self.lasts;
    }
}

/// Tells the log how many requests were too many.
async fn keep_telling(app: Arc<App>) {
    let mut ticks = tokio::time::interval(TIDYING);
    let mut told = app.metrics.shed.get();
    loop {
        ticks.tick().await;
        let shed = app.metrics.shed.get();
        if shed > told {
            let requests = shed - told;
            tracing::warn!(requests, "overloaded: requests were refused");
            told = shed;
        }
    }
}

/// Takes small steps, so that nobody waits for long, until there is nothing
/// left to do.
async fn until_none<F>(step: impl Fn() -> F) -> Result<u64, store::Error>
where
    F: Future<Output = Result<u64, store::Error>>,
{
    let mut all = 0;
    loop {
        match step().await? {
            0 => return Ok(all),
            some => all += some,
        }
    }
}
