//! The output of the commands on webhooks.

use std::{
    error::Error,
    io::{self, IsTerminal},
    time::Duration,
};

use clap::Args;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, value::RawValue};

use super::super::{
    CommandResult,
    client::{Client, ServiceArgs, next_parameter},
    escape_for_terminal, print, status, table,
};

/// The maximum time that the service may wait for a receiver.
const TEST_WAIT: Duration = Duration::from_secs(15);

/// The maximum number of rows of a table. Rows are kept until all are known.
const MAX_ROWS: usize = 100_000;

#[derive(Args)]
pub struct Output {
    #[command(flatten)]
    service: ServiceArgs,
    /// Print JSON on a terminal, too.
    #[arg(long, env = "PETSTORE_JSON")]
    json: bool,
}

/// Sends one request.
pub async fn send(
    service: &ServiceArgs,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let body = body.map(|body| body.to_string());
    let mut client = service.client()?;
    let (_, body) = client.request(method, path, body, TEST_WAIT).await?;
    Ok(body)
}

impl Output {
    pub fn is_json(&self) -> bool {
        self.json || !io::stdout().is_terminal()
    }

    pub async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Box<RawValue>, Box<dyn Error>> {
        let body = send(&self.service, method, path, body).await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Prints all pages of a list.
    pub async fn list<const N: usize>(
        &self,
        path: &str,
        filter: Option<(&str, String)>,
        view: View<N>,
    ) -> CommandResult {
        let mut client = self.service.client()?;
        let mut rows = Vec::new();
        let mut cursor = None;
        loop {
            let (page, next) = page(&mut client, path, &filter, cursor).await?;
            let is_last = next.is_none();
            cursor = next;
            rows.extend(page);
            // The columns of a table are as wide as the widest of all rows.
            if is_last || self.is_json() {
                self.print_rows(&rows, view)?;
                rows.clear();
            }
            if is_last {
                return Ok(());
            }
            if rows.len() > MAX_ROWS {
                return Err(format!(
                    "there are more than {MAX_ROWS} rows, too many for a table; print them with \
                     --json"
                )
                .into());
            }
        }
    }

    pub fn print_rows<const N: usize>(
        &self,
        items: &[Box<RawValue>],
        (header, row, none): View<N>,
    ) -> CommandResult {
        if self.is_json() {
            let lines: String = items
                .iter()
                .map(|item| format!("{}\n", item.get()))
                .collect();
            return print(lines.as_bytes());
        }
        if items.is_empty() {
            status!("{none}");
            return Ok(());
        }
        let items: Result<Vec<Value>, _> = items
            .iter()
            .map(|item| serde_json::from_str(item.get()))
            .collect();
        print(table(header, items?.iter().map(row)).as_bytes())
    }

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

/// Requests a page of a list, and returns it with the cursor of the next one.
async fn page(
    client: &mut Client,
    path: &str,
    filter: &Option<(&str, String)>,
    cursor: Option<String>,
) -> Result<(Vec<Box<RawValue>>, Option<String>), Box<dyn Error>> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", "100");
    query.extend_pairs(filter);
    query.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
    let path = format!("{path}?{}", query.finish());
    let response = client.request(Method::GET, &path, None, Duration::ZERO);
    let (headers, body) = response.await?;
    let next = next_parameter(&headers, "cursor");
    Ok((serde_json::from_slice(&body)?, next))
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

/// The view of a list on a terminal: the header, a row, and the message for an empty list.
pub type View<const N: usize> = ([&'static str; N], fn(&Value) -> [String; N], &'static str);

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

/// Formats a value for people. Text may contain characters that change how a terminal shows
/// others.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    }
}

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
