//! The endpoint and the credentials of S3, from the environment variables that its tools share.

use std::fmt;

use http::{HeaderValue, Uri, uri::Authority};

/// The endpoint, the region and the credentials.
pub struct S3Settings {
    pub(super) is_https: bool,
    pub(super) authority: Authority,
    pub(super) region: String,
    pub(super) access_key: String,
    pub(super) secret: String,
    pub(super) token: Option<HeaderValue>,
}

/// Shows no credentials.
impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("authority", &self.authority)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl S3Settings {
    /// Reads the settings from environment variables. The error never contains their values.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, &'static str> {
        let value = |name| variable(name).filter(|value| !value.is_empty());
        let (Some(access_key), Some(secret)) =
            (value("AWS_ACCESS_KEY_ID"), value("AWS_SECRET_ACCESS_KEY"))
        else {
            return Err("for S3, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
        };
        if !access_key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("AWS_ACCESS_KEY_ID must be visible ASCII characters");
        }
        let region = value("AWS_REGION").or_else(|| value("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let is_region = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !region.bytes().all(is_region) {
            return Err("AWS_REGION must be a name such as eu-central-1");
        }
        let token = value("AWS_SESSION_TOKEN").map(HeaderValue::try_from);
        let mut token = token
            .transpose()
            .map_err(|_| "AWS_SESSION_TOKEN must be visible ASCII characters")?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let endpoint = value("AWS_ENDPOINT_URL_S3").or_else(|| value("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let (is_https, authority) = parse_endpoint(&endpoint)
            .ok_or("AWS_ENDPOINT_URL must be a URL such as https://s3.example, without a path")?;
        Ok(Self {
            is_https,
            authority,
            region,
            access_key,
            secret,
            token,
        })
    }

    pub(super) fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    pub(super) fn port(&self) -> u16 {
        let default = if self.is_https { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(default)
    }
}

fn parse_endpoint(endpoint: &str) -> Option<(bool, Authority)> {
    let uri: Uri = endpoint.parse().ok()?;
    let is_https = match uri.scheme_str()? {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let authority = uri.authority()?.clone();
    let is_plain = !authority.as_str().contains('@') && matches!(uri.path(), "" | "/");
    (is_plain && uri.query().is_none()).then_some((is_https, authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<S3Settings, &'static str> {
        let keys = [
            ("AWS_ACCESS_KEY_ID", "AK"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
        ];
        let all: Vec<_> = variables.iter().chain(&keys).copied().collect();
        S3Settings::read(|name| {
            let found = all.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn settings_are_read() {
        let aws = read(&[("AWS_REGION", "eu-central-1")]).unwrap();
        assert_eq!(aws.authority, "s3.eu-central-1.amazonaws.com");
        assert_eq!((aws.is_https, aws.port()), (true, 443));
        let own = read(&[
            ("AWS_ENDPOINT_URL", "https://other.example"),
            ("AWS_ENDPOINT_URL_S3", "http://[::1]:9000/"),
        ]);
        let own = own.unwrap();
        assert_eq!((own.host(), own.port(), own.is_https), ("::1", 9000, false));
        assert!(!format!("{own:?}").contains("hush"));
        for (name, value) in [
            ("AWS_SECRET_ACCESS_KEY", ""),
            ("AWS_ACCESS_KEY_ID", "a b"),
            ("AWS_REGION", "eu/x"),
            ("AWS_SESSION_TOKEN", "a\nb"),
            ("AWS_ENDPOINT_URL", "ftp://x"),
            ("AWS_ENDPOINT_URL", "https://user:hush@x"),
            ("AWS_ENDPOINT_URL", "https://x/path"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
