//! CORS: preflight requests and the headers that let allowed origins read responses.

use http::Method;
use support::Backend;

use crate::{client::Request, harness::Server};

support::cases! {
    ALL: [
        only_allowed_origins_get_cors_headers,
    ],
}

/// The preflight request that a browser sends before a page on `origin` may create a pet.
fn preflight<'a>(server: &'a Server, origin: &str) -> Request<'a> {
    let request = server.request(Method::OPTIONS, "/v1/pets").without_key();
    request
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,content-type",
        )
}

async fn only_allowed_origins_get_cors_headers(backend: Backend) {
    let disabled = Server::start(backend).await;
    let shop = "https://shop.example";
    preflight(&disabled, shop)
        .send()
        .await
        .assert_error(401, "missing_api_key");

    let server = Server::start_with(backend, |config| {
        config.service.api.cors_origins = vec![
            shop.parse().unwrap(),
            "http://127.0.0.1:3000".parse().unwrap(),
        ];
    })
    .await;
    for origin in [shop, "http://127.0.0.1:3000"] {
        let response = preflight(&server, origin).send().await;
        assert_eq!((response.status, response.body.len()), (204, 0));
        assert_eq!(response.header("access-control-allow-origin"), Some(origin));
        assert_eq!(
            response.header("access-control-allow-methods"),
            Some("GET, HEAD, POST, PUT, PATCH, DELETE")
        );
        let headers = response.header("access-control-allow-headers").unwrap();
        for name in [
            "Authorization",
            "Content-Type",
            "Idempotency-Key",
            "If-Match",
            "If-None-Match",
            "Prefer",
        ] {
            assert!(headers.split(", ").any(|allowed| allowed == name), "{name}");
        }
        assert_eq!(response.header("vary"), Some("Origin"));
    }
    // Pages can read responses, errors included.
    for (path, status) in [
        ("/v1/pets", 200),
        ("/v1/pets?limit=0", 400),
        ("/v1/nothing", 404),
    ] {
        let request = server.request(Method::GET, path).header("origin", shop);
        let response = request.send().await;
        assert_eq!(response.status, status);
        assert_eq!(response.header("access-control-allow-origin"), Some(shop));
        let exposed = response.header("access-control-expose-headers").unwrap();
        for name in [
            "Link",
            "ETag",
            "Retry-After",
            "Deprecation",
            "Sunset",
            "X-Request-Id",
            "RateLimit",
            "Preference-Applied",
            "Petstore-Unknown-Parameters",
        ] {
            assert!(exposed.split(", ").any(|header| header == name), "{name}");
        }
    }
    // Other origins get no CORS headers.
    for origin in ["https://shop.example.evil", "http://shop.example", "null"] {
        preflight(&server, origin)
            .send()
            .await
            .assert_error(401, "missing_api_key");
        let request = server
            .request(Method::GET, "/v1/pets")
            .header("origin", origin);
        let response = request.send().await;
        assert_eq!(
            (
                response.status,
                response.header("access-control-allow-origin")
            ),
            (200, None)
        );
        assert_eq!(response.header("vary"), Some("Origin"));
    }
    let any_origin = Server::start_with(backend, |config| {
        config.service.api.cors_origins = vec!["*".parse().unwrap()]
    })
    .await;
    let response = preflight(&any_origin, "https://tls.example").send().await;
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
}
