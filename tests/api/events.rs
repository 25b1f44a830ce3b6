//! The event log: the feed and the stream.

use std::{net::IpAddr, sync::atomic::Ordering, time::Duration};

use domain::api_key::Scope;
use futures_util::future::join_all;
use http::{Method, StatusCode, Version};
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use support::{Backend, EventStream, Response, eventually, field};

use crate::{client::Request, harness::Server};

support::cases! {
    ALL: [
        every_change_is_an_event,
        an_expired_order_is_an_event_without_a_key,
        filters_and_scopes_select_events,
        a_long_poll_waits_for_an_event,
        a_long_poll_ends_with_its_client,
        a_stalled_http2_stream_is_closed,
        events_are_listed_newest_first,
        a_position_that_is_gone_gets_410,
        invalid_event_queries_get_400,
        a_stream_sends_events_as_they_happen,
        a_quiet_stream_has_heartbeats,
        a_stream_ends_by_age,
        a_stalled_stream_delays_nobody,
        a_resumed_stream_misses_and_repeats_nothing,
        streams_end_with_their_api_key_and_at_shutdown,
        streams_are_limited_by_key_address_and_in_all,
        a_filtered_page_does_bounded_work,
        a_long_log_without_a_match_is_read_to_its_end,
        scans_are_charged_to_the_rate_limit,
    ],
}

/// A position that no test reaches: well-formed, and not of any event.
const UNKNOWN: &str = "evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5";

/// All events after a position, page by page.
pub async fn read(server: &Server, path: &str) -> (Vec<Value>, String) {
    let mut events = Vec::new();
    let mut path = path.to_string();
    loop {
        let page = server.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let next = page.next().expect("every page has a link");
        if page.json() == json!([]) {
            return (events, next);
        }
        events.extend(page.json().as_array().unwrap().iter().cloned());
        path = next;
    }
}

const DESC: &str = "/v1/events?sort=desc";

/// All events before a position, page by page.
pub async fn read_desc(server: &Server, path: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut next = Some(path.to_string());
    while let Some(path) = next {
        let page = server.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.text());
        events.extend(page.json().as_array().unwrap().iter().cloned());
        next = page.next();
        assert_ne!(next, Some(path), "the link leads to older events");
    }
    events
}

/// Names a category, and adds as many events about another one.
async fn add_events(server: &Server, count: usize) {
    assert!(server.put_category(1, "Dogs").await.is_success());
    server.database.execute(&format!(
        "INSERT INTO events (at, type, resource_id, data)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         SELECT at, type, 2, '{{\"id\":2,\"name\":\"Cats\"}}' FROM n, events WHERE sequence = 1"
    ));
}

/// The events that were read and left out by a filter.
async fn skipped(server: &Server) -> f64 {
    server.metric("petstore_skipped_events_total").await
}

fn types(events: &[Value]) -> Vec<&str> {
    let types = events.iter().map(|event| event["type"].as_str().unwrap());
    types.collect()
}

async fn long_polls(server: &Server) -> f64 {
    let name = "petstore_event_streams{kind=\"long_poll\"}";
    server.metric(name).await
}

/// The position of a page: the `after` of its link.
pub fn position(page: &Response) -> String {
    let next = page.next().unwrap();
    let after = next.split_once("after=").unwrap().1;
    after.split('&').next().unwrap().into()
}

async fn every_change_is_an_event(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = server.create(json!({"name": "Rex", "categoryId": 3, "status": "available"}));
    let pet = pet.await;
    let path = format!("/v1/pets/{pet}");
    server.patch(&path, r#"{"name":"Max"}"#).await;
    server.put_category(3, "Dogs").await;
    let first = server.place_order(pet).await;
    server.transition(first, "cancel").await;
    let order = server.place_order(pet).await;
    server.transition(order, "complete").await;
    let sold = server.get(&path).await.json();
    let completed = server
        .get(&format!("/v1/store/orders/{order}"))
        .await
        .json();
    server.transition(order, "return").await;
    server.delete("/v1/categories/3").await;
    let before_deletion = server.get(&path).await.json();
    server.delete(&path).await;
    // What changes nothing is no event.
    server.post_order(pet).await.assert_error(404, "not_found");
    server
        .transition(order, "cancel")
        .await
        .assert_error(409, "order_not_open");
    server.delete(&path).await.assert_error(404, "not_found");
    let other = server.create(json!({"name": "A", "categoryId": 1})).await;
    let unchanged = server
        .patch(&format!("/v1/pets/{other}"), r#"{"name":"A"}"#)
        .await;
    assert_eq!(unchanged.status, 200);

    let (events, _) = read(&server, "/v1/events?limit=2").await;
    let of = |subject: String| {
        let events = events.iter().filter(|event| event["subject"] == subject);
        let types = events.map(|event| event["type"].as_str().unwrap());
        types.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        of(format!("pets/{pet}")),
        "pet.created pet.updated pet.updated pet.updated pet.updated pet.updated pet.updated \
         pet.deleted"
    );
    assert_eq!(of(format!("pets/{other}")), "pet.created");
    assert_eq!(
        of(format!("orders/{first}")),
        "order.placed order.cancelled"
    );
    let life = "order.placed order.completed order.returned";
    assert_eq!(of(format!("orders/{order}")), life);
    assert_eq!(
        of("categories/3".into()),
        "category.updated category.deleted"
    );
    assert_eq!(events.len(), 16, "{events:?}");

    let sequences: Vec<_> = events.iter().map(|event| &event["sequence"]).collect();
    assert!(
        sequences.is_sorted_by(|a, b| a.as_str() < b.as_str()),
        "{sequences:?}"
    );
    let source = &events[0]["source"];
    assert!(
        source.as_str().unwrap().starts_with("urn:uuid:"),
        "{source}"
    );
    assert!(events.iter().all(|event| event["source"] == *source));
    assert!(
        events.iter().all(|event| event["keyid"] == "1"),
        "{events:?}"
    );
    let data = |kind: &str, nth: usize| {
        let of_kind = events.iter().filter(|event| event["type"] == kind);
        of_kind.map(|event| event["data"].clone()).nth(nth).unwrap()
    };
    assert_eq!(data("pet.updated", 0)["name"], "Max");
    assert_eq!(data("pet.updated", 4), sold);
    assert_eq!(data("order.completed", 0), completed);
    assert_eq!(data("pet.deleted", 0), before_deletion);
    assert_eq!(
        data("category.deleted", 0),
        json!({"id": 3, "name": "Dogs"})
    );
}

/// The service makes the change itself.
async fn an_expired_order_is_an_event_without_a_key(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.reserve_for = Some(SignedDuration::from_secs(1));
    })
    .await;
    let pet = server.create(json!({"name": "A", "categoryId": 1, "status": "available"}));
    let pet = pet.await;
    let path = "/v1/events?types=order.cancelled,pet.updated&wait=50";
    let mut after = server.get("/v1/events?after=now").await;
    server.place_order(pet).await;
    // The pet is reserved; the order is cancelled, and the pet is available.
    let mut events = Vec::new();
    while events.len() < 3 {
        after = server
            .get(&format!("{path}&after={}", position(&after)))
            .await;
        events.extend(after.json().as_array().unwrap().iter().cloned());
    }
    let by_a_key: Vec<_> = events
        .iter()
        .map(|event| event.get("keyid").is_some())
        .collect();
    assert_eq!(by_a_key, [true, false, false], "{events:?}");
}

async fn filters_and_scopes_select_events(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = server
        .create(json!({"name": "A", "categoryId": 1, "status": "available"}))
        .await;
    let other = server.create(json!({"name": "B", "categoryId": 1})).await;
    let order = server.place_order(pet).await;
    server.put_category(-5, "Fish").await;

    let (all, end) = read(&server, "/v1/events").await;
    assert_eq!(all.len(), 5);
    for (filter, expected) in [
        ("types=pet.created", "pet.created pet.created"),
        (
            "types=order.placed,category.updated",
            "order.placed category.updated",
        ),
        ("types=pet.deleted", ""),
        (&format!("subject=pets/{pet}"), "pet.created pet.updated"),
        (&format!("subject=pets/{other}"), "pet.created"),
        (
            &format!("subject=orders/{order}&types=order.placed"),
            "order.placed",
        ),
        ("subject=categories/-5", "category.updated"),
    ] {
        let (events, next) = read(&server, &format!("/v1/events?{filter}")).await;
        assert_eq!(types(&events).join(" "), expected, "{filter}");
        // The link moves past what was left out, and keeps the filter.
        let filtered = server.get(&next).await;
        assert_eq!(filtered.json(), json!([]));
        assert_eq!(
            position(&filtered),
            position(&server.get(&end).await),
            "{filter}"
        );
        let encoded = filter.replace('/', "%2F").replace(',', "%2C");
        for parameter in encoded.split('&') {
            assert!(next.contains(parameter), "{next}");
        }
    }

    let pets = server.create_key(&[Scope::PetsRead], None).await;
    let orders = server
        .create_key(&[Scope::OrdersRead, Scope::PetsWrite], None)
        .await;
    let get = |key: &str, path: &str| server.request(Method::GET, path).with_key(key);
    for path in ["/v1/events", "/v1/events/stream"] {
        let nothing = server
            .create_key(&[Scope::PetsWrite, Scope::OrdersWrite], None)
            .await;
        let rejected = get(&nothing, path).send().await;
        rejected.assert_error(403, "insufficient_scope");
        for (key, filter, status) in [
            (&pets, "types=pet.created,category.deleted", 200),
            (&pets, "types=pet.created,order.placed", 403),
            (&pets, "subject=orders/1", 403),
            (&pets, "subject=categories/1", 200),
            (&orders, "types=order.placed", 200),
            (&orders, "types=category.updated", 403),
            (&orders, "subject=pets/1", 403),
        ] {
            let response = get(key, &format!("{path}?{filter}")).send().await;
            assert_eq!(response.status, status, "{path} {filter}");
        }
    }
    let seen = get(&pets, "/v1/events").send().await.json();
    let expected = "pet.created pet.created pet.updated category.updated";
    assert_eq!(types(seen.as_array().unwrap()).join(" "), expected);
    let seen = get(&orders, "/v1/events").send().await.json();
    assert_eq!(types(seen.as_array().unwrap()), ["order.placed"]);
}

async fn a_long_poll_waits_for_an_event(backend: Backend) {
    let server = Server::start(backend).await;
    let start = server.get("/v1/events?after=now").await;
    assert_eq!(start.json(), json!([]));
    let after = format!("/v1/events?after={}", position(&start));
    let timed_out = server.get(&format!("{after}&wait=1")).await;
    assert_eq!(timed_out.json(), json!([]));
    assert_eq!(position(&timed_out), position(&start));

    let poll = format!("{after}&wait=50&types=pet.updated");
    let change = async {
        eventually("the poll is open", async || {
            long_polls(&server).await == 1.0
        })
        .await;
        assert_eq!(server.metric("petstore_requests_in_flight").await, 0.0);
        let pet = server.create(json!({"name": "A", "categoryId": 1})).await;
        server
            .patch(&format!("/v1/pets/{pet}"), r#"{"name":"B"}"#)
            .await;
    };
    let (page, ()) = tokio::join!(server.get(&poll), change);
    assert_eq!(types(page.json().as_array().unwrap()), ["pet.updated"]);
    assert!(page.next().unwrap().contains("wait=50"));
    // What has happened is returned at once.
    let page = server.get(&format!("{after}&wait=50")).await;
    assert_eq!(
        types(page.json().as_array().unwrap()),
        ["pet.created", "pet.updated"]
    );
    // An acknowledged change is on the next page, even if the client does not wait for it.
    let next = format!("/v1/events?after={}", position(&page));
    server.create(json!({"name": "C", "categoryId": 1})).await;
    let page = server.get(&next).await;
    assert_eq!(types(page.json().as_array().unwrap()), ["pet.created"]);
}

async fn events_are_listed_newest_first(backend: Backend) {
    let server = Server::start(backend).await;
    assert!(read_desc(&server, DESC).await.is_empty());
    let start = position(&server.get("/v1/events").await);
    server.put_category(1, "Dogs").await;
    let pet = server.create(json!({"name": "A", "categoryId": 1, "status": "available"}));
    let pet = pet.await;
    let order = server.place_order(pet).await;
    server.transition(order, "cancel").await;
    let (mut all, _) = read(&server, "/v1/events").await;
    all.reverse();
    for parameters in ["limit=1", "limit=4", "after=now", "wait=0"] {
        let events = read_desc(&server, &format!("{DESC}&{parameters}")).await;
        assert_eq!(events, all, "{parameters}");
    }
    // The page with the oldest event is the last one.
    for (limit, has_next) in [(all.len() - 1, true), (all.len(), false)] {
        let page = server.get(&format!("{DESC}&limit={limit}")).await;
        assert_eq!(page.next().is_some(), has_next);
    }
    // A position is the same in both directions.
    let middle = all[2]["id"].as_str().unwrap();
    let older = server.get(&format!("{DESC}&limit=2&after={middle}")).await;
    assert_eq!(older.json().as_array().unwrap(), &all[3..5]);
    let newer = server.get(&format!("/v1/events?after={middle}")).await;
    assert_eq!(newer.json(), json!([all[1], all[0]]));
    let oldest = read_desc(&server, &format!("{DESC}&after={start}")).await;
    assert_eq!(oldest, [] as [Value; 0]);

    let history = format!("subject=pets/{pet}&limit=1");
    for (filter, expected) in [
        (&*history, "pet.updated pet.updated pet.created"),
        (
            "types=order.placed,order.cancelled",
            "order.cancelled order.placed",
        ),
        ("types=category.updated&limit=1", "category.updated"),
        ("types=pet.deleted", ""),
    ] {
        let events = read_desc(&server, &format!("{DESC}&{filter}")).await;
        assert_eq!(types(&events).join(" "), expected, "{filter}");
    }
    let orders = server.create_key(&[Scope::OrdersRead], None).await;
    let get = |path: &str| server.request(Method::GET, path).with_key(&orders).send();
    let seen = get(DESC).await.json();
    let expected = ["order.cancelled", "order.placed"];
    assert_eq!(types(seen.as_array().unwrap()), expected);
    let rejected = get(&format!("{DESC}&{history}")).await;
    rejected.assert_error(403, "insufficient_scope");

    // More than a page examines: one by subject has an index.
    add_events(&server, 10_001).await;
    let of_pets = "types=pet.created,pet.updated";
    let page = server.get(&format!("{DESC}&{of_pets}")).await;
    assert_eq!(page.json(), json!([]));
    let found = read_desc(&server, &page.next().unwrap()).await;
    assert_eq!(types(&found), ["pet.updated", "pet.updated", "pet.created"]);
    let page = server.get(&format!("{DESC}&subject=pets/{pet}")).await;
    assert_eq!(page.json(), json!(found));
    assert_eq!(page.next(), None);
}

async fn a_position_that_is_gone_gets_410(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.event_retention.count = 3;
    })
    .await;
    let start = position(&server.get("/v1/events").await);
    let stream = |after: &str| {
        let request = server.request(Method::GET, "/v1/events/stream");
        request.header("last-event-id", after).send()
    };
    for n in 0..3 {
        server
            .create(json!({"name": format!("{n}"), "categoryId": 1}))
            .await;
    }
    let (events, _) = read(&server, "/v1/events").await;
    let oldest = events[0]["id"].as_str().unwrap();
    server.create_pets(4).await;
    eventually("events are purged", async || {
        server.metric("petstore_purged_events_total").await == 4.0
    })
    .await;
    let (kept, _) = read(&server, "/v1/events").await;
    assert_eq!(kept.len(), 3);
    for gone in [&start, oldest] {
        let response = server.get(&format!("/v1/events?after={gone}")).await;
        response.assert_error(410, "cursor_expired");
        let response = server.get(&format!("{DESC}&after={gone}")).await;
        response.assert_error(410, "cursor_expired");
        stream(gone).await.assert_error(410, "cursor_expired");
    }
    // The oldest that is kept ends the list, and can still be a position in it.
    assert_eq!(read_desc(&server, DESC).await.len(), 3);
    let kept = kept[0]["id"].as_str().unwrap();
    let (rest, _) = read(&server, &format!("/v1/events?after={kept}")).await;
    assert_eq!(rest.len(), 2);
    assert!(
        read_desc(&server, &format!("{DESC}&after={kept}"))
            .await
            .is_empty()
    );

    // Of another store: the number exists, the event does not.
    for query in ["", "sort=desc&"] {
        let response = server
            .get(&format!("/v1/events?{query}after={UNKNOWN}"))
            .await;
        response.assert_error(410, "cursor_unknown");
    }
    stream(UNKNOWN).await.assert_error(410, "cursor_unknown");
}

async fn invalid_event_queries_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    for query in [
        "after=",
        "after=1",
        "after=NOW",
        "after=evt_",
        "after=evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G6",
        "after=now&after=now",
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=1&limit=1",
        "wait=51",
        "wait=-1",
        "wait=1.5",
        "wait=1&wait=1",
        "sort=",
        "sort=DESC",
        "sort=asc&sort=desc",
        "wait=1&sort=desc",
        "types=",
        "types=pet",
        "types=pet.created,",
        "types=pet.created&types=pet.deleted",
        "subject=",
        "subject=pets",
        "subject=pets/0",
        "subject=pets/x",
        "subject=dogs/1",
        "subject=pets/1/2",
        "subject=pets/1&subject=pets/2",
        "subject=categories/9223372036854775808",
    ] {
        let response = server.get(&format!("/v1/events?{query}")).await;
        response.assert_error(400, "invalid_parameter");
        // These are no parameters of the stream.
        let is_ignored = ["limit", "wait", "sort"].contains(&query.split('=').next().unwrap());
        let response = server.get(&format!("/v1/events/stream?{query}")).await;
        if is_ignored {
            assert_eq!(response.status, 200, "{query}");
        } else {
            response.assert_error(400, "invalid_parameter");
        }
    }
    let stream = || server.request(Method::GET, "/v1/events/stream");
    for id in ["now", "1", "\u{fc}"] {
        let response = stream().header("last-event-id", id).send().await;
        response.assert_error(400, "invalid_parameter");
    }
    let twice = stream()
        .header("last-event-id", UNKNOWN)
        .header("last-event-id", UNKNOWN);
    twice.send().await.assert_error(400, "invalid_parameter");
    // As if it were absent.
    let empty = stream().header("last-event-id", "").send().await;
    assert_eq!(empty.status, 200);
}

/// A client that gives up makes room for others, although nothing was sent to it.
async fn a_long_poll_ends_with_its_client(backend: Backend) {
    let server =
        Server::start_with(backend, |config| config.service.api.streams.max_open = 1).await;
    for http2 in [false, true] {
        let poll = server.request(Method::GET, "/v1/events?after=now&wait=50");
        let poll = if http2 { poll.over_http2() } else { poll };
        let gives_up = async {
            eventually("the poll is open", async || {
                long_polls(&server).await == 1.0
            })
            .await;
        };
        tokio::select! {
            _ = poll.send() => panic!("nothing has happened"),
            () = gives_up => {}
        }
        eventually("the poll has ended", async || {
            long_polls(&server).await == 0.0
        })
        .await;
    }
    // HEAD does not wait at all.
    let head = server.request(Method::HEAD, "/v1/events?after=now&wait=50");
    assert_eq!(head.send().await.status, 200);
}

/// A client that never reads cannot keep its place for ever.
async fn a_stalled_http2_stream_is_closed(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.write_timeout = Duration::from_secs(1);
        config.service.api.streams.heartbeat_interval = Duration::from_millis(100);
    })
    .await;
    let stream = TokioIo::new(server.connect(Version::HTTP_2).await);
    let mut client = conn::http2::Builder::new(TokioExecutor::new());
    let handshake = client.initial_stream_window_size(0).handshake(stream);
    let (mut requests, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let request = server.request(Method::GET, STREAM).into_http();
    let _unread = requests.send_request(request).await.unwrap();
    // One that reads stays open.
    let _open = OpenStream::open(&server, STREAM, &[], true).await;
    eventually("the stalled stream is closed", async || {
        let streams = "petstore_event_streams{kind=\"stream\"}";
        server.metric(streams).await == 1.0
    })
    .await;
}

/// An open stream.
pub struct OpenStream(EventStream);

impl OpenStream {
    pub async fn open(server: &Server, path: &str, headers: &[(&str, &str)], http2: bool) -> Self {
        let mut request = server.request(Method::GET, path);
        if http2 {
            request = request.over_http2();
        }
        for (name, value) in headers {
            request.headers.remove(*name);
            request = request.header(name, value);
        }
        Self::send(request).await
    }

    async fn send(request: Request<'_>) -> Self {
        let response = request.client().open(request.into_http()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(EventStream::new(response.into_body()))
    }

    /// A stream with another API key, after its first block.
    async fn open_with(server: &Server, key: &str) -> Self {
        let mut stream = Self::send(server.request(Method::GET, STREAM).with_key(key)).await;
        stream.next().await;
        stream
    }

    /// A stream with another API key, from another address.
    async fn open_from(server: &Server, key: &str, from: IpAddr) -> Self {
        let request = server.request(Method::GET, STREAM);
        Self::send(request.with_key(key).from(from)).await
    }

    /// The next block; `None` at the end of the stream.
    async fn block(&mut self) -> Option<String> {
        self.0.block().await
    }

    /// The id, and the event if the block has one.
    pub async fn next(&mut self) -> (String, Option<Value>) {
        let block = self.block().await.expect("the stream continues");
        let id = field(&block, "id").unwrap().to_string();
        let Some(data) = field(&block, "data") else {
            return (id, None);
        };
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(event["id"], id);
        assert_eq!(event["type"], field(&block, "event").unwrap());
        (id, Some(event))
    }

    /// The next events.
    pub async fn events(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        while events.len() < count {
            events.extend(self.next().await.1);
        }
        events
    }
}

pub const STREAM: &str = "/v1/events/stream";

async fn a_stream_sends_events_as_they_happen(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(1).await;
    for http2 in [false, true] {
        let mut all = OpenStream::open(&server, STREAM, &[], http2).await;
        let start = all.block().await.unwrap();
        let retry = start
            .strip_prefix("retry: ")
            .unwrap()
            .lines()
            .next()
            .unwrap();
        assert!((2000..5000).contains(&retry.parse().unwrap()), "{retry}");
        let orders = "/v1/events/stream?types=order.placed,order.cancelled";
        let mut orders = OpenStream::open(&server, orders, &[], http2).await;
        let before = position(&server.get("/v1/events?after=now").await);
        let pet = server.create(json!({"name": "A", "categoryId": 1, "status": "available"}));
        let order = server.place_order(pet.await).await;
        server.transition(order, "cancel").await;
        let (expected, _) = read(&server, &format!("/v1/events?after={before}")).await;
        assert_eq!(expected.len(), 5);
        assert_eq!(all.events(5).await, expected);
        let found = orders.events(2).await;
        assert_eq!(types(&found), ["order.placed", "order.cancelled"]);

        // From a position, which the header determines if both are given.
        let resumed = format!("{STREAM}?after={before}");
        let mut resumed = OpenStream::open(&server, &resumed, &[], http2).await;
        assert_eq!(resumed.events(5).await, expected);
        let last = expected[2]["id"].as_str().unwrap();
        let resumed = format!("{STREAM}?after={before}");
        let header = [("last-event-id", last)];
        let mut resumed = OpenStream::open(&server, &resumed, &header, http2).await;
        assert_eq!(resumed.events(2).await, expected[3..]);
    }
}

/// A quiet stream stays alive, and its position moves past what is filtered out.
async fn a_quiet_stream_has_heartbeats(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.streams.heartbeat_interval = Duration::from_millis(50);
    })
    .await;
    let orders = "/v1/events/stream?types=order.placed";
    let mut stream = OpenStream::open(&server, orders, &[], false).await;
    stream.next().await;
    assert_eq!(stream.block().await.unwrap(), ":");
    server.create_pets(1).await;
    let (created, _) = read(&server, "/v1/events").await;
    let position = format!("id: {}", created[0]["id"].as_str().unwrap());
    let moved = loop {
        let block = stream.block().await.unwrap();
        if block != ":" {
            break block;
        }
    };
    assert_eq!(moved, position);
}

async fn a_stream_ends_by_age(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.streams.max_age = Duration::from_secs(1);
    })
    .await;
    let mut stream = OpenStream::open(&server, STREAM, &[], false).await;
    while stream.block().await.is_some() {}
}

/// A client that does not read delays no other client, and gets everything when it reads again.
async fn a_stalled_stream_delays_nobody(backend: Backend) {
    let server = Server::start(backend).await;
    let path = format!("{STREAM}?types=pet.created");
    let mut stalled = OpenStream::open(&server, &path, &[], true).await;
    let mut live = OpenStream::open(&server, &path, &[], true).await;
    // More than the buffers between the two hold.
    let name = "x".repeat(200);
    for batch in 0..20 {
        let pet = json!({"name": format!("{batch}{name}"), "categoryId": 1});
        join_all((0..50).map(|_| server.create(pet.clone()))).await;
        assert_eq!(live.events(50).await.len(), 50);
    }
    let all = stalled.events(1000).await;
    assert_eq!(all, read(&server, "/v1/events?limit=1000").await.0);
}

/// A client that is cut off resumes where it was, wherever that was.
async fn a_resumed_stream_misses_and_repeats_nothing(backend: Backend) {
    let server = Server::start(backend).await;
    let mut stream = OpenStream::open(&server, STREAM, &[], false).await;
    // Before the first event, too.
    let (mut last, _) = stream.next().await;
    let mut received = Vec::new();
    for cut_after in [0, 1, 3, 0, 2, 4] {
        drop(stream);
        server.create_pets(2).await;
        let header = [("last-event-id", &*last)];
        stream = OpenStream::open(&server, STREAM, &header, false).await;
        let (start, _) = stream.next().await;
        assert_eq!(start, last);
        for event in stream.events(cut_after.min(2)).await {
            last = event["id"].as_str().unwrap().into();
            received.push(event);
        }
    }
    let rest = read(&server, &format!("/v1/events?after={last}")).await.0;
    received.extend(stream.events(rest.len()).await);
    assert_eq!(received, read(&server, "/v1/events").await.0);
}

async fn streams_end_with_their_api_key_and_at_shutdown(backend: Backend) {
    let (mut server, hours) = Server::start_with_clock(backend).await;
    let mut kept = OpenStream::open(&server, STREAM, &[], true).await;
    assert_eq!(kept.next().await.1, None);

    let revoked = server.create_key(&[Scope::PetsRead], None).await;
    let mut stream = OpenStream::open_with(&server, &revoked).await;
    let poll = server.request(Method::GET, "/v1/events?after=now&wait=50");
    let revoke = async {
        eventually("the poll is open", async || {
            long_polls(&server).await == 1.0
        })
        .await;
        let revoke = "UPDATE api_keys SET revoked_at = 1 WHERE id = 2";
        server.database.execute(revoke);
    };
    let (poll, ()) = tokio::join!(poll.with_key(&revoked).send(), revoke);
    poll.assert_error(401, "invalid_api_key");
    assert_eq!(stream.block().await, None);

    let in_an_hour = Timestamp::now() + SignedDuration::from_hours(1);
    let expiring = server
        .create_key(&[Scope::PetsRead], Some(in_an_hour))
        .await;
    let mut stream = OpenStream::open_with(&server, &expiring).await;
    hours.store(2, Ordering::Relaxed);
    server.create_pets(1).await;
    assert_eq!(stream.block().await, None);

    assert_eq!(types(&kept.events(1).await), ["pet.created"]);
    server.signal_shutdown();
    assert_eq!(kept.block().await, None);
    server.stop().await;
}

/// One key cannot take all streams, nor can one address. Behind a proxy, clients share one.
async fn streams_are_limited_by_key_address_and_in_all(backend: Backend) {
    let server =
        Server::start_with(backend, |config| config.service.api.streams.max_open = 4).await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(server.create_key(&[Scope::PetsRead], None).await);
    }
    let first = OpenStream::open(&server, STREAM, &[], true).await;
    let is_full = "the limit of 1 open event streams and long polls of this API key is reached; \
                   close one, retry later, or poll without wait";
    for path in [STREAM, "/v1/events?after=now&wait=1"] {
        let rejected = server.get(path).await;
        rejected.assert_error(429, "rate_limited");
        assert_eq!(rejected.json()["message"], is_full);
        assert_eq!(rejected.header("retry-after"), Some("1"));
    }
    let head = server.request(Method::HEAD, STREAM).send().await;
    assert_eq!(head.status, 429);
    assert_eq!(server.get("/v1/events").await.status, 200);

    let mut open = Vec::new();
    for key in &others[..2] {
        open.push(OpenStream::open_with(&server, key).await);
    }
    let of = |key: &str| server.request(Method::GET, STREAM).with_key(key);
    let rejected = of(&others[2]).send().await;
    rejected.assert_error(503, "unavailable");
    let message = rejected.text();
    assert!(message.contains("of this address is reached"), "{message}");
    let elsewhere = [127, 0, 0, 2];
    open.push(OpenStream::open_from(&server, &others[2], elsewhere.into()).await);
    let rejected = of(&others[3]).from(elsewhere).send().await;
    rejected.assert_error(503, "unavailable");
    let message = rejected.text();
    let is_full = "limit of 4 open event streams and long polls is reached";
    assert!(message.contains(is_full), "{message}");
    for (limit, count) in [("api_key", 3.0), ("address", 1.0), ("all", 1.0)] {
        let rejected = format!("petstore_rejected_event_streams_total{{limit=\"{limit}\"}}");
        assert_eq!(server.metric(&rejected).await, count, "{limit}");
    }

    // A client that disconnects makes room, although nothing is sent to it.
    drop(first);
    eventually("the stream has ended", async || {
        let streams = "petstore_event_streams{kind=\"stream\"}";
        server.metric(streams).await == 3.0
    })
    .await;
    let head = server.request(Method::HEAD, STREAM).send().await;
    assert_eq!((head.status, &*head.body), (200, &[] as &[u8]));
    OpenStream::open_with(&server, &others[3]).await;
}

/// A page that finds nothing ends after some events, and its link leads on.
async fn a_filtered_page_does_bounded_work(backend: Backend) {
    let server = Server::start(backend).await;
    add_events(&server, 25_000).await;
    for (parameters, size) in [("limit=100", 9_100.0), ("limit=1000&sort=desc", 10_000.0)] {
        let mut next = Some(format!("/v1/events?types=order.placed&{parameters}"));
        let mut pages = 0;
        let before = skipped(&server).await;
        while let Some(path) = next {
            let examined = skipped(&server).await;
            let page = server.get(&path).await;
            assert_eq!(page.json(), json!([]));
            assert!(skipped(&server).await - examined <= size, "{parameters}");
            next = page.next().filter(|next| *next != path);
            pages += 1;
        }
        assert!(pages >= 3, "{pages} pages");
        assert_eq!(skipped(&server).await - before, 25_001.0, "{parameters}");
    }
}

/// A long poll waits at the end of the log, and so does a stream, however much they have to
/// skip.
async fn a_long_log_without_a_match_is_read_to_its_end(backend: Backend) {
    let server = Server::start(backend).await;
    add_events(&server, 25_000).await;
    let filter = "types=order.placed,order.cancelled";
    let start = position(&server.get("/v1/events?limit=1").await);
    let stream = format!("{STREAM}?{filter}&after={start}");
    let mut stream = OpenStream::open(&server, &stream, &[], false).await;
    let poll = format!("/v1/events?{filter}&wait=50");
    let order = async {
        eventually("both have read everything", async || {
            long_polls(&server).await == 1.0 && skipped(&server).await >= 50_001.0
        })
        .await;
        let pet = server.create(json!({"name": "A", "categoryId": 1, "status": "available"}));
        server.place_order(pet.await).await;
    };
    let (page, ()) = tokio::join!(server.get(&poll), order);
    assert_eq!(types(page.json().as_array().unwrap()), ["order.placed"]);
    assert_eq!(types(&stream.events(1).await), ["order.placed"]);
}

/// Reading on without a match is charged to the key, like the pages that it would take, and
/// leaves half of the quota for requests.
async fn scans_are_charged_to_the_rate_limit(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.rate_limit = Some("12/24h".parse().unwrap());
    })
    .await;
    add_events(&server, 70_000).await;
    let start = position(&server.get("/v1/events?limit=1").await);
    let reader = server.create_key(&[Scope::PetsRead], None).await;
    let authorization = format!("Bearer {reader}");
    let stream = format!("{STREAM}?types=pet.created&after={start}");
    let headers = [("authorization", &*authorization)];
    let _stream = OpenStream::open(&server, &stream, &headers, false).await;
    // The request pays for the first turn, and for the half that it leaves there are five.
    let turn = 250.0 + 9.0 * 1000.0;
    eventually("the quota is used", async || {
        skipped(&server).await >= 6.0 * turn
    })
    .await;
    let list = || {
        let request = server.request(Method::GET, "/v1/pets");
        request.with_key(&reader).send()
    };
    for _ in 0..6 {
        assert_eq!(list().await.status, 200);
    }
    list().await.assert_error(429, "rate_limited");
    assert_eq!(skipped(&server).await, 6.0 * turn);
}
