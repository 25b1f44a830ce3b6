//! TLS configuration: certificate files, error messages, reload.

use std::{fs, os::unix::fs::PermissionsExt};

use support::{CommandResult, Identity, self_signed, wait_for};

use crate::harness::{Home, PETSTORE, Service};

/// Starts a service with TLS and a self-signed certificate.
fn serve_tls(home: &Home) -> (Identity, Service) {
    let identity = Identity::new(&home.dir());
    let files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let service = Service::start(home.serve_command().args(files));
    (identity, service)
}

/// Sends a request with curl, an independent TLS client.
fn curl(home: &Home, service: &Service, options: &[&str], path: &str) -> CommandResult {
    let url = format!("https://{}{path}", service.address);
    let mut curl = home.command("curl");
    curl.args(["--silent", "--show-error", "--include", "--noproxy", "*"]);
    CommandResult::of(curl.args(options).arg(url))
}

const TRUST: [&str; 2] = ["--cacert", "cert.pem"];

#[test]
fn curl_connects_over_tls() {
    let home = Home::new();
    let (_, service) = serve_tls(&home);
    let key = format!("Authorization: Bearer {}", home.new_key());
    for (version, status) in [
        ("--http2", "HTTP/2 200"),
        ("--http1.1", "HTTP/1.1 200 OK"),
        // A response has the server's version (RFC 9110, section 2.5).
        ("--http1.0", "HTTP/1.1 200 OK"),
    ] {
        let options = [&TRUST[..], &[version, "-H", &key]].concat();
        let response = curl(&home, &service, &options, "/v1/pets").success().stdout;
        assert!(response.starts_with(status), "{version}: {response}");
    }
    let untrusted = curl(&home, &service, &[], "/v1/pets");
    assert_ne!(untrusted.code, Some(0), "{untrusted:?}");
    // The contract and the log use https URLs.
    let here = format!("https://{}", service.address);
    let contract = curl(&home, &service, &TRUST, "/v1/openapi.yaml").success();
    assert!(contract.stdout.contains(&format!("url: {here}/v1\n")));
    assert_eq!(service.event("listening")["url"], here);
    service.stop();
}

/// Each error names the file, before any port or database is opened.
#[test]
fn unusable_files_are_reported() {
    let home = Home::new();
    let good = Identity::new(&home.dir());
    let text = |file| fs::read_to_string(file).unwrap();
    let certificate = text(&good.certificate);
    let key = text(&good.key);
    for (name, text) in [
        ("empty.pem", String::new()),
        ("other.pem", self_signed().1),
        ("cut.pem", certificate[..certificate.len() / 2].into()),
        ("cut-key.pem", key[..key.len() / 2].into()),
        ("odd.pem", pem("CERTIFICATE")),
        ("odd-key.pem", pem("PRIVATE KEY")),
        ("locked.pem", pem("ENCRYPTED PRIVATE KEY")),
    ] {
        fs::write(home.path(name), text).unwrap();
    }
    fs::create_dir(home.path("folder")).unwrap();
    let before = home.contents();
    for (certificate, key, reason) in [
        (
            "none.pem",
            "key.pem",
            "cannot read none.pem: there is no such file",
        ),
        (
            "cert.pem",
            "none.pem",
            "cannot read none.pem: there is no such file",
        ),
        (
            "folder",
            "key.pem",
            "cannot read folder: not a regular file",
        ),
        (
            "/dev/zero",
            "key.pem",
            "cannot read /dev/zero: not a regular file",
        ),
        ("empty.pem", "key.pem", "empty.pem has no certificate"),
        ("key.pem", "key.pem", "key.pem has no certificate"),
        ("cut.pem", "key.pem", "cut.pem has a malformed certificate"),
        ("odd.pem", "key.pem", "odd.pem has a malformed certificate"),
        ("cert.pem", "empty.pem", "empty.pem has no private key"),
        ("cert.pem", "cert.pem", "cert.pem has no private key"),
        ("cert.pem", "locked.pem", "locked.pem has no private key"),
        (
            "cert.pem",
            "cut-key.pem",
            "cut-key.pem has a malformed or unsupported key",
        ),
        (
            "cert.pem",
            "odd-key.pem",
            "odd-key.pem has a malformed or unsupported key",
        ),
        (
            "cert.pem",
            "other.pem",
            "the key in other.pem does not belong to the certificate in cert.pem",
        ),
    ] {
        let mut serve = home.serve_command();
        serve.args(["--tls-cert", certificate, "--tls-key", key]);
        let rejected = CommandResult::of(&mut serve);
        rejected.assert_fails(1, &format!("\"{reason}"));
        assert_eq!(rejected.stdout, "");
        assert!(home.contents() == before, "{reason}: files were changed");
    }
}

/// A PEM block with a valid label and meaningless content.
fn pem(what: &str) -> String {
    format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n")
}

/// One file without the other is a usage error.
#[test]
fn certificate_and_key_are_required_together() {
    let home = Home::new();
    for (given, missing) in [("cert", "key"), ("key", "cert")] {
        let option = format!("--tls-{given}=x.pem");
        let rejected = home.petstore(&["serve", &option]);
        rejected.assert_fails(2, &format!("--tls-{missing} <FILE>"));
        let variable = format!("PETSTORE_TLS_{}", given.to_uppercase());
        let mut serve = home.command(PETSTORE);
        let rejected = CommandResult::of(serve.arg("serve").env(&variable, "x.pem"));
        rejected.assert_fails(2, &format!("--tls-{missing} <FILE>"));
        let mut serve = home.command(PETSTORE);
        let rejected = CommandResult::of(serve.arg("serve").env(&variable, ""));
        rejected.assert_fails(2, &format!("--tls-{given} <FILE>"));
    }
    assert_eq!(home.files(), [""; 0]);
}

/// A renewed certificate is reloaded while the service runs. A key that does
/// not match yet is logged once.
#[test]
fn a_renewed_certificate_is_reloaded() {
    let home = Home::new();
    let (identity, service) = serve_tls(&home);
    let (certificate, key) = self_signed();
    let says = |what: &str| {
        wait_for(what, || service.output().contains(what).then_some(()));
    };
    identity.replace_key(&key);
    says("key.pem does not belong to the certificate in cert.pem");
    let request = || curl(&home, &service, &TRUST, "/healthz");
    request().success();
    identity.replace_certificate(&certificate);
    says("certificate reloaded");
    request().success();
    let output = service.output();
    assert_eq!(output.matches("does not belong").count(), 1, "{output}");
    service.stop();
}

/// A key that every user of the machine can read is reported: at startup, and with the
/// renewal that brings it.
#[test]
fn a_public_key_is_reported() {
    let home = Home::new();
    let identity = Identity::new(&home.dir());
    fs::set_permissions(&identity.key, fs::Permissions::from_mode(0o600)).unwrap();
    let files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let service = Service::start(home.serve_command().args(files));
    assert!(!service.output().contains("readable"));
    let (certificate, key) = self_signed();
    identity.replace_key(&key);
    fs::set_permissions(&identity.key, fs::Permissions::from_mode(0o644)).unwrap();
    identity.replace_certificate(&certificate);
    let event = service.event("file is readable by all users");
    assert_eq!(
        (&event["file"], &event["mode"]),
        (&"key.pem".into(), &"644".into())
    );
    service.stop();
    let service = Service::start(home.serve_command().args(files));
    service.event("file is readable by all users");
    service.stop();
}

#[test]
fn healthcheck_supports_tls() {
    let home = Home::new();
    let (_, service) = serve_tls(&home);
    let address = service.address.to_string();
    let probe = ["healthcheck", "--listen", &address];
    let plain = home.petstore(&probe);
    plain.assert_fails(1, "this port requires TLS; use https://");
    let ready = CommandResult::of(
        home.command(PETSTORE)
            .args(probe)
            .env("PETSTORE_TLS_CERT", "cert.pem"),
    );
    assert!(ready.success().stderr.contains("is ready"));
    service.stop();

    let service = home.serve();
    let address = service.address.to_string();
    let probe = [
        "healthcheck",
        "--listen",
        &address,
        "--tls-cert",
        "cert.pem",
    ];
    home.petstore(&probe).assert_fails(1, "no response from");
}
