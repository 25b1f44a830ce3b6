//! Content codings: gzip, for those who accept it.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, header};

/// Whether the client accepts gzip; `q=0` means that it does not.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|v| v.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

pub fn gzip(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(content);
    let compressed = written.and_then(|()| encoder.finish());
    compressed.expect("a write to memory succeeds").into()
}
