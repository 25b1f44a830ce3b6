//! `petstore import`: adds and changes the animals of a file, or undoes an import.

mod file;
mod plan;
mod report;
mod run;
#[cfg(test)]
mod tests;
mod undo;

use std::{mem, path::PathBuf};

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, block_on,
    pet_file::{ImportFormat, TableOptions},
};
use domain::pet::batch::BatchId;
use file::ImportFile;
use store::shop_currency;

/// The arguments that say nothing about an undo.
const IMPORT_OPTIONS: [&str; 13] = [
    "file",
    "format",
    "skip_invalid",
    "dry_run",
    "restart",
    "match_microchip",
    "create_categories",
    "sheet",
    "columns",
    "values",
    "default_status",
    "currency",
    "date_order",
];

#[derive(Args)]
pub struct ImportArgs {
    /// File to import, .csv, .xlsx or .jsonl, or - for standard input.
    ///
    /// A table has a header that names the columns: name, categoryId and,
    /// optionally, those that an export has, or common words for them in
    /// several languages. JSON Lines has one JSON object per line. A category
    /// can also be given by its name, as category instead of categoryId. With
    /// both, a category that has no name yet gets this one.
    ///
    /// A record with the id of an animal in the store changes it: an empty
    /// cell removes a detail, and details without a column stay. All others
    /// are added, also those with an id that no animal has.
    #[arg(required_unless_present = "undo")]
    file: Option<PathBuf>,
    /// Input format; by default, the file's extension decides.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<ImportFormat>,
    /// Skip invalid lines and import the rest.
    #[arg(long, env = "PETSTORE_SKIP_INVALID")]
    skip_invalid: bool,
    /// Only check the file, and show its columns and first rows; import nothing.
    #[arg(long, env = "PETSTORE_DRY_RUN")]
    dry_run: bool,
    /// Import the file from its beginning, although it was imported before.
    ///
    /// The animals that were imported before, completely or until an interruption, are then
    /// imported again.
    #[arg(long, env = "PETSTORE_RESTART", conflicts_with = "dry_run")]
    restart: bool,
    /// Change the animal that has the microchip of a record, if the record has no id.
    #[arg(long, env = "PETSTORE_MATCH_MICROCHIP")]
    match_microchip: bool,
    /// Create the categories that are given by a name that none has.
    #[arg(long, env = "PETSTORE_CREATE_CATEGORIES")]
    create_categories: bool,
    /// Undo an import, whose id it has printed, instead of importing a file.
    ///
    /// The animals that it has added are deleted, and those that it has changed
    /// are changed back, except those changed or ordered since, which are
    /// listed. An import can be undone as long as its events are kept.
    #[arg(
        long,
        value_name = "ID",
        env = "PETSTORE_UNDO",
        value_parser = undo::parse_id,
        conflicts_with_all = IMPORT_OPTIONS
    )]
    undo: Option<BatchId>,
    #[command(flatten)]
    table: TableOptions,
    #[command(flatten)]
    pub database: Database,
}

impl ImportArgs {
    pub fn run(mut self) -> CommandResult {
        if let Some(id) = self.undo {
            return undo::run(&self.database, &id);
        }
        let path = self.file.take().expect("required without --undo");
        let interrupt = Interrupt::listen("interrupted; nothing was imported")?;
        let table = mem::take(&mut self.table);
        let mut file = ImportFile::open(&path, self.format, table)?;
        let database = self.database.url()?;
        block_on(async {
            let currency = shop_currency(&database).await?;
            file.examine_columns(currency)?;
            self.import(&file, &database, &interrupt).await
        })
    }
}
