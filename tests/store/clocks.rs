//! Databases whose clock is wrong.

use domain::{
    event::EventRetention,
    idempotency::{IdempotencyKey, Idempotent, IdempotentRequest, RETENTION},
    pet::{NewPet, PetName},
};
use store::Role;
use support::{Backend, Database};

use crate::fixture::{API_KEY, create_store, open};

support::cases! {
    POSTGRES: [keys_and_deliveries_are_purged_by_the_clock_of_the_database],
}

/// The clock of the database decides, also if a client of it purges, and a service waits.
async fn keys_and_deliveries_are_purged_by_the_clock_of_the_database(backend: Backend) {
    for offset in ["-2 days", "2 days"] {
        let database = Database::new(backend);
        database.execute(&format!(
            "CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE
                 AS $$ SELECT pg_catalog.now() + interval '{offset}' $$;
             CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
                 AS $$ SELECT pg_catalog.clock_timestamp() + interval '{offset}' $$;
             DO $$ BEGIN
                 EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog',
                                current_database());
             END $$"
        ));
        create_store(&database.url()).await;
        let service = open(&database.url(), Role::Service).await;
        let create = async || {
            let pet = NewPet::new(PetName::parse("Rex").unwrap(), 1);
            let request = IdempotentRequest {
                api_key_id: API_KEY,
                key: IdempotencyKey::parse(b"kept").unwrap(),
                fingerprint: [1; 32],
            };
            let created = service.pet_create(API_KEY, pet, Some(request));
            created.await.unwrap()
        };
        assert!(matches!(create().await, Idempotent::Executed(_)));
        database.execute(
            "INSERT INTO idempotency_keys
             SELECT api_key_id, 'old', fingerprint, outcome, resource_id, 0
             FROM idempotency_keys;
             INSERT INTO webhooks (url, types, state, api_key_id, created_at, updated_at, secret,
                                   position)
             VALUES ('https://example.com', '', 'disabled', 1, 0, 0, '', '');
             INSERT INTO webhook_deliveries
             SELECT id, sequence, '', 'failed', 1,
                    sequence * (extract(epoch FROM now()) * 1000000)::bigint, NULL, ''
             FROM webhooks, generate_series(0, 1) AS sequence;",
        );
        let age = EventRetention::default().age;
        for (role, expected) in [(Role::Service, (0, 0)), (Role::Cli, (1, 1))] {
            let store = open(&database.url(), role).await;
            let purged = (
                store.idempotency_purge(RETENTION).await.unwrap(),
                store.delivery_purge(age).await.unwrap(),
            );
            assert_eq!(purged, expected, "{offset} {role:?}");
        }
        assert!(matches!(create().await, Idempotent::Replayed(_)));
    }
}
