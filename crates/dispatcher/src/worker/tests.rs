use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    super::{Config, Dispatcher},
    *,
};
use domain::{
    api_key::Scopes,
    clock::Clock,
    event::EventType,
    idempotency::Idempotent,
    webhook::{
        NewWebhook,
        secret::WebhookSecret,
        url::{UrlPolicy, WebhookUrl},
    },
};
use store::{
    DatabaseUrl, Options, Role,
    event_tail::{EventTail, Framing},
    scan_queue::ScanQueue,
};

/// The webhook wants the first event of the log and none of the others. While it waits for
/// its turn to skip them, the delivery of the first one is saved.
#[tokio::test]
async fn a_delivery_is_saved_while_a_scan_waits() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("petstore.db");
    let url = DatabaseUrl::Sqlite(file.clone());
    let store = Arc::new(
        Store::open(&url, &Options::new(Role::Service))
            .await
            .unwrap(),
    );
    let db = rusqlite::Connection::open(file).unwrap();
    db.execute_batch(
        "INSERT INTO events (at, type, resource_id, data)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         SELECT 1, iif(i = 1, 'category.deleted', 'category.updated'), i, '{{}}' FROM n",
    )
    .unwrap();
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = receiver.local_addr().unwrap();
    let new = NewWebhook {
        url: WebhookUrl::parse(&format!("http://{address}/")).unwrap(),
        types: Some([EventType::CategoryDeleted].into_iter().collect()),
        description: None,
    };
    let secret = WebhookSecret::generate();
    let created = store.webhook_create(1, Scopes::all(), new, secret, EventId::START, None);
    let Idempotent::Executed(Ok(created)) = created.await.unwrap() else {
        panic!("not created");
    };

    let tail = Arc::new(EventTail::new(store.clone(), Framing::default()));
    let urls = UrlPolicy {
        allow_http: true,
        networks: ["127.0.0.1/32".parse().unwrap()].into_iter().collect(),
    };
    let config = Config {
        urls,
        ..Config::default()
    };
    let dispatcher = Dispatcher::new(store.clone(), tail.clone(), config, Clock::system());
    let other = ScanQueue::default();
    let _turn = tail.turn(&other).await;
    let saved = async {
        let (mut connection, _) = receiver.accept().await.unwrap();
        assert!(connection.read(&mut [0; 4096]).await.unwrap() > 0);
        while tail.skipped.get() < 2 * PAGE as u64 - 1 {
            tokio::task::yield_now().await;
        }
        let response = b"HTTP/1.1 204 No Content\r\n\r\n";
        connection.write_all(response).await.unwrap();
        let is_saved = async || {
            let stored = store.webhook_get(created.webhook.id).await.unwrap();
            stored.unwrap().position != EventId::START
        };
        while !is_saved().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = dispatcher.run() => unreachable!(),
        saved = timeout(Duration::from_secs(60), saved) => saved.expect("it is saved"),
    }
}
