//! Ctrl-C in the middle of a long command.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

/// Exit code after a signal, by convention 128 plus its number.
const INTERRUPTED: i32 = 130;

/// Whether Ctrl-C was pressed. Pressed again, it ends the process at once.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on, Ctrl-C no longer ends the process by itself.
    pub fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let mut interrupts = {
            let _guard = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        let is_set = Arc::new(AtomicBool::new(false));
        let set = is_set.clone();
        // A thread of its own: reading a file does not yield.
        thread::spawn(move || {
            runtime.block_on(async {
                interrupts.recv().await;
                set.store(true, Ordering::Relaxed);
                interrupts.recv().await;
                process::exit(INTERRUPTED);
            });
        });
        Ok(Self(is_set))
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
