//! The user that this process runs as. A process of root can continue as another user.

use std::{fs, io, sync::OnceLock};

use rustix::{
    process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

/// The user for whom this process gave up root.
static SUCCESSOR: OnceLock<u32> = OnceLock::new();

/// Returns the user for whom this process gave up root, if it did.
pub fn successor_of_root() -> Option<u32> {
    SUCCESSOR.get().copied()
}

/// Continues permanently as this user, with this group only. Must be called before any thread is
/// started: Linux has a user per thread, which new threads inherit.
pub fn give_up_root_for(user: u32, group: u32) -> io::Result<()> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "root is given up before threads are started");
    let uid = Uid::from_raw(user);
    let gid = Gid::from_raw(group);
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // Other processes of that user must not attach to this one, which has root's terminal.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    SUCCESSOR.get_or_init(|| user);
    Ok(())
}
