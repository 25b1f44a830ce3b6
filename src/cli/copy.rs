//! `petstore copy`: copies a store from an SQLite file to PostgreSQL.

use std::path::PathBuf;

use clap::Args;

use super::{
    CommandResult, Interrupt, PasswordFile, UrlParser, block_on, copy_progress, counted,
    database::location, print_warning, status,
};
use domain::invalid::Invalid;
use store::{DatabaseUrl, PostgresUrl, copy, give_up_root};

#[derive(Args)]
pub struct Copy {
    /// Store to copy, as sqlite:PATH; stop the service first.
    #[arg(
        long,
        env = "PETSTORE_FROM",
        hide_env_values = true,
        value_parser = UrlParser(source),
        value_name = "URL"
    )]
    from: PathBuf,
    /// Empty database to copy it to, as postgres://USER@HOST/DATABASE.
    #[arg(
        long,
        env = "PETSTORE_TO",
        hide_env_values = true,
        value_parser = UrlParser(target),
        value_name = "URL"
    )]
    to: Box<PostgresUrl>,
    #[command(flatten)]
    password: PasswordFile,
}

impl Copy {
    pub fn run(self) -> CommandResult {
        block_on(self.copy())
    }

    async fn copy(mut self) -> CommandResult {
        self.password.apply(&mut self.to, print_warning)?;
        give_up_root(&self.from)?;
        let interrupt = Interrupt::listen("interrupted; nothing was copied")?;
        let bar = interrupt.progress_bar("rows");
        let from = location(&DatabaseUrl::Sqlite(self.from.clone()));
        let mut progress = copy_progress(&bar, format!("Copying {from} to {}", self.to));
        let copied = copy(&self.from, &self.to, |done, total| {
            progress(done, total);
            if done == total {
                interrupt
                    .end_with("interrupted; everything was copied, or nothing: check the target");
            }
        })
        .await;
        bar.finish_and_clear();
        let copied = copied?;
        status!(
            "Copied {}, {}, {}, {}, {} and {}.",
            counted(copied["pets"], "animal"),
            counted(copied["categories"], "category name"),
            counted(copied["orders"], "order"),
            counted(copied["api_keys"], "API key"),
            counted(copied["webhooks"], "webhook"),
            counted(copied["events"], "event")
        );
        Ok(())
    }
}

fn source(text: &str) -> Result<PathBuf, Invalid> {
    match text.parse()? {
        DatabaseUrl::Sqlite(path) => Ok(path),
        DatabaseUrl::Postgres(_) => Err(Invalid::new("from", "must be sqlite:PATH")),
    }
}

fn target(text: &str) -> Result<Box<PostgresUrl>, Invalid> {
    match text.parse()? {
        DatabaseUrl::Postgres(url) => Ok(url),
        DatabaseUrl::Sqlite(_) => Err(Invalid::new("to", "must be a postgres:// URL")),
    }
}
