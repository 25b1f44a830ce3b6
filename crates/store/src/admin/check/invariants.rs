//! The properties of every sound store, on both databases: invariants across rows, counters, and
//! columns that the program derives from others.

use compact_str::CompactString;

use domain::{
    case_fold::fold,
    date::PastDate,
    event::EventId,
    members::Choice,
    order::OrderStatus,
    pet::PetStatus,
    price::Currency,
    webhook::{secret::WebhookSecret, url::WebhookUrl},
};

/// Queries, each with a description of what it counts, valid on both databases. Every count
/// must be 0.
pub(super) const INVARIANTS: [(&str, &str); 16] = [
    (
        "open orders whose animal is not pending",
        "SELECT count(*) FROM orders LEFT JOIN pets ON pets.id = orders.pet_id
         WHERE orders.status = 'placed' AND pets.status IS DISTINCT FROM 'pending'",
    ),
    (
        "completed orders whose animal is not sold",
        "SELECT count(*) FROM orders JOIN pets ON pets.id = orders.pet_id
         WHERE orders.status = 'completed' AND pets.status IS DISTINCT FROM 'sold'",
    ),
    (
        "animals with more than one order that is open or completed",
        "SELECT count(*) FROM (SELECT pet_id FROM orders WHERE status IN ('placed', 'completed')
                               GROUP BY pet_id HAVING count(*) > 1) AS several",
    ),
    (
        "orders that were updated before they were created",
        "SELECT count(*) FROM orders WHERE updated_at < created_at",
    ),
    (
        "orders with a wrong time of completion",
        "SELECT count(*) FROM orders
         WHERE (completed_at IS NULL) = (status IN ('completed', 'returned'))
            OR completed_at > updated_at OR completed_at < created_at",
    ),
    (
        "orders with a wrong time of return",
        "SELECT count(*) FROM orders
         WHERE (returned_at IS NULL) = (status = 'returned')
            OR returned_at > updated_at OR returned_at < completed_at",
    ),
    (
        "orders that record a sale but were not completed",
        "SELECT count(*) FROM orders
         WHERE completed_at IS NULL AND (completed_by IS NOT NULL OR category_id IS NOT NULL)",
    ),
    (
        // Records of deletions are purged by age, the oldest first, and are kept for at least as
        // long as events. An undo leaves none.
        "deleted animals that the register does not have",
        "SELECT count(*) FROM events LEFT JOIN deleted_pets ON deleted_pets.id = resource_id
         WHERE type = 'pet.deleted' AND (batch_id IS NULL OR batch_id NOT LIKE 'undo-%')
           AND at > coalesce((SELECT min(deleted_at) FROM deleted_pets), 0)
           AND deleted_pets.id IS NULL",
    ),
    (
        "words of no animal",
        "SELECT count(*) FROM pet_words LEFT JOIN pets ON pets.id = pet_id
         WHERE pets.id IS NULL OR ' ' || search_words || ' ' NOT LIKE '% ' || word || ' %'",
    ),
    (
        "words that a search does not find",
        "SELECT (SELECT coalesce(sum(CASE search_words WHEN '' THEN 0 ELSE
                     1 + length(search_words) - length(replace(search_words, ' ', '')) END), 0)
                 FROM pets)
              - (SELECT count(*) FROM pet_words)",
    ),
    (
        "photos that no animal shows",
        "SELECT count(*) FROM photos LEFT JOIN pets ON pets.id = pet_id
         WHERE removed_at IS NULL AND pets.photos IS NULL",
    ),
    (
        "parts of no photo",
        "SELECT count(*) FROM photo_parts LEFT JOIN photos ON photos.id = photo_id
         WHERE photos.id IS NULL",
    ),
    (
        "events that should have been purged",
        "SELECT count(*) FROM events JOIN event_log ON sequence <= purged_through",
    ),
    (
        "webhooks whose state contradicts their reason for being disabled",
        "SELECT count(*) FROM webhooks WHERE (state = 'disabled') = (disabled_reason IS NULL)",
    ),
    (
        "deliveries without a webhook",
        "SELECT count(*) FROM webhook_deliveries LEFT JOIN webhooks ON webhooks.id = webhook_id
         WHERE webhooks.id IS NULL",
    ),
    (
        "deliveries whose state contradicts the time of their next attempt",
        "SELECT count(*) FROM webhook_deliveries
         WHERE (state = 'retrying') = (next_attempt_at IS NULL)",
    ),
];

/// Returns the description of each count, its counter, and its rows.
pub(super) fn counts() -> Vec<[String; 3]> {
    let with_status = |table: &str, items: &str, status: &str| {
        let shown = if status == "placed" { "open" } else { status };
        [
            format!("{shown} {items}"),
            format!("{table}_{status}"),
            format!("{table} WHERE status = '{status}'"),
        ]
    };
    let pets = PetStatus::ALL
        .iter()
        .map(|status| with_status("pets", "animals", status.as_str()));
    let orders = OrderStatus::ALL
        .iter()
        .map(|status| with_status("orders", "orders", status.as_str()));
    let all_pets = ["animals", "pets", "pets"].map(String::from);
    [all_pets].into_iter().chain(pets).chain(orders).collect()
}

/// Returns a query for the number by which a counter exceeds the number of rows.
pub(super) fn count_excess(counter: &str, rows: &str) -> String {
    format!(
        "SELECT CAST((SELECT coalesce(sum({counter}), 0) FROM counts)
                     - (SELECT count(*) FROM {rows}) AS bigint)"
    )
}

/// A column that only the program can verify.
pub(super) struct DerivedColumn {
    pub(super) what: &'static str,
    /// Selects texts, and the stored value of each.
    pub(super) sql: &'static str,
    pub(super) derive: fn(&str) -> CompactString,
}

pub(super) const DERIVED: [DerivedColumn; 7] = [
    DerivedColumn {
        what: "categories whose name could be used twice",
        sql: "SELECT name, folded_name FROM categories",
        derive: |name| CompactString::from(fold(name)),
    },
    DerivedColumn {
        what: "deleted animals with a malformed date",
        sql: "SELECT acquired_on, acquired_on FROM deleted_pets WHERE acquired_on IS NOT NULL
              UNION ALL
              SELECT birth_date, birth_date FROM deleted_pets WHERE birth_date IS NOT NULL",
        derive: |text| readable(PastDate::from_store(text), |date| date.as_str().into()),
    },
    DerivedColumn {
        what: "settings with an unknown currency",
        sql: "SELECT currency, currency FROM settings WHERE currency IS NOT NULL",
        derive: |text| readable(Currency::parse(text).ok(), |code| code.as_str().into()),
    },
    DerivedColumn {
        what: "webhooks with a malformed position",
        sql: "SELECT position, position FROM webhooks",
        derive: |text| readable(EventId::parse(text), |id| id.to_string()),
    },
    DerivedColumn {
        what: "webhooks with a malformed URL",
        sql: "SELECT url, url FROM webhooks",
        derive: |text| readable(WebhookUrl::parse(text).ok(), |url| url.as_str().into()),
    },
    DerivedColumn {
        what: "webhooks with a malformed secret",
        sql: "SELECT secret, secret FROM webhooks UNION ALL
              SELECT previous_secret, previous_secret FROM webhooks
              WHERE previous_secret IS NOT NULL",
        derive: |text| readable(WebhookSecret::parse(text), |secret| secret.reveal()),
    },
    DerivedColumn {
        what: "deliveries with another sequence number than their event",
        sql: "SELECT event_id, CAST(sequence AS text) FROM webhook_deliveries",
        derive: |text| readable(EventId::parse(text), |id| id.sequence.to_string()),
    },
];

/// Returns a value as text; empty if it could not be parsed.
fn readable<T>(parsed: Option<T>, text: impl FnOnce(T) -> String) -> CompactString {
    parsed.map(text).unwrap_or_default().into()
}
