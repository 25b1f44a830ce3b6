//! Backups of PostgreSQL, with the commands of the documentation.

use std::{env, fs, path::Path};

use support::{Cluster, CommandResult, postgres::program};

use crate::{
    client::Client,
    harness::{Home, PETSTORE},
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn the_documented_commands_back_up_and_restore_a_database() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    let docs = fs::read_to_string(docs).unwrap();
    let (_, section) = docs.split_once("\npg_dump ").unwrap();
    let script = format!("pg_dump {}", section.split_once("\n```").unwrap().0);

    let cluster = Cluster::start_without_sync();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    let key = home.new_key();
    let seed = home.petstore(&["seed", "20", "--database", &home.url()]);
    seed.success();
    let export = |url: &str| {
        home.petstore(&["export", "--database", url])
            .success()
            .stdout
    };
    let pets = export(&home.url());
    let restored = cluster.url(&cluster.create_database());
    let folders = [PETSTORE.into(), program("pg_dump")].map(|file| folder(&file));
    let path = env::var("PATH").unwrap();
    let mut bash = home.command("bash");
    bash.args(["-euc", &script])
        .env("PATH", format!("{}:{}:{path}", folders[0], folders[1]))
        .env("DATABASE", home.url())
        .env("RESTORED", &restored);
    CommandResult::of(&mut bash).success();
    assert_eq!(export(&restored), pets);

    // The ids continue.
    let home = Home::with_database(restored);
    let service = home.serve();
    let client = Client::new(&service, &key);
    let added = client.create("Rex").await.unwrap();
    assert_eq!(added.json()["id"], 21);
    service.stop();
}

fn folder(file: &Path) -> String {
    file.parent().unwrap().display().to_string()
}
