//! The output of the commands on webhooks.

use jiff::Timestamp;
use serde_json::{Value, value::RawValue};

use super::super::{
    CommandResult,
    api_output::{Output, View, text},
    escape_for_terminal, print, status,
};

impl Output {
    /// Prints a webhook; on a terminal, with a line for each member.
    pub fn print_webhook(&self, webhook: &RawValue) -> CommandResult {
        if self.is_json() {
            return print(format!("{}\n", webhook.get()).as_bytes());
        }
        let webhook: Value = serde_json::from_str(webhook.get())?;
        let mut lines = String::new();
        for name in MEMBERS {
            let value = match name {
                "types" => types(&webhook),
                _ => text(&webhook[name]),
            };
            if !value.is_empty() {
                lines += &format!("{name:15} {}\n", escape_for_terminal(&value));
            }
        }
        print(lines.as_bytes())
    }

    /// Prints the secret alone, or JSON only if the user asks for it.
    pub fn print_secret(&self, webhook: &RawValue) -> CommandResult {
        if self.json {
            return print(format!("{}\n", webhook.get()).as_bytes());
        }
        let webhook: Value = serde_json::from_str(webhook.get())?;
        status!("Its secret, which won't be shown again:");
        print(format!("{}\n", text(&webhook["secret"])).as_bytes())
    }
}

/// The members of a webhook, in the order in which a terminal shows them.
const MEMBERS: [&str; 12] = [
    "id",
    "url",
    "types",
    "description",
    "state",
    "disabledReason",
    "keyId",
    "position",
    "failingSince",
    "nextAttemptAt",
    "createdAt",
    "updatedAt",
];

pub const WEBHOOKS: View<5> = (
    ["ID", "STATE", "URL", "DESCRIPTION", "TYPES"],
    |webhook| {
        let failing = time(&webhook["failingSince"]).map(|at| format!("failing since {at}"));
        let state = match webhook["disabledReason"].as_str() {
            Some(_) => format!("disabled ({})", text(&webhook["disabledReason"])),
            None => failing.unwrap_or_else(|| text(&webhook["state"])),
        };
        [
            text(&webhook["id"]),
            state,
            text(&webhook["url"]),
            text(&webhook["description"]),
            types(webhook),
        ]
    },
    "There are no webhooks yet. Create one with: petstore webhooks create URL",
);

pub const DELIVERIES: View<6> = (
    [
        "EVENT",
        "STATE",
        "ATTEMPTS",
        "LAST ATTEMPT",
        "RESULT",
        "NEXT ATTEMPT",
    ],
    |delivery| {
        let result = match delivery["status"].as_u64() {
            Some(status) => format!("response {status}"),
            None => text(&delivery["error"]),
        };
        [
            text(&delivery["eventId"]),
            text(&delivery["state"]),
            text(&delivery["attempts"]),
            time(&delivery["lastAttemptAt"]).unwrap_or_default(),
            result,
            time(&delivery["nextAttemptAt"]).unwrap_or_else(|| "none".into()),
        ]
    },
    "No delivery has failed.",
);

pub fn types(webhook: &Value) -> String {
    let types = webhook["types"].as_array().into_iter().flatten();
    types.map(text).collect::<Vec<_>>().join(", ")
}

/// Formats a time in seconds.
fn time(value: &Value) -> Option<String> {
    let time: Timestamp = value.as_str()?.parse().ok()?;
    Some(format!("{time:.0}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhooks_and_deliveries_are_rows_for_people() {
        let (_, row, _) = WEBHOOKS;
        let webhook = json!({
            "id": 3, "url": "https://a.example/\u{9b}2J", "types": ["pet.created", "pet.deleted"],
            "state": "enabled", "failingSince": "2026-11-16T09:30:00.123456Z",
        });
        let expected = [
            "3",
            "failing since 2026-11-16T09:30:00Z",
            "https://a.example/\\u{9b}2J",
            "",
            "pet.created, pet.deleted",
        ];
        assert_eq!(row(&webhook), expected);
        let disabled = json!({
            "id": 4, "url": "https://a.example", "types": ["pet.created"], "state": "disabled",
            "disabledReason": "receiver_gone", "description": "Mirror",
        });
        let expected = [
            "4",
            "disabled (receiver_gone)",
            "https://a.example",
            "Mirror",
            "pet.created",
        ];
        assert_eq!(row(&disabled), expected);
        let (_, row, _) = DELIVERIES;
        let delivery = json!({
            "eventId": "evt_1", "state": "failed", "attempts": 10, "error": "timed_out",
            "lastAttemptAt": "2026-11-16T09:30:00.5Z",
        });
        let last = "2026-11-16T09:30:00Z";
        let expected = ["evt_1", "failed", "10", last, "timed_out", "none"];
        assert_eq!(row(&delivery), expected);
    }
}
