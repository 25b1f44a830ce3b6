//! The disk fails or is full, for a while or for good: clients are told, and
//! nothing that they were promised is lost.
//!
//! strace makes system calls fail. It counts them for each thread; the
//! counts leave the service room to start and to do its first writes.

use crate::{
    client::{Client, Ledger, Load},
    harness::{Home, Service},
    trace,
};

const FAILING_FOR_A_WHILE: &str = "inject=fsync,fdatasync:error=EIO:when=12..24";
const FULL_FOR_A_WHILE: &str = "inject=pwrite64:error=ENOSPC:when=150..200";
const FAILING_FOR_GOOD: &str = "inject=fsync,fdatasync:error=EIO:when=12+";
const FULL_FOR_GOOD: &str = "inject=pwrite64:error=ENOSPC:when=150+";

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn one_client_gets_over_a_failing_disk() {
    gets_over(FAILING_FOR_A_WHILE, 1, Service::kill).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn many_clients_get_over_a_failing_disk() {
    gets_over(FAILING_FOR_A_WHILE, 8, Service::stop).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn one_client_gets_over_a_full_disk() {
    gets_over(FULL_FOR_A_WHILE, 1, Service::stop).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn many_clients_get_over_a_full_disk() {
    gets_over(FULL_FOR_A_WHILE, 8, Service::kill).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_failing_disk_loses_nothing_when_the_service_is_killed() {
    stays_broken(FAILING_FOR_GOOD, Service::kill).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_failing_disk_loses_nothing_when_the_service_is_stopped() {
    stays_broken(FAILING_FOR_GOOD, Service::stop).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_full_disk_loses_nothing_when_the_service_is_stopped() {
    stays_broken(FULL_FOR_GOOD, Service::stop).await;
}

/// Idempotent the disk works again so do creates, without a restart, even if the
/// log of the service could not be written to either.
#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_log_that_nobody_reads_is_no_further_trouble() {
    let home = Home::new();
    let key = home.new_key();
    let options = ["-e", trace::CALLS, "-e", FAILING_FOR_A_WHILE];
    let service = Service::start_unheard(&mut home.serve_traced(&options));
    let load = Load::start(&Client::new(&service, &key), 1, "pet");
    load.until(has_got_over).await;
    load.finish().await;
    service.stop();
}

fn has_got_over(ledger: &Ledger) -> bool {
    ledger.refusals >= 3 && ledger.in_a_row >= 100
}

/// Clients meet 503 while the fault lasts and 201 after it, and everything
/// that was acknowledged is there, before and after a restart.
async fn gets_over(fault: &str, clients: usize, end: fn(Service)) {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", trace::CALLS, "-e", fault]));
    let client = Client::new(&service, &key);
    let load = Load::start(&client, clients, "pet");
    load.until(has_got_over).await;
    let ledger = load.finish().await;
    ledger.assert_kept(&client.pets().await);
    end_and_compare(&home, service, end, &key, &ledger).await;
}

/// While the disk stays broken nothing is acknowledged, but reading goes on.
async fn stays_broken(fault: &str, end: fn(Service)) {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", trace::CALLS, "-e", fault]));
    let client = Client::new(&service, &key);
    let load = Load::start(&client, 8, "pet");
    load.until(|ledger| ledger.refusals >= 100).await;
    let ledger = load.finish().await;
    assert_eq!(ledger.in_a_row, 0, "acknowledged on a broken disk");
    ledger.assert_kept(&client.pets().await);
    end_and_compare(&home, service, end, &key, &ledger).await;
}

/// Ends the service, looks into the trace whether an answer came too early,
/// and finds everything again on a disk that works.
async fn end_and_compare(
    home: &Home,
    service: Service,
    end: fn(Service),
    key: &str,
    ledger: &Ledger,
) {
    let process = service.process();
    end(service);
    let trace = home.trace_of(process);
    assert!(trace.contains("(INJECTED)"), "nothing failed");
    let verdict = trace::judge(&trace);
    assert_eq!(verdict.too_early, [0; 0]);
    assert_eq!(verdict.answers, ledger.acknowledged.len());
    let service = home.serve();
    ledger.assert_kept(&Client::new(&service, key).pets().await);
    service.stop();
}
