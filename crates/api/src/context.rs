//! The context of a request: facts that are collected while it is served, for metrics and logs.

use std::{
    fmt::Display,
    mem,
    net::IpAddr,
    time::{Duration, Instant},
};

use http::{HeaderValue, StatusCode, request::Parts};

use super::{error::ApiError, metrics::Metrics, operation::Operation, rate_limit::Quota};
use telemetry::access_log::{AccessLog, CLIENT_CLOSED_REQUEST, Entry};

pub struct RequestContext {
    pub started: Instant,
    pub client: IpAddr,
    pub request_id: HeaderValue,
    pub wait: Wait,
    /// True if unknown parameters and members are rejected.
    pub is_strict: bool,
    /// Names the query parameters that the operation does not have.
    pub unknown_parameters: Option<HeaderValue>,
    /// `None` if the request was rejected before it was routed, or matches no operation.
    pub operation: Option<&'static Operation>,
    /// The API key, if it is valid.
    pub api_key_id: Option<i64>,
    /// The rate limit of that key, if it has one.
    pub quota: Option<Quota>,
}

/// The time spent waiting for the request body, or for events. It is not part of the
/// request's duration.
#[derive(Debug, Clone, Copy)]
pub enum Wait {
    NotStarted,
    Since(Instant),
    Ended(Duration),
}

impl Wait {
    fn duration(self) -> Duration {
        match self {
            Self::NotStarted => Duration::ZERO,
            Self::Since(started) => started.elapsed(),
            Self::Ended(duration) => duration,
        }
    }

    pub fn end(&mut self) {
        *self = Self::Ended(self.duration());
    }
}

/// Counts and logs a request when it ends, even if its client disconnects first and
/// the future is dropped.
pub struct RequestGuard<'a> {
    metrics: &'a Metrics,
    access_log: AccessLog,
    pub head: Parts,
    pub context: RequestContext,
    ended: bool,
}

impl<'a> RequestGuard<'a> {
    pub fn new(
        metrics: &'a Metrics,
        access_log: AccessLog,
        client: IpAddr,
        head: Parts,
        request_id: HeaderValue,
    ) -> Self {
        let context = RequestContext {
            started: Instant::now(),
            client,
            request_id,
            wait: Wait::NotStarted,
            is_strict: false,
            unknown_parameters: None,
            operation: None,
            api_key_id: None,
            quota: None,
        };
        Self {
            metrics,
            access_log,
            head,
            context,
            ended: false,
        }
    }

    /// Counts and logs the request. Returns its id.
    pub fn end(&mut self, status: StatusCode, error: Option<&ApiError>) -> HeaderValue {
        self.ended = true;
        self.record(status.as_u16(), error);
        mem::replace(&mut self.context.request_id, HeaderValue::from_static(""))
    }

    fn record(&self, status: u16, error: Option<&ApiError>) {
        let RequestContext {
            started,
            wait,
            operation,
            ref request_id,
            ..
        } = self.context;
        let duration = started.elapsed().saturating_sub(wait.duration());
        self.metrics.record_request(operation, status, duration);
        if let Some(error) = error {
            self.metrics.record_error(error);
        }
        let rejected = error.is_some_and(ApiError::is_load_shedding);
        if !self.access_log.includes(status, duration, rejected) {
            return;
        }
        AccessLog::log(&Entry {
            request_id: request_id.to_str().unwrap_or_default(),
            client: self.context.client,
            method: self.head.method.as_str(),
            path: self.head.uri.path(),
            status,
            operation: operation.map(|operation| operation.id),
            api_key_id: self.context.api_key_id,
            duration,
            error: error
                .and_then(ApiError::cause)
                .map(|cause| cause as &dyn Display),
            rejected,
        });
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.record(CLIENT_CLOSED_REQUEST, None);
        }
    }
}
