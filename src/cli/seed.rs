//! `petstore seed`: adds random sample animals.

use clap::Args;
use rand::{RngExt, rngs::SmallRng};

use super::{
    CommandResult, Database, Interrupt, block_on,
    bulk::{self, PetWrite, WriteProgress},
    counted,
    importer::Importer,
    sample::{Microchips, add_details},
    status,
};
use domain::{
    category::{Category, CategoryId, CategoryName, CategoryNames},
    import::{ImportRun, NamedCategory},
    pet::{NewPet, PetName, PetStatus},
};
use store::category_names;

const MAX_COUNT: u64 = 10_000_000;

#[derive(Args)]
pub struct Seed {
    /// Number of animals to add, from 1 to 10000000.
    #[arg(value_parser = count, allow_negative_numbers = true)]
    count: u64,
    #[command(flatten)]
    pub database: Database,
}

/// The names of the sample categories, with names of animals to choose from. The first category
/// has id 1.
const CATEGORIES: [(&str, &[&str]); 5] = [
    (
        "Dogs",
        &[
            "Biscuit", "Rex", "Bella", "Waldi", "Luna", "Balu", "Frieda", "Socks",
        ],
    ),
    (
        "Cats",
        &[
            "Moss", "Minka", "Tiger", "Felix", "Schnurri", "Cleo", "Mimi",
        ],
    ),
    (
        "Rabbits",
        &["Hoppel", "Flocke", "Klee", "Nibbles", "Löffel"],
    ),
    ("Birds", &["Kiwi", "Coco", "Pepe", "Sunny", "Rio"]),
    ("Tortoises", &["Shelly", "Crush", "Turbo", "Dot"]),
];

impl Seed {
    pub fn run(self) -> CommandResult {
        let interrupt = Interrupt::listen("interrupted; nothing was added")?;
        block_on(self.seed(interrupt))
    }

    async fn seed(self, interrupt: Interrupt) -> CommandResult {
        let database = self.database.url()?;
        let names = category_names(&database).await?;
        let mut random: SmallRng = rand::make_rng();
        let mut microchips = Microchips::new(&mut random);
        let importer = Importer::open(&database, None, ImportRun::start(0)).await?;
        interrupt.notice();
        let bar = interrupt.progress_bar("animals");
        bar.set_length(self.count);
        let mut numbers = 1..=self.count;
        let next = || {
            Ok(numbers.next().map(|number| {
                let pet = random_pet(&mut random, &mut microchips);
                (number, Some(PetWrite::Add(Box::new(pet))))
            }))
        };
        let categories = unused_categories(&names);
        let progress = WriteProgress {
            bar: &bar,
            interrupt: &interrupt,
        };
        let added = bulk::write_all(importer, categories, next, progress).await;
        bar.finish_and_clear();
        if let Err(interruption) = added {
            let message = interruption.message(self.count, "added");
            return Err(interrupt.error(match self.count - interruption.added {
                rest @ 1.. if interruption.can_continue => {
                    let options = self.database.options();
                    let first = match interruption.perhaps {
                        0 => "",
                        _ => "when the service runs again, see how many there are, then ",
                    };
                    format!("{message}; {first}add the rest with: petstore seed {rest}{options}")
                }
                _ => message,
            }));
        }
        let count = counted(self.count, "animal");
        status!("Added {count} to {}.", self.database.location());
        Ok(())
    }
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok();
    let in_range = count.filter(|count| (1..=MAX_COUNT).contains(count));
    in_range.ok_or_else(|| format!("must be a number from 1 to {MAX_COUNT}, such as 1000"))
}

/// Returns the sample categories, unless a shop already uses one of their ids or names.
fn unused_categories(names: &CategoryNames) -> Vec<NamedCategory> {
    let is_used = |(id, (name, _))| names.name(id).is_some() || names.id(name).is_some();
    if (1..).zip(CATEGORIES).any(is_used) {
        return Vec::new();
    }
    let categories = (1..).zip(CATEGORIES).map(|(id, (name, _))| NamedCategory {
        category: Category {
            id: CategoryId::from_store(id),
            name: CategoryName::parse(name).expect("a valid name"),
        },
        is_new: false,
    });
    categories.collect()
}

fn random_pet(random: &mut SmallRng, microchips: &mut Microchips) -> NewPet {
    let category = random.random_range(0..CATEGORIES.len());
    let (category_name, names) = CATEGORIES[category];
    let name = names[random.random_range(0..names.len())];
    // Most are available, some are sold, and a few are pending or have no status.
    let status = match random.random_range(0..20) {
        0..=12 => Some(PetStatus::Available),
        13 => Some(PetStatus::Pending),
        14..=18 => Some(PetStatus::Sold),
        _ => None,
    };
    let name = PetName::parse(name).expect("a valid name");
    let mut pet = NewPet {
        status,
        ..NewPet::new(name, category as i64 + 1)
    };
    add_details(&mut pet, category_name, random, microchips);
    pet
}
