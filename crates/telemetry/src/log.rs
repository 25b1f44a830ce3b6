//! Log setup for `petstore serve`.
//!
//! Events go to standard error, one per line: readable text on a terminal, JSON
//! otherwise.

use std::{
    convert::identity,
    env,
    io::{self, IsTerminal, Write},
    panic, thread,
    time::Duration,
};

use tracing::{Level, Metadata};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use super::audit_log;

/// The number of lines buffered while standard error is blocked, separately for the audit log
/// and for all other events. Further lines are dropped.
const MAX_BUFFERED_LINES: usize = 8192;

/// Returns true if messages are for a person at a terminal rather than for a log collector.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Returns true if the terminal shows colours and its user wants them (<https://no-color.org>).
pub fn stderr_has_color() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    stderr_is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Installs the global subscriber and a panic hook that logs.
///
/// Hold the returned guards until the process exits: dropping them flushes the
/// buffered lines.
pub fn init() -> [WorkerGuard; 2] {
    // Non-blocking, so that a stalled log reader or a full disk can't stall
    // requests.
    let buffered = || {
        NonBlockingBuilder::default()
            .buffered_lines_limit(MAX_BUFFERED_LINES)
            .finish(io::stderr())
    };
    let (audit, audit_guard) = buffered();
    let (other, guard) = buffered();
    let dropped_audit = audit.error_counter();
    let dropped_other = other.error_counter();
    // Our own events only (the names of all our crates start with `petstore`): dependencies may
    // log whatever a client sends them.
    let own_events = Targets::new().with_target("petstore", Level::INFO);
    let registry = tracing_subscriber::registry();
    if stderr_is_terminal() {
        let text = fmt::layer()
            .with_writer(Writers {
                audit,
                other,
                wrap: SingleLine,
            })
            .with_ansi(stderr_has_color())
            .with_target(false);
        registry.with(text.with_filter(own_events)).init();
    } else {
        let json = fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(Writers {
                audit,
                other,
                wrap: identity,
            })
            .with_target(false);
        registry.with(json.with_filter(own_events)).init();
    }
    thread::spawn(move || report_dropped_lines(&dropped_audit, &dropped_other));
    panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let error = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(location, error, "panicked");
    }));
    [audit_guard, guard]
}

/// The writers of events: the audit log has its own buffer.
struct Writers<W> {
    audit: NonBlocking,
    other: NonBlocking,
    wrap: fn(NonBlocking) -> W,
}

impl<W: Write> MakeWriter<'_> for Writers<W> {
    type Writer = W;

    fn make_writer(&self) -> W {
        (self.wrap)(self.other.clone())
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> W {
        match event.target() {
            audit_log::TARGET => (self.wrap)(self.audit.clone()),
            _ => self.make_writer(),
        }
    }
}

/// Logs the number of dropped lines, in total and of the audit log, whenever the total has
/// grown.
fn report_dropped_lines(audit: &ErrorCounter, other: &ErrorCounter) {
    let mut reported = 0;
    loop {
        thread::sleep(Duration::from_secs(1));
        let audit = audit.dropped_lines();
        let total = audit + other.dropped_lines();
        if total > reported {
            // If this event is dropped too, the total grows and the next pass
            // reports it.
            reported = total;
            tracing::warn!(total, audit, "log lines dropped");
        }
    }
}

/// Escapes line breaks, so that an event stays on one line and a client can't
/// forge log lines. The text formatter writes each event in a single call; the
/// JSON formatter escapes line breaks itself.
struct SingleLine(NonBlocking);

impl Write for SingleLine {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (text, end) = match event.strip_suffix(b"\n") {
            Some(text) => (text, "\n"),
            None => (event, ""),
        };
        let line = String::from_utf8_lossy(text)
            .replace('\n', "\\n")
            .replace('\r', "\\r");
        self.0.write_all((line + end).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
