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
        if !name.trim().eq_ignore_ascii_case("gzip") {
            return false;
        }
        let weight = weight.trim().trim_start_matches(['q', 'Q', '=']);
        weight.parse::<f32>().is_ok_and(|weight| weight > 0.0)
    })
}

/// Compresses quickly rather than well: pages change, and clients wait for this.
pub fn gzip(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(3));
    let written = encoder.write_all(content);
    let compressed = written.and_then(|()| encoder.finish());
    let mut compressed = compressed.expect("a write to memory succeeds");
    // It stays in the cache.
    compressed.shrink_to_fit();
    compressed.into()
}
