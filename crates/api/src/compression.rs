//! Content codings: zstd and gzip, for clients that accept them.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header};

use server::header_values;

/// The size from which a response is compressed. A smaller one fits into a packet anyway.
pub const MIN_COMPRESSED: usize = 1024;

pub const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    /// The best one first: zstd compresses better than gzip, in less time.
    pub const ALL: [Self; 2] = [Self::Zstd, Self::Gzip];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Compresses quickly rather than well: pages change, and clients wait for this.
    pub fn compress(self, content: &[u8]) -> Bytes {
        let compressed = match self {
            Self::Zstd => zstd::bulk::compress(content, 1),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::new(3));
                let written = encoder.write_all(content);
                written.and_then(|()| encoder.finish())
            }
        };
        let mut bytes = compressed.expect("a write to memory succeeds");
        // The content may stay in the cache.
        bytes.shrink_to_fit();
        bytes.into()
    }
}

/// Compresses a body for one request, if it is large enough and the client accepts one of the
/// codings, and sets the headers that declare the coding.
pub fn compress(
    body: Bytes,
    available: &[Coding],
    request: &HeaderMap,
    response: &mut HeaderMap,
) -> Bytes {
    if body.len() < MIN_COMPRESSED {
        return body;
    }
    response.insert(header::VARY, ACCEPT_ENCODING);
    match negotiate(request, available) {
        None => body,
        Some(coding) => {
            set_coding(response, coding);
            coding.compress(&body)
        }
    }
}

pub fn set_coding(response: &mut HeaderMap, coding: Coding) {
    let coding = HeaderValue::from_static(coding.name());
    response.insert(header::CONTENT_ENCODING, coding);
}

/// Returns the coding that the client prefers (RFC 9110, section 12.5.3); on a tie, the one that
/// comes first in `available`.
pub fn negotiate(headers: &HeaderMap, available: &[Coding]) -> Option<Coding> {
    let mut best = None;
    let mut best_weight = 0.0_f32;
    let mut identity_weight = 0.0_f32;
    let codings = header_values(headers, header::ACCEPT_ENCODING)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    for coding in codings {
        let (name, weight) = match coding.split_once(';') {
            None => (coding.trim(), 1.0),
            Some((name, weight)) => {
                let weight = weight.trim().trim_start_matches(['q', 'Q', '=']);
                (name.trim(), weight.parse().unwrap_or(0.0))
            }
        };
        if name.eq_ignore_ascii_case("identity") {
            identity_weight = weight;
        }
        let is_named = |coding: &Coding| name.eq_ignore_ascii_case(coding.name());
        let Some(at) = available.iter().position(is_named) else {
            continue;
        };
        let is_first = best.is_none_or(|best| at < best);
        if weight > best_weight || (weight > 0.0 && weight == best_weight && is_first) {
            best = Some(at);
            best_weight = weight;
        }
    }
    best.filter(|_| best_weight >= identity_weight)
        .map(|at| available[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_chooses_the_coding() {
        for (value, coding) in [
            ("", None),
            ("br, deflate", None),
            ("*", None),
            ("identity", None),
            ("gzip", Some(Coding::Gzip)),
            ("GZip;q=0.1", Some(Coding::Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=x", None),
            ("gzip;q=NaN", None),
            ("gzip, deflate, br, zstd", Some(Coding::Zstd)),
            ("zstd;q=0.5, gzip;q=0.8", Some(Coding::Gzip)),
            ("zstd;q=0.8,gzip; Q=0.5", Some(Coding::Zstd)),
            ("zstd;q=0, gzip", Some(Coding::Gzip)),
            ("zstd;q=0.5, identity", None),
            ("gzip, identity;q=0.5", Some(Coding::Gzip)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(negotiate(&headers, &Coding::ALL), coding, "{value}");
        }
        let mut headers = HeaderMap::new();
        let all = HeaderValue::from_static("zstd, gzip;q=0.5");
        headers.insert(header::ACCEPT_ENCODING, all);
        assert_eq!(negotiate(&headers, &[Coding::Gzip]), Some(Coding::Gzip));
    }
}
