//! The end of a connection: at shutdown, or when it is evicted to make room for others.

use std::{pin::Pin, time::Duration};

use tokio::time::timeout;

/// The time that a client has to close its side of a connection that is closing, when no request
/// is in flight.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time that a connection without a request is kept open at shutdown: the request may be
/// on its way.
pub(super) const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(500);

/// Waits until a connection that is closing has closed: for as long as a request is in flight, and
/// otherwise at most `CLOSE_TIMEOUT` for a client that keeps it open.
pub(super) async fn close<F: Future>(
    mut connection: Pin<&mut F>,
    mut is_active: impl FnMut() -> bool,
) {
    while timeout(CLOSE_TIMEOUT, &mut connection).await.is_err() && is_active() {}
}
