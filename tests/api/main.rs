//! The API as a client sees it: real requests to the real service, with every response
//! checked against the contract.
//!
//! Every case runs on SQLite and on PostgreSQL; those about connections, requests and
//! authentication run over TLS, too. The final test runs after all of them and fails if
//! the contract documents a response that no case has received. A filtered run, or a runner
//! with a process per case (nextest), cannot tell: it leaves the final test out and says
//! so.

#![allow(clippy::unwrap_used)]

mod auth;
mod categories;
mod client;
mod connections;
mod contract;
mod cors;
mod create_pet;
mod delete_pet;
mod errors;
mod event_parts;
mod events;
mod failures;
mod find_pets;
mod get_pet;
mod granting_access;
mod harness;
mod http1;
mod http1_unread_bodies;
mod http2;
mod http2_floods;
mod http2_unread;
mod idempotency;
mod imports;
mod keys;
mod list_pets;
mod metrics;
mod orders;
mod pet_batches;
mod pet_details;
mod photo_transfers;
mod photos;
mod preconditions;
mod public_endpoints;
mod rate_limit;
mod reports;
mod rfc9110;
mod rfc9112;
mod sales;
mod search;
mod settings;
mod strict_handling;
mod tls;
mod undo;
mod update_pet;
mod webhook_delivery;
mod webhooks;

use std::process::ExitCode;

use support::suite::{self, Case, FinalTest};

/// The files that have cases.
const FILES: &[&[Case]] = &[
    auth::CASES,
    categories::CASES,
    connections::CASES,
    cors::CASES,
    create_pet::CASES,
    delete_pet::CASES,
    errors::CASES,
    event_parts::CASES,
    events::CASES,
    failures::CASES,
    find_pets::CASES,
    get_pet::CASES,
    granting_access::CASES,
    http1::CASES,
    http1_unread_bodies::CASES,
    http2::CASES,
    http2_floods::CASES,
    http2_unread::CASES,
    idempotency::CASES,
    imports::CASES,
    keys::CASES,
    list_pets::CASES,
    metrics::CASES,
    orders::CASES,
    pet_batches::CASES,
    pet_details::CASES,
    photo_transfers::CASES,
    photos::CASES,
    preconditions::CASES,
    public_endpoints::CASES,
    rate_limit::CASES,
    reports::CASES,
    rfc9110::CASES,
    rfc9112::CASES,
    sales::CASES,
    search::CASES,
    settings::CASES,
    strict_handling::CASES,
    tls::CASES,
    undo::CASES,
    update_pet::CASES,
    webhook_delivery::CASES,
    webhooks::CASES,
    webhooks::failed_deliveries::CASES,
    webhooks::testing::CASES,
];

const FINAL_TEST: FinalTest = FinalTest {
    name: "everything_in_the_contract_was_seen",
    run: contract::assert_all_seen,
};

fn main() -> ExitCode {
    suite::main(FILES, Some(FINAL_TEST))
}
