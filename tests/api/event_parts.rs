//! Events of one resource or one batch: the same as by a filter of the whole log.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use support::Backend;

use crate::{
    events::{OpenStream, STREAM, position, read, read_desc},
    harness::Server,
};

support::cases! {
    DATABASES: [
        parts_of_the_log_equal_a_filter_of_it,
        a_page_by_subject_ends_at_the_end_of_the_log,
        a_stream_by_subject_equals_a_filter_of_the_log,
    ],
}

/// Animals, categories and orders have the ids up to this one in common.
const IDS: i64 = 4;

/// Makes random changes, whose events are about resources of all kinds with the same ids.
async fn change_at_random(server: &Server, random: &mut StdRng, count: usize) {
    for at in 0..count {
        let id = random.random_range(1..=IDS);
        let name = format!("Name {at}");
        match random.random_range(0..10) {
            0..3 => {
                let body = json!({"name": name}).to_string();
                server.patch(&format!("/v1/pets/{id}"), body).await;
            }
            3..5 => {
                server.put_category(id, &name).await;
            }
            5 => {
                server.post_order(id).await;
            }
            6 => {
                server.transition(id, "cancel").await;
            }
            7 => {
                server.transition(id, "complete").await;
                server.transition(id, "return").await;
            }
            _ => {
                let other = id % IDS + 1;
                let changes = json!({"changes": [
                    {"id": id, "update": {"name": name}},
                    {"id": other, "update": {"name": name}},
                ]});
                server.post("/v1/pets/batch", changes.to_string()).await;
            }
        }
    }
}

async fn create_pets(server: &Server) {
    for _ in 0..IDS {
        let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
        server.create(pet).await;
    }
}

/// A filter, as query parameters.
#[derive(Default)]
struct Filter<'a> {
    subject: Option<&'a str>,
    batch: Option<&'a str>,
    types: Option<&'a str>,
}

impl Filter<'_> {
    fn query(&self) -> String {
        let members = [
            ("subject", self.subject),
            ("batch", self.batch),
            ("types", self.types),
        ];
        let parameters = members.map(|(name, value)| match value {
            Some(value) => format!("&{name}={value}"),
            None => String::new(),
        });
        parameters.concat()
    }

    fn apply<'e>(&self, events: impl IntoIterator<Item = &'e Value>) -> Vec<Value> {
        let is = |wanted: Option<&str>, value: &Value| wanted.is_none_or(|it| value == it);
        let events = events.into_iter().filter(|event| {
            let kind = event["type"].as_str().unwrap();
            is(self.subject, &event["subject"])
                && is(self.batch, &event["batchid"])
                && self
                    .types
                    .is_none_or(|types| types.split(',').any(|it| it == kind))
        });
        events.cloned().collect()
    }
}

async fn parts_of_the_log_equal_a_filter_of_it(backend: Backend) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(backend).await;
    create_pets(&server).await;
    change_at_random(&server, &mut random, 80).await;
    let (all, _) = read(&server, "/v1/events?limit=1000").await;
    let batches = all.iter().filter_map(|event| event["batchid"].as_str());
    let batch = batches.max().map(String::from);
    let mut kept = &all[..];
    for _ in 0..3 {
        check_parts(&server, kept, batch.as_deref(), &mut random).await;
        // The newest event is never purged.
        let purged = random.random_range(0..kept.len().min(40) - 1);
        let last = sequence(&kept[purged]);
        server.database.execute(&format!(
            "DELETE FROM events WHERE sequence <= {last};
             UPDATE event_log SET purged_through = {last}"
        ));
        let id = kept[random.random_range(0..=purged)]["id"]
            .as_str()
            .unwrap();
        kept = &kept[purged + 1..];
        for sort in ["asc", "desc"] {
            let path = format!("/v1/events?subject=pets/1&sort={sort}&after={id}");
            server.get(&path).await.assert_error(410, "cursor_expired");
        }
    }
}

fn sequence(event: &Value) -> i64 {
    event["sequence"].as_str().unwrap().parse().unwrap()
}

async fn check_parts(server: &Server, log: &[Value], batch: Option<&str>, random: &mut StdRng) {
    let of_pets = Some("pet.updated,pet.deleted");
    for filter in [
        Filter {
            subject: Some("pets/1"),
            ..Filter::default()
        },
        Filter {
            subject: Some("orders/2"),
            ..Filter::default()
        },
        Filter {
            subject: Some("categories/3"),
            ..Filter::default()
        },
        Filter {
            subject: Some("keys/1"),
            ..Filter::default()
        },
        Filter {
            subject: Some("pets/77"),
            ..Filter::default()
        },
        Filter {
            subject: Some("pets/2"),
            types: of_pets,
            ..Filter::default()
        },
        Filter {
            subject: Some("orders/1"),
            types: of_pets,
            ..Filter::default()
        },
        Filter {
            subject: Some("pets/3"),
            batch,
            ..Filter::default()
        },
        Filter {
            batch,
            ..Filter::default()
        },
    ] {
        let query = filter.query();
        let limit = random.random_range(1..6);
        let path = format!("/v1/events?limit={limit}{query}");
        let expected = filter.apply(log);
        let newest_first = filter.apply(log.iter().rev());
        assert_eq!(read(server, &path).await.0, expected, "{query}");
        let desc = format!("{path}&sort=desc");
        assert_eq!(read_desc(server, &desc).await, newest_first, "{query}");

        // From a position, which may be of another resource.
        let at = random.random_range(0..log.len());
        let id = log[at]["id"].as_str().unwrap();
        let after = format!("{path}&after={id}");
        let expected = filter.apply(&log[at + 1..]);
        assert_eq!(read(server, &after).await.0, expected, "{query} after {at}");
        let before = format!("{desc}&after={id}");
        let expected = filter.apply(log[..at].iter().rev());
        assert_eq!(
            read_desc(server, &before).await,
            expected,
            "{query} before {at}"
        );
    }
}

/// A client that follows its link reads nothing again.
async fn a_page_by_subject_ends_at_the_end_of_the_log(backend: Backend) {
    let server = Server::start(backend).await;
    create_pets(&server).await;
    let newest = position(&server.get("/v1/events?after=now").await);
    for subject in ["pets/1", "pets/77"] {
        let page = server.get(&format!("/v1/events?subject={subject}")).await;
        assert_eq!(position(&page), newest, "{subject}");
        let full = server
            .get(&format!("/v1/events?subject={subject}&limit=1"))
            .await;

        let events = full.json();
        let last = events[0]["id"].as_str().unwrap_or(&newest);
        assert_eq!(position(&full), last, "{subject}");
    }
}

/// Events of the past, from the store, and those that happen, from memory.
async fn a_stream_by_subject_equals_a_filter_of_the_log(backend: Backend) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(backend).await;
    create_pets(&server).await;
    change_at_random(&server, &mut random, 30).await;
    let filter = Filter {
        subject: Some("pets/1"),
        ..Filter::default()
    };
    let (past, _) = read(&server, "/v1/events?limit=1000").await;
    let start = random.random_range(0..past.len());
    let after = past[start]["id"].as_str().unwrap();
    let path = format!("{STREAM}?after={after}{}", filter.query());
    let mut stream = OpenStream::open(&server, &path, &[], false).await;
    change_at_random(&server, &mut random, 30).await;
    server.patch("/v1/pets/1", r#"{"name":"Last"}"#).await;
    let (all, _) = read(&server, "/v1/events?limit=1000").await;
    let expected = filter.apply(&all[start + 1..]);
    assert_eq!(stream.events(expected.len()).await, expected);
}
