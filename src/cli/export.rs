//! `petstore export`: writes all animals or orders to a file, and photos to a folder.

mod photos;

use std::{cell::RefCell, error::Error, io, path::PathBuf};

use clap::Args;
use indicatif::ProgressBar;

use super::{
    CommandResult, Database, block_on, counted,
    output_file::OutputFile,
    plural,
    record_writer::{
        ExportFormat, PetRow, REQUIRED_ORDER_COLUMNS, RecordWriter, order_cells, order_columns,
    },
    status, stdout,
};
use domain::{category::CategoryName, order::Order, pet::Pet};
use photos::{PhotoCounts, PhotoExport, Pictures};
use store::{ExportContext, export_orders, export_pets};

#[derive(Args)]
pub struct Export {
    /// File to create (.csv or .jsonl); it must not exist yet.
    ///
    /// By default, and for -, everything is written to standard output.
    file: Option<PathBuf>,
    /// Output format; by default, the file's extension decides. On standard output, it is
    /// jsonl.
    #[arg(long, env = "PETSTORE_FORMAT")]
    format: Option<ExportFormat>,
    /// Export orders instead of animals.
    #[arg(long, env = "PETSTORE_ORDERS")]
    orders: bool,
    /// Write the names of categories beside their numbers.
    #[arg(long, env = "PETSTORE_CATEGORY_NAMES", conflicts_with = "orders")]
    category_names: bool,
    /// Also write the photos of the animals to this folder, which must be new or empty.
    ///
    /// They are JPEG files of up to 1,600 pixels, named by the id of the animal and numbered in
    /// their order: 17-1.jpg is the cover of animal 17. `petstore photos import` reads such a
    /// folder.
    #[arg(
        long,
        env = "PETSTORE_PHOTOS",
        value_name = "DIR",
        conflicts_with = "orders"
    )]
    photos: Option<PathBuf>,
    #[command(flatten)]
    pub database: Database,
}

impl Export {
    pub fn run(self) -> CommandResult {
        let path = self.file.as_deref().filter(|path| path.as_os_str() != "-");
        let format = match path {
            Some(path) => ExportFormat::of(path, self.format)?,
            None => self.format.unwrap_or(ExportFormat::Jsonl),
        };
        let photos = self.photos.as_deref().map(PhotoExport::new).transpose()?;
        let output = OutputFile::open(path, "interrupted; nothing was exported")?;
        // Others may write to the same terminal, such as `head`.
        let bar = if path.is_some() || stdout::is_file() {
            output.interrupt.progress_bar(self.nouns())
        } else {
            ProgressBar::hidden()
        };
        let interrupt = output.interrupt.clone();
        let exported = output.write(format, self.nouns(), |writer, not_written| {
            let mut pictures = Pictures::default();
            let exported = self.write(format, writer, not_written, &bar, &mut pictures);
            bar.finish_and_clear();
            let exported = exported?;
            let written = match photos {
                Some(photos) => Some(photos.write(&pictures, &self.database.url()?, &interrupt)?),
                None => None,
            };
            Ok((exported, written))
        });
        if let Some((count, photos)) = exported? {
            let noun = if self.orders { "order" } else { "animal" };
            let exported = counted(count, noun);
            let location = self.database.location();
            match photos {
                Some(PhotoCounts { written, left_out }) => {
                    let photos = counted(written, "photo");
                    status!("Exported {exported} and {photos} from {location}.");
                    if left_out > 0 {
                        let photos = counted(left_out, "photo");
                        let were = plural(left_out, "was", "were");
                        return Err(format!("{photos} {were} left out").into());
                    }
                }
                None => status!("Exported {exported} from {location}."),
            }
        }
        Ok(())
    }

    fn nouns(&self) -> &'static str {
        if self.orders { "orders" } else { "animals" }
    }

    /// Writes the records. Returns their number.
    fn write<W: io::Write>(
        &self,
        format: ExportFormat,
        writer: &mut RecordWriter<W>,
        not_written: &dyn Fn(io::Error) -> String,
        bar: &ProgressBar,
        pictures: &mut Pictures,
    ) -> Result<u64, Box<dyn Error>> {
        // Both callbacks write.
        let writer = RefCell::new(writer);
        // The columns of a table must be known in advance.
        let is_table = format == ExportFormat::Csv;
        block_on(async {
            let database = self.database.url()?;
            let exported = if self.orders {
                let start = |context: &ExportContext| {
                    bar.set_length(context.total);
                    let header = writer.borrow_mut().write_header(
                        &order_columns(),
                        REQUIRED_ORDER_COLUMNS,
                        &context.used_columns,
                    );
                    header.map_err(not_written)
                };
                let take = |order: Order, _: &ExportContext| {
                    bar.inc(1);
                    let written = writer.borrow_mut().write(&order, || order_cells(&order));
                    written.map_err(not_written)
                };
                export_orders(&database, is_table, start, take).await
            } else {
                let start = |context: &ExportContext| {
                    bar.set_length(context.total);
                    let header = writer.borrow_mut().write_header(
                        &PetRow::columns(self.category_names, &context.metadata_keys),
                        PetRow::REQUIRED_COLUMNS + usize::from(self.category_names),
                        &context.used_columns,
                    );
                    header.map_err(not_written)
                };
                let take = |pet: Pet, context: &ExportContext| {
                    bar.inc(1);
                    if self.photos.is_some() {
                        pictures.add(&pet);
                    }
                    // They are not part of the record.
                    let pet = pet.with_photos(Vec::new());
                    let name = context.category_names.name(pet.category_id);
                    let row = PetRow {
                        pet: &pet,
                        category: name
                            .filter(|_| self.category_names)
                            .map(CategoryName::as_str),
                    };
                    let cells = || row.cells(self.category_names, &context.metadata_keys);
                    writer.borrow_mut().write(&row, cells).map_err(not_written)
                };
                export_pets(&database, is_table, start, take).await
            };
            Ok(exported?)
        })
    }
}
