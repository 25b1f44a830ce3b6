//! The output of commands that use the API: a table on a terminal, and otherwise JSON.

use std::{
    error::Error,
    io::{self, IsTerminal},
    time::Duration,
};

use clap::Args;
use http::Method;
use serde_json::{Value, value::RawValue};

use super::{
    CommandResult,
    client::{Client, ServiceArgs, next_parameter},
    print, status, table,
};

/// The maximum time that the service may need for a response: a test of a webhook waits for its
/// receiver.
const MAX_RESPONSE_WAIT: Duration = Duration::from_secs(15);

/// The maximum number of rows of a table. Rows are kept until all are known.
const MAX_ROWS: usize = 100_000;

#[derive(Args)]
pub struct Output {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Print JSON on a terminal, too.
    #[arg(long, env = "PETSTORE_JSON")]
    pub json: bool,
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
    let (_, body) = client
        .request(method, path, body, MAX_RESPONSE_WAIT)
        .await?;
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

/// The view of a list on a terminal: the header, a row, and the message for an empty list.
pub type View<const N: usize> = ([&'static str; N], fn(&Value) -> [String; N], &'static str);

/// Formats a value for people. Text may contain characters that change how a terminal shows
/// others.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    }
}
