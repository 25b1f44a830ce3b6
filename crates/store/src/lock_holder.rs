//! The process that has a database file locked, as far as Linux shows it.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    process,
};

use rustix::fs::{major, minor};

use system::atomic_file::side_file;

/// Names the process that has a file locked, if it can be known, and advises what to do: the
/// end of a message that the file is in use by another petstore process.
pub fn holder_and_advice(database: &Path) -> String {
    // A service or an offline command locks the file itself, others only the index of the WAL.
    let paths = [database.into(), side_file(database, "-shm")];
    let Some(pid) = paths.iter().find_map(|path| lock_holder(path)) else {
        return "; wait for a running command, such as an import, to finish, or stop the \
                service, or specify another file"
            .into();
    };
    match subcommand(pid).as_deref() {
        None => format!(" (process {pid}); stop that process first, or specify another file"),
        Some("serve") => format!(
            " (`petstore serve`, process {pid}); stop that process first, or specify another file"
        ),
        Some(command) => format!(
            " (`petstore {command}`, process {pid}); wait until that has finished, or specify \
             another file"
        ),
    }
}

/// Returns the process that has a file locked. Linux lists locks by device and inode; some
/// file systems, such as Btrfs, show other numbers there.
fn lock_holder(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let device = file.dev();
    let id = format!("{:02x}:{:02x}:{}", major(device), minor(device), file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut holders = locks.lines().filter_map(|line| {
        // `1: FLOCK ADVISORY WRITE 4711 08:01:131080 0 EOF`
        let fields: Vec<_> = line.split_whitespace().collect();
        let pid: u32 = fields.get(4)?.parse().ok()?;
        (fields.get(5) == Some(&&*id)).then_some(pid)
    });
    // A process in another container has the id 0 here.
    holders.find(|pid| ![0, process::id()].contains(pid))
}

/// Returns the first argument of a petstore process. The others may be secret.
fn subcommand(pid: u32) -> Option<String> {
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut arguments = command_line.split(|byte| *byte == 0);
    let program = Path::new(OsStr::from_bytes(arguments.next()?));
    let command = str::from_utf8(arguments.next()?).ok()?;
    let is_name = !command.is_empty() && command.bytes().all(|b| b.is_ascii_lowercase());
    let is_petstore = program.file_name() == Some(OsStr::new("petstore"));
    (is_petstore && is_name).then(|| command.into())
}
