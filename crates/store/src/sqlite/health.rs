//! The health of the file, by the outcome of client calls: a readiness probe that writes
//! little may succeed while the writes of clients fail.

use std::sync::{Mutex, MutexGuard};

use super::{
    super::error::{Cause, Error},
    lock,
};

/// The last failure of the file, until a probe shows that it works again.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failure: Option<Cause>,
    failures: u64,
    /// Damage is permanent: only some requests find it, so the success of others proves
    /// nothing.
    damage: Option<Cause>,
}

impl Health {
    /// Returns the reason why the store is not usable.
    pub(super) fn failure(&self) -> Option<Error> {
        let state = self.state();
        let cause = state.damage.as_ref().or(state.failure.as_ref())?;
        Some(Error::Unavailable(cause.clone()))
    }

    /// Records a write that failed because of the environment. From now on the store is not
    /// usable, until [`recovered`](Self::recovered).
    pub(super) fn write_failed(&self, error: &Error) {
        if let Error::Unavailable(cause) | Error::OutcomeUnknown(cause) = error {
            let mut state = self.state();
            state.failure = Some(cause.clone());
            state.failures += 1;
        }
    }

    /// Records that the store is damaged.
    pub(super) fn damaged(&self, cause: &Cause) {
        self.state().damage.get_or_insert_with(|| cause.clone());
    }

    /// Returns the number of failures up to now.
    pub(super) fn failures(&self) -> u64 {
        self.state().failures
    }

    /// Records that a probe has succeeded. Failures since it started, when there were `before`,
    /// still count.
    pub(super) fn recovered(&self, before: u64) {
        let mut state = self.state();
        if state.failures == before {
            state.failure = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}
