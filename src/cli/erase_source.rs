//! `petstore erase-source`: erases the source of deleted animals from the register.

use clap::Args;

use super::{CommandResult, Database, block_on, counted, status};
use domain::pet::PetId;
use store::{Options, Role, Store};

#[derive(Args)]
pub struct EraseSource {
    /// Numbers of the animals.
    #[arg(required = true, value_name = "ID", value_parser = parse_id)]
    ids: Vec<PetId>,
    #[command(flatten)]
    pub database: Database,
}

impl EraseSource {
    pub fn run(self) -> CommandResult {
        block_on(async {
            let store = Store::open(&self.database.url()?, &Options::new(Role::Cli)).await?;
            let erased = erase(&store, &self.ids).await;
            store.close().await;
            erased
        })
    }
}

async fn erase(store: &Store, ids: &[PetId]) -> CommandResult {
    let mut erased = 0;
    let mut unknown = Vec::new();
    for id in ids {
        if store.deleted_pet_erase_source(*id).await? {
            erased += 1;
        } else {
            unknown.push(id.get().to_string());
        }
    }
    if erased > 0 {
        status!(
            "Erased the source of {}.",
            counted(erased, "deleted animal")
        );
    }
    if unknown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no deleted animal has the number {}; if the animal still exists, remove its source in the \
         console or over the API",
        unknown.join(" or ")
    )
    .into())
}

fn parse_id(text: &str) -> Result<PetId, String> {
    PetId::parse(text).ok_or_else(|| "must be the number of an animal, such as 17".into())
}
