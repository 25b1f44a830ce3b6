//! Responses, as every client of the tests returns them.

use std::{fmt, io::Read};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use crate::RequestError;

/// A response with its whole body, or the first chunk of a stream.
#[derive(Clone)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Response {
    /// Reads the body of a response, or the first chunk of a stream of events.
    pub(crate) async fn read(response: http::Response<Incoming>) -> Result<Self, RequestError> {
        let (head, mut body) = response.into_parts();
        let media_type = head.headers.get("content-type");
        let body = if media_type.is_some_and(|media_type| media_type == "text/event-stream") {
            match body.frame().await.transpose().map_err(RequestError::Lost)? {
                Some(frame) => frame.into_data().unwrap(),
                None => Bytes::new(),
            }
        } else {
            body.collect().await.map_err(RequestError::Lost)?.to_bytes()
        };
        Ok(Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.into(),
        })
    }

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

    /// The value of a time series in a scrape of the metrics, if it is exported. The name
    /// includes the labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = self.text();
        let mut values = text.lines().filter_map(|line| line.rsplit_once(' '));
        let (_, value) = values.find(|(found, _)| *found == name)?;
        Some(value.parse().unwrap())
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
