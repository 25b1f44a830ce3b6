//! Administration from the command line: backup and restore, integrity check, copy to another
//! database, bulk import and export.

mod backup;
mod bulk;
mod check;
mod copy;
mod inspect;
mod restore;

pub(crate) use backup::backup;
pub(crate) use bulk::{export, import};
pub(crate) use check::check;
pub(crate) use copy::copy;
pub(crate) use inspect::{Inspected, Server, inspect};
pub(crate) use restore::{Restored, restore};
