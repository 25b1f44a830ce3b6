//! Ctrl-C, SIGTERM and SIGHUP in the middle of a long command.

use std::{
    error::Error,
    fs, future, io, process,
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

use indicatif::{ProgressBar, WeakProgressBar};
use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use super::{progress_bar, status};
use system::atomic_file::discard_unfinished;

/// Handles signals that would end the process without a message.
#[derive(Clone)]
pub struct Interrupt {
    reaction: Arc<Mutex<Reaction>>,
    /// The signal that the command is to notice.
    received: watch::Receiver<Option<SignalKind>>,
}

struct Reaction {
    /// The sentence about the current state with which a signal ends the process. `None` if the
    /// command notices the signal and ends by itself; a second signal then ends the process.
    sentence: Option<String>,
    bar: WeakProgressBar,
}

/// The error of a command that a signal has ended.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SignalError {
    message: String,
    signal: SignalKind,
}

impl SignalError {
    /// Returns the exit code: by convention, 128 plus the number of the signal.
    pub fn exit_code(&self) -> u8 {
        exit_code(self.signal)
    }
}

fn exit_code(signal: SignalKind) -> u8 {
    128 + signal.as_raw_value() as u8
}

impl Interrupt {
    /// Starts to handle signals. From now on, a signal deletes unfinished files, prints this
    /// sentence and ends the process, whatever the process is waiting for.
    pub fn listen(sentence: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let guard = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = hangup()?;
        drop(guard);
        let reaction = Arc::new(Mutex::new(Reaction {
            sentence: Some(sentence.into()),
            bar: WeakProgressBar::default(),
        }));
        let (sender, received) = watch::channel(None);
        let shared = reaction.clone();
        // A separate thread, because reading a file does not yield.
        thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    let signal = select! {
                        _ = interrupt.recv() => SignalKind::interrupt(),
                        _ = terminate.recv() => SignalKind::terminate(),
                        () = next(&mut hangup) => SignalKind::hangup(),
                    };
                    react(&lock(&shared), signal, &sender);
                }
            });
        });
        Ok(Self { reaction, received })
    }

    /// Makes a signal end the process with this sentence, from now on.
    pub fn end_with(&self, sentence: &str) {
        lock(&self.reaction).sentence = Some(sentence.into());
    }

    /// Leaves it to the command to notice a signal and to end soon, from now on.
    pub fn notice(&self) {
        lock(&self.reaction).sentence = None;
    }

    /// Returns a progress bar that a signal clears.
    pub fn progress_bar(&self, unit: &str) -> ProgressBar {
        let bar = progress_bar(unit);
        lock(&self.reaction).bar = bar.downgrade();
        bar
    }

    pub fn is_set(&self) -> bool {
        self.received.borrow().is_some()
    }

    /// Waits for a signal.
    pub async fn received(&self) {
        let mut received = self.received.clone();
        if received.wait_for(Option::is_some).await.is_err() {
            future::pending().await
        }
    }

    /// Returns the error of a command that has stopped, because of a signal or not.
    pub fn error(&self, message: String) -> Box<dyn Error> {
        match *self.received.borrow() {
            Some(signal) => Box::new(SignalError { message, signal }),
            None => message.into(),
        }
    }
}

fn react(reaction: &Reaction, signal: SignalKind, received: &watch::Sender<Option<SignalKind>>) {
    let sentence = match &reaction.sentence {
        Some(sentence) => sentence,
        None if received.borrow().is_none() => {
            received.send_replace(Some(signal));
            return;
        }
        None => "stopped at once; the last changes may or may not have been made",
    };
    if !discard_unfinished() {
        // Everything is done except for the name of a file.
        return;
    }
    if let Some(bar) = reaction.bar.upgrade() {
        bar.finish_and_clear();
    }
    status!("petstore: {sentence}");
    process::exit(exit_code(signal).into());
}

fn lock(reaction: &Mutex<Reaction>) -> MutexGuard<'_, Reaction> {
    let reaction = reaction.lock();
    reaction.expect("no thread panics while holding the lock")
}

/// Returns SIGHUP, which a closed terminal sends, unless the command was started with `nohup`.
pub fn hangup() -> io::Result<Option<Signal>> {
    if is_hangup_ignored() {
        return Ok(None);
    }
    signal(SignalKind::hangup()).map(Some)
}

pub async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => future::pending().await,
    }
}

/// Returns true if the command was started with `nohup`.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}
