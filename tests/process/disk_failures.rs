//! I/O errors and full disks, transient or permanent: clients get 503, and no
//! acknowledged write is lost.
//!
//! strace injects most errors. It counts system calls per thread; the counts let
//! the service start and complete its first writes.

use support::eventually;

use crate::{
    client::{Client, LoadGenerator, WriteResults},
    event_log::assert_logged,
    harness::{Home, Service},
    strace,
    torture::disk::{Failures, Faults},
};

const TRANSIENT_FSYNC_ERRORS: &str = "inject=fsync,fdatasync:error=EIO:when=12..24";
const TRANSIENT_DISK_FULL: &str = "inject=pwrite64:error=ENOSPC:when=150..200";
const PERMANENT_FSYNC_ERRORS: &str = "inject=fsync,fdatasync:error=EIO:when=12+";
const PERMANENT_DISK_FULL: &str = "inject=pwrite64:error=ENOSPC:when=150+";

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_single_writer_recovers_from_fsync_errors() {
    assert_recovers(TRANSIENT_FSYNC_ERRORS, 1, Service::kill).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn concurrent_writers_recover_from_fsync_errors() {
    assert_recovers(TRANSIENT_FSYNC_ERRORS, 8, Service::stop).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_single_writer_recovers_from_a_full_disk() {
    assert_recovers(TRANSIENT_DISK_FULL, 1, Service::stop).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn concurrent_writers_recover_from_a_full_disk() {
    assert_recovers(TRANSIENT_DISK_FULL, 8, Service::kill).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn fsync_errors_lose_no_acknowledged_write_on_sigkill() {
    assert_no_ack_while_broken(PERMANENT_FSYNC_ERRORS, Service::kill).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn fsync_errors_lose_no_acknowledged_write_on_shutdown() {
    assert_no_ack_while_broken(PERMANENT_FSYNC_ERRORS, Service::stop).await;
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_full_disk_loses_no_acknowledged_write_on_shutdown() {
    assert_no_ack_while_broken(PERMANENT_DISK_FULL, Service::stop).await;
}

/// Creates succeed again as soon as the disk recovers, without a restart, even if log
/// output fails with EPIPE in the meantime.
#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_broken_log_pipe_does_not_prevent_recovery() {
    let home = Home::new();
    let key = home.new_key();
    let options = ["-e", strace::SYSCALLS, "-e", TRANSIENT_FSYNC_ERRORS];
    let service = Service::start_with_closed_output(&mut home.serve_traced(&options));
    let load = LoadGenerator::start(&Client::new(&service, &key), 1, "pet");
    load.until(has_recovered).await;
    load.finish().await;
    service.stop();
}

/// The WAL keeps everything while checkpoints fail, and the metrics and the log show
/// the failures.
#[tokio::test]
async fn failing_checkpoints_are_visible() {
    let home = Home::new();
    let key = home.new_key();
    let faults = Faults {
        database: Some(Failures {
            period: 1,
            length: 1,
        }),
        ..Faults::default()
    };
    let mut command = home.serve_command();
    faults.apply(&home, command.args(["--metrics-listen", "127.0.0.1:0"]));
    let service = Service::start(&mut command);
    let load = LoadGenerator::start(&Client::new(&service, &key), 2, "pet");
    eventually("checkpoints to fail twice", async || {
        let scrape = service.metrics().await;
        scrape.metric("petstore_checkpoint_failures_total").unwrap() >= 2.0
            && scrape.metric("petstore_wal_bytes").unwrap() > 4e6
    })
    .await;
    let results = load.finish().await;
    assert_eq!(results.unavailable, 0, "commits are not affected");
    service.event("checkpoint failed");
    service.kill();
    let service = home.serve();
    results.assert_durable(&Client::new(&service, &key).pets().await);
}

fn has_recovered(results: &WriteResults) -> bool {
    results.unavailable >= 3 && results.consecutive_acks >= 100
}

/// Clients get 503 while the fault lasts and 201 after it, and every
/// acknowledged write is readable, before and after a restart.
async fn assert_recovers(fault: &str, clients: usize, end: fn(Service)) {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", strace::SYSCALLS, "-e", fault]));
    let client = Client::new(&service, &key);
    let load = LoadGenerator::start(&client, clients, "pet");
    load.until(has_recovered).await;
    let results = load.finish().await;
    results.assert_durable(&client.pets().await);
    end_and_assert_durable(&home, service, end, &key, &results).await;
}

/// While the disk stays broken, no write is acknowledged and reads still work.
async fn assert_no_ack_while_broken(fault: &str, end: fn(Service)) {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(&mut home.serve_traced(&["-e", strace::SYSCALLS, "-e", fault]));
    let client = Client::new(&service, &key);
    let load = LoadGenerator::start(&client, 8, "pet");
    load.until(|results| results.unavailable >= 100).await;
    let results = load.finish().await;
    assert_eq!(results.consecutive_acks, 0, "acknowledged on a broken disk");
    if fault == PERMANENT_DISK_FULL {
        assert!(results.unknown.is_empty(), "{:?}", results.unknown);
    }
    results.assert_durable(&client.pets().await);
    end_and_assert_durable(&home, service, end, &key, &results).await;
}

/// Ends the service, checks the trace for premature acknowledgements, and
/// asserts after a restart on a working disk that nothing is lost.
async fn end_and_assert_durable(
    home: &Home,
    service: Service,
    end: fn(Service),
    key: &str,
    results: &WriteResults,
) {
    let pid = service.pid();
    end(service);
    let trace = home.trace_of(pid);
    assert!(trace.contains("(INJECTED)"), "no error was injected");
    let report = strace::check_acknowledgements(&trace);
    assert_eq!(report.premature, [0; 0]);
    assert_eq!(report.acknowledged, results.acknowledged.len());
    let service = home.serve();
    results.assert_durable(&Client::new(&service, key).pets().await);
    assert_logged(home);
    service.stop();
}
