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
                let lines = statement.sql.lines().map(str::trim);
                let sql: String = lines.map(|line| format!("    {line}\n")).collect();
                let plan = statement.plan.iter();
                let plan: String = plan.map(|step| format!("    -- {step}\n")).collect();
                print(format!("{}\n{sql}{plan}\n", statement.name).as_bytes())?;
            }
            Ok(())
        })
    }
}
