//! The operating system: files that are replaced atomically, the user of the process, and the
//! priority and the CPU time of a thread.

pub mod atomic_file;
pub mod cpu_time;
pub mod priority;
pub mod privileges;
