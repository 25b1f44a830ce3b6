//! The API as a client sees it: real requests to the real service, with every response
//! checked against the contract.
//!
//! Every case runs on SQLite and on PostgreSQL; those about connections, requests and
//! authentication run over TLS, too. The closing test runs after all of them and fails if
//! the contract documents a response that no case has received. A filtered run, or a runner
//! with a process per case (nextest), cannot tell: it leaves the closing test out and says
//! so.

#![allow(clippy::unwrap_used)]

mod auth;
mod categories;
mod client;
mod connections;
mod contract;
mod cors;
mod create_pet;
mod database;
mod delete_pet;
mod errors;
mod events;
mod failures;
mod find_pets;
mod get_pet;
mod harness;
mod http1;
mod http2;
mod http2_floods;
mod http2_unread;
mod idempotency;
#[path = "../support/identity.rs"]
mod identity;
mod keys;
mod list_pets;
mod metrics;
mod orders;
#[path = "../support/postgres.rs"]
mod postgres;
mod preconditions;
mod public_endpoints;
mod rate_limit;
#[path = "../support/receiver.rs"]
mod receiver;
mod strict_handling;
mod strictness;
mod tls;
mod update_pet;
mod webhook_delivery;
mod webhooks;

use std::{pin::Pin, process::ExitCode};

use harness::Backend;
use libtest_mimic::{Arguments, Conclusion, Trial};
use webhooks::{failed_deliveries, testing as webhook_tests};

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
    auth::every_operation_requires_an_api_key,
    auth::only_a_single_bearer_token_is_accepted,
    auth::auth_precedes_routing_and_validation,
    auth::scopes_restrict_operations,
    auth::revoked_and_expired_keys_get_401,
    auth::a_new_key_works_at_once_and_its_last_use_is_recorded,
    auth::deprecated_calls_are_recorded_per_key,
    connections::health_is_served_when_all_connections_are_busy,
    connections::silent_connections_do_not_keep_health_checks_out,
    connections::bursts_of_connections_get_200_or_503,
    connections::evicted_connections_without_a_response_get_503,
    connections::the_address_that_holds_most_loses_its_longest_idle_connection,
    connections::an_address_can_be_limited,
    connections::evicted_http2_connections_get_goaway,
    connections::draining_connections_close_after_their_next_response,
    connections::draining_http2_connections_get_goaway,
    cors::only_allowed_origins_get_cors_headers,
    errors::error_bodies_match_the_snapshot,
    events::every_change_is_an_event,
    events::an_expired_order_is_an_event_without_a_key,
    events::filters_and_scopes_select_events,
    events::a_long_poll_waits_for_an_event,
    events::a_long_poll_ends_with_its_client,
    events::a_stalled_http2_stream_is_closed,
    events::events_are_listed_newest_first,
    events::a_position_that_is_gone_gets_410,
    events::invalid_event_queries_get_400,
    events::a_stream_sends_events_as_they_happen,
    events::a_quiet_stream_has_heartbeats,
    events::a_stream_ends_by_age,
    events::a_stalled_stream_delays_nobody,
    events::a_resumed_stream_misses_and_repeats_nothing,
    events::streams_end_with_their_api_key_and_at_shutdown,
    events::streams_are_limited_by_key_address_and_in_all,
    events::a_filtered_page_does_bounded_work,
    events::a_long_log_without_a_match_is_read_to_its_end,
    events::scans_are_charged_to_the_rate_limit,
    failures::a_panic_returns_500,
    failures::broken_storage_returns_503,
    failures::keys_are_not_rejected_while_the_key_table_is_unreadable,
    failures::requests_over_the_in_flight_limit_are_shed,
    failures::a_full_write_queue_returns_503_and_stores_nothing,
    http1::keep_alive_pipelining_and_chunked_bodies_work,
    http1::malformed_requests_get_an_error_body,
    http1::oversized_heads_get_431,
    http1::idle_connections_time_out,
    http1::slowloris_heads_time_out,
    http1::partial_heads_behind_a_request_time_out,
    http1::slow_bodies_time_out,
    http1::clients_that_do_not_read_time_out,
    http1::clients_that_read_too_slowly_time_out,
    http1::a_rejected_upload_still_gets_its_response,
    http1::half_closed_connections_get_their_response,
    http1::rejections_after_an_upgrade_are_received,
    http1::shutdown_finishes_responses_in_flight,
    http2::responses_match_http1,
    http2::requests_are_multiplexed,
    http2::a_fragmented_preface_is_accepted,
    http2::idle_connections_are_closed,
    http2::clients_that_do_not_read_are_closed,
    http2::oversized_heads_get_431,
    http2::shutdown_does_not_wait_for_unresponsive_clients,
    http2::shutdown_drains_requests_in_flight,
    http2_floods::rapid_reset_continuation_and_data_floods_close_the_connection,
    http2_floods::ping_and_settings_floods_close_the_connection,
    http2_floods::cancelling_every_concurrent_request_is_allowed,
    http2_floods::a_create_cancelled_in_flight_is_still_stored,
    http2_unread::unread_responses_have_a_budget,
    http2_unread::closing_connections_are_within_the_budget,
    http2_unread::unread_http1_responses_have_a_budget,
    http2_unread::requests_without_a_key_wait_for_earlier_ones,
    http2_unread::pings_do_not_keep_unread_responses,
    http2_unread::floods_of_control_frames_close_the_connection,
    http2_unread::control_frames_of_a_busy_client_are_accepted,
    metrics::requests_are_counted_by_operation_and_status,
    metrics::auth_failures_are_counted_by_reason,
    metrics::deprecated_requests_are_counted_per_key,
    metrics::store_and_cache_metrics_are_exported,
    metrics::active_requests_and_open_connections_are_exported,
    metrics::the_metrics_listener_serves_metrics_and_health_checks,
    metrics::the_metrics_listener_rejects_malformed_requests,
    metrics::client_disconnects_are_counted_as_499,
    metrics::the_dashboard_shows_exactly_the_exported_metrics,
    public_endpoints::the_contract_names_its_server_urls,
    public_endpoints::large_responses_are_compressed_on_request,
    public_endpoints::the_root_redirects_to_a_page,
    public_endpoints::pages_are_served_with_their_files,
    public_endpoints::security_headers_are_sent,
    public_endpoints::valid_request_ids_are_echoed,
    public_endpoints::unknown_paths_get_404_and_unsupported_methods_405,
    public_endpoints::health_checks_need_no_api_key,
    rate_limit::no_rate_limit_headers_without_a_limit,
    rate_limit::every_authenticated_response_reports_the_remaining_quota,
    rate_limit::requests_over_the_limit_get_429_and_have_no_effect,
    rate_limit::concurrent_requests_cannot_exceed_the_limit,
    rate_limit::the_quota_is_replenished,
    rate_limit::refreshing_the_keys_keeps_their_usage,
    rate_limit::failed_authentication_is_limited_per_address,
    rate_limit::failed_authentication_is_limited_by_default,
    rate_limit::failed_authentication_is_limited_while_keys_cannot_be_read,
    rate_limit::a_limited_address_triggers_no_key_lookup,
    strictness::missing_repeated_and_invalid_hosts_get_400,
    strictness::ambiguous_body_lengths_get_400,
    strictness::ambiguous_targets_get_400,
    strictness::http_versions_follow_rfc_9112,
    strictness::http2_authorities_are_checked,
];

/// Cases for which it does not matter how clients connect: they do not run over TLS.
const PLAIN_CASES: &[(&str, Case)] = cases![
    categories::categories_are_named_renamed_and_deleted,
    categories::categories_are_listed_by_id,
    categories::invalid_categories_are_rejected,
    categories::names_are_unique_ignoring_case,
    categories::preconditions_of_categories_are_evaluated,
    categories::concurrent_changes_of_categories_are_serialized,
    categories::races_of_put_and_delete_have_an_order,
    create_pet::create_returns_201_with_the_pet_and_its_location,
    create_pet::names_and_category_ids_round_trip_exactly,
    create_pet::an_omitted_status_stays_absent,
    create_pet::unknown_members_are_ignored,
    create_pet::integers_are_accepted_in_any_json_notation,
    create_pet::invalid_bodies_get_400_and_store_nothing,
    create_pet::content_types_other_than_json_get_415,
    create_pet::content_encodings_get_415,
    create_pet::oversized_bodies_get_413,
    create_pet::concurrent_creates_get_unique_ascending_ids,
    delete_pet::a_deleted_pet_is_gone_everywhere,
    delete_pet::preconditions_prevent_a_deletion,
    delete_pet::a_reserved_pet_is_kept_and_a_sold_one_leaves_its_order,
    delete_pet::deletions_and_orders_are_serialized,
    find_pets::every_combination_of_filters_finds_exactly_its_pets,
    find_pets::names_are_found_ignoring_case,
    find_pets::short_pages_lead_to_all_items,
    find_pets::changes_during_a_walk_hide_no_pet,
    find_pets::a_cursor_belongs_to_its_query,
    find_pets::ids_and_categories_are_found,
    find_pets::invalid_filters_get_400,
    get_pet::get_returns_the_pet,
    get_pet::invalid_and_unknown_ids_get_404,
    get_pet::deprecation_and_sunset_headers_are_sent,
    get_pet::get_returns_410_from_the_sunset_date,
    idempotency::a_retry_replays_the_original_response,
    idempotency::an_idempotency_key_is_bound_to_one_request_and_api_key,
    idempotency::invalid_idempotency_keys_get_400,
    idempotency::concurrent_retries_execute_once,
    idempotency::idempotency_keys_expire_after_24_hours,
    keys::a_key_can_be_fetched_with_itself,
    keys::the_names_of_keys_are_listed,
    list_pets::the_page_size_defaults_to_20,
    list_pets::the_list_can_be_filtered_by_status,
    list_pets::keyset_pagination_visits_every_pet_once,
    list_pets::links_use_the_public_url,
    list_pets::invalid_query_parameters_get_400,
    list_pets::if_none_match_returns_304_for_an_unchanged_page,
    list_pets::reads_see_every_acknowledged_write,
    orders::orders_are_listed,
    orders::orders_are_filtered_and_paginated,
    orders::an_order_is_placed_then_completed_or_cancelled,
    orders::if_none_match_returns_304_for_orders_and_inventory,
    orders::unavailable_pets_cannot_be_ordered,
    orders::closed_orders_cannot_be_changed,
    orders::concurrent_orders_reserve_a_pet_once,
    orders::a_reserved_pet_keeps_its_status,
    orders::orders_and_status_updates_are_serialized,
    orders::a_completed_order_is_returned_once,
    orders::a_replay_shows_the_order_before_its_return,
    orders::a_pet_is_sold_again_after_each_return,
    orders::a_sold_pet_keeps_its_status,
    orders::concurrent_sales_and_returns_are_serialized,
    orders::expired_orders_are_cancelled,
    orders::the_inventory_matches_a_recount,
    preconditions::reads_evaluate_if_match_before_if_none_match,
    preconditions::updates_evaluate_if_none_match,
    preconditions::posts_with_preconditions_get_412,
    strict_handling::unknown_parameters_are_rejected,
    strict_handling::unknown_members_are_rejected,
    strict_handling::every_response_says_that_handling_was_strict,
    strict_handling::only_strict_handling_is_applied,
    update_pet::merge_patch_changes_only_the_given_members,
    update_pet::invalid_patches_and_unknown_ids_are_rejected,
    update_pet::only_json_and_merge_patch_are_accepted,
    update_pet::if_match_prevents_lost_updates,
    webhooks::webhooks_are_created_changed_and_deleted,
    webhooks::webhooks_are_listed_by_page,
    webhooks::invalid_webhooks_get_400,
    webhooks::only_allowed_urls_are_accepted,
    webhooks::secrets_are_shown_once,
    webhooks::a_key_must_be_able_to_read_what_a_webhook_delivers,
    webhooks::retries_create_and_rotate_once,
    webhooks::a_replay_shows_no_later_changes,
    webhooks::there_are_at_most_1000_webhooks,
    webhooks::preconditions_of_webhooks_do_not_hold,
    failed_deliveries::failed_deliveries_are_listed,
    failed_deliveries::a_failed_delivery_is_retried_on_request,
    failed_deliveries::a_webhook_is_moved_to_another_position,
    webhook_tests::a_test_is_signed_and_delivered,
    webhook_tests::a_test_that_fails_says_why,
    webhook_tests::tests_over_the_limit_get_503,
    webhook_delivery::events_are_delivered_in_order_and_signed,
    webhook_delivery::only_the_types_of_a_webhook_are_delivered,
    webhook_delivery::a_failed_delivery_is_retried,
    webhook_delivery::an_endpoint_that_fails_backs_off_without_failed_deliveries,
    webhook_delivery::a_410_disables_a_webhook_and_enabling_it_continues,
    webhook_delivery::retry_after_pauses_an_endpoint,
    webhook_delivery::deleting_or_disabling_a_webhook_ends_its_requests,
    webhook_delivery::a_replay_delivers_again,
    webhook_delivery::a_webhook_that_fell_out_of_the_log_is_disabled,
    webhook_delivery::a_webhook_continues_after_a_quiet_time,
    webhook_delivery::a_type_that_is_no_longer_asked_for_is_not_retried,
    webhook_delivery::a_rotation_interrupts_no_request,
    webhook_delivery::a_webhook_at_the_service_itself_makes_no_loop,
    webhook_delivery::a_shutdown_saves_what_was_delivered,
    webhook_delivery::a_stalled_receiver_delays_no_other,
    webhook_delivery::a_webhook_skips_a_long_log_in_turns,
];

/// Cases that need TLS.
const TLS_CASES: &[(&str, Case)] = cases![
    tls::alpn_selects_the_protocol,
    tls::tls_1_2_and_tls_1_3_are_supported,
    tls::connections_end_with_close_notify,
    tls::plain_http_clients_are_told_to_use_https,
    tls::stalled_handshakes_time_out,
    tls::a_first_request_during_shutdown_is_served,
    tls::renewed_certificates_are_reloaded,
    tls::a_failed_reload_keeps_the_current_certificate,
];

/// Runs after all cases, in the same process, and only if none was filtered out.
const CLOSING: &str = "everything_in_the_contract_was_seen";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if !arguments.list && (arguments.include_ignored || arguments.ignored) {
        let _ = database::CLUSTER.set(postgres::Cluster::start_without_sync());
    }
    let conclusion = run(&arguments);
    if let Some(cluster) = database::CLUSTER.get() {
        cluster.delete();
    }
    conclusion.exit_code()
}

fn run(arguments: &Arguments) -> Conclusion {
    let list = arguments.list;
    let trials = Backend::ALL.into_iter().flat_map(|backend| {
        let more = match backend {
            Backend::Tls => TLS_CASES,
            Backend::Sqlite | Backend::Postgres => PLAIN_CASES,
        };
        CASES.iter().chain(more).map(move |(name, case)| {
            let name = format!("{}::{name}", backend.name());
            let trial = Trial::test(name, move || {
                runtime().block_on(case(backend));
                Ok(())
            });
            match backend {
                Backend::Sqlite | Backend::Tls => trial,
                // Test runners take the name from the list, with the kind.
                Backend::Postgres if list => trial.with_ignored_flag(true),
                Backend::Postgres => trial
                    .with_kind("needs PostgreSQL: --include-ignored, or make test")
                    .with_ignored_flag(true),
            }
        })
    });
    let conclusion = libtest_mimic::run(arguments, trials.collect());
    if list || conclusion.has_failed() {
        return conclusion;
    }
    // Coverage is counted in this process, so a run of some cases cannot tell.
    if conclusion.num_filtered_out > 0 {
        eprintln!("note: {CLOSING} was skipped: this run is filtered");
        return conclusion;
    }
    let closing = Trial::test(CLOSING, || {
        contract::assert_all_seen();
        Ok(())
    });
    libtest_mimic::run(arguments, vec![closing])
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
