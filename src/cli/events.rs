//! `petstore events`: prints the event log of a service.

use std::{
    error::Error,
    io::{self, IsTerminal, Write},
    process, thread,
    time::Duration,
};

use clap::Args;
use http::{Method, StatusCode};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, value::RawValue};
use tokio::time::sleep;

use super::{
    CommandResult, block_on,
    client::{Client, Failure, ServiceArgs, next_parameter},
    explain_os_errors, status,
};
use domain::event::EventId;

/// The maximum time that the service holds back an empty page.
const MAX_WAIT: Duration = Duration::from_secs(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// The maximum number of retries without --follow, when the caller waits for the end.
const MAX_RETRIES: u32 = 5;

#[derive(Args)]
pub struct Events {
    /// Print events as they happen, until you stop it.
    ///
    /// Without --after, it starts with the next event. If the connection is lost or the service
    /// restarts, it continues where it stopped.
    #[arg(long, env = "PETSTORE_FOLLOW")]
    follow: bool,
    /// Start after the event with this id, or with the next one (now).
    #[arg(long, env = "PETSTORE_AFTER", value_name = "ID|now")]
    after: Option<String>,
    /// Only print events of these types, such as pet.created,pet.deleted.
    #[arg(long, env = "PETSTORE_TYPES")]
    types: Option<String>,
    /// Only print events about this resource, such as pets/17.
    #[arg(long, env = "PETSTORE_SUBJECT")]
    subject: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
    /// Print JSON on a terminal, too.
    #[arg(long, env = "PETSTORE_JSON")]
    json: bool,
}

impl Events {
    pub fn run(self) -> CommandResult {
        let client = self.service.client()?;
        if self.follow {
            thread::spawn(exit_when_stdout_is_closed);
        }
        let reader = Reader {
            client,
            is_connected: false,
            events: self,
        };
        match block_on(reader.print()) {
            // `head` closes the pipe when it has read enough.
            Err(error) if is_broken_pipe(&*error) => Ok(()),
            result => result,
        }
    }
}

struct Reader {
    events: Events,
    client: Client,
    /// True if there was a response.
    is_connected: bool,
}

impl Reader {
    async fn print(mut self) -> CommandResult {
        let as_json = self.events.json || !io::stdout().is_terminal();
        let now = Some("now".into());
        let mut after = self.events.after.clone();
        let mut end = None;
        if self.events.follow {
            // The position comes first: a lost long poll would not return it.
            after = after.or(now);
        } else {
            // Events that happen while the log is printed do not delay the end.
            let (_, newest) = self.page(&now).await?;
            end = Some(newest.sequence);
        }
        loop {
            let (body, next) = self.page(&after).await?;
            after = Some(next.to_string());
            let events: Vec<&RawValue> = serde_json::from_slice(&body)?;
            let mut lines = String::new();
            for event in events {
                if as_json {
                    lines += event.get();
                } else {
                    lines += &readable(event.get())?;
                }
                lines.push('\n');
            }
            io::stdout().write_all(lines.as_bytes())?;
            io::stdout().flush()?;
            if end.is_some_and(|end| next.sequence >= end) {
                return Ok(());
            }
        }
    }

    /// Requests a page of the log and returns it with the position after it. Retries
    /// until there is a response.
    async fn page(&mut self, after: &Option<String>) -> Result<(Vec<u8>, EventId), Box<dyn Error>> {
        let may_wait = self.events.follow && after.as_deref() != Some("now");
        let mut wait = if may_wait { MAX_WAIT } else { Duration::ZERO };
        for retries in 0.. {
            let path = self.events.path(after, wait);
            let response = self.client.request(Method::GET, &path, None, wait).await;
            let failure = match response {
                Ok((headers, body)) => {
                    if retries > 0 {
                        status!("petstore: connected again");
                    }
                    self.is_connected = true;
                    let next = next_parameter(&headers, "after")
                        .and_then(|after| EventId::parse(&after))
                        .ok_or(Failure::NotPetstore)?;
                    return Ok((body, next));
                }
                Err(failure) => failure,
            };
            let is_final = match &failure {
                Failure::Rejected { .. } | Failure::TooLong(_) => true,
                // The URL is probably wrong.
                Failure::NoResponse(_) if !self.is_connected => true,
                _ => !self.events.follow && retries == MAX_RETRIES,
            };
            if is_final {
                return Err(explain(failure).into());
            }
            if retries == 0 {
                let cause = match &failure {
                    Failure::NoResponse(cause) => cause.clone(),
                    other => other.to_string(),
                };
                status!("petstore: {}; retrying", explain_os_errors(&cause));
            }
            let delay = Duration::from_secs(1 << retries.min(5)).min(MAX_RETRY_DELAY);
            sleep(match failure {
                Failure::Unavailable { retry_after, .. } => delay.max(retry_after),
                _ => {
                    // No wait, to notice immediately when the service is back.
                    wait = Duration::ZERO;
                    delay
                }
            })
            .await;
        }
        unreachable!("the loop ends by returning")
    }
}

impl Events {
    fn path(&self, after: &Option<String>, wait: Duration) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", "1000");
        query.append_pair("wait", &wait.as_secs().to_string());
        let filter = [("types", &self.types), ("subject", &self.subject)];
        for (name, value) in filter.into_iter().chain([("after", after)]) {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        format!("/events?{}", query.finish())
    }
}

/// Returns the message of a failure, with advice for an expired position.
fn explain(failure: Failure) -> String {
    match failure {
        Failure::Rejected {
            status: StatusCode::GONE,
            message,
        } => format!(
            "{message}. To print all events that are kept, leave --after and --follow out; to \
             print new ones, use --follow alone"
        ),
        _ => failure.to_string(),
    }
}

/// Formats an event as a line for people: its time, its change and its author.
fn readable(json: &str) -> serde_json::Result<String> {
    let event: Value = serde_json::from_str(json)?;
    // Names may contain characters that change how the rest of the line is shown.
    let text = |value: &Value| value.as_str().map(|text| text.escape_debug().to_string());
    let column = |name| text(&event[name]).unwrap_or_default();
    let parsed: Option<Timestamp> = event["time"].as_str().and_then(|time| time.parse().ok());
    let time = parsed.map_or_else(|| column("time"), |time| format!("{time:.0}"));
    let data = &event["data"];
    let members = [
        text(&data["name"]).map(|name| format!("\"{name}\"")),
        data["petId"].as_i64().map(|id| format!("animal {id}")),
        text(&data["status"]),
        text(&event["keyid"]).map(|key| format!("by key {key}")),
    ];
    let details: Vec<_> = members.into_iter().flatten().collect();
    Ok(format!(
        "{time}  {:16}  {:12}  {}",
        column("type"),
        column("subject"),
        details.join(", ")
    ))
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Exits when standard output is closed. Without a thread that waits for this, a closed pipe
/// would be noticed only by the next event.
fn exit_when_stdout_is_closed() {
    let stdout = io::stdout();
    let mut closed = [PollFd::new(&stdout, PollFlags::empty())];
    if poll(&mut closed, None).is_ok() {
        process::exit(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_for_people() {
        let line = |json: Value| readable(&json.to_string()).unwrap();
        let pet = serde_json::json!({
            "time": "2026-11-16T09:30:00.123456Z", "type": "pet.created", "subject": "pets/17",
            "keyid": "3", "data": {"id": 17, "name": "Rex\u{9b}2J\u{202e}", "status": "available"},
        });
        assert_eq!(
            line(pet),
            "2026-11-16T09:30:00Z  pet.created       pets/17       \
             \"Rex\\u{9b}2J\\u{202e}\", available, by key 3"
        );
        let order = serde_json::json!({
            "time": "2026-11-16T09:30:00Z", "type": "order.cancelled", "subject": "orders/4",
            "data": {"id": 4, "petId": 17, "status": "cancelled"},
        });
        assert_eq!(
            line(order),
            "2026-11-16T09:30:00Z  order.cancelled   orders/4      animal 17, cancelled"
        );
    }
}
