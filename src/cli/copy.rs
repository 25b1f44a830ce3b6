//! `petstore copy`: moves a store from an SQLite file to PostgreSQL.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::{Outcome, say};
use crate::{
    invalid::{Invalid, quoted},
    store::{DatabaseUrl, PostgresUrl, copy},
};

#[derive(Args)]
pub struct Copy {
    /// The store to copy: sqlite: and a file's path. It must not be served
    /// meanwhile.
    #[arg(long, env = "PETSTORE_FROM", value_parser = source, value_name = "URL")]
    from: PathBuf,
    /// Where to copy it: the postgres:// address of an empty database.
    #[arg(long, env = "PETSTORE_TO", value_parser = target, value_name = "URL")]
    to: Box<PostgresUrl>,
}

impl Copy {
    pub fn run(self) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // It is drawn on a terminal only.
        let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(
            "{bar:40} {human_pos} of {human_len} rows, {eta} left",
        )?);
        say!("Copies {} to {}", self.from.display(), self.to);
        let copied = runtime.block_on(copy(&self.from, &self.to, |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        }));
        bar.finish_and_clear();
        let [pets, orders, keys] = copied?;
        say!("Copied {pets} animals, {orders} orders and {keys} keys.");
        Ok(())
    }
}

fn source(text: &str) -> Result<PathBuf, Invalid> {
    match text.parse()? {
        DatabaseUrl::Sqlite(path) => Ok(path),
        DatabaseUrl::Postgres(_) => {
            let reason = format!("must be sqlite: and a file's path, got {}", quoted(text));
            Err(Invalid::new("from", reason))
        }
    }
}

fn target(text: &str) -> Result<Box<PostgresUrl>, Invalid> {
    match text.parse()? {
        DatabaseUrl::Postgres(url) => Ok(url),
        DatabaseUrl::Sqlite(_) => {
            let reason = format!("must be a postgres:// address, got {}", quoted(text));
            Err(Invalid::new("to", reason))
        }
    }
}
