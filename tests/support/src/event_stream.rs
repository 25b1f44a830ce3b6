//! The client's end of a stream of Server-Sent Events.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::TIMEOUT;

/// The body of an open stream.
pub struct EventStream {
    body: Incoming,
    received: String,
}

impl EventStream {
    pub fn new(body: Incoming) -> Self {
        Self {
            body,
            received: String::new(),
        }
    }

    /// The next block; `None` at the end of the stream. Dropping the future loses nothing.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.received.split_once("\n\n") {
                let block = block.to_string();
                self.received = rest.into();
                return Some(block);
            }
            let frame = timeout(TIMEOUT, self.body.frame()).await;
            let data = frame.expect("a block arrives")?.ok()?.into_data().unwrap();
            self.received.push_str(str::from_utf8(&data).unwrap());
        }
    }
}

/// The value of a field of a block.
pub fn field<'a>(block: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = block.lines().filter_map(|line| line.split_once(": "));
    fields.find_map(|(found, value)| (found == name).then_some(value))
}
