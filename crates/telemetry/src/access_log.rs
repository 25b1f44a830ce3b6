//! The access log: an event for each failed or slow request, or for every request if
//! enabled. Fields are named after OpenTelemetry's HTTP conventions.

use std::{fmt::Display, net::IpAddr, time::Duration};

use super::redaction::find_secret;

/// Requests that take longer are always logged.
const SLOW_REQUEST: Duration = Duration::from_secs(1);
/// The most characters of a client's text in the log.
const MAX_LOGGED_CHARS: usize = 256;

/// The status of a request whose client disconnected before the response, as
/// nginx logs it. No response has it.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

/// A finished request.
pub struct Entry<'a> {
    pub request_id: &'a str,
    pub client: IpAddr,
    pub method: &'a str,
    pub path: &'a str,
    pub status: u16,
    /// `None` if the request was rejected before it was routed, or matches no operation.
    pub operation: Option<&'static str>,
    pub api_key_id: Option<i64>,
    /// Without the time spent waiting for the request body.
    pub duration: Duration,
    /// The cause of the failure, if the service or the database is at fault.
    pub error: Option<&'a dyn Display>,
    /// True if it was rejected because of a limit, or because the service is shutting down.
    pub rejected: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct AccessLog {
    /// Logs every request, not only failed and slow ones.
    pub log_all: bool,
}

impl AccessLog {
    /// Returns true if a request with this result is logged.
    ///
    /// Rejected requests are only counted: one event each would add to an overload.
    pub fn includes(self, status: u16, duration: Duration, rejected: bool) -> bool {
        self.log_all || is_failure(status, rejected) || duration >= SLOW_REQUEST
    }

    pub fn log(entry: &Entry) {
        let failed = is_failure(entry.status, entry.rejected);
        let slow = entry.duration >= SLOW_REQUEST;
        let Entry {
            request_id,
            client,
            status,
            operation,
            api_key_id,
            ..
        } = *entry;
        let method = sanitize(entry.method);
        let path = sanitize(entry.path);
        let duration_ms = entry.duration.as_micros() as f64 / 1000.0;
        let error = entry.error.map(tracing::field::display);
        macro_rules! event {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    request_id,
                    client.address = %client,
                    http.request.method = method,
                    url.path = path,
                    http.response.status_code = status,
                    operation,
                    api_key_id,
                    duration_ms,
                    error,
                    $message
                )
            };
        }
        match status {
            _ if failed || entry.error.is_some() => event!(error, "request failed"),
            CLIENT_CLOSED_REQUEST => event!(warn, "client disconnected"),
            _ if slow => event!(warn, "slow request"),
            _ => event!(info, "request"),
        }
    }
}

/// A stream that has ended.
pub struct StreamEntry<'a> {
    pub request_id: &'a str,
    pub api_key_id: i64,
    pub duration: Duration,
    /// The events that were sent.
    pub events: u64,
    pub end: StreamEnd,
}

/// The reason why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client closed it, or does not read.
    Disconnect,
    /// It was open for the maximum time.
    MaxAge,
    Shutdown,
    ApiKeyInvalid,
    /// The log no longer has the event that was sent last.
    PositionGone,
}

impl StreamEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::Disconnect => "disconnect",
            Self::MaxAge => "max_age",
            Self::Shutdown => "shutdown",
            Self::ApiKeyInvalid => "api_key_invalid",
            Self::PositionGone => "position_gone",
        }
    }
}

impl AccessLog {
    /// Logs the end of a stream. Its start is logged as a request.
    pub fn log_stream(self, entry: &StreamEntry) {
        if self.log_all {
            tracing::info!(
                request_id = entry.request_id,
                api_key_id = entry.api_key_id,
                duration_ms = entry.duration.as_micros() as f64 / 1000.0,
                events = entry.events,
                reason = entry.end.as_str(),
                "event stream ended"
            );
        }
    }
}

fn is_failure(status: u16, rejected: bool) -> bool {
    status >= 500 && !rejected
}

/// Returns a client's text as the log may show it: printable, bounded, and cut at anything
/// that looks like a secret, however often it is percent-encoded.
///
/// Only what is shown is searched: if a part of a secret is shown, so is its prefix.
pub fn sanitize(text: &str) -> String {
    let (shown, end) = match text.char_indices().nth(MAX_LOGGED_CHARS) {
        Some((end, _)) => (&text[..end], "…"),
        None => (text, ""),
    };
    let decoded = decode_nested(shown);
    match find_secret(&decoded) {
        Some((start, prefix)) => escape(&String::from_utf8_lossy(&decoded[..start])) + prefix + "…",
        None => escape(shown) + end,
    }
}

/// Percent-decodes text until nothing is left to decode, in a single pass: a
/// decoded byte may complete another escape, as in `%2541`, so look back after each.
/// Decoding pass by pass would cost the square of the length.
fn decode_nested(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut decoded = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        decoded.push(byte);
        while let [.., b'%', high, low] = *decoded
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            decoded.truncate(decoded.len() - 3);
            decoded.push((high * 16 + low) as u8);
        }
    }
    decoded
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            ' '..='~' => escaped.push(character),
            other => escaped.extend(other.escape_unicode()),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode;
    use proptest::prelude::*;

    use super::{decode_nested, sanitize};

    #[test]
    fn logged_text_is_printable_and_has_no_secret() {
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
            (&format!("/a/{}", key.to_uppercase()), "/a/psk_…"),
            ("/a/whsec_MfKQ9r8G/KYqrTwj+UPD8==/b", "/a/whsec_…"),
            ("/a/%57HSEC%255FMfKQ9r8GKYqrTwjUPD8", "/a/whsec_…"),
        ] {
            assert_eq!(sanitize(text), expected);
        }
        let nested = "%".to_string() + &"25".repeat(100) + "70sk_secret";
        assert_eq!(sanitize(&nested), "psk_…");
        assert_eq!(sanitize(&"a".repeat(20_000)).chars().count(), 257);
    }

    /// The end of what is shown may fall anywhere in a key or in its encoded prefix.
    #[test]
    fn no_part_of_a_secret_is_shown_before_the_cut() {
        for prefix in ["psk_", "psk%5F", "%70s%256B_", "%252570%73k_", "whsec%5F"] {
            for start in 0..270 {
                let path = format!("{}{prefix}SECRET", "/".repeat(start));
                assert!(!sanitize(&path).contains('S'), "{path}");
            }
        }
    }

    proptest! {
        #[test]
        fn nested_escapes_decode_as_pass_by_pass(text in "[%257A-Ff/]{0,64}") {
            let mut expected = text.clone().into_bytes();
            loop {
                let decoded: Vec<u8> = percent_decode(&expected).collect();
                if decoded == expected {
                    break;
                }
                expected = decoded;
            }
            prop_assert_eq!(decode_nested(&text), expected);
        }
    }
}
