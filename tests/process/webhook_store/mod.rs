//! Webhooks and their deliveries in the store. The same cases run on both databases.

mod changes;
mod commands;
mod deliveries;
mod leases;

use jiff::Timestamp;
use petstore::{
    api_key::Scopes,
    event::EventId,
    idempotency::{IdempotencyKey, Idempotent, IdempotentRequest},
    page::{ListQuery, Sort},
    pet::{NewPet, PetName},
    store::{DatabaseUrl, Options, Role, Store},
    webhook::{
        NewWebhook, WebhookId, WebhookRejection,
        delivery::{
            AttemptError, Delivery, DeliveryFilter, DeliveryState, Progress, StoredWebhook,
        },
        schedule::EndpointHealth,
        secret::WebhookSecret,
        url::WebhookUrl,
    },
};
use rusqlite::Connection;

use crate::{harness::Home, postgres::Cluster};

type WebhookResult = Result<StoredWebhook, WebhookRejection>;

/// A store with an API key, and a second connection to its database.
struct Database<'c> {
    store: Store,
    home: Home,
    server: Option<(&'c Cluster, String)>,
}

impl<'c> Database<'c> {
    async fn sqlite() -> Self {
        Self::open(Home::new(), None).await
    }

    async fn postgres(cluster: &'c Cluster) -> Self {
        let database = cluster.create_database();
        let home = Home::with_database(cluster.url(&database));
        Self::open(home, Some((cluster, database))).await
    }

    async fn open(home: Home, server: Option<(&'c Cluster, String)>) -> Self {
        home.new_key();
        Self {
            store: open(&home).await,
            home,
            server,
        }
    }

    /// Runs a statement and returns its only value, if it has one.
    fn sql(&self, sql: &str) -> String {
        if let Some((cluster, database)) = &self.server {
            return cluster.psql(database, sql);
        }
        let db = Connection::open(self.home.database()).unwrap();
        db.pragma_update(None, "foreign_keys", true).unwrap();
        let mut statement = db.prepare(sql).unwrap();
        if statement.column_count() == 0 {
            statement.execute([]).unwrap();
            return String::new();
        }
        let value: rusqlite::types::Value = statement.query_row([], |row| row.get(0)).unwrap();
        match value {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    async fn create(&self, idempotency: Option<IdempotentRequest>) -> Idempotent<WebhookResult> {
        let (new, secret) = (new(), WebhookSecret::generate());
        let created =
            self.store
                .webhook_create(1, Scopes::all(), new, secret, EventId::START, idempotency);
        created.await.unwrap()
    }

    /// Creates a webhook at the start of the log.
    async fn created(&self) -> StoredWebhook {
        executed(self.create(None).await).unwrap()
    }

    /// Creates so many webhooks.
    async fn fill_up_to(&self, count: usize) {
        self.created().await;
        self.sql(&format!(
            "WITH RECURSIVE numbers AS (
                 SELECT 2 AS number UNION ALL SELECT number + 1 FROM numbers WHERE number < {count})
             INSERT INTO webhooks (url, types, state, api_key_id, created_at, updated_at, secret,
                                   position)
             SELECT url, types, state, api_key_id, created_at, updated_at, secret, position
             FROM webhooks, numbers WHERE id = 1"
        ));
    }

    async fn get(&self, id: WebhookId) -> StoredWebhook {
        self.store.webhook_get(id).await.unwrap().unwrap()
    }

    /// Logs so many events, and returns the ids of all.
    async fn events(&self, count: usize) -> Vec<EventId> {
        for _ in 0..count {
            let pet = NewPet::new(PetName::parse("Rex").unwrap(), 1);
            self.store.pet_create(1, pet, None).await.unwrap();
        }
        self.store.event_sync().await.unwrap();
        let events = self
            .store
            .event_read(None, Sort::Asc, 1000)
            .await
            .unwrap()
            .unwrap();
        events.iter().map(|event| event.id()).collect()
    }

    /// Saves for the only owner.
    async fn save(&self, id: WebhookId, progress: Progress) {
        let leased = self.store.webhook_lease("owner").await.unwrap();
        let leased = leased.into_iter().find(|leased| leased.id == id);
        let epoch = leased.unwrap().epoch;
        let saved = self.store.webhook_save(id, "owner", epoch, progress);
        assert!(saved.await.unwrap());
    }

    async fn deliveries(&self, id: WebhookId) -> Vec<Delivery> {
        let all = ListQuery::<DeliveryFilter>::parse("limit=100").unwrap();
        let page = self.store.delivery_list(id, all).await.unwrap();
        assert_eq!(page.next, None);
        page.items
    }
}

async fn open(home: &Home) -> Store {
    let url: DatabaseUrl = home.url().parse().unwrap();
    let options = Options {
        create: true,
        ..Options::new(Role::Command)
    };
    let store = Store::open(&url, &options).await;
    store.unwrap()
}

/// The id of the first webhook.
fn first() -> WebhookId {
    WebhookId::parse("1").unwrap()
}

fn new() -> NewWebhook {
    NewWebhook {
        url: WebhookUrl::parse("https://example.com/hook?a=b").unwrap(),
        types: None,
        description: None,
    }
}

fn executed<T>(result: Idempotent<T>) -> T {
    match result {
        Idempotent::Executed(result) => result,
        Idempotent::Replayed(_) => panic!("replayed"),
        Idempotent::KeyReused => panic!("the key was reused"),
    }
}

fn replayed<T>(result: Idempotent<T>) -> T {
    match result {
        Idempotent::Replayed(result) => result,
        Idempotent::Executed(_) => panic!("executed"),
        Idempotent::KeyReused => panic!("the key was reused"),
    }
}

fn request(key: &str, fingerprint: u8) -> Option<IdempotentRequest> {
    Some(IdempotentRequest {
        api_key_id: 1,
        key: IdempotencyKey::parse(key.as_bytes()).unwrap(),
        fingerprint: [fingerprint; 32],
    })
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn progress(position: EventId) -> Progress {
    Progress {
        position,
        health: EndpointHealth::default(),
        paused_until: None,
        failures: Vec::new(),
        delivered: Vec::new(),
        disabled: None,
    }
}

/// A delivery that has failed once and is due at a second.
fn retrying(event_id: EventId, due: i64) -> Delivery {
    Delivery {
        event_id,
        state: DeliveryState::Retrying,
        attempts: 1,
        last_attempt_at: second(100),
        status: Some(500),
        error: AttemptError::UnsuccessfulStatus,
        next_attempt_at: Some(second(due)),
    }
}

/// A delivery that was given up at a second.
fn failed(event_id: EventId, at: i64) -> Delivery {
    Delivery {
        state: DeliveryState::Failed,
        attempts: 10,
        last_attempt_at: second(at),
        status: None,
        error: AttemptError::TimedOut,
        next_attempt_at: None,
        ..retrying(event_id, 0)
    }
}

macro_rules! on_both_databases {
    ($($case:path),* $(,)?) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn webhooks_on_sqlite() {
            $(
                eprintln!("{}", stringify!($case));
                $case(&Database::sqlite().await).await;
            )*
        }

        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs PostgreSQL; make test installs it and runs this"]
        async fn webhooks_on_postgres() {
            let cluster = Cluster::start_without_sync();
            $(
                eprintln!("{}", stringify!($case));
                $case(&Database::postgres(&cluster).await).await;
            )*
        }
    };
}

on_both_databases![
    changes::webhooks_are_created_and_listed_in_order,
    changes::ids_are_never_reused,
    changes::the_number_of_webhooks_is_limited,
    changes::a_change_changes_what_it_names,
    changes::a_key_must_be_able_to_read_what_a_webhook_delivers,
    changes::enabling_again_forgets_failures,
    changes::a_new_url_forgets_failures,
    changes::enabling_after_events_expired_continues_with_the_newest,
    changes::replaying_moves_the_position,
    changes::rotating_keeps_only_the_previous_secret,
    changes::a_retried_create_is_replayed,
    changes::a_retried_rotation_is_replayed,
    changes::concurrent_retries_are_executed_once,
    deliveries::all_of_the_progress_is_saved,
    deliveries::nothing_is_saved_for_another_epoch,
    deliveries::progress_is_saved_after_changes_that_do_not_concern_it,
    deliveries::disabling_ends_the_delivery,
    deliveries::an_event_that_failed_and_was_delivered_is_delivered,
    deliveries::retries_are_ordered_by_the_time_they_are_due,
    deliveries::deliveries_are_listed_by_event,
    deliveries::a_delivery_is_retried_on_request,
    deliveries::only_old_failed_deliveries_are_purged,
    deliveries::a_webhook_is_deleted_with_its_deliveries,
    deliveries::an_event_is_found_by_its_id,
    deliveries::the_same_progress_is_saved_again,
];
