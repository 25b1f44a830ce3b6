//! Endpoints without authentication (contract, docs, health checks), request ids, and
//! unknown paths and methods.

use std::collections::HashSet;

use api::Contract;
use http::Method;
use serde_json::{Value, json};
use support::{Backend, eventually};

use crate::{client::Connection, harness::Server};

support::cases! {
    ALL: [
        the_contract_names_its_server_urls,
        the_contract_names_the_host_of_the_client,
        new_hosts_are_limited,
        large_responses_are_compressed_on_request,
        the_root_redirects_to_a_page,
        pages_are_served_with_their_files,
        security_headers_are_sent,
        valid_request_ids_are_echoed,
        unknown_paths_get_404_and_unsupported_methods_405,
        health_checks_need_no_api_key,
    ],
}

async fn the_contract_names_its_server_urls(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.public_url = Some("https://shop.example/v1".parse().unwrap());
        config.service.api.staging_url = Some("https://staging.shop.example/v1".parse().unwrap());
    })
    .await;
    let get = |path| server.request(Method::GET, path).without_key().send();
    let yaml = get("/v1/openapi.yaml").await;
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    assert!(yaml.text().contains("servers:\n  - url: https://shop.example/v1\n    description: Production\n  - url: https://staging.shop.example/v1\n"));
    let json = get("/v1/openapi.json").await;
    assert_eq!(json.header("content-type"), Some("application/json"));
    let servers = &json.json()["servers"];
    assert_eq!(servers[0]["url"], "https://shop.example/v1");
    assert_eq!(servers[1]["url"], "https://staging.shop.example/v1");
    let tag = json.header("etag").unwrap();
    let again = server
        .request(Method::GET, "/v1/openapi.json")
        .without_key();
    assert_eq!(again.header("if-none-match", tag).send().await.status, 304);

    // By default the only server is the listen address.
    let server = Server::start(backend).await;
    let json = server
        .request(Method::GET, "/v1/openapi.json")
        .without_key()
        .send()
        .await
        .json();
    let url = server.url("/v1");
    assert_eq!(
        json["servers"],
        serde_json::json!([{"url": url, "description": "Production"}])
    );
    let yaml = server
        .request(Method::GET, "/v1/openapi.yaml")
        .without_key()
        .send()
        .await
        .text();
    assert!(!yaml.contains(".example/v1") && yaml.contains(&url));
    assert!(yaml.contains(&format!("curl -i \"{url}/pets?")));
    assert!(url.contains(":8080/") || !yaml.contains("127.0.0.1:8080"));
    let same: Value =
        serde_json::from_str(&Contract::new(url.parse().unwrap(), None).json()).unwrap();
    assert_eq!(json, same);
}

/// The examples of the contract use the host that the client used, if it can stand in a URL and
/// in a shell command.
async fn the_contract_names_the_host_of_the_client(backend: Backend) {
    let server = Server::start(backend).await;
    let local = server.url("/v1");
    let (scheme, _) = local.split_once(':').unwrap();
    let mut conn = Connection::open(&server).await;
    let mut get = async |target: &str, host: &str, headers: &str| {
        conn.send(&format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n"
        ))
        .await;
        conn.raw.response().await.unwrap()
    };
    let mut tags = HashSet::new();
    for (host, expected) in [
        ("shop.local:8080", "shop.local:8080"),
        ("SHOP.local:8080", "shop.local:8080"),
        ("[::1]:9", "[::1]:9"),
        ("pets", "pets"),
    ] {
        let url = format!("{scheme}://{expected}/v1");
        let yaml = get("/v1/openapi.yaml", host, "").await;
        assert!(
            yaml.text().contains(&format!("curl -i \"{url}/pets?")),
            "{host}"
        );
        assert!(!yaml.text().contains("127.0.0.1"), "{host}");
        let json = get("/v1/openapi.json", host, "").await;
        assert_eq!(json.json()["servers"][0]["url"], url);
        let tag = json.header("etag").unwrap();
        tags.insert(tag.to_string());
        let condition = format!("If-None-Match: {tag}\r\n");
        let again = get("/v1/openapi.json", host, &condition).await;
        assert_eq!(again.status, 304);
    }
    assert_eq!(tags.len(), 3);
    for host in ["a$(b)", "a'b", &"a".repeat(300)] {
        let json = get("/v1/openapi.json", host, "").await;
        assert_eq!(json.json()["servers"][0]["url"], local, "{host}");
    }
    // The target takes precedence.
    let target = "http://shop.local:8080/v1/openapi.json";
    let response = get(target, "other", "").await;
    let url = format!("{scheme}://shop.local:8080/v1");
    assert_eq!(response.json()["servers"][0]["url"], url);
}

/// A client with ever new hosts makes the service write few contracts.
async fn new_hosts_are_limited(backend: Backend) {
    let server = Server::start(backend).await;
    let local = server.url("/v1");
    let mut written = 0;
    let mut conn = Connection::open(&server).await;
    for n in 0..200 {
        let host = format!("host-{n}.example");
        conn.send(&format!(
            "GET /v1/openapi.yaml HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ))
        .await;
        let yaml = conn.raw.response().await.unwrap().text();
        if yaml.contains(&host) {
            written += 1;
        } else {
            assert!(yaml.contains(&local));
        }
    }
    assert!((20..200).contains(&written), "{written}");
}

async fn large_responses_are_compressed_on_request(backend: Backend) {
    let server = Server::start(backend).await;
    for number in 0..30 {
        let name = format!("Rex {number}");
        server.create(json!({"name": name, "categoryId": 1})).await;
    }
    let small = server.request(Method::GET, "/v1/pets?limit=2");
    let small = small.header("accept-encoding", "gzip").send().await;
    assert_eq!(small.header("content-encoding"), None);
    assert_eq!(small.header("vary"), None);
    for path in ["/v1/openapi.yaml", "/v1/openapi.json", "/v1/pets?limit=29"] {
        let request = |method, coding| {
            let mut request = server.request(method, path);
            if path.contains("openapi") {
                request = request.without_key();
            }
            request.header("accept-encoding", coding)
        };
        let plain = request(Method::GET, "gzip;q=0").send().await;
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(plain.header("vary"), Some("accept-encoding"));
        let plain_tag = plain.header("etag").unwrap();

        let mut tags = vec![("identity", plain_tag.to_string())];
        for (accepted, coding) in [("br, gzip", "gzip"), ("gzip, deflate, br, zstd", "zstd")] {
            let compressed = request(Method::GET, accepted).send().await;
            assert_eq!(compressed.header("content-encoding"), Some(coding));
            for name in ["content-type", "cache-control", "link", "vary"] {
                assert_eq!(compressed.header(name), plain.header(name), "{name}");
            }
            assert!(compressed.body.len() * 4 < plain.body.len());
            assert_eq!(compressed.decoded().body, plain.body);
            let tag = compressed.header("etag").unwrap();

            let head = request(Method::HEAD, accepted).send().await;
            let length = compressed.body.len().to_string();
            assert_eq!(head.header("content-length"), Some(length.as_str()));
            assert_eq!(head.header("content-encoding"), Some(coding));
            assert_eq!(head.header("etag"), Some(tag));
            tags.push((coding, tag.to_string()));
        }

        // An entity tag stands for one of them only.
        for (coding, _) in &tags {
            for (of, tag) in &tags {
                let again = request(Method::GET, coding).header("if-none-match", tag);
                let again = again.send().await;
                assert_eq!(again.header("vary"), Some("accept-encoding"));
                if coding == of {
                    assert_eq!(again.status, 304);
                    assert_eq!(again.header("etag"), Some(tag.as_str()));
                    assert_eq!(again.header("content-encoding"), None);
                    assert!(again.body.is_empty());
                } else {
                    assert_eq!(again.status, 200, "{coding} {tag}");
                }
                let matching = request(Method::GET, coding).header("if-match", tag);
                let status = if coding == of { 200 } else { 412 };
                assert_eq!(matching.send().await.status, status, "{coding} {tag}");
            }
        }
    }

    // Pages that no cache may store are compressed for each request, so not with gzip.
    let events = |coding| {
        let request = server.request(Method::GET, "/v1/events");
        request.header("accept-encoding", coding)
    };
    let plain = events("gzip").send().await;
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    let compressed = events("gzip, deflate, br, zstd").send().await;
    assert_eq!(compressed.header("content-encoding"), Some("zstd"));
    for name in ["content-type", "cache-control", "link", "vary"] {
        assert_eq!(compressed.header(name), plain.header(name), "{name}");
    }
    assert_eq!(compressed.decoded().body, plain.body);
    let small = server.request(Method::GET, "/v1/events?limit=1");
    let small = small.header("accept-encoding", "zstd").send().await;
    assert_eq!(small.header("content-encoding"), None);
    assert_eq!(small.header("vary"), None);
}

async fn the_root_redirects_to_a_page(backend: Backend) {
    for (console, docs, location) in [
        (true, true, Some("/console")),
        (true, false, Some("/console")),
        (false, true, Some("/docs")),
        (false, false, None),
    ] {
        let server = Server::start_with(backend, |config| {
            config.service.api.console = console;
            config.service.api.docs = docs;
        })
        .await;
        let root = server.request(Method::GET, "/").without_key().send().await;
        let status = if location.is_some() { 307 } else { 404 };
        assert_eq!(root.status, status);
        assert_eq!(root.header("location"), location);
        if docs {
            let page = server.get("/docs").await.text();
            assert_eq!(page.contains("href=\"console\""), console);
        }
    }
}

/// Without a key, and only if they are turned on.
async fn pages_are_served_with_their_files(backend: Backend) {
    let server = Server::start(backend).await;
    let get = |path: String| {
        let request = server.request(Method::GET, &path).without_key();
        request.send()
    };
    let without_pages = Server::start_with(backend, |config| {
        config.service.api.console = false;
        config.service.api.docs = false;
    })
    .await;
    for (page, text, trusted_types) in [
        ("console", "js/main.js", true),
        ("docs", "petstore keys create", false),
    ] {
        let html = get(format!("/{page}")).await;
        let media_type = html.header("content-type");
        assert_eq!(media_type, Some("text/html; charset=utf-8"));
        let policy = html.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        let requires = policy.contains("require-trusted-types-for 'script'; trusted-types 'none'");
        assert_eq!(requires, trusted_types, "{policy}");
        assert_eq!(html.header("referrer-policy"), Some("no-referrer"));
        let same_origin = Some("same-origin");
        assert_eq!(html.header("cross-origin-opener-policy"), same_origin);
        assert_eq!(html.header("cross-origin-resource-policy"), same_origin);
        for coding in ["gzip", "zstd"] {
            let request = server.request(Method::GET, &format!("/{page}"));
            let compressed = request.header("accept-encoding", coding).send().await;
            assert_eq!(compressed.header("content-encoding"), Some(coding));
            assert_eq!(compressed.header("vary"), Some("accept-encoding"));
            assert_eq!(compressed.decoded().body, html.body);
        }
        let html = html.text();
        assert!(html.contains(text), "{html}");
        assert!(!html.contains('{'), "a placeholder remains: {html}");
        let folder = format!("{page}/assets/");
        let files = html.split('"').filter(|text| text.starts_with(&folder));
        let files: Vec<_> = files.map(|file| format!("/{file}")).collect();
        assert!(files.len() >= 5, "{files:?}");
        for file in &files {
            let plain = get(file.clone()).await;
            assert_eq!(plain.status, 200, "{file}");
            let immutable = Some("public, max-age=31536000, immutable");
            assert_eq!(plain.header("cache-control"), immutable);
            assert_eq!(plain.header("cross-origin-resource-policy"), same_origin);
            let media_type = plain.header("content-type").unwrap();
            assert!(!file.ends_with(".js") || media_type.starts_with("text/javascript"));
            let gzip = server
                .request(Method::GET, file)
                .header("accept-encoding", "gzip");
            let gzip = gzip.send().await;
            assert_eq!(gzip.header("content-encoding"), Some("gzip"));
            assert_eq!(gzip.header("vary"), Some("accept-encoding"));
            assert!(gzip.body.starts_with(&[0x1f, 0x8b]));
        }
        let slash = get(format!("/{page}/")).await;
        let location = format!("/{page}");
        assert_eq!(slash.header("location"), Some(location.as_str()));
        let nothing = get(format!("/{page}/assets/nothing.js")).await;
        nothing.assert_error(404, "not_found");
        for path in [&location, &format!("/{page}/"), &files[0]] {
            let response = without_pages.get(path).await;
            response.assert_error(404, "not_found");
        }
    }
    for path in ["/v1/openapi.yaml", "/v1/openapi.json", "/healthz"] {
        assert_eq!(without_pages.get(path).await.status, 200);
    }
    // Links lead to the contract instead.
    let link = without_pages.get("/v1/pets/1").await;
    let link = link.header("link").unwrap();
    assert!(
        link.contains("</v1/openapi.yaml>; rel=\"deprecation\""),
        "{link}"
    );
}

/// Every response has `nosniff`, which each exchange of the suite checks.
async fn security_headers_are_sent(backend: Backend) {
    let server = Server::start(backend).await;
    let hsts = (backend == Backend::Tls).then_some("max-age=31536000");
    for path in ["/v1/pets", "/v1/nothing", "/docs", "/healthz"] {
        let response = server.get(path).await;
        assert_eq!(response.header("strict-transport-security"), hsts, "{path}");
    }
    let request = server.request(Method::GET, "/v1/pets").without_key();
    let unauthorized = request.send().await;
    assert_eq!(unauthorized.status, 401);
    assert_eq!(unauthorized.header("strict-transport-security"), hsts);
    let mut conn = Connection::open(&server).await;
    conn.send("garbage\r\n\r\n").await;
    let rejected = conn.last_response("GET /").await;
    assert_eq!(rejected.header("strict-transport-security"), hsts);
}

async fn valid_request_ids_are_echoed(backend: Backend) {
    let server = Server::start(backend).await;
    let send = |id: Vec<u8>| {
        server
            .request(Method::GET, "/v1/pets")
            .header("x-request-id", id)
            .send()
    };
    for valid in ["a", "7f3a-till_2.x~", &"x".repeat(128)] {
        assert_eq!(send(valid.into()).await.header("x-request-id"), Some(valid));
    }
    let mut generated = std::collections::BTreeSet::new();
    for invalid in ["", "a b", "a\tb", "<script>", &"x".repeat(129), "ü"] {
        let response = send(invalid.into()).await;
        generated.insert(response.header("x-request-id").unwrap().to_string());
    }
    assert_eq!(
        generated.len(),
        6,
        "each invalid id is replaced by a unique one"
    );
    let error = server
        .request(Method::GET, "/v1/pets")
        .without_key()
        .header("x-request-id", "mine");
    assert_eq!(error.send().await.header("x-request-id"), Some("mine"));
}

async fn unknown_paths_get_404_and_unsupported_methods_405(backend: Backend) {
    let server = Server::start(backend).await;
    for path in [
        "/v1",
        "/v1/",
        "/v1/pets/",
        "/v1/pets/1/",
        "/v1/pets/1/x",
        "/v1/categories/",
        "/v1/categories/1/",
        "/v1/categories/1/pets",
        "/V1/pets",
        "/v1//pets",
        "/v2/pets",
        "/pets",
        "/v1/store",
        "/v1/store/orders/",
        "/v1/store/orders/1/",
        "/v1/store/orders/1/ship",
        "/v1/store/orders/1/complete/",
        "/v1/store/orders/1/return/",
        "/v1/store/orders//complete",
        "/v1/store/inventory/",
        "/favicon.ico",
        "/v1/openapi",
        "/docs/x",
        "/console/x",
        "/console/assets/",
        "/%00",
        "/v1/%70ets/x/y",
    ] {
        server.get(path).await.assert_error(404, "not_found");
    }
    for (path, similar) in [
        ("/v1/pet", Some("/v1/pets")),
        ("/v1/Pets/1/", Some("/v1/pets/{petId}")),
        ("/pets", Some("/v1/pets")),
        ("/v1/order", Some("/v1/store/orders")),
        (
            "/v1/webhook/1/rotate_secret",
            Some("/v1/webhooks/{webhookId}/rotate-secret"),
        ),
        ("/openapi.json", Some("/v1/openapi.json")),
        ("/doc", Some("/docs")),
        ("/health", Some("/healthz")),
        ("/v1/customers", None),
    ] {
        let response = server.get(path).await;
        let hint = match similar {
            Some(path) => format!("did you mean {path}? See"),
            None => "see".into(),
        };
        let expected = format!("no such path; {hint} /v1/openapi.yaml for the API");
        assert_eq!(response.json()["message"], expected, "{path}");
    }
    for (path, allow) in [
        ("/v1/pets", "GET, HEAD, POST"),
        ("/v1/pets/1", "GET, HEAD, PATCH, DELETE"),
        ("/v1/categories", "GET, HEAD"),
        ("/v1/categories/1", "PUT, DELETE"),
        ("/v1/store/inventory", "GET, HEAD"),
        ("/v1/store/orders", "GET, HEAD, POST"),
        ("/v1/store/orders/1", "GET, HEAD, PATCH"),
        ("/v1/store/orders/1/complete", "POST"),
        ("/v1/store/orders/1/cancel", "POST"),
        ("/v1/store/orders/1/return", "POST"),
        ("/v1/openapi.yaml", "GET, HEAD"),
        ("/docs", "GET, HEAD"),
        ("/console", "GET, HEAD"),
        ("/", "GET, HEAD"),
    ] {
        let methods = ["POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "BREW"];
        for method in methods.into_iter().filter(|method| !allow.contains(method)) {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let response = server.request(method, path).send().await;
            response.assert_error(405, "method_not_allowed");
            assert_eq!(response.header("allow"), Some(allow), "{path}");
            let message = format!("method not allowed; this path has {allow}");
            assert_eq!(response.json()["message"], message);
        }
    }
    server
        .request(Method::POST, "/docs")
        .without_key()
        .send()
        .await
        .assert_error(405, "method_not_allowed");
    server
        .request(Method::GET, "/nothing")
        .without_key()
        .send()
        .await
        .assert_error(404, "not_found");
}

async fn health_checks_need_no_api_key(backend: Backend) {
    let server = Server::start(backend).await;
    for (path, status) in [("/healthz", "alive"), ("/readyz", "ready")] {
        let response = server.request(Method::GET, path).without_key().send().await;
        assert_eq!(
            (response.status, response.json()),
            (200, json!({"status": status}))
        );
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let post = server.request(Method::POST, path).send().await;
        post.assert_error(405, "method_not_allowed");
    }
    if backend == Backend::Postgres {
        server.database.destroy();
        let not_ready = async || server.get("/readyz").await.status == 503;
        eventually("the readiness probe fails", not_ready).await;
        let response = server.get("/readyz").await;
        response.assert_error(503, "unavailable");
        assert_eq!(server.get("/healthz").await.status, 200);
    }
}
