//! AWS Signature Version 4: signs the headers of a request, which name the hash of its body.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::settings::S3Settings;

/// The parts of a request that are signed.
pub(super) struct Signed<'a> {
    pub method: &'a str,
    /// Encoded, as in the request line.
    pub path: &'a str,
    /// Encoded and sorted.
    pub query: &'a str,
    /// The SHA-256 of the body.
    pub payload: &'a str,
    pub time: Timestamp,
}

/// The value of `x-amz-date`.
pub(super) fn date(time: Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Returns the value of the header `Authorization`.
pub(super) fn authorization(settings: &S3Settings, request: &Signed<'_>) -> String {
    let Signed {
        method,
        path,
        query,
        payload,
        time,
    } = request;
    let date = date(*time);
    let mut headers = format!(
        "host:{}\nx-amz-content-sha256:{payload}\nx-amz-date:{date}\n",
        settings.authority
    );
    let mut names = "host;x-amz-content-sha256;x-amz-date".to_string();
    if let Some(token) = settings
        .token
        .as_ref()
        .and_then(|token| token.to_str().ok())
    {
        headers += &format!("x-amz-security-token:{token}\n");
        names += ";x-amz-security-token";
    }
    let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{payload}");
    let day = &date[..8];
    let region = &settings.region;
    let scope = format!("{day}/{region}/s3/aws4_request");
    let hash = hex(&Sha256::digest(canonical));
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    let secret = format!("AWS4{}", settings.secret);
    let parts = [day, region, "s3", "aws4_request"];
    let key = parts
        .iter()
        .fold(secret.into_bytes(), |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, to_sign.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
        settings.access_key
    )
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example of the documentation of S3: listing objects.
    #[test]
    fn the_example_of_the_documentation_is_signed() {
        let variables = [
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
            (
                "AWS_SECRET_ACCESS_KEY",
                "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            ),
            ("AWS_ENDPOINT_URL", "https://examplebucket.s3.amazonaws.com"),
        ];
        let settings = S3Settings::read(|name| {
            let found = variables.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).into())
        });
        let request = Signed {
            method: "GET",
            path: "/",
            query: "max-keys=2&prefix=J",
            payload: &hex(&Sha256::digest("")),
            time: "2013-05-24T00:00:00Z".parse().unwrap(),
        };
        let signed = authorization(&settings.unwrap(), &request);
        let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(
            signed.ends_with(&format!("Signature={signature}")),
            "{signed}"
        );
    }
}
