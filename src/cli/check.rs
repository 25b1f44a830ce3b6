//! `petstore check`: checks the integrity of a store.

use clap::Args;

use super::{
    CommandResult, Database, Interrupt, block_on, counted, escape_for_terminal, print, status,
};
use store::{DatabaseUrl, check};

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    pub database: Database,
}

impl Check {
    pub fn run(self) -> CommandResult {
        let _interrupt = Interrupt::listen("interrupted; the check is not complete")?;
        block_on(async {
            let database = self.database.location();
            let problems =
                check(&self.database.url()?, |what| status!("Checking for {what}")).await?;
            if problems.is_empty() {
                status!("No problems found in {database}.");
                return Ok(());
            }
            let lines: String = problems
                .iter()
                .map(|it| escape_for_terminal(it) + "\n")
                .collect();
            print(lines.as_bytes())?;
            let count = counted(problems.len() as u64, "problem");
            let next = match self.database.database {
                DatabaseUrl::Sqlite(_) => format!(
                    "if you have a backup from before, stop the service and put it in place with \
                     `petstore restore BACKUP{}`",
                    self.database.options()
                ),
                DatabaseUrl::Postgres(_) => "if you have a backup from before, restore it".into(),
            };
            Err(format!("{count} found in {database}; {next}").into())
        })
    }
}
