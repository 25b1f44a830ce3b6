//! The audit log: changes to API keys, whichever process made them, and to the settings of the
//! shop.
//!
//! Its events have a target of their own, by which the log keeps them in a buffer of
//! their own: a flood of other events does not displace them.

use super::redaction::redact;
use domain::api_key::ApiKey;

pub(super) const TARGET: &str = "petstore::audit";

macro_rules! event {
    ($key:expr, $message:literal) => {{
        event!($key, $message,)
    }};
    ($key:expr, $message:literal, $($field:ident = $value:expr)?) => {{
        let ApiKey { id, name, invitation, .. } = $key;
        let scopes = $key.reach();
        tracing::info!(
            target: TARGET,
            audit = true,
            api_key_id = id,
            name = &*redact(name.as_str()),
            %scopes,
            invitation = invitation.is_some().then_some(true),
            $($field = $value,)?
            $message
        );
    }};
}

pub fn api_key_created(key: &ApiKey) {
    event!(key, "api key created");
}

pub fn api_key_revoked(key: &ApiKey) {
    event!(key, "api key revoked");
}

/// Logs the time at which a key expires, because its successor was created.
pub fn api_key_rotated(key: &ApiKey) {
    let expires_at = key.expires_at.map(|at| at.to_string());
    event!(key, "api key rotated", expires_at = expires_at);
}

/// Logs that another program deleted the row of a key.
pub fn api_key_removed(key: &ApiKey) {
    event!(key, "api key removed");
}

/// Logs the names of the settings that a key changed, without their values.
pub fn settings_changed(api_key_id: i64, members: &[&str]) {
    let members = members.join(" ");
    tracing::info!(target: TARGET, audit = true, api_key_id, members, "settings changed");
}
