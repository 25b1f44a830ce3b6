//! `petstore check`: checks the integrity of a store.

use clap::Args;

use super::{CommandResult, Database, block_on, counted, print, status};
use crate::store::check;

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    database: Database,
}

impl Check {
    pub fn run(self) -> CommandResult {
        block_on(async {
            let database = self.database.location();
            let problems =
                check(&self.database.url()?, |what| status!("Checking for {what}")).await?;
            if problems.is_empty() {
                status!("No problems found in {database}.");
                return Ok(());
            }
            print(format!("{}\n", problems.join("\n")).as_bytes())?;
            let count = counted(problems.len() as u64, "problem");
            Err(format!("{count} found in {database}").into())
        })
    }
}
