//! `petstore webhooks`: manages the webhooks of a service.

mod output;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::{
    CommandResult,
    api_output::{Output, send, text},
    block_on,
    client::ServiceArgs,
    print, status,
};
use domain::event::EventId;
use output::{DELIVERIES, WEBHOOKS, types};

#[derive(Subcommand)]
pub enum Webhooks {
    /// Create a webhook and print its secret once.
    ///
    /// Only the secret goes to standard output, so it can be stored in a variable. The
    /// receiver needs it to verify signatures.
    Create(Create),
    /// List all webhooks.
    List(List),
    /// Show a webhook.
    Show(One),
    /// Change a webhook, or enable or disable it.
    ///
    /// A webhook that is enabled again continues where it stopped; one that was disabled because
    /// its events had expired continues with the next event.
    Update(Update),
    /// Delete a webhook with its failed deliveries.
    ///
    /// Nothing more is sent to it.
    Delete(Delete),
    /// Replace the secret of a webhook and print the new one once.
    ///
    /// Deliveries are signed with both secrets for 24 hours. Rotate twice to drop a secret
    /// that has leaked at once.
    RotateSecret(One),
    /// Send a test message to a receiver and report the result.
    ///
    /// Exits with 1 if it was not delivered.
    Test(One),
    /// List the deliveries of a webhook that have failed.
    Deliveries(Deliveries),
    /// Attempt a failed delivery again at once.
    Retry(Retry),
    /// Deliver the events after a given one, again or for the first time.
    Replay(Replay),
}

#[derive(Args)]
pub struct Create {
    /// URL that events are sent to, such as https://receiver.example/petstore.
    #[allow(rustdoc::bare_urls)]
    receiver: String,
    #[command(flatten)]
    types: Types,
    /// Note about the webhook.
    #[arg(long, env = "PETSTORE_DESCRIPTION", value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Types {
    /// Type of events to send, such as pet.created.
    ///
    /// Repeat the option, or separate types with commas, to send several. By default, a
    /// new webhook gets all types that the API key can see.
    #[arg(
        long = "type",
        env = "PETSTORE_TYPE",
        value_delimiter = ',',
        value_name = "TYPE"
    )]
    types: Vec<String>,
}

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct One {
    /// Id of the webhook, as shown by `petstore webhooks list`.
    #[arg(value_parser = webhook_id)]
    id: i64,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct Update {
    /// Id of the webhook, as shown by `petstore webhooks list`.
    #[arg(value_parser = webhook_id)]
    id: i64,
    /// URL that events are sent to from now on.
    ///
    /// --url is that of the service.
    #[arg(long, env = "PETSTORE_RECEIVER", value_name = "URL")]
    receiver: Option<String>,
    #[command(flatten)]
    types: Types,
    /// Note about the webhook; an empty one removes it.
    #[arg(long, env = "PETSTORE_DESCRIPTION", value_name = "TEXT")]
    description: Option<String>,
    /// Deliver events again.
    #[arg(long, env = "PETSTORE_ENABLE", conflicts_with = "disable")]
    enable: bool,
    /// Stop delivering events.
    #[arg(long, env = "PETSTORE_DISABLE")]
    disable: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct Delete {
    /// Id of the webhook, as shown by `petstore webhooks list`.
    #[arg(value_parser = webhook_id)]
    id: i64,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Args)]
pub struct Deliveries {
    /// Id of the webhook, as shown by `petstore webhooks list`.
    #[arg(value_parser = webhook_id)]
    id: i64,
    /// Only list deliveries that will be retried (retrying) or were given up (failed).
    #[arg(long, env = "PETSTORE_STATE")]
    state: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct Retry {
    /// Id of the webhook, as shown by `petstore webhooks list`.
    #[arg(value_parser = webhook_id)]
    id: i64,
    /// Id of the event, as shown by `petstore webhooks deliveries`.
    #[arg(value_parser = event_id)]
    event: EventId,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
pub struct Replay {
    /// Id of the webhook, as shown by `petstore webhooks list`.
    #[arg(value_parser = webhook_id)]
    id: i64,
    /// Id of the event after which to continue, or now for the next one that happens.
    #[arg(value_name = "EVENT|now")]
    after: String,
    #[command(flatten)]
    output: Output,
}

fn webhook_id(text: &str) -> Result<i64, &'static str> {
    text.parse()
        .map_err(|_| "must be a number; run `petstore webhooks list` to see the ids")
}

fn event_id(text: &str) -> Result<EventId, &'static str> {
    EventId::parse(text)
        .ok_or("must be the id of an event; run `petstore webhooks deliveries` to see those")
}

impl Webhooks {
    pub fn run(self) -> CommandResult {
        block_on(async {
            match self {
                Self::Create(create) => create.run().await,
                Self::List(list) => list.output.list("/webhooks", None, WEBHOOKS).await,
                Self::Show(one) => {
                    let path = format!("/webhooks/{}", one.id);
                    let webhook = one.output.request(Method::GET, &path, None).await?;
                    one.output.print_webhook(&webhook)
                }
                Self::Update(update) => update.run().await,
                Self::Delete(delete) => {
                    let path = format!("/webhooks/{}", delete.id);
                    send(&delete.service, Method::DELETE, &path, None).await?;
                    status!("Deleted webhook {}. Nothing more is sent to it.", delete.id);
                    Ok(())
                }
                Self::RotateSecret(one) => {
                    let path = format!("/webhooks/{}/rotate-secret", one.id);
                    let webhook = one.output.request(Method::POST, &path, None).await?;
                    status!(
                        "Webhook {} has a new secret; the previous one signs for 24 more hours.",
                        one.id
                    );
                    one.output.print_secret(&webhook)
                }
                Self::Test(one) => one.test().await,
                Self::Deliveries(list) => {
                    let path = format!("/webhooks/{}/deliveries", list.id);
                    let state = list.state.map(|state| ("state", state));
                    list.output.list(&path, state, DELIVERIES).await
                }
                Self::Retry(retry) => {
                    let path = format!("/webhooks/{}/deliveries/{}/retry", retry.id, retry.event);
                    let delivery = retry.output.request(Method::POST, &path, None).await?;
                    status!("The delivery is attempted again now.");
                    retry.output.print_rows(&[delivery], DELIVERIES)
                }
                Self::Replay(replay) => {
                    let path = format!("/webhooks/{}/replay", replay.id);
                    let body = json!({"after": replay.after});
                    let webhook = replay.output.request(Method::POST, &path, Some(body));
                    replay.output.print_webhook(&webhook.await?)
                }
            }
        })
    }
}

impl Create {
    async fn run(self) -> CommandResult {
        let mut body = json!({"url": self.receiver});
        if !self.types.types.is_empty() {
            body["types"] = self.types.types.into();
        }
        if let Some(description) = self.description {
            body["description"] = description.into();
        }
        let created = self.output.request(Method::POST, "/webhooks", Some(body));
        let webhook = created.await?;
        let shown: Value = serde_json::from_str(webhook.get())?;
        status!(
            "Created webhook {}: sends {} to {}.",
            shown["id"],
            types(&shown),
            text(&shown["url"])
        );
        self.output.print_secret(&webhook)
    }
}

impl Update {
    async fn run(self) -> CommandResult {
        let mut change = Map::new();
        if let Some(receiver) = self.receiver {
            change.insert("url".into(), receiver.into());
        }
        if !self.types.types.is_empty() {
            change.insert("types".into(), self.types.types.into());
        }
        if let Some(description) = self.description {
            let description = Some(description).filter(|it| !it.is_empty());
            change.insert("description".into(), description.into());
        }
        if self.enable || self.disable {
            let state = if self.enable { "enabled" } else { "disabled" };
            change.insert("state".into(), state.into());
        }
        if change.is_empty() {
            return Err("nothing to change; see `petstore webhooks update --help`".into());
        }
        let path = format!("/webhooks/{}", self.id);
        let changed = self
            .output
            .request(Method::PATCH, &path, Some(change.into()));
        self.output.print_webhook(&changed.await?)
    }
}

impl One {
    async fn test(self) -> CommandResult {
        let path = format!("/webhooks/{}/test", self.id);
        let result = self.output.request(Method::POST, &path, None).await?;
        if self.output.is_json() {
            print(format!("{}\n", result.get()).as_bytes())?;
        }
        let result: Value = serde_json::from_str(result.get())?;
        let response = match result["status"].as_u64() {
            Some(status) => format!("response {status}"),
            None => "no response".into(),
        };
        let duration = &result["durationMs"];
        if result["delivered"] == true {
            status!("Delivered: {response} after {duration} ms.");
            return Ok(());
        }
        let error = text(&result["error"]);
        Err(format!("not delivered: {error}, {response} after {duration} ms").into())
    }
}
