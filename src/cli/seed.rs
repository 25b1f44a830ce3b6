//! `petstore seed`: adds random sample animals.

use clap::Args;
use rand::{RngExt, rngs::SmallRng};

use super::{CommandResult, Database, block_on, counted, progress_bar, status};
use crate::{
    pet::{NewPet, PetName, PetStatus},
    store::import,
};

#[derive(Args)]
pub struct Seed {
    /// Number of animals to add, from 1 to 10000000.
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: u64,
    #[command(flatten)]
    database: Database,
}

/// Names to choose from, by category. The first has id 1.
const CATEGORIES: [&[&str]; 5] = [
    &[
        "Biscuit", "Rex", "Bella", "Waldi", "Luna", "Balu", "Frieda", "Socks",
    ],
    &[
        "Moss", "Minka", "Tiger", "Felix", "Schnurri", "Cleo", "Mimi",
    ],
    &["Hoppel", "Flocke", "Klee", "Nibbles", "Löffel"],
    &["Kiwi", "Coco", "Pepe", "Sunny", "Rio"],
    &["Shelly", "Crush", "Turbo", "Dot"],
];

impl Seed {
    pub fn run(self) -> CommandResult {
        let bar = progress_bar("animals");
        bar.set_length(self.count);
        let mut random: SmallRng = rand::make_rng();
        let mut left = self.count;
        let next = |_: &_| {
            if left == 0 {
                return Ok(None);
            }
            left -= 1;
            bar.inc(1);
            Ok(Some(random_pet(&mut random)))
        };
        let added = block_on(async { Ok(import(&self.database.url()?, next).await?) });
        bar.finish_and_clear();
        let (added, database) = (counted(added?, "animal"), &self.database.database);
        status!("Added {added} to {database}.");
        Ok(())
    }
}

fn random_pet(random: &mut SmallRng) -> NewPet {
    let category = random.random_range(0..CATEGORIES.len());
    let names = CATEGORIES[category];
    let name = names[random.random_range(0..names.len())];
    // Most are available, some are sold, and a few are pending or have no status.
    let status = match random.random_range(0..20) {
        0..=12 => Some(PetStatus::Available),
        13 => Some(PetStatus::Pending),
        14..=18 => Some(PetStatus::Sold),
        _ => None,
    };
    NewPet {
        name: PetName::parse(name).expect("a valid name"),
        category_id: category as i64 + 1,
        status,
    }
}
