//! What becomes known of a request on its way, for the log and the metrics.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use http::{HeaderValue, StatusCode, request::Parts};
use percent_encoding::percent_decode_str;

use super::{App, error::ApiError, operation::Operation, rate::Quota};
use crate::api_key::ApiKeySecret;

/// A request that takes longer is always in the log.
const SLOW: Duration = Duration::from_secs(1);
/// The most characters of a text of the client's that the log shows.
const SHOWN: usize = 256;

pub struct Trail {
    pub began: Instant,
    pub body: Body,
    pub client: IpAddr,
    /// Unknown if the request was refused before, or is for no operation.
    pub operation: Option<Operation>,
    /// The key that it came with, if that is valid.
    pub key_id: Option<i64>,
    /// How that key stands with its limit, if there is one.
    pub quota: Option<Quota>,
}

impl Trail {
    fn begin(client: IpAddr) -> Self {
        Self {
            began: Instant::now(),
            body: Body::NotAskedFor,
            client,
            operation: None,
            key_id: None,
            quota: None,
        }
    }
}

/// The time that the client takes for its body is not ours.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    NotAskedFor,
    AwaitedSince(Instant),
    TookSo(Duration),
}

impl Body {
    fn waited(self) -> Duration {
        match self {
            Self::NotAskedFor => Duration::ZERO,
            Self::AwaitedSince(began) => began.elapsed(),
            Self::TookSo(time) => time,
        }
    }

    /// Ends the waiting.
    pub fn come(&mut self) {
        *self = Self::TookSo(self.waited());
    }
}

/// Sees to it that a request is counted when it ends, and that the log is told,
/// also if its client leaves before.
pub struct Watch<'a> {
    app: &'a App,
    head: &'a Parts,
    id: &'a HeaderValue,
    pub trail: Trail,
    ended: bool,
}

impl<'a> Watch<'a> {
    pub fn begin(app: &'a App, client: IpAddr, head: &'a Parts, id: &'a HeaderValue) -> Self {
        Self {
            app,
            head,
            id,
            trail: Trail::begin(client),
            ended: false,
        }
    }

    pub fn end(mut self, status: StatusCode, error: Option<&ApiError>) {
        self.ended = true;
        self.tell(status.as_u16(), error);
    }

    /// Counts the request and, if it is to be there, writes it to the log, with
    /// the cause of a failure. Those that are refused because there are too many
    /// would be too many for the log as well: it is told their number.
    fn tell(&self, status: u16, error: Option<&ApiError>) {
        let (app, trail) = (self.app, &self.trail);
        let took = trail.began.elapsed().saturating_sub(trail.body.waited());
        app.metrics.count_request(trail.operation, status, took);
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
        let failed = status >= 500 && !matches!(error, Some(ApiError::Overloaded));
        if !(app.access_log || failed || took >= SLOW) {
            return;
        }
        let request_id = self.id.to_str().unwrap_or_default();
        let method = shown(self.head.method.as_str());
        let path = shown(self.head.uri.path());
        let (client, key_id) = (trail.client, trail.key_id);
        let operation = trail.operation.map(Operation::id);
        let milliseconds = took.as_micros() as f64 / 1000.0;
        macro_rules! event {
            ($level:ident, $message:literal $(, $cause:ident)?) => {
                tracing::$level!(
                    request_id, %client, method, path, status, operation, key_id,
                    milliseconds, $(%$cause,)? $message
                )
            };
        }
        match error.and_then(ApiError::cause) {
            Some(cause) => event!(error, "request failed", cause),
            None if failed => event!(error, "request failed"),
            None if status == CLIENT_LEFT => event!(warn, "client left"),
            None if took >= SLOW => event!(warn, "slow request"),
            None => event!(info, "request"),
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(CLIENT_LEFT, None);
        }
    }
}

/// No answer has this status: it stands for none.
const CLIENT_LEFT: u16 = 499;

/// A text of the client's as the log may show it: plain, not too long, and
/// without what may be a key, however often it is encoded.
fn shown(text: &str) -> String {
    let mut plain = text.to_owned();
    loop {
        let decoded = percent_decode_str(&plain).decode_utf8_lossy();
        if let Some(start) = decoded.find(ApiKeySecret::PREFIX) {
            return escaped(&decoded[..start]) + ApiKeySecret::PREFIX + "…";
        }
        if decoded == plain {
            return escaped(text);
        }
        plain = decoded.into_owned();
    }
}

fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for (number, character) in text.chars().enumerate() {
        if number == SHOWN {
            return shown + "…";
        }
        match character {
            ' '..='~' => shown.push(character),
            other => shown.extend(other.escape_unicode()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_is_shown_is_plain_and_holds_no_key() {
        let key = "psk_abcdefghijklmnopqrstuvwxyz0123456789AB";
        let encoded = key.replace('_', "%5F");
        let twice = encoded.replace('%', "%25");
        for (text, expected) in [
            ("/v1/pets", "/v1/pets"),
            ("/v1/pets/%0a%e2%80%a8", "/v1/pets/%0a%e2%80%a8"),
            ("/\u{85}\u{2028}\u{1b}[31m", "/\\u{85}\\u{2028}\\u{1b}[31m"),
            (&format!("/a/{key}/b"), "/a/psk_…"),
            (&format!("/{}", key.replace('c', "%63")), "/psk_…"),
            (&format!("/a/{encoded}"), "/a/psk_…"),
            (&format!("/a/{twice}"), "/a/psk_…"),
            (&format!("/%70{}", &key[1..]), "/psk_…"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert_eq!(shown(&"a".repeat(20_000)).chars().count(), 257);
    }
}
