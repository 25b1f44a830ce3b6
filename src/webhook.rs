//! Webhooks: who is sent which events, and the rules for changing one.

pub mod address;
pub mod secret;
pub mod url;
