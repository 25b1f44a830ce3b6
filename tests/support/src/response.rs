//! Responses, as every client of the tests returns them.

use std::{fmt, io::Read};

use flate2::read::GzDecoder;
use http::HeaderMap;
use serde_json::Value;

/// A response with its whole body, or the first chunk of a stream.
#[derive(Clone)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Response {
    pub fn is_success(&self) -> bool {
        self.status / 100 == 2
    }

    /// The service promises that it changed nothing.
    pub fn is_rejected(&self) -> bool {
        self.status == 503 && self.text().contains("nothing was changed")
    }

    /// The response with its content coding undone.
    pub fn decoded(&self) -> Self {
        let mut decoded = self.clone();
        match self.header("content-encoding") {
            Some("gzip") if !self.body.is_empty() => {
                decoded.body.clear();
                let mut gzip = GzDecoder::new(&self.body[..]);
                gzip.read_to_end(&mut decoded.body).unwrap();
            }
            Some("zstd") if !self.body.is_empty() => {
                decoded.body = zstd::decode_all(&self.body[..]).unwrap();
            }
            _ => {}
        }
        decoded
    }

    /// The body as JSON; null if there is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The target of the link to the next page.
    pub fn next(&self) -> Option<String> {
        let link = self.header("link")?.strip_prefix('<')?;
        link.strip_suffix(">; rel=\"next\"").map(String::from)
    }

    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.json()["code"], code, "{self:?}");
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("body", &self.text())
            .finish()
    }
}
