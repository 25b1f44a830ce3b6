//! `petstore seed`: believable animals, for a first look.

use clap::Args;
use rand::{RngExt, rngs::SmallRng};

use super::{Database, Outcome, block_on, progress_bar, say};
use crate::{
    pet::{NewPet, PetName, PetStatus},
    store::import,
};

#[derive(Args)]
pub struct Seed {
    /// How many animals to make.
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: u64,
    #[command(flatten)]
    database: Database,
}

/// What there is of each category, from 1 on.
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
    pub fn run(self) -> Outcome {
        let bar = progress_bar("animals");
        bar.set_length(self.count);
        let mut random: SmallRng = rand::make_rng();
        let mut left = self.count;
        let next = || {
            if left == 0 {
                return Ok(None);
            }
            left -= 1;
            bar.inc(1);
            Ok(Some(animal(&mut random)))
        };
        let made = block_on(async { Ok(import(&self.database.database, next).await?) });
        bar.finish_and_clear();
        say!("Added {} animals to {}.", made?, self.database.database);
        Ok(())
    }
}

fn animal(random: &mut SmallRng) -> NewPet {
    let category = random.random_range(0..CATEGORIES.len());
    let names = CATEGORIES[category];
    let name = names[random.random_range(0..names.len())];
    // Most are for sale, some are sold, and a few are not ready yet.
    let status = match random.random_range(0..20) {
        0..=12 => Some(PetStatus::Available),
        13 => Some(PetStatus::Pending),
        14..=18 => Some(PetStatus::Sold),
        _ => None,
    };
    NewPet {
        name: PetName::parse(name).expect("a name that was tried"),
        category_id: category as i64 + 1,
        status,
    }
}
