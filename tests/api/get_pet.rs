//! `GET /pets/{petId}`: deprecated (RFC 9745), and gone from its sunset date (RFC 8594).

use domain::clock::Clock;
use jiff::Timestamp;
use serde_json::json;
use support::Backend;

use crate::harness::Server;

support::cases! {
    DATABASES: [
        get_returns_the_pet,
        invalid_and_unknown_ids_get_404,
        deprecation_and_sunset_headers_are_sent,
        get_returns_410_from_the_sunset_date,
    ],
}

async fn get_returns_the_pet(backend: Backend) {
    let server = Server::start(backend).await;
    let id = server
        .create(json!({"name": "Moss", "categoryId": 7, "status": "pending"}))
        .await;
    let pet = server.get(&format!("/v1/pets/{id}")).await;
    assert_eq!(pet.status, 200);
    let expected = json!({"id": id, "name": "Moss", "categoryId": 7, "status": "pending"});
    assert_eq!(pet.json(), expected);
    assert_eq!(server.get("/v1/pets/%31").await.json(), expected);
    assert_eq!(server.get("/v1/pets/1?limit=0").await.json(), expected);
}

async fn invalid_and_unknown_ids_get_404(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(1).await;
    for id in [
        "2",
        "0",
        "-1",
        "+1",
        "01",
        "1.0",
        "1.5",
        "1e0",
        "abc",
        "0x1",
        "%201",
        "1%20",
        "%00",
        "%ff",
        "٣",
        "9007199254740992",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999999999",
        "null",
        "*",
        "1%2F",
    ] {
        server
            .get(&format!("/v1/pets/{id}"))
            .await
            .assert_error(404, "not_found");
    }
    let long = "1".repeat(8000);
    server
        .get(&format!("/v1/pets/{long}"))
        .await
        .assert_error(404, "not_found");
}

async fn deprecation_and_sunset_headers_are_sent(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(1).await;
    for path in ["/v1/pets/1", "/v1/pets/2"] {
        let response = server.get(path).await;
        assert_eq!(response.header("deprecation"), Some("@1764892800"));
        assert_eq!(
            response.header("sunset"),
            Some("Thu, 05 Dec 2030 00:00:00 GMT")
        );
        let link = "</v1/pets>; rel=\"successor-version\", \
                    </docs>; rel=\"deprecation\"; type=\"text/html\"";
        assert_eq!(response.header("link"), Some(link));
    }
}

async fn get_returns_410_from_the_sunset_date(backend: Backend) {
    for (now, gone) in [
        ("2030-12-04T23:59:59.999999Z", false),
        ("2030-12-05T00:00:00Z", true),
        ("2031-01-01T00:00:00Z", true),
    ] {
        let now: Timestamp = now.parse().unwrap();
        let server = Server::start_with(backend, |config| {
            config.service.api.clock = Clock::new(move || now);
        })
        .await;
        server.create_pets(1).await;
        let response = server.get("/v1/pets/1").await;
        if gone {
            response.assert_error(410, "operation_removed");
            server
                .get("/v1/pets/abc")
                .await
                .assert_error(410, "operation_removed");
            assert_eq!(
                response.header("sunset"),
                Some("Thu, 05 Dec 2030 00:00:00 GMT")
            );
        } else {
            assert_eq!(response.status, 200);
        }
        assert_eq!(server.count_pets().await, 1, "listing still works");
    }
}
