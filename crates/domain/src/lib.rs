//! The domain: animals, orders, events, API keys and webhooks, and their rules.
//!
//! It knows neither HTTP nor SQL and does no I/O, apart from reading the clock and drawing random
//! numbers. Modules are listed top-down: each imports only from those below it.

pub mod webhook;

pub mod event;
pub mod undo;

pub mod import;

pub mod register;
pub mod sales;

pub mod category;
pub mod order;
pub mod pet;
pub mod photo;

pub mod api_key;
pub mod period;

pub mod page;

pub mod date;
pub mod idempotency;
pub mod party;
pub mod price;
pub mod settings;
pub mod text;

pub mod case_fold;
pub mod members;

pub mod json;

pub mod clock;
pub mod invalid;
