//! The operating system: files that are replaced atomically, and the user of the process.

pub mod atomic_file;
pub mod privileges;
