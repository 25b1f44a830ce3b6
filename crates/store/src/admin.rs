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
mod register;
mod restore;

use super::sql::Sql;

pub use backup::{BackupCopy, BackupError, BackupSource, backup, backup_to_stream, is_same_disk};
pub use check::check;
pub use copy::copy;
pub use explain::explain_statements;
pub use export::{
    ExportContext, PhotoReader, category_names, export_orders, export_pets, used_categories,
};
pub use import::{
    FileImport, FileImportError, KnownPet, KnownPets, find_import, find_microchips, has_changes,
    shop_currency,
};
pub use inspect::{DatabaseDetails, Inspection, inspect, list_keys};
pub use reader::ReadError;
pub use register::{RegisterSummary, export_register};
pub use restore::{RestoreSummary, event_source, require_closed, restore};

pub(super) const STATEMENTS: [&[&Sql]; 4] = [check::ALL, export::ALL, inspect::ALL, register::ALL];
