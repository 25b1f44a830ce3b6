//! The interface as a client sees it: real requests to the real service, each
//! answer held against the contract.
//!
//! Every case runs on every database, and over TLS. The closing test, which runs after all
//! of them, fails if the contract promises something that no case has seen.

#![allow(clippy::unwrap_used)]

mod auth;
mod client;
mod contract;
mod cors;
mod create_pet;
mod database;
mod errors;
mod failures;
mod get_pet;
mod harness;
mod http1;
mod http2;
mod http2_floods;
mod idempotency;
#[path = "../support/identity.rs"]
mod identity;
mod list_pets;
mod metrics;
mod orders;
#[path = "../support/postgres.rs"]
mod postgres;
mod public_endpoints;
mod rate_limit;
mod tls;
mod update_pet;

use std::pin::Pin;

use harness::Backend;
use libtest_mimic::{Arguments, Trial};

type Case = fn(Backend) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! cases {
    ($($module:ident::$case:ident),* $(,)?) => {
        &[$((
            concat!(stringify!($module), "::", stringify!($case)),
            |backend| Box::pin($module::$case(backend)),
        )),*]
    };
}

const CASES: &[(&str, Case)] = cases![
    auth::a_sweep_without_a_key_gets_401_everywhere,
    auth::only_one_well_formed_header_is_a_key,
    auth::refusals_come_before_everything_else,
    auth::a_key_does_what_its_scopes_say,
    auth::revoked_and_expired_keys_are_refused,
    auth::a_new_key_works_at_once_and_its_use_is_noted,
    auth::calls_of_deprecated_operations_are_counted_by_key,
    create_pet::an_animal_comes_back_with_an_id_and_a_place,
    create_pet::what_is_sent_is_kept_to_the_letter,
    create_pet::an_omitted_status_stays_absent,
    create_pet::unknown_members_are_ignored,
    create_pet::whole_numbers_count_however_they_are_written,
    create_pet::bad_bodies_are_refused_and_nothing_is_stored,
    create_pet::content_types_other_than_json_are_refused,
    create_pet::bodies_over_the_limit_are_refused,
    create_pet::many_clients_get_distinct_ascending_ids,
    errors::bodies_are_as_recorded,
    failures::a_panic_is_a_500,
    failures::broken_storage_is_a_503,
    failures::a_key_is_not_refused_without_a_look,
    failures::too_many_requests_at_once_are_shed,
    failures::a_full_queue_is_a_503_and_nothing_is_stored,
    http2_floods::they_end_the_connection,
    http2_floods::who_asks_for_nothing_is_sent_away,
    http2_floods::requests_may_be_taken_back,
    http2_floods::a_create_that_is_taken_back_is_stored,
    get_pet::an_animal_is_found_by_its_id,
    get_pet::what_is_no_id_is_not_found,
    get_pet::it_announces_its_removal,
    get_pet::it_is_gone_from_the_day_of_its_removal,
    http2::answers_are_those_of_http1,
    http2::requests_run_side_by_side,
    http2::a_preface_may_come_in_pieces,
    http2::a_silent_connection_is_closed,
    http2::heads_over_the_limit_are_refused,
    http2::stopping_does_not_wait_for_silent_clients,
    http2::stopping_finishes_what_runs,
    list_pets::twenty_come_unless_a_limit_says_otherwise,
    list_pets::a_status_filters,
    list_pets::links_lead_through_everything_once,
    list_pets::links_start_with_the_public_address,
    list_pets::bad_parameters_are_refused,
    list_pets::an_unchanged_page_is_not_sent_twice,
    list_pets::a_page_is_never_older_than_an_acknowledged_write,
    metrics::requests_are_counted_by_operation_and_status,
    metrics::calls_of_deprecated_operations_are_told_by_key,
    metrics::the_store_tells_what_it_does,
    metrics::what_waits_and_runs_is_told,
    metrics::the_listener_has_metrics_alone,
    metrics::the_listener_is_no_less_strict,
    metrics::clients_that_leave_are_counted,
    metrics::the_dashboard_fits,
    idempotency::a_request_sent_again_is_answered_as_before,
    idempotency::a_name_belongs_to_one_request_of_one_key,
    idempotency::bad_names_are_refused,
    idempotency::requests_of_a_name_that_run_at_once_are_carried_out_once,
    idempotency::names_are_forgotten_after_a_day,
    orders::stored_orders_are_listed,
    orders::they_are_filtered_and_paged,
    orders::an_order_goes_its_way,
    orders::unchanged_answers_are_not_sent_twice,
    orders::what_cannot_be_ordered_is_refused,
    orders::a_closed_order_stays_as_it_is,
    orders::one_buyer_gets_an_animal,
    orders::a_held_animal_keeps_its_status,
    orders::orders_and_updates_do_not_cross,
    orders::holds_lapse,
    orders::the_inventory_is_that_of_a_recount,
    public_endpoints::the_contract_is_served_with_its_addresses,
    public_endpoints::visitors_are_led_to_the_docs,
    public_endpoints::request_ids_are_taken_over_if_sane,
    public_endpoints::unknown_paths_and_methods_have_an_answer,
    public_endpoints::its_health_is_told_without_a_key,
    cors::pages_of_named_origins_may_use_it,
    rate_limit::a_limit_that_is_not_set_is_not_told,
    rate_limit::every_answer_to_a_key_tells_what_is_left,
    rate_limit::beyond_the_limit_nothing_is_done,
    rate_limit::of_many_at_once_exactly_so_many_pass,
    rate_limit::what_was_used_comes_back,
    rate_limit::keys_that_are_read_again_have_used_what_they_have,
    rate_limit::failures_are_limited_by_address,
    rate_limit::failures_are_limited_by_default,
    rate_limit::failures_are_limited_while_keys_cannot_be_read,
    rate_limit::an_address_beyond_its_limit_costs_the_database_nothing,
    update_pet::what_is_named_changes_and_the_rest_stays,
    update_pet::bad_changes_are_refused,
    update_pet::both_types_are_taken_and_no_others,
    update_pet::a_tag_guards_against_lost_changes,
    http1::requests_share_a_connection,
    http1::what_is_not_http_is_refused,
    http1::heads_over_the_limit_are_refused,
    http1::silent_clients_are_cut_off,
    http1::slow_heads_are_cut_off,
    http1::slow_bodies_are_cut_off,
    http1::clients_that_do_not_read_are_cut_off,
    http1::connections_over_the_limit_are_turned_away,
    http1::a_refused_upload_still_gets_its_answer,
    http1::half_closed_connections_are_answered,
    http1::stopping_finishes_what_is_being_sent,
];

/// What is there with TLS only.
const CASES_OF_TLS: &[(&str, Case)] = cases![
    tls::the_protocol_is_agreed_on,
    tls::both_versions_of_tls_are_spoken,
    tls::connections_end_in_good_order,
    tls::clients_without_tls_are_told,
    tls::handshakes_that_get_stuck_are_cut_off,
    tls::a_renewed_certificate_is_taken_up,
    tls::a_broken_renewal_changes_nothing,
];

fn main() {
    let arguments = Arguments::from_args();
    if arguments.include_ignored || arguments.ignored {
        let _ = database::CLUSTER.set(postgres::Cluster::start());
    }
    let trials = Backend::ALL.into_iter().flat_map(|backend| {
        let more = match backend {
            Backend::Tls => CASES_OF_TLS,
            Backend::Sqlite | Backend::Postgres => &[],
        };
        CASES.iter().chain(more).map(move |(name, case)| {
            let name = format!("{}::{name}", backend.name());
            let trial = Trial::test(name, move || {
                runtime().block_on(case(backend));
                Ok(())
            });
            match backend {
                Backend::Sqlite | Backend::Tls => trial,
                Backend::Postgres => trial
                    .with_kind("needs PostgreSQL: --include-ignored, or make test")
                    .with_ignored_flag(true),
            }
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let all_ran = conclusion.num_filtered_out == 0 && conclusion.num_passed > 0;
    if conclusion.has_failed() || !all_ran {
        conclusion.exit();
    }
    let closing = Trial::test("everything_in_the_contract_was_seen", || {
        contract::assert_all_seen();
        Ok(())
    });
    libtest_mimic::run(&arguments, vec![closing]).exit();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
