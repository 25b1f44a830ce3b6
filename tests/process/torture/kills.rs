//! SIGKILL at random moments, under load.

use std::{panic::catch_unwind, time::Duration};

use rand::RngExt;
use support::{random, rounds};

use crate::{
    client::{Client, LoadGenerator, WriteResults},
    event_log::assert_logged,
    harness::Home,
    photos::{PhotoState, find_damage, open},
};

#[tokio::test]
async fn acknowledged_writes_survive_kills_at_random_moments() {
    let mut random = random("kills");
    let home = Home::new();
    let key = home.new_key();
    let mut results = WriteResults::default();
    for round in 0..rounds(5, 1000) {
        let service = home.serve();
        let client = Client::new(&service, &key);
        let clients = random.random_range(1..=16);
        let load = LoadGenerator::with_deletions(&client, clients, &format!("round {round}"));
        let enough = random.random_range(0..100);
        load.until(|results| results.acknowledged.len() >= enough)
            .await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..20))).await;
        service.kill();
        results.extend(load.finish().await);
    }
    assert!(!results.acknowledged.is_empty());
    let service = home.serve();
    let client = Client::new(&service, &key);
    results.assert_durable(&client.pets().await);
    results.assert_photos(&client).await;
    assert!(results.photos.values().any(|it| *it == PhotoState::Shown));
    service.stop();
    assert_eq!(find_damage(&open(&home)).unwrap(), None);
    home.petstore(&["check", "--database", &home.url()])
        .success();
    assert_logged(&home);
}

/// The control, for all campaigns that create and delete pets: each kind of damage is found.
/// A deleted pet is not among the results.
#[test]
fn the_check_finds_lost_doubled_rejected_and_deleted_pets() {
    let results = WriteResults {
        acknowledged: [("Rex".into(), 1), ("Tom".into(), 3)].into(),
        rejected: ["Bello".into()].into(),
        unknown: ["Mia".into()].into(),
        ..WriteResults::default()
    };
    let is_durable = |pets: &[(i64, &str)]| {
        let pets: Vec<_> = pets
            .iter()
            .map(|(id, name)| (*id, (*name).into()))
            .collect();
        catch_unwind(|| results.assert_durable(&pets)).is_ok()
    };
    assert!(is_durable(&[(1, "Rex"), (3, "Tom")]));
    assert!(is_durable(&[(1, "Rex"), (2, "Mia"), (3, "Tom")]));
    for damaged in [
        &[(1, "Rex")][..],
        &[(1, "Rex"), (2, "Tom")],
        &[(1, "Rex"), (3, "Tom"), (4, "Tom")],
        &[(1, "Rex"), (2, "Bello"), (3, "Tom")],
        &[(1, "Rex"), (3, "Tom"), (4, "Felix")],
        &[(3, "Tom"), (1, "Rex")],
    ] {
        assert!(!is_durable(damaged), "{damaged:?}");
    }
}
