//! Who is calling, and may they: judged before anything else of a request.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use http::{HeaderMap, header};
use jiff::Timestamp;
use tokio::{sync::SemaphorePermit, time::timeout};

use super::{
    App,
    error::ApiError,
    operation::Operation,
    rate::Limited,
    trail::{Body, Trail},
};
use crate::api_key::{KeyHash, Scopes};

/// A client with a valid key.
pub struct Caller<'a> {
    app: &'a App,
    trail: &'a mut Trail,
    hash: KeyHash,
    key_id: i64,
    scopes: Scopes,
    now: Timestamp,
}

impl<'a> Caller<'a> {
    /// Says who the client is, if it has a valid key and is within its limit.
    ///
    /// A valid key is never refused for what others do from the same address:
    /// many may share it.
    pub async fn of(
        headers: &HeaderMap,
        app: &'a App,
        trail: &'a mut Trail,
    ) -> Result<Self, ApiError> {
        let (client, at, now) = (trail.client, trail.began, app.clock.now());
        let refuse = |refused| app.strangers.refuse(client, at, refused);
        let hash = presented(headers).map_err(refuse)?;
        let may_look = || app.strangers.may_err(client, at);
        let found = app.keys.find(&hash, now, at, may_look).await;
        let found = found.map_err(|error| refuse(error.into()))?;
        let valid = found.ok_or_else(|| refuse(REFUSED))?;
        trail.key_id = Some(valid.id);
        trail.quota = valid.quota;
        if let Some(quota) = valid.quota {
            quota.check(Limited::Key)?;
        }
        Ok(Self {
            app,
            trail,
            hash,
            key_id: valid.id,
            scopes: valid.scopes,
            now,
        })
    }

    /// Gives what a handler cannot be called without, if the key has the scope
    /// for the operation, and if not too much is being worked on.
    pub fn may(self, operation: Operation) -> Result<Permit<'a>, ApiError> {
        self.trail.operation = Some(operation);
        if !self.scopes.has(operation.scope()) {
            return Err(ApiError::InsufficientScope(operation.scope()));
        }
        if operation.is_deprecated() {
            self.app.keys.count_deprecated(&self.hash, self.now);
        }
        Ok(Permit {
            now: self.now,
            key_id: self.key_id,
            app: self.app,
            place: Some(place(self.app)?),
            body: &mut self.trail.body,
        })
    }
}

/// The leave to carry out an operation, and a place among the requests that are
/// worked on.
pub struct Permit<'a> {
    /// When the request came. The clock is read once a request, so a key
    /// cannot expire halfway through.
    pub now: Timestamp,
    pub key_id: i64,
    app: &'a App,
    place: Option<SemaphorePermit<'a>>,
    body: &'a mut Body,
}

fn place(app: &App) -> Result<SemaphorePermit<'_>, ApiError> {
    app.places.try_acquire().map_err(|_| ApiError::Overloaded)
}

impl Permit<'_> {
    /// Waits for the body. If it takes a while, others have the place meanwhile,
    /// and there is a limit to how many are waited for.
    pub async fn wait<T>(&mut self, body: impl Future<Output = T>) -> Result<T, ApiError> {
        *self.body = Body::AwaitedSince(Instant::now());
        let mut body = pin!(body);
        let mut come = timeout(SOON, &mut body).await;
        if come.is_err() {
            let seat = self.app.waiting_room.try_acquire();
            let _seat = seat.map_err(|_| ApiError::Overloaded)?;
            self.place = None;
            come = timeout(self.app.limits.body, body).await;
        }
        self.body.come();
        if self.place.is_none() {
            self.place = Some(place(self.app)?);
        }
        come.map_err(|_| ApiError::RequestTimeout("body: did not arrive in time"))
    }
}

/// How long a client may keep us waiting before others have its place.
const SOON: Duration = Duration::from_millis(100);

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
