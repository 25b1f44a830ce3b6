//! End-to-end tests of the binary as operators run it: command line, signals,
//! crashes (SIGKILL), failing disks, replicas and failover.
//!
//! Tests that need an external tool are `#[ignore]`d by default. `make test`
//! installs the tools and runs these tests too; a missing tool fails them.

#![allow(clippy::unwrap_used)]

mod api_keys;
mod backup;
mod cli;
mod client;
mod client_disconnects;
mod copy;
mod crash;
mod database_connection;
mod database_engines;
mod deleted_wal;
mod demo;
mod disk_failures;
mod doctor;
mod durability;
mod event_log;
mod events_cli;
mod faketime;
mod first_start;
mod granting_access;
mod harness;
mod health;
mod hostile_services;
mod import_export;
mod import_options;
mod import_tables;
mod import_updates;
mod imports_while_served;
#[cfg(target_arch = "x86_64")]
mod instructions;
mod linearizability;
mod list_cost;
mod litestream;
mod locked_rows;
mod log;
mod offsite_backups;
mod open_database;
mod order_expiry;
mod overload;
mod packaged_settings;
mod packaging;
mod pet_details;
mod pgbouncer;
mod photos;
mod photos_cli;
mod postgres_dumps;
mod postgres_events;
mod register;
mod repeated_imports;
mod replicas;
mod restore;
mod root;
mod sales;
mod scheduled_backups;
mod shutdown;
mod statements;
mod stopped_replica;
mod strace;
mod terminal;
mod test_command;
mod tls;
mod torture;
mod upgrades;
mod webhook_delivery;
mod webhooks_cli;
