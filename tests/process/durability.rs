//! Durability of SQLite commits: a 201 is sent only after fsync.

use crate::{
    client::{Client, LoadGenerator},
    harness::{Home, Service},
    strace,
};

/// Between a request and its response the WAL is written and synced. Before
/// the first response the directory is synced as well, because the WAL is new.
#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_create_is_acknowledged_after_fsync() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", strace::SYSCALLS]));
    let client = Client::new(&service, &key);
    for number in 0..30 {
        let response = client.create(&format!("pet {number}")).await.unwrap();
        assert_eq!(response.status, 201, "{response:?}");
    }
    let pid = service.pid();
    service.stop();
    let trace = home.trace_of(pid);
    assert_eq!(strace::check_acknowledgements(&trace), none_premature(30));
    let dir = home.dir();
    assert!(strace::directory_is_synced(&trace, dir.to_str().unwrap()));
}

/// Clients that share a group commit all get their response after its fsync.
#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn group_commits_are_acknowledged_after_fsync() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", strace::SYSCALLS]));
    let load = LoadGenerator::start(&Client::new(&service, &key), 16, "pet");
    load.until(|results| results.acknowledged.len() >= 400)
        .await;
    let results = load.finish().await;
    let pid = service.pid();
    service.stop();
    let report = strace::check_acknowledgements(&home.trace_of(pid));
    assert_eq!(report, none_premature(results.acknowledged.len()));
}

fn none_premature(acknowledged: usize) -> strace::Report {
    strace::Report {
        acknowledged,
        premature: Vec::new(),
    }
}
