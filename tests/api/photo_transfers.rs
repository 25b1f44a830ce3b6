//! Photos as bytes on connections: large images, slow readers, and uploads that are slow or many.

use std::{iter, time::Duration};

use bytes::Bytes;
use domain::api_key::Scope;
use futures_util::future::{join, join_all};
use http::{Method, Version};
use http_body_util::BodyExt;
use serde_json::json;
use support::{Backend, TIMEOUT, eventually, large_black, noise};
use tokio::net::TcpSocket;

use crate::{
    client::Connection,
    harness::Server,
    photos::{add, create},
};

support::cases! {
    ALL: [
        large_images_keep_their_connection,
        slow_readers_hold_a_few_parts_each,
        an_image_that_cannot_be_read_is_cut_off,
        an_upload_is_rejected_before_its_body,
        uploads_without_a_length_are_small,
        a_slow_upload_times_out,
    ],
    DATABASES: [
        uploads_wait_for_their_turn,
        an_upload_that_waits_holds_little_memory,
        a_slow_upload_lets_others_pass,
        a_revoked_key_completes_no_upload,
        many_uploads_of_a_key_are_added_in_the_end,
        many_uploads_stay_within_the_memory_budget,
    ],
}

/// The bytes that requests and responses hold.
const HELD: &str = "petstore_held_memory_bytes";

/// The side of a picture whose image has a few dozen parts.
const SIDE: u32 = 1600;

/// Adds a photo whose large image has many parts, and returns its path.
async fn add_large(server: &Server) -> String {
    let pet = create(server).await;
    let target = format!("/v1/pets/{pet}/photos");
    let request = server.request(Method::POST, &target);
    let request = request.body(noise(SIDE, SIDE, 1)).skip_body_check();
    let response = request.send().await;
    assert_eq!(response.status, 201, "{}", response.text());
    format!("{target}/{}", response.json()["id"])
}

async fn large_images_keep_their_connection(backend: Backend) {
    let server = Server::start(backend).await;
    let target = add_large(&server).await;
    let image = server.get(&target).await.body;
    assert!(image.len() > 10 * (64 << 10), "{} bytes", image.len());
    let mut conn = Connection::open(&server).await;
    let get = format!("GET {target} HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n");
    let head = get.replacen("GET", "HEAD", 1);
    // Pipelined.
    conn.send(&format!("{get}{get}")).await;
    for _ in 0..2 {
        let response = conn.response(&format!("GET {target}")).await.unwrap();
        assert_eq!((response.status, &response.body), (200, &image));
    }
    conn.send(&head).await;
    let head = conn.raw.read_until("\r\n\r\n").await.to_lowercase();
    let length = format!("content-length: {}\r\n", image.len());
    assert!(head.contains(&length), "{head}");
    conn.send(&get).await;
    let response = conn.response(&format!("GET {target}")).await.unwrap();
    assert_eq!(response.body, image);
    // HTTP/1.0 knows no chunks.
    conn.send(&get.replace("HTTP/1.1", "HTTP/1.0")).await;
    let response = conn.last_response(&format!("GET {target}")).await;
    assert_eq!(response.body, image);
    let requests = server.http2().await;
    let concurrent = (0..8).map(async |_| {
        let request = server.request(Method::GET, &target).into_http();
        let response = requests.clone().send_request(request).await.unwrap();
        let length = image.len().to_string();
        assert_eq!(response.headers()["content-length"], *length);
        response.into_body().collect().await.unwrap().to_bytes()
    });
    for body in join_all(concurrent).await {
        assert_eq!(body, image);
    }
}

/// However large the images are, a client that does not read holds a few parts of 64 KiB, and
/// gets the rest when it reads.
async fn slow_readers_hold_a_few_parts_each(backend: Backend) {
    const READERS: usize = 64;
    let server = Server::start_with(backend, |config| {
        config.service.server.write_timeout = 10 * TIMEOUT;
    })
    .await;
    let target = add_large(&server).await;
    let image = server.get(&target).await.body;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(server.address).await.unwrap();
        let client = server.client(Version::HTTP_11);
        let stream = client.connect_over(stream).await.unwrap();
        let mut conn = Connection::over(&server, stream);
        conn.send(&format!("GET {target} HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n"))
            .await;
        readers.push(conn);
    }
    // The buffers of the system take the start of each image.
    let are_blocked = async || server.metric(HELD).await >= (READERS * (64 << 10)) as f64;
    eventually("all readers are blocked", are_blocked).await;
    let held = server.metric(HELD).await;
    assert!(held <= (READERS * (192 << 10)) as f64, "{held} bytes held");
    assert!(image.len() > 1 << 20);
    let bodies = readers.iter_mut().map(async |conn| {
        let response = conn.raw.response().await.expect("a response");
        response.body
    });
    for body in join_all(bodies).await {
        assert!(body == image, "{} of {} bytes", body.len(), image.len());
    }
    let is_released = async || server.metric(HELD).await < (256 << 10) as f64;
    eventually("the memory is released", is_released).await;
}

/// A client notices that an image is incomplete: the connection ends before the announced length.
async fn an_image_that_cannot_be_read_is_cut_off(backend: Backend) {
    let server = Server::start(backend).await;
    let target = add_large(&server).await;
    let lose = "DELETE FROM photo_parts WHERE kind = 'full' AND part = 5";
    server.database.execute(lose);
    let request = server.request(Method::GET, &target).into_http();
    let response = server.client(Version::HTTP_11).open(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.into_body().collect().await.is_err());
    let mut requests = server.http2().await;
    let request = server.request(Method::GET, &target).into_http();
    let response = requests.send_request(request).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    // Other requests on the connection are served.
    let request = server.request(Method::GET, "/v1/pets").into_http();
    let response = requests.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let thumb = server.get(&(target + "?size=thumb")).await;
    assert_eq!(thumb.status, 200);
}

/// The client asks first, and sends nothing of an image that would be rejected.
async fn an_upload_is_rejected_before_its_body(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    for (path, headers, status) in [
        (format!("/v1/pets/{}/photos", pet + 1), "", 404),
        ("/v1/pets/x/photos".into(), "", 404),
        (
            format!("/v1/pets/{pet}/photos"),
            "Content-Type: text/plain\r\n",
            415,
        ),
        (format!("/v1/pets/{pet}/photos"), "If-Match: \"x\"\r\n", 412),
    ] {
        let mut conn = Connection::open(&server).await;
        conn.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nKEY\r\n{headers}Expect: 100-continue\r\n\
             Content-Length: 5000000\r\n\r\n"
        ))
        .await;
        let response = conn.raw.response().await.unwrap();
        assert_eq!(response.status, status, "{}", response.text());
    }
    let mut conn = Connection::open(&server).await;
    let length = (10 << 20) + 1;
    conn.send(&format!(
        "POST /v1/pets/{pet}/photos HTTP/1.1\r\nHost: x\r\nKEY\r\nExpect: 100-continue\r\n\
         Content-Length: {length}\r\n\r\n"
    ))
    .await;
    let response = conn.raw.response().await.unwrap();
    response.assert_error(413, "body_too_large");
}

async fn uploads_without_a_length_are_small(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let head = format!(
        "POST /v1/pets/{pet}/photos HTTP/1.1\r\nHost: x\r\nKEY\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for (side, status) in [(100, 201), (200, 413)] {
        let image = noise(side, side, 1);
        let mut conn = Connection::open(&server).await;
        conn.send(&head).await;
        for chunk in image.chunks(16 << 10) {
            conn.raw.send(format!("{:x}\r\n", chunk.len())).await;
            conn.raw.send(chunk).await;
            conn.raw.send("\r\n").await;
        }
        if status == 201 {
            conn.raw.send("0\r\n\r\n").await;
        }
        let response = conn.raw.response().await.unwrap();
        assert_eq!(response.status, status, "{}", response.text());
    }
}

async fn a_slow_upload_times_out(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.limits.body_timeout = Duration::from_millis(100);
    })
    .await;
    let pet = create(&server).await;
    let path = format!("/v1/pets/{pet}/photos");
    let mut conn = Connection::open(&server).await;
    conn.send(&format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: 5000\r\n\r\nabc"
    ))
    .await;
    let response = conn.last_response(&format!("POST {path}")).await;
    response.assert_error(408, "request_timeout");
}

async fn uploads_wait_for_their_turn(backend: Backend) {
    for is_key in [false, true] {
        let server = Server::start_with(backend, |config| {
            let uploads = &mut config.service.api.uploads;
            if is_key {
                uploads.max_of_key = 0;
            } else {
                uploads.max = 0;
            }
            uploads.max_wait = Duration::from_millis(50);
        })
        .await;
        let pet = create(&server).await;
        let target = format!("/v1/pets/{pet}/photos");
        let request = server.request(Method::POST, &target).body(noise(4, 4, 1));
        let response = request.skip_body_check().send().await;
        response.assert_error(503, "unavailable");
        assert_eq!(response.header("retry-after"), Some("1"));
        assert!(response.is_rejected(), "{}", response.text());
        // Others need no turn.
        assert_eq!(server.get("/v1/pets").await.status, 200);
    }
    // One at a time, and all are added.
    let server = Server::start_with(backend, |config| {
        config.service.api.uploads.max_of_key = 1;
        config.service.api.uploads.max_wait = 10 * TIMEOUT;
    })
    .await;
    let pet = create(&server).await;
    join_all((0..8).map(|seed| add(&server, pet, seed))).await;
    let shown = server.get(&format!("/v1/pets/{pet}")).await.json();
    assert_eq!(shown["photos"].as_array().unwrap().len(), 8);
}

/// Nothing of its image is read before its turn.
async fn an_upload_that_waits_holds_little_memory(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.uploads.max = 0;
        config.service.api.uploads.max_wait = 10 * TIMEOUT;
    })
    .await;
    let pet = create(&server).await;
    let mut waiting = Connection::open(&server).await;
    waiting
        .send(&format!(
            "POST /v1/pets/{pet}/photos HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: 9000000\r\n\r\n"
        ))
        .await;
    let is_charged = async || server.metric(HELD).await >= (48 << 10) as f64;
    eventually("the upload is charged", is_charged).await;
    let held = server.metric(HELD).await;
    assert!(held <= (128 << 10) as f64, "{held} bytes held");
}

/// A client that is slow to send its image gives up its turn, and takes another one.
async fn a_slow_upload_lets_others_pass(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.uploads.max = 1;
        config.service.api.uploads.max_wait = 10 * TIMEOUT;
        config.service.api.limits.body_timeout = 10 * TIMEOUT;
    })
    .await;
    let pet = create(&server).await;
    let path = format!("/v1/pets/{pet}/photos");
    let image = noise(64, 64, 1);
    let (start, end) = image.split_at(100);
    let mut slow = Connection::open(&server).await;
    let length = image.len();
    slow.send(&format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: {length}\r\n\r\n"
    ))
    .await;
    slow.raw.send(start).await;
    add(&server, pet, 2).await;
    slow.raw.send(end).await;
    let response = slow.response(&format!("POST {path}")).await.unwrap();
    assert_eq!(response.status, 201, "{}", response.text());
}

/// An image may take minutes to arrive.
async fn a_revoked_key_completes_no_upload(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.limits.body_timeout = 10 * TIMEOUT;
    })
    .await;
    let pet = create(&server).await;
    let key = server
        .create_key(&[Scope::PetsWrite, Scope::PetsRead], None)
        .await;
    let path = format!("/v1/pets/{pet}/photos");
    let image = noise(64, 64, 1);
    let (start, end) = image.split_at(100);
    let length = image.len();
    let mut upload = Connection::open(&server).await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    );
    upload.send(&head).await;
    // The key was accepted.
    upload.raw.read_until("100 Continue\r\n\r\n").await;
    upload.raw.send(start).await;
    let revoke = "UPDATE api_keys SET revoked_at = 1 WHERE id = 2";
    server.database.execute(revoke);
    let is_revoked = async || {
        let request = server.request(Method::GET, "/v1/pets").with_key(&key);
        request.send().await.status == 401
    };
    eventually("the key is revoked", is_revoked).await;
    upload.raw.send(end).await;
    let response = upload.response(&format!("POST {path}")).await.unwrap();
    response.assert_error(401, "invalid_api_key");
    let photos = server.database.query("SELECT count(*) FROM photos");
    assert_eq!(photos, "0");
}

/// More than get a turn in time are told to come back, and nothing else: the console and the
/// command line do so.
async fn many_uploads_of_a_key_are_added_in_the_end(backend: Backend) {
    const UPLOADS: usize = 64;
    let server = Server::start_with(backend, |config| {
        config.service.api.uploads.max_wait = Duration::from_millis(20);
    })
    .await;
    let image = Bytes::from(noise(400, 300, 1));
    let upload = async |number: usize| {
        let pet = create(&server).await;
        let target = format!("/v1/pets/{pet}/photos");
        let key = format!("photo-{number}");
        let mut shed = 0;
        loop {
            let request = server.request(Method::POST, &target).body(image.clone());
            let request = request.header("idempotency-key", &key).skip_body_check();
            let response = request.send().await;
            if response.status == 201 {
                return shed;
            }
            response.assert_error(503, "unavailable");
            assert_eq!(response.header("retry-after"), Some("1"));
            assert!(response.is_rejected(), "{}", response.text());
            shed += 1;
        }
    };
    let shed: usize = join_all((0..UPLOADS).map(upload)).await.iter().sum();
    assert!(shed > 0, "no upload had to wait");
    let photos = server.database.query("SELECT count(*) FROM photos");
    assert_eq!(photos, UPLOADS.to_string());
}

/// Uploads that wait for their turn hold little memory, and do not delay other requests.
async fn many_uploads_stay_within_the_memory_budget(backend: Backend) {
    const UPLOADS: usize = 24;
    const SIDE: u32 = 1200;
    let server = Server::start_with(backend, |config| {
        // Less than all images have, and more than those that are being received.
        config.service.server.max_held_bytes = 64 << 20;
        config.service.api.uploads.max_wait = 10 * TIMEOUT;
    })
    .await;
    let mut pets = Vec::new();
    for _ in 0..UPLOADS {
        pets.push(create(&server).await);
    }
    let image = Bytes::from(large_black(SIDE, SIDE));
    assert!(UPLOADS * image.len() > 80 << 20);
    let uploads = pets.iter().map(async |pet| {
        let target = format!("/v1/pets/{pet}/photos");
        let request = server.request(Method::POST, &target).body(image.clone());
        request.skip_body_check().send().await.status
    });
    let creates = async {
        for n in 0..50 {
            server
                .create(json!({"name": format!("Pet {n}"), "categoryId": 1}))
                .await;
        }
    };
    let (statuses, ()) = join(join_all(uploads), creates).await;
    assert!(
        statuses.iter().copied().eq(iter::repeat_n(201, UPLOADS)),
        "{statuses:?}"
    );
    assert_eq!(server.metric("petstore_memory_evictions_total").await, 0.0);
}
