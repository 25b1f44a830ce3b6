//! `petstore doctor`: one finding for each thing that can be wrong.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    thread::{self, JoinHandle},
};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rusqlite::Connection;
use serde_json::Value;
use support::{Cluster, CommandResult, Identity, free_address};

use crate::{
    faketime,
    harness::{Home, PETSTORE, Service},
};

fn doctor(home: &Home, address: SocketAddr, options: &[&str]) -> CommandResult {
    let mut command = home.command(PETSTORE);
    command.args(["doctor", "--database", &home.url()]);
    command.args(["--listen", &address.to_string()]);
    // Not those of this machine.
    command
        .args(["--packaged-settings", "petstore.env"])
        .args(options);
    CommandResult::of(&mut command)
}

/// Starts a service with everything that doctor looks for.
fn serve(home: &Home) -> Service {
    let mut command = home.serve_command();
    Service::start(command.args(["--backup-dir", "backups"]))
}

/// The lines of the report with a level.
fn lines<'a>(report: &'a CommandResult, level: &str) -> Vec<&'a str> {
    let lines = report.stdout.lines();
    lines.filter(|line| line.starts_with(level)).collect()
}

/// Expects exactly one warning or problem, and all else to be fine.
#[track_caller]
fn assert_found(report: &CommandResult, level: &str, check: &str, parts: &[&str]) {
    let found = [lines(report, "warning"), lines(report, "problem")].concat();
    assert_eq!(found.len(), 1, "{report:?}");
    assert_eq!(
        report.code,
        Some(i32::from(level == "problem")),
        "{report:?}"
    );
    let mut words = found[0].split_whitespace();
    assert_eq!(
        (words.next(), words.next()),
        (Some(level), Some(check)),
        "{report:?}"
    );
    for part in parts {
        assert!(found[0].contains(part), "{part}: {report:?}");
    }
}

#[track_caller]
fn assert_fine(report: &CommandResult) {
    assert_eq!(report.code, Some(0), "{report:?}");
    assert_eq!(
        lines(report, "ok").len(),
        report.stdout.lines().count(),
        "{report:?}"
    );
}

/// A program that responds to one request.
fn respond_with(response: &'static str) -> (SocketAddr, JoinHandle<()>) {
    let program = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = program.local_addr().unwrap();
    let program = thread::spawn(move || {
        let (mut client, _) = program.accept().unwrap();
        let _ = client.read(&mut [0; 1024]);
        let _ = client.write_all(response.as_bytes());
    });
    (address, program)
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_healthy_service_is_fine() {
    let home = Home::new();
    home.new_key();
    let service = serve(&home);
    let report = doctor(&home, service.address, &[]);
    assert_fine(&report);
    let checks = [
        "store", "keys", "clock", "disk", "port", "imports", "backups",
    ];
    let found = report
        .stdout
        .lines()
        .map(|line| line.split_whitespace().nth(1).unwrap());
    assert_eq!(found.collect::<Vec<_>>(), checks);
    let json = doctor(&home, service.address, &["--json"]).success();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let found = json.as_array().unwrap().iter();
    let found: Vec<_> = found
        .map(|it| (it["check"].as_str().unwrap(), it["level"].as_str().unwrap()))
        .collect();
    assert_eq!(found, checks.map(|check| (check, "ok")));

    // The same service, but another store.
    let other = Home::new();
    other.new_key();
    let report = doctor(&other, service.address, &[]);
    assert_found(&report, "warning", "port", &["has another store open"]);
    // The same store at another address.
    let report = doctor(&home, free_address(), &[]);
    assert_found(
        &report,
        "warning",
        "port",
        &["the store is open", "--listen"],
    );
    // Another service at that address.
    let (address, program) = respond_with("HTTP/1.1 200 OK\r\n\r\n{\"status\":\"ready\"}");
    let report = doctor(&home, address, &[]);
    program.join().unwrap();
    let parts = ["ready, but not the one that has this store open; specify"];
    assert_found(&report, "warning", "port", &parts);
    // The socket for imports is deleted.
    let socket = home.path("petstore.db-socket");
    fs::remove_file(&socket).unwrap();
    let report = doctor(&home, service.address, &[]);
    assert_found(&report, "warning", "imports", &["nothing accepts imports"]);
    service.stop();
    let report = doctor(&home, free_address(), &[]);
    assert_found(
        &report,
        "warning",
        "port",
        &["nothing listens", "petstore serve --database sqlite:"],
    );
    assert_eq!(home.files(), ["petstore.db"]);
    // A service that is killed leaves it behind.
    drop(UnixListener::bind(&socket).unwrap());
    let report = doctor(&home, free_address(), &[]);
    let warnings = lines(&report, "warning");
    assert!(warnings[1].contains("was killed"), "{report:?}");
}

#[test]
fn stores_that_cannot_be_used_are_problems_and_never_created() {
    let home = Home::new();
    let report = doctor(&home, free_address(), &[]);
    assert_eq!(report.code, Some(1), "{report:?}");
    let problems = lines(&report, "problem");
    assert!(problems[0].contains("there is no database"), "{report:?}");
    assert_eq!(home.files(), [""; 0]);
    // The path as it was typed, and one advice.
    let report = home.petstore(&["doctor", "--port", "1", "--database", "./no.db"]);
    let problem = lines(&report, "problem")[0];
    assert!(problem.contains(" at ./no.db;"), "{report:?}");
    assert_eq!(problem.matches("--database").count(), 1, "{report:?}");
    // The other checks are run.
    let report = home.petstore(&["doctor", "--port", "1", "--database", "mysql://u:secret@db"]);
    let problem = lines(&report, "problem")[0];
    assert!(
        problem.contains("(PETSTORE_DATABASE) must be"),
        "{report:?}"
    );
    assert!(!report.stdout.contains("secret"), "{report:?}");
    assert!(report.stdout.contains("nothing listens"), "{report:?}");
    drop(home.older_database());
    let report = doctor(&home, free_address(), &[]);
    assert!(
        lines(&report, "problem")[0].contains("older petstore"),
        "{report:?}"
    );
    fs::write(home.database(), "text").unwrap();
    let report = doctor(&home, free_address(), &[]);
    assert!(
        lines(&report, "problem")[0].contains("not a petstore"),
        "{report:?}"
    );
}

#[test]
fn what_is_wrong_with_a_store_is_reported() {
    let home = Home::new();
    home.new_key();
    let service = serve(&home);
    let execute = |sql: &str| {
        let db = Connection::open(home.database()).unwrap();
        db.execute_batch(sql).unwrap();
    };

    set_mode(&home.database(), 0o644);
    let report = doctor(&home, service.address, &[]);
    // SQLite may have given the mode of the database to an empty -wal, too.
    let warnings = lines(&report, "warning");
    let is_about_mode = |line: &&str| line.contains("mode 644") && line.contains("chmod 600");
    assert!(
        !warnings.is_empty() && warnings.iter().all(is_about_mode),
        "{report:?}"
    );
    set_mode(&home.database(), 0o600);
    set_mode(&home.path("petstore.db-wal"), 0o600);

    execute("UPDATE api_keys SET expires_at = (unixepoch() + 29 * 86400) * 1000000");
    let report = doctor(&home, service.address, &[]);
    assert_found(
        &report,
        "warning",
        "keys",
        &["API key 1 (test) expires at 20"],
    );
    execute("UPDATE api_keys SET expires_at = (unixepoch() + 31 * 86400) * 1000000");
    assert_fine(&doctor(&home, service.address, &[]));
    execute("UPDATE api_keys SET revoked_at = 1");
    let report = doctor(&home, service.address, &[]);
    assert_found(
        &report,
        "warning",
        "keys",
        &["no valid API key", "petstore keys create"],
    );
    execute("UPDATE api_keys SET revoked_at = NULL");

    // A key was used in the future, so the clock is wrong now.
    execute("UPDATE api_keys SET last_used_at = (unixepoch() + 3600) * 1000000");
    let report = doctor(&home, service.address, &[]);
    assert_found(
        &report,
        "problem",
        "clock",
        &["but the store was changed at", "NTP"],
    );
    execute("UPDATE api_keys SET last_used_at = NULL");
    assert_fine(&doctor(&home, service.address, &[]));

    service.stop();
    let wal = fs::File::create(home.path("petstore.db-wal")).unwrap();
    wal.set_len(300 << 20).unwrap();
    set_mode(&home.path("petstore.db-wal"), 0o600);
    let report = doctor(&home, free_address(), &[]);
    let warnings = lines(&report, "warning");
    assert!(
        warnings[0].contains("write-ahead log has 300 MiB"),
        "{report:?}"
    );
    drop(wal);
    fs::remove_file(home.path("petstore.db-wal")).unwrap();

    let mut bytes = fs::read(home.database()).unwrap();
    let end = bytes.len();
    bytes[end - 8192..].fill(0xff);
    fs::write(home.database(), bytes).unwrap();
    let report = doctor(&home, free_address(), &[]);
    let problems = lines(&report, "problem");
    assert!(problems[0].contains("is damaged; see how"), "{report:?}");
    assert!(!report.stdout.contains("malformed"), "{report:?}");
    assert_eq!(report.code, Some(1));
}

#[test]
fn what_answers_at_the_port_is_reported() {
    let home = Home::new();
    home.new_key();
    let not_ready = "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"code\":\"unavailable\",\"message\":\
                     \"this sentence says something, and then in its last words what to do\"}";
    for (response, parts) in [
        (
            "HTTP/1.1 404 Not Found\r\n\r\n<html>\nwelcome",
            ["another program", ": it answered 404 Not Found; stop it"],
        ),
        (
            "HTTP/1.0 200 OK\r\n\r\n{}",
            ["it answered 200 OK;", "stop it"],
        ),
        ("SSH-2.0-x\r\n", [": it said SSH-2.0-x;", "--listen"]),
        (
            not_ready,
            [" in its last words what to do (503); ", "read its log"],
        ),
        ("", ["another program", ": it closed the connection;"]),
    ] {
        let (address, program) = respond_with(response);
        let report = doctor(&home, address, &[]);
        program.join().unwrap();
        assert_found(&report, "problem", "port", &parts);
    }
}

#[test]
fn certificates_are_checked() {
    let home = Home::new();
    home.new_key();
    let files = Identity::new(&home.dir());
    set_mode(&files.key, 0o600);
    let options = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let mut serve = home.serve_command();
    let service = Service::start(serve.args(options).args([
        "--metrics-listen",
        "127.0.0.1:0",
        "--backup-dir",
        "backups",
    ]));
    let check = || doctor(&home, service.address, &options);
    assert_fine(&check());
    let report = doctor(&home, service.address, &[]);
    assert_found(&report, "problem", "port", &["uses TLS; set --tls-cert"]);
    the_settings_of_the_packaged_service_are_used(&home, &service);
    set_mode(&files.key, 0o644);
    assert_found(
        &check(),
        "warning",
        "certificate",
        &["key.pem", "chmod 600"],
    );
    let issue = |from: (i32, u8, u8), days: i64| {
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new(["localhost".into()]).unwrap();
        certificate.not_before = date_time_ymd(from.0, from.1, from.2);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let start = date_time_ymd(1970, 1, 1) + now;
        let distance = std::time::Duration::from_secs(days.unsigned_abs() * 86400 + 60);
        certificate.not_after = if days < 0 {
            start - distance
        } else {
            start + distance
        };
        let pem = certificate.self_signed(&key).unwrap().pem();
        files.replace_certificate(&pem);
        files.replace_key(&key.serialize_pem());
        set_mode(&files.key, 0o600);
    };
    issue((2020, 1, 1), -3);
    assert_found(
        &check(),
        "problem",
        "certificate",
        &["expired 3 days ago", "renew it"],
    );
    issue((2020, 1, 1), 1);
    assert_found(&check(), "warning", "certificate", &["expires in 1 day;"]);
    issue((2020, 1, 1), 15);
    assert_fine(&check());
    issue((2100, 1, 1), 100 * 366);
    assert_found(
        &check(),
        "problem",
        "certificate",
        &["not valid before 2100-01-01"],
    );
    let (_, key) = support::self_signed();
    files.replace_key(&key);
    assert_found(
        &check(),
        "problem",
        "certificate",
        &["does not belong to the certificate"],
    );
}

/// Every setting that the checks need is read from the file, not only the database.
fn the_settings_of_the_packaged_service_are_used(home: &Home, service: &Service) {
    let elsewhere = Home::new();
    let file = elsewhere.path("packaged.env");
    let check = |database: &str, listen: &str| {
        let metrics = service.metrics_address();
        let settings = format!(
            "PETSTORE_DATABASE='{database}'\nPETSTORE_LISTEN='{listen}'\n\
             PETSTORE_METRICS_LISTEN={metrics}\nPETSTORE_TLS_CERT='{}'\nPETSTORE_TLS_KEY='{}'\n",
            home.path("cert.pem").display(),
            home.path("key.pem").display()
        );
        fs::write(&file, settings).unwrap();
        set_mode(&file, 0o600);
        elsewhere.petstore(&["doctor", "--packaged-settings", "packaged.env"])
    };
    let database = home.url();
    let listen = service.address.to_string();
    let report = check(&database, &listen);
    assert_fine(&report);
    for check in ["port", "imports", "metrics", "certificate", "settings"] {
        let ok = format!("ok       {check} ");
        assert!(report.stdout.contains(&ok), "{check}: {report:?}");
    }
    let report = check("mysql://u:secret@db/x", &listen);
    let name = "PETSTORE_DATABASE in packaged.env must be";
    assert_found(&report, "problem", "store", &[name]);
    assert!(!report.stdout.contains("secret"), "{report:?}");
    let report = check(&database, "here");
    let name = "PETSTORE_LISTEN in packaged.env must be";
    assert_found(&report, "problem", "port", &[name]);
}

#[test]
fn mistakes_in_settings_are_reported() {
    let home = Home::new();
    home.new_key();
    let service = serve(&home);
    let settings = home.path("petstore.env");
    let write = |text: &str| {
        fs::write(&settings, text).unwrap();
        set_mode(&settings, 0o640);
    };
    write("# PETSTORE_NONSENSE='1'\n\nPETSTORE_LISTEN='127.0.0.1:8080'\nTZ=UTC\n");
    let report = doctor(&home, service.address, &[]);
    assert_fine(&report);
    assert!(
        report
            .stdout
            .contains("petstore.env has no unknown settings")
    );
    set_mode(&settings, 0o644);
    let report = doctor(&home, service.address, &[]);
    assert_found(&report, "warning", "settings", &["mode 644"]);
    write("PETSTORE_DATABSE='sqlite:x.db'\n");
    let report = doctor(&home, service.address, &[]);
    assert_found(
        &report,
        "problem",
        "settings",
        &["PETSTORE_DATABSE", "petstore help serve"],
    );
    fs::remove_file(&settings).unwrap();
    let mut command = home.command(PETSTORE);
    command.args([
        "doctor",
        "--database",
        &home.url(),
        "--packaged-settings",
        "none",
    ]);
    command.env("PETSTORE_LISTEN", service.address.to_string());
    let report = CommandResult::of(command.env("PETSTORE_TLS", "on"));
    assert_found(
        &report,
        "warning",
        "settings",
        &["PETSTORE_TLS has no effect"],
    );
}

#[test]
#[ignore = "needs PostgreSQL and faketime; make test installs them and runs this"]
fn a_store_on_postgres_is_checked() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    home.new_key();
    let service = home.serve();
    assert_fine(&doctor(&home, service.address, &[]));

    // An empty database stays empty.
    let empty = cluster.create_database();
    let other = Home::with_database(cluster.url(&empty));
    let report = doctor(&other, service.address, &[]);
    assert_found(
        &report,
        "problem",
        "store",
        &["no tables of petstore", "petstore serve"],
    );
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(cluster.psql(&empty, tables).trim(), "0");

    let mut off = home.command(PETSTORE);
    off.env("LD_PRELOAD", &*faketime::LIBRARY)
        .env("FAKETIME", "+1h");
    off.args(["doctor", "--database", &home.url()]);
    off.args([
        "--listen",
        &service.address.to_string(),
        "--packaged-settings",
        "none",
    ]);
    let report = CommandResult::of(&mut off);
    assert_found(&report, "warning", "clock", &["NTP"]);
    // Less by the time that the question takes, which is long on a busy machine.
    let (_, difference) = report.stdout.split_once("server's by ").unwrap();
    let seconds = difference.split_once('.').unwrap().0.parse::<i64>();
    assert!((3000..=3600).contains(&seconds.unwrap()), "{report:?}");

    cluster.crash();
    let report = doctor(&home, service.address, &[]);
    assert_eq!(report.code, Some(1), "{report:?}");
    assert!(
        lines(&report, "problem")[0].contains("cannot use postgres"),
        "{report:?}"
    );
}
