//! I/O errors: each call that touches the files of the store fails once.

use std::fs;

use rand::RngExt;
use support::{random, rounds};

use super::disk::{Faults, Trace};
use crate::{
    client::{Client, LoadGenerator, WriteResults},
    event_log::assert_logged,
    harness::{Home, Service},
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// About as many calls as a run makes.
const CALLS: usize = 120;

/// A service with one failing call does not start, or recovers by itself. Either
/// way it loses nothing.
#[tokio::test]
async fn a_failing_call_loses_nothing() {
    let mut random = random("I/O faults");
    let errors = |call| [(call, EIO), (call, ENOSPC)];
    let mut reached = 0;
    if rounds(0, 1) == 0 {
        for _ in 0..6 {
            let fault = errors(random.random_range(1..CALLS))[random.random_range(0..2)];
            reached += usize::from(survives(fault).await);
        }
    } else {
        for fault in (1..).flat_map(errors) {
            if !survives(fault).await {
                break;
            }
            reached += 1;
        }
    }
    println!("{reached} calls failed");
    assert!(reached > 0, "no call failed");
}

/// Returns whether the call was reached.
async fn survives(fault: (usize, i32)) -> bool {
    println!("call {} fails with error {}", fault.0, fault.1);
    let home = Home::new();
    let key = home.new_key();
    let database = fs::read(home.database()).unwrap();
    let faults = Faults {
        call: Some(fault),
        ..Faults::default()
    };
    let mut command = home.serve_command();
    faults.apply(&home, &mut command);
    let mut results = WriteResults::default();
    match Service::try_start(&mut command) {
        Ok(service) => {
            let client = Client::new(&service, &key);
            let load = LoadGenerator::with_deletions(&client, 2, "pet");
            load.until(|results| results.consecutive_acks >= 10).await;
            results = load.finish().await;
            let pets = match client.try_pets().await {
                Ok(pets) => pets,
                // It was this read that failed.
                Err(_) => client.pets().await,
            };
            results.assert_durable(&pets);
            service.stop();
        }
        Err(output) => assert!(output.contains("cannot"), "{fault:?}: {output}"),
    }
    let service = home.serve();
    let client = Client::new(&service, &key);
    results.assert_durable(&client.pets().await);
    results.assert_photos(&client).await;
    service.stop();
    home.petstore(&["check", "--database", &home.url()])
        .success();
    assert_logged(&home);
    Trace::read(&home, database).has_fault()
}
