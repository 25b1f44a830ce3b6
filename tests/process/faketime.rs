//! A wrong clock for one process.

use std::{process::Command, sync::LazyLock};

use support::{CommandResult, wait_for};

/// The library of faketime. The program itself would run another one as a child process, and
/// fails if a process with the same id was killed and has left its semaphore behind.
pub static LIBRARY: LazyLock<String> = LazyLock::new(|| {
    let mut faketime = Command::new("faketime");
    faketime.args(["-f", "+0", "printenv", "LD_PRELOAD"]);
    let found = wait_for("faketime", || {
        let ended = CommandResult::of(&mut faketime);
        (!ended.stderr.contains("sem_open: File exists")).then_some(ended)
    });
    found.success().stdout.trim().into()
});
