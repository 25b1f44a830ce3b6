//! `petstore register`: writes the register of animals.

use std::{collections::HashSet, error::Error, io, path::PathBuf};

use clap::Args;
use jiff::Timestamp;

use super::{
    CommandResult, Database, block_on,
    output_file::OutputFile,
    plural,
    record_writer::{ExportFormat, RecordWriter, register_cells, register_columns},
    status,
};
use domain::{
    category::CategoryNames,
    period::{Period, PeriodParameters},
    register::RegisterEntry,
};
use store::{RegisterSummary, export_register};

#[derive(Args)]
pub struct Register {
    /// First day of the period, as YYYY-MM-DD.
    #[arg(long, env = "PETSTORE_REGISTER_FROM", value_name = "DATE")]
    from: String,
    /// Last day of the period, as YYYY-MM-DD.
    #[arg(long, env = "PETSTORE_REGISTER_TO", value_name = "DATE")]
    to: String,
    /// Time zone of the days, such as Europe/Berlin.
    #[arg(
        long,
        env = "PETSTORE_TIME_ZONE",
        default_value = "UTC",
        value_name = "ZONE"
    )]
    time_zone: String,
    /// File to create; it must not exist yet.
    ///
    /// By default, and for -, everything is written to standard output.
    #[arg(long, env = "PETSTORE_OUTPUT", value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub database: Database,
}

impl Register {
    pub fn run(self) -> CommandResult {
        let period = self.period()?;
        let path = self.output.as_deref();
        let output = OutputFile::open(
            path.filter(|path| path.as_os_str() != "-"),
            "interrupted; nothing was written",
        )?;
        let written = output.write(ExportFormat::Csv, "register", |writer, not_written| {
            self.write(&period, writer, not_written)
        });
        if let Some(summary) = written? {
            let RegisterSummary {
                entries: count,
                undated_in_stock,
                undated_sold,
            } = summary;
            let entries = plural(count, "entry", "entries");
            let location = self.database.location();
            status!("Wrote {count} {entries} from {location}.");
            if undated_in_stock > 0 || undated_sold > 0 {
                status!(
                    "Without a date of acquisition, and so not listed as acquired: \
                     {undated_in_stock} in stock, and {undated_sold} sold in the period."
                );
            }
        }
        Ok(())
    }

    fn period(&self) -> Result<Period, Box<dyn Error>> {
        let mut parameters = PeriodParameters::default();
        for (name, value) in [
            ("from", &self.from),
            ("to", &self.to),
            ("timeZone", &self.time_zone),
        ] {
            parameters.set(name, value)?;
        }
        Ok(parameters.period(Timestamp::now(), Period::MAX_DAYS)?)
    }

    /// Writes the entries.
    fn write<W: io::Write>(
        &self,
        period: &Period,
        writer: &mut RecordWriter<W>,
        not_written: &dyn Fn(io::Error) -> String,
    ) -> Result<RegisterSummary, Box<dyn Error>> {
        let zone = period.zone.time_zone();
        let columns = register_columns();
        let header = writer.write_header(&columns, columns.len(), &HashSet::new());
        header.map_err(not_written)?;
        let take = |kind, entry: RegisterEntry, names: &CategoryNames| {
            let cells = || register_cells(kind, &entry, names, &zone);
            writer.write(&entry, cells).map_err(not_written)
        };
        block_on(async { Ok(export_register(&self.database.url()?, period, take).await?) })
    }
}
