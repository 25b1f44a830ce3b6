//! `petstore statements`: every statement can be printed and explained, and none that runs with
//! a request scans a table that grows.

use support::{Cluster, CommandResult};

use crate::harness::Home;

/// The statements by name, with their plans.
fn statements(finished: &CommandResult) -> Vec<(String, String)> {
    let blocks = finished.stdout.split("\n\n").filter(|it| !it.is_empty());
    blocks
        .map(|block| {
            let (name, rest) = block.split_once('\n').unwrap();
            let plan: Vec<_> = rest.lines().filter(|it| it.contains("    -- ")).collect();
            (name.to_string(), plan.join("\n"))
        })
        .collect()
}

/// The tables that grow with the store.
const GROWING: [&str; 10] = [
    "pets",
    "deleted_pets",
    "photos",
    "photo_parts",
    "pet_words",
    "orders",
    "categories",
    "events",
    "idempotency_keys",
    "webhook_deliveries",
];

/// The tables that a plan reads as a whole: those named after `scan`, without an index.
fn scanned_tables<'a>(plan: &'a str, scan: &str) -> Vec<&'a str> {
    let steps = plan.lines().filter(|step| !step.contains(" USING "));
    let scanned = steps.filter_map(|step| step.split_once(scan));
    let tables = scanned.filter_map(|(_, rest)| rest.split(' ').next());
    tables.collect()
}

/// Statements of commands that read the whole store, or a table of bounded size.
fn may_scan(name: &str) -> bool {
    [
        "admin::",
        "COUNTS",
        "api_keys::LIST",
        "COUNT_WEBHOOKS",
        "LEASE",
        "LAST_OPEN",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// The history of a resource or a batch is read by its index.
fn assert_parts_of_the_log_are_indexed(all: &[(String, String)]) {
    for (name, index) in [
        ("events::READ_SUBJECT", "events_subject_idx"),
        ("events::READ_SUBJECT_DESC", "events_subject_idx"),
        ("events::READ_BATCH", "events_batch_id_idx"),
        ("events::READ_BATCH_DESC", "events_batch_id_idx"),
    ] {
        let mut found = all.iter().filter(|(full, _)| full.ends_with(name));
        let (_, plan) = found.next().unwrap();
        assert!(plan.contains(index), "{name}:\n{plan}");
        assert!(
            !plan.contains("Sort") && !plan.contains("TEMP B-TREE"),
            "{name}:\n{plan}"
        );
    }
}

#[test]
fn every_statement_is_explained_on_sqlite() {
    let home = Home::new();
    home.new_key();
    let explained = home.petstore(&["statements", "--database", &home.url()]);
    let all = statements(&explained.success());
    for expected in ["pets insert", "orders get", "list pets?status=sold"] {
        assert!(all.iter().any(|(name, _)| name == expected), "{expected}");
    }
    assert_parts_of_the_log_are_indexed(&all);
    for (name, plan) in &all {
        let scans = scanned_tables(plan, "-- SCAN ").iter().any(|table| {
            // A list walks its table in order.
            GROWING.contains(table) && !name.starts_with("list ") && !name.contains("events::")
        });
        assert!(!scans || may_scan(name), "{name}:\n{plan}");
    }
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn every_statement_is_explained_on_postgres() {
    let cluster = Cluster::start_without_sync();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    home.new_key();
    let explained = home.petstore(&["statements", "--database", &home.url()]);
    let all = statements(&explained.success());
    assert!(all.iter().any(|(name, _)| name == "pets lock"));
    assert_parts_of_the_log_are_indexed(&all);
    for (name, plan) in &all {
        assert!(!plan.is_empty(), "{name}");
        let scans = scanned_tables(plan, "Seq Scan on ");
        let scans = scans.iter().any(|table| GROWING.contains(table));
        assert!(!scans || may_scan(name), "{name}:\n{plan}");
    }
}
