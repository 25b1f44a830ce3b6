//! The priority of a thread that works beside those that serve requests.

use std::io;

/// The nice value of such a thread.
pub const NICE: i32 = 10;

/// Lowers the priority of this thread. On Linux it belongs to a thread, not to its process.
pub fn lower() -> io::Result<()> {
    let nice = rustix::process::getpriority_process(None)?;
    rustix::process::setpriority_process(None, nice.max(NICE))?;
    Ok(())
}
