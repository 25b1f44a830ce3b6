//! `petstore export`: writes all animals or orders to a file.

use std::{
    cell::RefCell,
    error::Error,
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use indicatif::ProgressBar;

use super::{
    CommandResult, Database, Interrupt, block_on, counted, escape_path,
    record_writer::{
        Format, PetRow, REQUIRED_ORDER_COLUMNS, RecordWriter, order_cells, order_columns,
    },
    status, stdout,
};
use domain::{category::CategoryName, order::Order, pet::Pet};
use store::{ExportContext, explain, export_orders, export_pets};
use system::atomic_file::AtomicFile;

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
    pub database: Database,
}

impl Export {
    pub fn run(self) -> CommandResult {
        match self.file.as_deref().filter(|path| path.as_os_str() != "-") {
            None => {
                let interrupt = Interrupt::listen("interrupted; the output is not complete")?;
                if stdout::is_closed() {
                    return Err("standard output is closed; open it, or name a file".into());
                }
                let format = self.format.unwrap_or(Format::Jsonl);
                // Others may write to the same terminal, such as `head`.
                let bar = if stdout::is_file() {
                    interrupt.progress_bar(self.nouns())
                } else {
                    ProgressBar::hidden()
                };
                let exported = self.write(format, io::stdout().lock(), &bar)?;
                self.report(exported);
            }
            Some(path) => {
                let interrupt = Interrupt::listen("interrupted; nothing was exported")?;
                let format = Format::of(path, self.format)?;
                let file = AtomicFile::create(path).map_err(|cause| not_created(path, &cause))?;
                let bar = interrupt.progress_bar(self.nouns());
                let exported = self.write(format, file.file(), &bar)?;
                file.persist().map_err(|cause| not_created(path, &cause))?;
                self.report(exported);
            }
        }
        Ok(())
    }

    fn nouns(&self) -> &'static str {
        if self.orders { "orders" } else { "animals" }
    }

    /// Reports the number of exported records, unless the reader closed the pipe.
    fn report(&self, exported: Option<u64>) {
        if let Some(count) = exported {
            let noun = if self.orders { "order" } else { "animal" };
            let location = self.database.location();
            status!("Exported {} from {location}.", counted(count, noun));
        }
    }

    /// Writes the records. Returns their number, or `None` if the reader closed the pipe, as
    /// `head` does when it has read enough.
    fn write(
        &self,
        format: Format,
        file: impl io::Write,
        bar: &ProgressBar,
    ) -> Result<Option<u64>, Box<dyn Error>> {
        let mut writer = RecordWriter::new(format, file);
        let mut pipe_closed = false;
        let mut not_written = |cause: io::Error| {
            pipe_closed = cause.kind() == io::ErrorKind::BrokenPipe;
            format!("cannot write the {}: {cause}", self.nouns())
        };
        let exported = block_on(async {
            let database = self.database.url()?;
            // The columns of a table must be known in advance.
            let is_table = format == Format::Csv;
            // Both callbacks write.
            let writer = RefCell::new(&mut writer);
            let not_written = RefCell::new(&mut not_written);
            let written =
                |written: io::Result<()>| written.map_err(|cause| not_written.borrow_mut()(cause));
            let exported = if self.orders {
                let start = |context: &ExportContext| {
                    bar.set_length(context.total);
                    let columns = order_columns();
                    let header =
                        writer
                            .borrow_mut()
                            .write_header(&columns, REQUIRED_ORDER_COLUMNS, context);
                    written(header)
                };
                let take = |order: Order, _: &ExportContext| {
                    bar.inc(1);
                    written(writer.borrow_mut().write(&order, || order_cells(&order)))
                };
                export_orders(&database, is_table, start, take).await
            } else {
                let start = |context: &ExportContext| {
                    bar.set_length(context.total);
                    let columns = PetRow::columns(self.category_names, &context.metadata_keys);
                    let required = PetRow::REQUIRED_COLUMNS + usize::from(self.category_names);
                    written(
                        writer
                            .borrow_mut()
                            .write_header(&columns, required, context),
                    )
                };
                let take = |pet: Pet, context: &ExportContext| {
                    bar.inc(1);
                    let name = context.category_names.name(pet.category_id);
                    let name = name.filter(|_| self.category_names);
                    let row = PetRow {
                        pet: &pet,
                        category: name.map(CategoryName::as_str),
                    };
                    let cells = || row.cells(self.category_names, &context.metadata_keys);
                    written(writer.borrow_mut().write(&row, cells))
                };
                export_pets(&database, is_table, start, take).await
            };
            Ok::<_, Box<dyn Error>>(exported?)
        });
        bar.finish_and_clear();
        let exported = exported.and_then(|count| {
            writer.finish().map_err(not_written)?;
            Ok(count)
        });
        match exported {
            Err(_) if pipe_closed => Ok(None),
            exported => exported.map(Some),
        }
    }
}

fn not_created(path: &Path, cause: &io::Error) -> String {
    let file = escape_path(path);
    match cause.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{file} already exists; name another file, or delete this one first")
        }
        _ => format!("cannot create {file}: {}", explain(path, cause)),
    }
}
