//! `petstore export`: writes all animals or orders to a file.

use std::{error::Error, io, path::PathBuf};

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, block_on, counted,
    pet_file::Format,
    progress_bar,
    record_writer::{ORDER_COLUMNS, PetRow, RecordWriter, order_cells},
    status,
};
use crate::{
    category::CategoryNames,
    order::Order,
    pet::Pet,
    store::{AtomicFile, export_orders, export_pets},
};

#[derive(Args)]
pub struct Export {
    /// File to create (.csv or .jsonl); it must not exist yet.
    ///
    /// By default, and for -, everything is written to standard output.
    file: Option<PathBuf>,
    /// Output format; by default, the file's extension decides. On standard output, it is
    /// jsonl.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<Format>,
    /// Export orders instead of animals.
    #[arg(long, env = "PETSTORE_ORDERS")]
    orders: bool,
    /// Write the names of categories beside their numbers.
    #[arg(long, env = "PETSTORE_CATEGORY_NAMES", conflicts_with = "orders")]
    category_names: bool,
    #[command(flatten)]
    database: Database,
}

impl Export {
    pub fn run(self) -> CommandResult {
        match self.file.as_deref().filter(|path| path.as_os_str() != "-") {
            None => {
                let format = self.format.unwrap_or(Format::Jsonl);
                let interrupted = "interrupted; the output is not complete";
                self.write(format, io::stdout().lock(), interrupted)
            }
            Some(path) => {
                let format = Format::of(path, self.format)?;
                let failed = |cause| format!("cannot create {}: {cause}", path.display());
                let file = AtomicFile::create(path).map_err(failed)?;
                self.write(format, file.file(), "interrupted; nothing was exported")?;
                file.persist().map_err(failed)?;
                Ok(())
            }
        }
    }

    fn write(&self, format: Format, file: impl io::Write, interrupted: &str) -> CommandResult {
        let columns: &[_] = match (self.orders, self.category_names) {
            (true, _) => &ORDER_COLUMNS,
            (false, true) => &PetRow::COLUMNS_WITH_CATEGORY,
            (false, false) => &PetRow::COLUMNS,
        };
        let mut writer = RecordWriter::new(format, columns, file)?;
        let noun = if self.orders { "order" } else { "animal" };
        let bar = progress_bar(&format!("{noun}s"));
        let interrupt = Interrupt::listen()?;
        let mut pipe_closed = false;
        let mut written = |written: io::Result<()>| {
            bar.inc(1);
            if interrupt.is_set() {
                return Err(interrupted.into());
            }
            written.map_err(|cause| {
                pipe_closed = cause.kind() == io::ErrorKind::BrokenPipe;
                format!("cannot write the {noun}s: {cause}")
            })
        };
        let start = |total| bar.set_length(total);
        let exported = block_on(async {
            let database = self.database.url()?;
            let exported = match self.orders {
                true => {
                    let take = |order: Order, _: &CategoryNames| {
                        written(writer.write(&order, || order_cells(&order)))
                    };
                    export_orders(&database, start, take).await
                }
                false => {
                    let take = |pet: Pet, names: &CategoryNames| {
                        let row = match self.category_names {
                            true => PetRow::with_category(&pet, names),
                            false => PetRow::new(&pet),
                        };
                        written(writer.write(&row, || row.cells(self.category_names)))
                    };
                    export_pets(&database, start, take).await
                }
            };
            Ok::<_, Box<dyn Error>>(exported?)
        });
        bar.finish_and_clear();
        if pipe_closed {
            // `head` closes the pipe when it has read enough.
            return Ok(());
        }
        let count = counted(exported?, noun);
        writer.finish()?;
        status!("Exported {count} from {}.", self.database.location());
        Ok(())
    }
}
