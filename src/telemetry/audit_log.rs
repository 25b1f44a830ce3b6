//! The audit log: changes to API keys, whichever process made them.
//!
//! Its events have a target of their own, by which the log keeps them in a buffer of
//! their own: a flood of other events does not displace them.

use crate::api_key::ApiKey;

pub(super) const TARGET: &str = "petstore::audit";

macro_rules! event {
    ($key:expr, $message:literal) => {{
        let ApiKey { id, name, scopes, .. } = $key;
        tracing::info!(
            target: TARGET,
            audit = true,
            api_key_id = id,
            name = name.as_str(),
            %scopes,
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

/// The row was deleted, by another program.
pub fn api_key_removed(key: &ApiKey) {
    event!(key, "api key removed");
}
