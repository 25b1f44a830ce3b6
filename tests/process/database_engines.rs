//! Servers that speak the protocol of PostgreSQL, and cannot have a store. Each test makes the
//! catalogue of a real server look like theirs.

use support::Cluster;

use crate::harness::Home;

/// The number of tables, functions and other relations that are not the server's own.
fn objects(cluster: &Cluster, database: &str) -> String {
    let count = "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)
                        + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)";
    cluster.psql(database, count)
}

/// Every command that opens the database fails with this reason, and changes nothing.
#[track_caller]
fn assert_rejected(cluster: &Cluster, database: &str, reason: &str) {
    let before = objects(cluster, database);
    let url = cluster.url(database);
    let source = Home::new();
    source.new_key();
    let file = source.url();
    let home = Home::with_database(url.clone());
    for command in [
        &["serve", "--listen", "127.0.0.1:0", "--database", &url][..],
        &["check", "--database", &url],
        &["copy", "--from", &file, "--to", &url],
        &["seed", "1", "--database", &url],
        &["export", "--database", &url],
        &["keys", "list", "--database", &url],
    ] {
        home.petstore(command).assert_fails(1, reason);
    }
    let doctor = home.petstore(&["doctor", "--database", &url]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains(reason), "{doctor:?}");
    assert_eq!(objects(cluster, database), before);
}

/// A function takes the place of `version()`.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn distributed_engines_are_rejected() {
    let cluster = Cluster::start_without_sync();
    for (version, reason) in [
        (
            "CockroachDB CCL v26.2.1 (x86_64-pc-linux-gnu, built 2026/06/01 10:00:00, go1.25.5)",
            "it is CockroachDB, which spreads a database over several nodes",
        ),
        (
            "PostgreSQL 15.12-YB-2025.2.3.2-b0 on x86_64-pc-linux-gnu, compiled by clang, 64-bit",
            "it is YugabyteDB, which spreads a database over several nodes",
        ),
        (
            "PostgreSQL 13.23 on x86_64-pc-linux-gnu, compiled by gcc, 64-bit",
            "upgrade the server to PostgreSQL 14 or later",
        ),
    ] {
        let database = cluster.create_database();
        let replace = format!(
            "CREATE FUNCTION version() RETURNS text LANGUAGE sql AS $$ SELECT '{version}' $$;
             ALTER DATABASE {database} SET search_path = public, pg_catalog"
        );
        cluster.psql(&database, &replace);
        assert_rejected(&cluster, &database, reason);
    }
}

/// A table takes the place of the list of distributed tables.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn tables_that_citus_distributes_are_rejected() {
    let cluster = Cluster::start_without_sync();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    home.create_store();
    cluster.psql(
        &database,
        "SET allow_system_table_mods = on;
         CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
         CREATE TABLE notes (text text);
         INSERT INTO pg_catalog.pg_dist_partition VALUES ('notes')",
    );
    home.serve().stop();
    let distribute = "INSERT INTO pg_catalog.pg_dist_partition VALUES ('pets')";
    cluster.psql(&database, distribute);
    assert_rejected(&cluster, &database, "Citus distributes the table pets");
}
