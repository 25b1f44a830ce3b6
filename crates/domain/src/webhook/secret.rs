//! Signatures of deliveries, as in Standard Webhooks 1.0.

use std::ops::RangeInclusive;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use rand::{TryRng, rngs::SysRng};
use sha2::Sha256;

/// The secret that a receiver verifies deliveries with: `whsec_` and base64 of random
/// bytes.
///
/// It implements neither `Debug` nor `Display`, so that it cannot end up in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    pub const PREFIX: &str = "whsec_";

    const BYTES: RangeInclusive<usize> = 24..=64;

    /// Generates a secret from the operating system's random source.
    pub fn generate() -> Self {
        let mut bytes = vec![0; 32];
        SysRng
            .try_fill_bytes(&mut bytes)
            .expect("the system has random bytes");
        Self(bytes)
    }

    /// Parses a stored secret. Returns `None` if it is not well-formed.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(Self::PREFIX)?).ok()?;
        Self::BYTES.contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Returns the secret itself, to be stored, and to be shown to its owner once.
    pub fn reveal(&self) -> String {
        format!("{}{}", Self::PREFIX, STANDARD.encode(&self.0))
    }

    /// Signs a message: `v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`.
    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The secrets of a webhook: the current one, and for a day after a rotation the previous one, so
/// that the receiver can change over without missing a delivery.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecrets {
    pub current: WebhookSecret,
    /// The previous secret, and the time until which it signs.
    pub previous: Option<(WebhookSecret, Timestamp)>,
    /// The idempotent request that the current secret was generated for. Only a retry of that
    /// request may be shown the secret again.
    pub request: Option<String>,
}

impl SigningSecrets {
    const OVERLAP: SignedDuration = SignedDuration::from_hours(24);

    pub fn new(current: WebhookSecret) -> Self {
        Self {
            current,
            previous: None,
            request: None,
        }
    }

    /// Replaces the current secret. A secret that was replaced before no longer signs: rotate
    /// twice to drop a leaked secret immediately.
    pub fn rotate(self, new: WebhookSecret, now: Timestamp) -> Self {
        Self {
            current: new,
            previous: Some((self.current, now + Self::OVERLAP)),
            request: None,
        }
    }

    /// Returns the `webhook-signature` of an attempt made `now`: one signature per active secret,
    /// separated by spaces. `id` must not contain a dot, or another message could have the same
    /// signature.
    pub fn sign(&self, id: &str, now: Timestamp, body: &[u8]) -> String {
        debug_assert!(!id.contains('.'), "{id}");
        let previous = self.previous.as_ref().filter(|(_, until)| now < *until);
        let active = [Some(&self.current), previous.map(|(secret, _)| secret)]
            .into_iter()
            .flatten();
        let signatures: Vec<_> = active
            .map(|secret| secret.sign(id, now.as_second(), body))
            .collect();
        signatures.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secret(text: &str) -> WebhookSecret {
        WebhookSecret::parse(text).unwrap()
    }

    /// The test vector of Standard Webhooks.
    #[test]
    fn the_published_message_has_the_published_signature() {
        let at = Timestamp::constant(1_614_265_330, 999_999_999);
        let secrets = SigningSecrets::new(secret(SECRET));
        assert_eq!(secrets.sign(ID, at, BODY), SIGNATURE);
        for (id, second, body) in [
            ("msg_other", 1_614_265_330, BODY),
            (ID, 1_614_265_331, BODY),
            (ID, 1_614_265_330, b"{}"),
        ] {
            let other = secrets.sign(id, Timestamp::constant(second, 0), body);
            assert_ne!(other, SIGNATURE);
        }
    }

    /// Verifies a signature with the official library for receivers.
    fn verify(secret: &str, id: &str, at: Timestamp, signature: &str) -> bool {
        let timestamp = at.as_second().to_string();
        let headers = [
            ("webhook-id", id),
            ("webhook-timestamp", &timestamp),
            ("webhook-signature", signature),
        ]
        .map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        let receiver = standardwebhooks::Webhook::new(secret).unwrap();
        receiver
            .verify(BODY, &headers.into_iter().collect())
            .is_ok()
    }

    #[test]
    fn the_library_of_standard_webhooks_agrees() {
        let library = standardwebhooks::Webhook::new(SECRET).unwrap();
        let signature = library.sign(ID, 1_614_265_330, BODY).unwrap();
        assert_eq!(signature, SIGNATURE);
        // The library rejects messages that are older than five minutes.
        let now = Timestamp::now();
        let [new, newer] =
            [WebhookSecret::generate(), WebhookSecret::generate()].map(|s| s.reveal());
        let verified_by = |secrets: &SigningSecrets| {
            let signature = secrets.sign(ID, now, BODY);
            assert!(!verify(&new, "msg_other", now, &signature));
            [SECRET, &new, &newer].map(|secret| verify(secret, ID, now, &signature))
        };
        let secrets = SigningSecrets::new(secret(SECRET));
        assert_eq!(verified_by(&secrets), [true, false, false]);
        let secrets = secrets.rotate(secret(&new), now);
        assert_eq!(verified_by(&secrets), [true, true, false]);
        let secrets = secrets.rotate(secret(&newer), now);
        assert_eq!(verified_by(&secrets), [false, true, true]);
    }

    #[test]
    fn both_secrets_sign_for_a_day_after_a_rotation() {
        let second = |second: i64| Timestamp::constant(1_614_265_330 + second, 0);
        let day = 24 * 60 * 60;
        let [new, newer] =
            [WebhookSecret::generate(), WebhookSecret::generate()].map(|s| s.reveal());
        let rotated = SigningSecrets::new(secret(SECRET)).rotate(secret(&new), second(0));
        let alone = |text: &str, at| SigningSecrets::new(secret(text)).sign(ID, at, BODY);
        for (at, previous) in [
            (second(0), true),
            (second(day - 1), true),
            (second(day), false),
        ] {
            let mut expected = alone(&new, at);
            if previous {
                expected = format!("{expected} {}", alone(SECRET, at));
            }
            assert_eq!(rotated.sign(ID, at, BODY), expected);
        }
        assert!(rotated.sign(ID, second(0), BODY).ends_with(SIGNATURE));
        let again = rotated.rotate(secret(&newer), second(1));
        let expected = format!("{} {}", alone(&newer, second(2)), alone(&new, second(2)));
        assert_eq!(again.sign(ID, second(2), BODY), expected);
    }

    #[test]
    fn a_secret_has_24_to_64_bytes_in_padded_base64() {
        let generated = WebhookSecret::generate();
        assert_eq!(generated.0.len(), 32);
        assert_ne!(generated.0, WebhookSecret::generate().0);
        assert_eq!(generated.reveal().len(), "whsec_".len() + 44);
        assert_eq!(secret(&generated.reveal()).0, generated.0);
        let of_length = |length| WebhookSecret(vec![0xfb; length]).reveal();
        for (text, is_valid) in [
            (SECRET.to_string(), true),
            (of_length(23), false),
            (of_length(24), true),
            (of_length(64), true),
            (of_length(65), false),
            (of_length(32).replace("whsec_", ""), false),
            (of_length(32).replace("whsec_", "WHSEC_"), false),
            (of_length(32).replace('=', ""), false),
            (of_length(32).replace('+', "-"), false),
            (format!("{} ", of_length(32)), false),
        ] {
            assert_eq!(WebhookSecret::parse(&text).is_some(), is_valid, "{text}");
        }
    }
}
