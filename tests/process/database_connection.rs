//! Connecting to PostgreSQL securely: certificates, warnings and passwords.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
};

use support::{Cluster, CommandResult};

use crate::harness::{Home, PETSTORE, Service};

const UNVERIFIED: &str = "is not verified";

/// Runs `petstore keys list` on a database.
fn list_keys(home: &Home, url: &str) -> CommandResult {
    home.petstore(&["keys", "list", "--database", url])
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn sslmode_verify_full_verifies_the_certificate() {
    let (cluster, authority) = Cluster::start_with_tls();
    let other_authority = Cluster::start_with_tls().1;
    let database = cluster.create_database();
    let url = |host: &str, options: String| {
        format!(
            "postgres://petstore@{host}:{}/{database}?{options}",
            cluster.port
        )
    };
    let verify = |root: &tempfile::NamedTempFile| {
        format!("sslmode=verify-full&sslrootcert={}", root.path().display())
    };
    let home = Home::with_database(cluster.url(&database));
    home.create_store();
    let create = |url: String| home.petstore(&["keys", "create", "test", "--database", &url]);
    for good in [
        url("127.0.0.1", "sslmode=disable".into()),
        url("127.0.0.1", "sslmode=prefer".into()),
        url("127.0.0.1", "sslmode=require".into()),
        url("localhost", verify(&authority)),
    ] {
        let created = create(good).success();
        assert!(!created.stderr.contains("warning"), "{created:?}");
    }
    for bad in [
        // Another certificate authority, and another host name.
        url("localhost", verify(&other_authority)),
        url("127.0.0.1", verify(&authority)),
        // The system does not trust the authority.
        url("localhost", "sslrootcert=system".into()),
        url("localhost", "sslrootcert=system&sslmode=verify-full".into()),
    ] {
        let failed = create(bad);
        failed.assert_fails(1, "certificate");
        assert!(failed.stderr.contains("TLS failed"), "{failed:?}");
    }
}

#[test]
fn a_url_that_only_looks_verified_is_rejected() {
    for (parameters, reason) in [
        ("sslmode=verify-ca", "sslmode must be"),
        (
            "sslrootcert=system&sslmode=require",
            "requires sslmode=verify-full",
        ),
        (
            "sslmode=prefer&sslrootcert=system",
            "requires sslmode=verify-full",
        ),
        ("sslrootcert=ca.pem", "requires sslmode=verify-full"),
        (
            "sslmode=verify-full&sslmode=disable",
            "sslmode must not be repeated",
        ),
        (
            "sslmode=verify-full&ssl%6Dode=disable",
            "sslmode must not be repeated",
        ),
        ("host=other", "host must not be repeated"),
        ("user=other", "user must not be repeated"),
        ("prepared_statements=maybe", "prepared_statements must be"),
    ] {
        let url = format!("postgres://till@127.0.0.1:9/shop?{parameters}");
        let rejected = list_keys(&Home::new(), &url);
        rejected.assert_fails(2, "--database");
        assert!(rejected.stderr.contains(reason), "{rejected:?}");
    }
}

/// A server in between that offers no TLS does not even learn the user's name.
#[test]
fn sslrootcert_system_never_falls_back_to_plain_text() {
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = between.local_addr().unwrap().port();
    let received = thread::spawn(move || {
        let mut client = between.accept().unwrap().0;
        let mut request = [0; 8];
        client.read_exact(&mut request).unwrap();
        client.write_all(b"N").unwrap();
        let mut rest = Vec::new();
        // The client may reset the connection.
        let _ = client.read_to_end(&mut rest);
        rest
    });
    let url = format!("postgres://till:secret@localhost:{port}/shop?sslrootcert=system");
    list_keys(&Home::new(), &url).assert_fails(1, "TLS");
    assert_eq!(received.join().unwrap(), b"");
}

#[test]
fn an_unverified_server_on_another_machine_causes_a_warning() {
    let home = Home::new();
    for (host, parameters, warns) in [
        ("db.invalid", "", true),
        ("db.invalid", "?sslmode=require", true),
        ("localhost,db.invalid", "", true),
        ("db.invalid", "?sslmode=verify-full", false),
        ("db.invalid", "?sslrootcert=system", false),
        ("localhost:9", "", false),
        ("127.0.0.2:9", "", false),
        ("[::1]:9", "", false),
        ("%2Fnowhere", "", false),
    ] {
        let url = format!("postgres://till@{host}/shop{parameters}");
        let failed = list_keys(&home, &url);
        failed.assert_fails(1, "cannot use");
        let stderr = &failed.stderr;
        assert_eq!(stderr.contains(UNVERIFIED), warns, "{failed:?}");
        assert_eq!(stderr.contains("sslmode=verify-full"), warns, "{failed:?}");
    }
    let mut serve = home.command(PETSTORE);
    serve.args(["serve", "--database", "postgres://till@db.invalid/shop"]);
    let failed = CommandResult::of(serve.args(["--listen", "127.0.0.1:0"]));
    failed.assert_fails(1, UNVERIFIED);
}

/// Requires the password of a new role, `till`, whose password is `a/secret`, by a method of
/// `pg_hba.conf`.
pub fn require_password(cluster: &Cluster, method: &str) {
    let sql = format!(
        "CREATE ROLE till LOGIN SUPERUSER PASSWORD 'a/secret';
         COPY (SELECT unnest(ARRAY['host all till all {method}', 'host all all all trust']))
         TO PROGRAM 'cat > pg_hba.conf';
         SELECT pg_reload_conf()"
    );
    cluster.psql("postgres", &sql);
}

fn write_password(file: &Path, text: &str, mode: u32) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn the_password_can_come_from_a_file() {
    let cluster = Cluster::start();
    require_password(&cluster, "scram-sha-256");
    let database = cluster.create_database();
    let url = format!("postgres://till@127.0.0.1:{}/{database}", cluster.port);
    let home = Home::new();
    let file = home.path("password");
    let arguments = ["--database", &url, "--database-password-file", "password"];
    let create = || {
        let mut command = home.command(PETSTORE);
        CommandResult::of(command.args(["keys", "create", "test"]).args(arguments))
    };
    Home::with_database(cluster.url(&database)).create_store();
    for text in ["a/secret", "a/secret\n", "a/secret\r\n"] {
        write_password(&file, text, 0o600);
        let created = create().success();
        assert!(!created.stderr.contains("warning"), "{created:?}");
    }
    write_password(&file, "a/secret", 0o644);
    let created = create().success();
    assert!(created.stderr.contains("chmod 600"), "{created:?}");
    list_keys(&home, &url).assert_fails(1, "the server wants a password");
    write_password(&file, "wrong", 0o600);
    let failed = create();
    failed.assert_fails(1, "password authentication failed");
    assert!(!failed.stderr.contains("wrong"), "{failed:?}");

    // The variable works too, and other commands take the file as well.
    write_password(&file, "a/secret", 0o600);
    let variable = "PETSTORE_DATABASE_PASSWORD_FILE";
    let mut serve = home.command(PETSTORE);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--database", &url]);
    Service::start(serve.env(variable, &file)).stop();
    for command in [
        &["check"][..],
        &["seed", "1"],
        &["export", "--format", "csv"],
        &["keys", "list"],
    ] {
        let mut petstore = home.command(PETSTORE);
        CommandResult::of(petstore.args(command).args(arguments)).success();
    }
    let source = Home::new();
    source.new_key();
    let target = format!(
        "{}/{}",
        url.rsplit_once('/').unwrap().0,
        cluster.create_database()
    );
    let mut copy = home.command(PETSTORE);
    copy.args(["copy", "--from", &source.url(), "--to", &target]);
    CommandResult::of(copy.args(&arguments[2..])).success();
}

#[test]
fn an_unusable_password_file_is_reported() {
    let home = Home::new();
    let file = home.path("password");
    let run = |url: &str| {
        let arguments = [
            "keys",
            "list",
            "--database",
            url,
            "--database-password-file",
        ];
        home.petstore(&[&arguments[..], &["password"]].concat())
    };
    let url = "postgres://till@127.0.0.1:9/shop";
    let with_password = "postgres://till:x@127.0.0.1:9/shop";
    run(url).assert_fails(1, "cannot read the database password from password");
    write_password(&file, "\n", 0o600);
    run(url).assert_fails(1, "the database password file password is empty");
    write_password(&file, "secret", 0o600);
    run(with_password).assert_fails(1, "remove one of them");
    run("sqlite:shop.db").assert_fails(1, "is for PostgreSQL");
}
