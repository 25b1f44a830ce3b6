//! The operating system: files that are replaced atomically, the user of the process, and the
//! priority of a thread.

pub mod atomic_file;
pub mod priority;
pub mod privileges;
