//! `petstore copy`: moves a store from an SQLite file to PostgreSQL.

use std::path::PathBuf;

use clap::Args;

use super::{Outcome, UrlParser, block_on, progress_bar, say};
use crate::{
    invalid::Invalid,
    store::{DatabaseUrl, PostgresUrl, copy},
};

#[derive(Args)]
pub struct Copy {
    /// The store to copy: sqlite: and a file's path. It must not be served
    /// meanwhile.
    #[arg(
        long,
        env = "PETSTORE_FROM",
        hide_env_values = true,
        value_parser = UrlParser(source),
        value_name = "URL"
    )]
    from: PathBuf,
    /// Where to copy it: the postgres:// address of an empty database.
    #[arg(
        long,
        env = "PETSTORE_TO",
        hide_env_values = true,
        value_parser = UrlParser(target),
        value_name = "URL"
    )]
    to: Box<PostgresUrl>,
}

impl Copy {
    pub fn run(self) -> Outcome {
        block_on(self.copy())
    }

    async fn copy(self) -> Outcome {
        let bar = progress_bar("rows");
        say!("Copies {} to {}", self.from.display(), self.to);
        let copied = copy(&self.from, &self.to, |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })
        .await;
        bar.finish_and_clear();
        let [pets, orders, keys, _] = copied?;
        say!("Copied {pets} animals, {orders} orders and {keys} keys.");
        Ok(())
    }
}

fn source(text: &str) -> Result<PathBuf, Invalid> {
    match text.parse()? {
        DatabaseUrl::Sqlite(path) => Ok(path),
        DatabaseUrl::Postgres(_) => Err(Invalid::new("from", "must be sqlite: and a file's path")),
    }
}

fn target(text: &str) -> Result<Box<PostgresUrl>, Invalid> {
    match text.parse()? {
        DatabaseUrl::Postgres(url) => Ok(url),
        DatabaseUrl::Sqlite(_) => Err(Invalid::new("to", "must be a postgres:// address")),
    }
}
