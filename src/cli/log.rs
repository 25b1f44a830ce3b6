//! The log of the service, on standard error: readable on a terminal, a JSON
//! object a line otherwise. Either way an event is one line.

use std::{
    env,
    io::{self, IsTerminal, Write},
    panic, thread,
    time::Duration,
};

use tracing::Level;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    Layer, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Whether a person is looking.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Says something to the operator: as it stands on a terminal, otherwise as an
/// event of the log.
macro_rules! tell {
    ($($line:tt)*) => {
        if $crate::cli::log::is_watched() {
            $crate::cli::say!($($line)*);
        } else {
            tracing::info!($($line)*);
        }
    };
}
pub(super) use tell;

/// Begins the log. What is given back must be kept to the end: then the last
/// lines are written.
pub fn start() -> WorkerGuard {
    // A log that nobody reads, or a full disk under it, holds nothing up; lines
    // are dropped then.
    let (writer, written) = NonBlockingBuilder::default()
        .buffered_lines_limit(8192)
        .finish(io::stderr());
    let dropped = writer.error_counter();
    // Libraries may write what any stranger makes them write.
    let ours = Targets::new().with_target("petstore", Level::INFO);
    let log = tracing_subscriber::registry();
    if is_watched() {
        let colourless = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let lines = fmt::layer()
            .with_writer(move || OneLine(writer.clone()))
            .with_ansi(!colourless)
            .with_target(false);
        log.with(lines.with_filter(ours)).init();
    } else {
        let lines = fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(writer)
            .with_target(false);
        log.with(lines.with_filter(ours)).init();
    }
    thread::spawn(move || tell_of_dropped(&dropped));
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("without a message");
        tracing::error!(place, cause = message, "a panic");
    }));
    written
}

/// Says how many lines were dropped, when lines are taken again.
fn tell_of_dropped(dropped: &ErrorCounter) {
    let mut told = 0;
    loop {
        thread::sleep(Duration::from_secs(1));
        let lines = dropped.dropped_lines();
        if lines > told {
            // If this one is dropped too, there is more to tell the next time.
            told = lines;
            tracing::warn!(so_far = lines, "lines of the log were dropped");
        }
    }
}

/// Writes an event, which comes in one piece, as one line. JSON does so by
/// itself.
struct OneLine(NonBlocking);

impl Write for OneLine {
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
