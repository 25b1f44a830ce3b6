//! Imports of files over the API: the batches that make them, and the import that `GET /imports`
//! finds by the content of the file.

use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        an_import_is_found_by_its_file,
        parts_arrive_in_any_order,
        an_import_that_was_replaced_is_stopped,
        an_import_that_was_undone_is_stopped,
        an_undone_import_is_made_again_by_undoing_the_undo,
        changes_that_the_log_lacks_are_counted,
        what_is_no_import_is_rejected,
    ],
}

const FILE: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// Sends a part of the import of [`FILE`].
async fn send(server: &Server, batch: &str, (row, rows): (i64, i64), changes: Value) -> Response {
    let import = json!({"file": FILE, "row": row, "rows": rows});
    let body = json!({"batchId": batch, "import": import, "changes": changes});
    server.post("/v1/pets/batch", body.to_string()).await
}

fn create(name: &str) -> Value {
    json!({"create": {"name": name, "categoryId": 1}})
}

/// The import of [`FILE`].
async fn find(server: &Server) -> Option<Value> {
    let response = server.get(&format!("/v1/imports?file={FILE}")).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json().as_array().unwrap().first().cloned()
}

/// The batch, the state, and the numbers of rows that are done, of added and of changed animals.
async fn progress(server: &Server) -> Value {
    let import = find(server).await.unwrap();
    json!([
        import["batchId"],
        import["state"],
        import["done"],
        import["added"],
        import["changed"]
    ])
}

async fn undo(server: &Server, batch: &str) -> Value {
    let path = format!("/v1/pets/batch/{batch}/undo");
    let mut undone = 0;
    let mut body = json!({});
    loop {
        let response = server.post(&path, body.to_string()).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let mut result = response.json();
        undone += result["undone"].as_i64().unwrap();
        match result.get("next") {
            Some(next) => body = json!({"cursor": next}),
            None => {
                result["undone"] = undone.into();
                return result;
            }
        }
    }
}

async fn an_import_is_found_by_its_file(backend: Backend) {
    let server = Server::start(backend).await;
    assert_eq!(find(&server).await, None);
    server.create(json!({"name": "Old", "categoryId": 1})).await;
    let changes = json!([create("A"), {"id": 1, "update": {"name": "New"}}, {"create": {}}]);
    assert_eq!(send(&server, "a", (0, 5), changes).await.status, 200);
    let import = find(&server).await.unwrap();
    assert_eq!(
        (&import["file"], &import["rows"]),
        (&json!(FILE), &json!(5))
    );
    assert_eq!(import.get("finishedAt"), None);
    assert_eq!(progress(&server).await, json!(["a", "started", 3, 1, 1]));
    let changes = json!([create("B"), create("C")]);
    assert_eq!(send(&server, "a", (3, 5), changes).await.status, 200);
    assert_eq!(progress(&server).await, json!(["a", "finished", 5, 3, 1]));
    let import = find(&server).await.unwrap();
    assert_eq!(import["finishedAt"], import["updatedAt"]);
    // A batch that is retried counts once, and one that is rejected never.
    let retry = || {
        let import = json!({"file": FILE, "row": 0, "rows": 1});
        let body = json!({"batchId": "b", "import": import, "changes": [create("D")]});
        let request = server.request(http::Method::POST, "/v1/pets/batch");
        let request = request.header("idempotency-key", "k");
        request
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
    };
    assert_eq!(retry().await.status, 200);
    assert_eq!(retry().await.header("idempotent-replayed"), Some("true"));
    assert_eq!(progress(&server).await, json!(["b", "finished", 1, 1, 0]));
    let import = json!({"file": FILE, "row": 0, "rows": 1});
    let body =
        json!({"batchId": "c", "import": import, "atomic": true, "changes": [{"create": {}}]});
    let rejected = server.post("/v1/pets/batch", body.to_string()).await;
    rejected.assert_error(409, "batch_rejected");
    assert_eq!(progress(&server).await, json!(["b", "finished", 1, 1, 0]));
}

async fn parts_arrive_in_any_order(backend: Backend) {
    let server = Server::start(backend).await;
    let start = send(&server, "a", (0, 10), json!([create("0")])).await;
    assert_eq!(start.status, 200);
    let names: Vec<_> = (0..10).map(|row| row.to_string()).collect();
    let rest = (1..10).rev();
    let rest = rest.map(|row| {
        send(
            &server,
            "a",
            (row, 10),
            json!([create(&names[row as usize])]),
        )
    });
    for response in futures_util::future::join_all(rest).await {
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(progress(&server).await, json!(["a", "finished", 10, 10, 0]));
}

async fn an_import_that_was_replaced_is_stopped(backend: Backend) {
    let server = Server::start(backend).await;
    // It was never started.
    let early = send(&server, "a", (1, 3), json!([create("B")])).await;
    early.assert_error(409, "import_stopped");
    for batch in ["a", "b"] {
        let start = send(&server, batch, (0, 3), json!([create("A")])).await;
        assert_eq!(start.status, 200);
    }
    let late = send(&server, "a", (1, 3), json!([create("B")])).await;
    late.assert_error(409, "import_stopped");
    let current = send(&server, "b", (1, 3), json!([create("B")])).await;
    assert_eq!(current.status, 200);
    assert_eq!(server.count_pets().await, 3);
    assert_eq!(progress(&server).await, json!(["b", "started", 2, 2, 0]));
    // The earlier one can still be undone, by itself.
    assert_eq!(undo(&server, "a").await["undone"], 1);
    assert_eq!(progress(&server).await, json!(["b", "started", 2, 2, 0]));
}

async fn an_import_that_was_undone_is_stopped(backend: Backend) {
    let server = Server::start(backend).await;
    for row in 0..3 {
        let changes = (0..500).map(|n| create(&format!("{row} {n}"))).collect();
        let sent = send(&server, "a", (500 * row, 2000), Value::Array(changes)).await;
        assert_eq!(sent.status, 200);
    }
    // The first part of the undo stops it.
    let part = server.post("/v1/pets/batch/a/undo", "").await.json();
    assert!(part["next"].is_string(), "{part}");
    assert_eq!(
        progress(&server).await,
        json!(["a", "undoing", 1500, 1500, 0])
    );
    let late = send(&server, "a", (1500, 2000), json!([create("Late")])).await;
    late.assert_error(409, "import_stopped");
    undo(&server, "a").await;
    assert_eq!(
        progress(&server).await,
        json!(["a", "undone", 1500, 1500, 0])
    );
    for row in [0, 1500] {
        let late = send(&server, "a", (row, 2000), json!([create("Late")])).await;
        late.assert_error(409, "import_stopped");
    }
    assert_eq!(server.count_pets().await, 0);
    let again = send(&server, "b", (0, 1), json!([create("Again")])).await;
    assert_eq!(again.status, 200);
    assert_eq!(progress(&server).await, json!(["b", "finished", 1, 1, 0]));
}

async fn an_undone_import_is_made_again_by_undoing_the_undo(backend: Backend) {
    let server = Server::start(backend).await;
    let start = send(&server, "a", (0, 1), json!([create("A")])).await;
    assert_eq!(start.status, 200);
    for (undone, state) in [
        ("a", "undone"),
        ("undo-a", "finished"),
        ("undo-undo-a", "undone"),
    ] {
        assert_eq!(undo(&server, undone).await["undone"], 1, "{undone}");
        assert_eq!(find(&server).await.unwrap()["state"], state, "{undone}");
    }
}

async fn changes_that_the_log_lacks_are_counted(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(json!({"name": "A", "categoryId": 1})).await;
    let changes = (0..10).map(|n| create(&n.to_string())).collect();
    let sent = send(&server, "a", (0, 10), Value::Array(changes)).await;
    assert_eq!(sent.status, 200);
    assert_eq!(undo(&server, "a").await.get("purged"), None);
    assert_eq!(undo(&server, "undo-a").await.get("purged"), None);
    server
        .database
        .execute("DELETE FROM events WHERE sequence <= 4");
    let result = undo(&server, "a").await;
    assert_eq!(
        (&result["undone"], &result["purged"]),
        (&json!(7), &json!(3))
    );
    assert_eq!(server.count_pets().await, 4);
}

async fn what_is_no_import_is_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    for (query, message) in [
        ("", "file: required; must be the SHA-256 of a file"),
        (
            "?file=9F",
            "file: must be a SHA-256 as 64 hexadecimal digits in lower case, got \"9F\"",
        ),
        (
            &format!("?file={FILE}&file={FILE}"),
            "file: must not be repeated",
        ),
    ] {
        let response = server.get(&format!("/v1/imports{query}")).await;
        response.assert_error(400, "invalid_parameter");
        assert_eq!(response.json()["message"], message);
    }
    for (import, message) in [
        (json!(1), "import: must be an object, got 1"),
        (
            json!({"row": 0, "rows": 1}),
            "import.file: required; must be a string",
        ),
        (
            json!({"file": "x", "row": 0, "rows": 1}),
            "import.file: must be a SHA-256 as 64 hexadecimal digits in lower case, got \"x\"",
        ),
        (
            json!({"file": FILE, "row": -1, "rows": 1}),
            "import.row: must be an integer from 0 to 1000000000, got -1",
        ),
        (
            json!({"file": FILE, "row": 0, "rows": 0}),
            "import.rows: must be an integer from 1 to 1000000000, got 0",
        ),
    ] {
        let body = json!({"batchId": "a", "import": import, "changes": [create("A")]});
        let response = server.post("/v1/pets/batch", body.to_string()).await;
        response.assert_error(400, "invalid_body");
        assert_eq!(response.json()["message"], message);
    }
    for ((row, rows), message) in [
        (
            (0, 1),
            "import.rows: must be at least 2, the number of changes before the batch (0) and in \
             it (2), got 1",
        ),
        (
            (4, 5),
            "import.rows: must be at least 6, the number of changes before the batch (4) and in \
             it (2), got 5",
        ),
    ] {
        let changes = json!([create("A"), create("B")]);
        let response = send(&server, "a", (row, rows), changes).await;
        response.assert_error(400, "invalid_body");
        assert_eq!(response.json()["message"], message);
    }
    assert_eq!(find(&server).await, None);
    let import = json!({"file": FILE, "row": 0, "rows": 1});
    let body = json!({"import": import, "changes": [create("A")]});
    let response = server.post("/v1/pets/batch", body.to_string()).await;
    response.assert_error(400, "invalid_body");
    assert_eq!(
        response.json()["message"],
        "batchId: required with import; all batches of an import have the same"
    );
    assert_eq!(server.count_pets().await, 0);
}
