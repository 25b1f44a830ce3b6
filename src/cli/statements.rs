//! `petstore statements`: shows every SQL statement with its plan, for developers.

use clap::Args;

use super::{CommandResult, Database, block_on, print};
use store::explain_statements;

#[derive(Args)]
pub struct Statements {
    #[command(flatten)]
    pub database: Database,
}

impl Statements {
    pub fn run(self) -> CommandResult {
        block_on(async {
            for statement in explain_statements(&self.database.url()?).await? {
                let mut text = format!("{}\n", statement.name);
                for line in statement.sql.lines() {
                    text += &format!("    {}\n", line.trim());
                }
                for step in &statement.plan {
                    text += &format!("    -- {step}\n");
                }
                print(format!("{text}\n").as_bytes())?;
            }
            Ok(())
        })
    }
}
