//! A 201 means that the pet is on disk.

use crate::{
    client::{Client, Load},
    harness::{Home, Service},
    trace,
};

/// The service writes and syncs the log between the request and its answer,
/// and makes the log's name safe before the first answer.
#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn one_client_is_answered_after_the_sync() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", trace::CALLS]));
    let client = Client::new(&service, &key);
    for number in 0..30 {
        let answer = client.create(&format!("pet {number}")).await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let process = service.process();
    service.stop();
    let trace = home.trace_of(process);
    assert_eq!(trace::judge(&trace), in_order(30));
    let folder = home.folder();
    assert!(trace::folder_is_synced(&trace, folder.to_str().unwrap()));
}

/// Clients whose pets share a commit are answered after it, each of them.
#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn many_clients_are_answered_after_the_sync() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", trace::CALLS]));
    let load = Load::start(&Client::new(&service, &key), 16, "pet");
    load.until(|ledger| ledger.acknowledged.len() >= 400).await;
    let ledger = load.finish().await;
    let process = service.process();
    service.stop();
    let verdict = trace::judge(&home.trace_of(process));
    assert_eq!(verdict, in_order(ledger.acknowledged.len()));
}

fn in_order(answers: usize) -> trace::Verdict {
    trace::Verdict {
        answers,
        too_early: Vec::new(),
    }
}
