//! TLS as an operator sets it up: files, their faults, and their renewal.

use std::fs;

use crate::{
    harness::{Finished, Home, PETSTORE, Service, wait_for},
    identity::{Identity, make},
};

/// The command that serves with TLS.
fn serve_tls(home: &Home) -> (Identity, Service) {
    let identity = Identity::new(&home.folder());
    let files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let service = Service::start(home.serve_command().args(files));
    (identity, service)
}

/// Asks as a stranger who trusts the certificate, with options of curl.
fn curl(home: &Home, service: &Service, options: &[&str], path: &str) -> Finished {
    let url = format!("https://{}{path}", service.address);
    let mut curl = home.command("curl");
    curl.args(["--silent", "--show-error", "--include", "--noproxy", "*"]);
    Finished::of(curl.args(options).arg(url))
}

const TRUST: [&str; 2] = ["--cacert", "cert.pem"];

#[test]
fn curl_speaks_with_it() {
    let home = Home::new();
    let (_, service) = serve_tls(&home);
    let key = format!("Authorization: Bearer {}", home.new_key());
    for (version, status) in [
        ("--http2", "HTTP/2 200"),
        ("--http1.1", "HTTP/1.1 200 OK"),
        ("--http1.0", "HTTP/1.0 200 OK"),
    ] {
        let options = [&TRUST[..], &[version, "-H", &key]].concat();
        let answer = curl(&home, &service, &options, "/v1/pets").success().stdout;
        assert!(answer.starts_with(status), "{version}: {answer}");
    }
    let stranger = curl(&home, &service, &[], "/v1/pets");
    assert_ne!(stranger.code, Some(0), "{stranger:?}");
    // What it says of itself begins with https, too.
    let here = format!("https://{}", service.address);
    let contract = curl(&home, &service, &TRUST, "/v1/openapi.yaml").success();
    assert!(contract.stdout.contains(&format!("url: {here}/v1\n")));
    assert_eq!(service.event("listening")["url"], here);
    service.stop();
}

/// Each fault is told with the file that has it, before anything is opened.
#[test]
fn files_that_cannot_be_used_are_told() {
    let home = Home::new();
    let good = Identity::new(&home.folder());
    let text = |file| fs::read_to_string(file).unwrap();
    let (certificate, key) = (text(&good.certificate), text(&good.key));
    for (name, text) in [
        ("empty.pem", String::new()),
        ("other.pem", make().1),
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
        ("none.pem", "key.pem", "cannot read none.pem: No such file"),
        ("cert.pem", "none.pem", "cannot read none.pem: No such file"),
        ("folder", "key.pem", "cannot read folder: it is not a file"),
        (
            "/dev/zero",
            "key.pem",
            "cannot read /dev/zero: it is not a file",
        ),
        ("empty.pem", "key.pem", "empty.pem holds no certificate"),
        ("key.pem", "key.pem", "key.pem holds no certificate"),
        ("cut.pem", "key.pem", "cut.pem holds a broken certificate"),
        ("odd.pem", "key.pem", "odd.pem holds a broken certificate"),
        ("cert.pem", "empty.pem", "empty.pem holds no private key"),
        ("cert.pem", "cert.pem", "cert.pem holds no private key"),
        ("cert.pem", "locked.pem", "locked.pem holds no private key"),
        (
            "cert.pem",
            "cut-key.pem",
            "cut-key.pem holds a key that cannot be used",
        ),
        (
            "cert.pem",
            "odd-key.pem",
            "odd-key.pem holds a key that cannot be used",
        ),
        (
            "cert.pem",
            "other.pem",
            "the key in other.pem does not belong to the certificate in cert.pem",
        ),
    ] {
        let mut serve = home.serve_command();
        serve.args(["--tls-cert", certificate, "--tls-key", key]);
        let refused = Finished::of(&mut serve);
        refused.assert_refused(1, &format!("\"{reason}"));
        assert_eq!(refused.stdout, "");
        assert!(home.contents() == before, "{reason}: files were changed");
    }
}

/// A block that holds four bytes and is what it says by name only.
fn pem(what: &str) -> String {
    format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n")
}

/// One file without the other is a mistake of the command line.
#[test]
fn a_certificate_needs_its_key() {
    let home = Home::new();
    for (given, missing) in [("cert", "key"), ("key", "cert")] {
        let option = format!("--tls-{given}=x.pem");
        let refused = home.petstore(&["serve", &option]);
        refused.assert_refused(2, &format!("--tls-{missing} <FILE>"));
        let variable = format!("PETSTORE_TLS_{}", given.to_uppercase());
        let mut serve = home.command(PETSTORE);
        let refused = Finished::of(serve.arg("serve").env(&variable, "x.pem"));
        refused.assert_refused(2, &format!("--tls-{missing} <FILE>"));
        let mut serve = home.command(PETSTORE);
        let refused = Finished::of(serve.arg("serve").env(&variable, ""));
        refused.assert_refused(2, &format!("--tls-{given} <FILE>"));
    }
    assert_eq!(home.files(), [""; 0]);
}

/// A renewal is taken up while the service runs. Half of one is told once.
#[test]
fn a_renewal_is_taken_up_and_told() {
    let home = Home::new();
    let (identity, service) = serve_tls(&home);
    let (certificate, key) = make();
    let says = |what: &str| {
        wait_for(what, || service.said().contains(what).then_some(()));
    };
    identity.replace_key(&key);
    says("key.pem does not belong to the certificate in cert.pem");
    let ask = || curl(&home, &service, &TRUST, "/healthz");
    ask().success();
    identity.replace_certificate(&certificate);
    says("certificate reloaded");
    ask().success();
    let said = service.said();
    assert_eq!(said.matches("does not belong").count(), 1, "{said}");
    service.stop();
}

#[test]
fn the_probe_speaks_tls_too() {
    let home = Home::new();
    let (_, service) = serve_tls(&home);
    let address = service.address.to_string();
    let probe = ["healthcheck", "--listen", &address];
    let plain = home.petstore(&probe);
    plain.assert_refused(1, "this port speaks TLS; use https://");
    let ready = Finished::of(
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
    home.petstore(&probe).assert_refused(1, "no response from");
}
