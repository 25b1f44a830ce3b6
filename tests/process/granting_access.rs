//! Keys and invitations on several replicas: each is decided once.

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use support::{Response, rounds};

use crate::{client::Client, replicas::Deployment};

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Response {
    client.send_json(method, path, body, None).await.unwrap()
}

/// Creates a key or an invitation with the scopes of the client. Returns its id and its secret.
async fn create(client: &Client, path: &str, name: &str) -> (Value, String) {
    let own = send(client, Method::GET, "/v1/keys/current", &Value::Null).await;
    let body = json!({"name": name, "scopes": own.json()["scopes"]});
    let created = send(client, Method::POST, path, &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    let key = created.json();
    (key["id"].clone(), key["secret"].as_str().unwrap().into())
}

fn deployment_of_an_owner() -> Deployment {
    let mut deployment = Deployment::start(3);
    let url = deployment.home.url();
    let created = deployment.home.petstore(&[
        "keys",
        "create",
        "owner",
        "--role",
        "owner",
        "--database",
        &url,
    ]);
    deployment.key = created.success().stdout.trim().into();
    deployment
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn of_devices_that_open_an_invitation_one_gets_the_key() {
    let deployment = deployment_of_an_owner();
    let clients = [0, 1, 2].map(|replica| deployment.client(replica));
    for round in 0..rounds(10, 1000) {
        let (_, secret) = create(&clients[0], "/v1/keys/invitations", "Ada").await;
        let claims = deployment.services.iter().map(async |service| {
            let client = Client::new(service, &secret);
            send(&client, Method::POST, "/v1/keys/claim", &Value::Null).await
        });
        let claims = join_all(claims).await;
        let (won, lost): (Vec<_>, Vec<_>) =
            claims.iter().partition(|claimed| claimed.status == 201);
        assert_eq!(won.len(), 1, "round {round}: {claims:?}");
        for lost in lost {
            lost.assert_error(401, "invalid_api_key");
        }
    }
    let keys = "SELECT count(*) FROM api_keys
                WHERE name = 'Ada' AND invitation_scopes IS NULL";
    assert_eq!(deployment.sql(keys), rounds(10, 1000).to_string());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn of_owners_that_revoke_each_other_one_stays() {
    let deployment = deployment_of_an_owner();
    let owners = "SELECT count(*) FROM api_keys
                  WHERE revoked_at IS NULL AND scopes LIKE '%keys:write%'";
    let id = "SELECT max(id) FROM api_keys";
    let mut stays: (Value, String) = (
        deployment.sql(id).parse::<i64>().unwrap().into(),
        deployment.key.clone(),
    );
    for round in 0..rounds(10, 1000) {
        let client = Client::new(&deployment.services[0], &stays.1);
        let mut all = [
            stays,
            create(&client, "/v1/keys", "one").await,
            create(&client, "/v1/keys", "two").await,
        ];
        // Each revokes the next, on a replica of its own.
        let revoked = (0..3).map(async |n| {
            let (id, _) = &all[(n + 1) % 3];
            let client = Client::new(&deployment.services[n], &all[n].1);
            let path = format!("/v1/keys/{id}");
            send(&client, Method::DELETE, &path, &Value::Null).await
        });
        let revoked = join_all(revoked).await;
        let left: usize = deployment.sql(owners).parse().unwrap();
        let statuses: Vec<_> = revoked.iter().map(|response| response.status).collect();
        assert!(left >= 1, "round {round}: {statuses:?}");
        let ended = statuses.iter().filter(|status| **status == 204).count();
        assert_eq!(left, 3 - ended, "round {round}: {statuses:?}");
        // One that is left ends the others.
        all.rotate_left(1);
        let mut remaining = all
            .into_iter()
            .zip(statuses)
            .filter(|(_, status)| *status != 204);
        stays = remaining.next().unwrap().0;
        let client = Client::new(&deployment.services[0], &stays.1);
        for ((id, _), _) in remaining {
            let path = format!("/v1/keys/{id}");
            let revoked = send(&client, Method::DELETE, &path, &Value::Null).await;
            assert_eq!(revoked.status, 204, "{revoked:?}");
        }
    }
}
