//! What becomes known of a request on its way, for the log and the metrics.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use http::{HeaderValue, StatusCode, request::Parts};

use super::{App, error::ApiError, operation::Operation, rate::Quota};
use crate::key::without_secrets;

/// A request that takes longer is always in the log.
const SLOW: Duration = Duration::from_secs(1);

pub struct Trail {
    pub began: Instant,
    pub client: IpAddr,
    /// Unknown if the request was refused before, or is for no operation.
    pub operation: Option<Operation>,
    /// The key that it came with, if that is valid.
    pub key_id: Option<i64>,
    /// How that key stands with its limit, if there is one.
    pub quota: Option<Quota>,
}

impl Trail {
    pub fn begin(client: IpAddr) -> Self {
        Self {
            began: Instant::now(),
            client,
            operation: None,
            key_id: None,
            quota: None,
        }
    }

    /// Counts the request and, if it is to be there, writes it to the log, with
    /// the cause of a failure. Those that are refused because there are too many
    /// would be too many for the log as well: it is told their number.
    pub fn end(
        self,
        app: &App,
        head: &Parts,
        id: &HeaderValue,
        status: StatusCode,
        error: Option<&ApiError>,
    ) {
        let took = self.began.elapsed();
        app.metrics.count_request(self.operation, status, took);
        match error {
            Some(ApiError::MissingApiKey | ApiError::InvalidApiKey(_)) => {
                app.metrics.keys_refused.increment();
            }
            Some(ApiError::RateLimited { limited, .. }) => {
                app.metrics.rate_limited[*limited as usize].increment();
            }
            Some(ApiError::Overloaded) => app.metrics.shed.increment(),
            _ => {}
        }
        let failed = status.is_server_error() && !matches!(error, Some(ApiError::Overloaded));
        if !(app.access_log || failed || took >= SLOW) {
            return;
        }
        let request_id = id.to_str().unwrap_or_default();
        let (method, status) = (&head.method, status.as_u16());
        let path = &*without_secrets(head.uri.path());
        let operation = self.operation.map(Operation::id);
        let (client, key_id) = (self.client, self.key_id);
        let milliseconds = took.as_micros() as f64 / 1000.0;
        macro_rules! event {
            ($level:ident, $message:literal $(, $cause:ident)?) => {
                tracing::$level!(
                    request_id, %client, %method, path, status, operation, key_id, milliseconds,
                    $(%$cause,)? $message
                )
            };
        }
        match error.and_then(ApiError::cause) {
            Some(cause) => event!(error, "request failed", cause),
            None if failed => event!(error, "request failed"),
            None if took >= SLOW => event!(warn, "slow request"),
            None => event!(info, "request"),
        }
    }
}
