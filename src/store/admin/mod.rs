//! Administration from the command line: backup and restore, integrity check, copy to another
//! database, bulk import and export.

mod backup;
mod check;
mod copy;
mod explain;
mod export;
mod import;
mod inspect;
mod reader;
mod restore;

use super::sql::Sql;

pub(crate) use backup::{backup, backup_to_stream};
pub(crate) use check::check;
pub(crate) use copy::copy;
pub(crate) use explain::explain_statements;
pub(crate) use export::{category_names, export_orders, export_pets};
pub(crate) use import::{ImportError, Importer, finished_import};
pub(crate) use inspect::{Inspected, Server, inspect, list_keys};
pub(crate) use restore::{Restored, restore};

pub(super) const STATEMENTS: [&[&Sql]; 2] = [export::ALL, inspect::ALL];
