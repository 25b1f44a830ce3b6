//! Standard output.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
};

use super::CommandResult;

const PATH: &str = "/proc/self/fd/1";

/// Writes to standard output. A closed pipe is not an error: `head` closes it when
/// it has read enough.
pub fn print(bytes: &[u8]) -> CommandResult {
    if is_closed() {
        return Err(
            "standard output is closed, so the result would be lost; redirect it to a file".into(),
        );
    }
    match print_all(bytes) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {cause}").into())
        }
        _ => Ok(()),
    }
}

/// Writes to standard output. A closed pipe is an error.
pub fn print_all(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(bytes).and_then(|()| stdout.flush())
}

/// Returns true if standard output is a regular file.
pub fn is_file() -> bool {
    fs::metadata(PATH).is_ok_and(|stdout| stdout.is_file())
}

/// Returns true if standard output is /dev/null.
pub fn is_null() -> bool {
    let device = |path: &str| fs::metadata(path).map(|file| file.rdev());
    matches!((device(PATH), device("/dev/null")), (Ok(stdout), Ok(null)) if stdout == null)
}

/// Returns true if standard output was closed when the process was started. Rust has then opened
/// /dev/null in its place, for reading and writing.
pub fn is_closed() -> bool {
    let info = fs::read_to_string("/proc/self/fdinfo/1").unwrap_or_default();
    let mut lines = info.lines();
    let flags = lines.find_map(|line| line.strip_prefix("flags:"));
    is_null() && flags.is_some_and(|flags| flags.ends_with('2'))
}
