//! `petstore check`: is a store whole, and do its parts agree?

use clap::Args;

use super::{Database, Outcome, block_on, print, say};
use crate::store::check;

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    database: Database,
}

impl Check {
    pub fn run(self) -> Outcome {
        block_on(async {
            let database = &self.database.database;
            let wrong = check(database, |what| say!("Looks for {what}")).await?;
            if wrong.is_empty() {
                say!("{database} is in order.");
                return Ok(());
            }
            print(format!("{}\n", wrong.join("\n")).as_bytes())?;
            Err(format!("{database} is not in order").into())
        })
    }
}
