//! The data of `petstore serve --demo`: a shop in the middle of a day.

use std::{
    error::Error, fs::Permissions, io, ops::Deref, os::unix::fs::PermissionsExt, path::Path,
};

use clap::{
    ArgMatches, Args, Command, CommandFactory, FromArgMatches, error::ErrorKind,
    parser::ValueSource,
};
use rand::{SeedableRng, rngs::SmallRng};
use tempfile::{Builder, TempDir};

use super::{
    CommandLine, PasswordFile, ServedDatabase, keys,
    sample::{Microchips, add_details},
};
use domain::{
    api_key::{ApiKeySecret, NewApiKey},
    category::{Category, CategoryId, CategoryName, ExpectedCategory},
    clock::Clock,
    idempotency::Idempotent,
    order::{PlaceOrderRequest, Transition},
    party::Buyer,
    pet::{NewPet, PetId, PetName, PetStatus},
    text::Text,
};
use store::{DatabaseUrl, Store};

/// The option to serve a demo. A database on the command line contradicts it; one in the
/// environment is for other commands.
pub struct Demo(DemoOption);

#[derive(Args)]
pub struct DemoOption {
    /// Serve made-up animals and orders from a temporary database, to look around.
    ///
    /// The database is deleted when the service stops. PETSTORE_DATABASE is ignored.
    #[arg(long, env = "PETSTORE_DEMO")]
    demo: bool,
}

impl Deref for Demo {
    type Target = bool;

    fn deref(&self) -> &bool {
        &self.0.demo
    }
}

impl FromArgMatches for Demo {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let option = DemoOption::from_arg_matches(matches)?;
        let typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut contradicting = ["database", "database_password_file"].into_iter();
        if option.demo && contradicting.any(|id| typed(&id)) {
            let message = "a demo has a database of its own; leave out --demo, or --database and \
                           --database-password-file";
            let mut all = CommandLine::command();
            all.build();
            let serve = all.find_subcommand_mut("serve").expect("a command");
            return Err(serve.error(ErrorKind::ArgumentConflict, message));
        }
        Ok(Self(option))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Demo {
    fn augment_args(command: Command) -> Command {
        DemoOption::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        DemoOption::augment_args_for_update(command)
    }
}

/// A temporary database. Dropping it deletes the database.
pub struct DemoDatabase(TempDir);

impl DemoDatabase {
    pub fn create() -> io::Result<Self> {
        // The folder is as private as other stores.
        let folder = Builder::new()
            .prefix("petstore-demo-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir();
        folder.map(Self)
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    pub fn database(&self) -> ServedDatabase {
        ServedDatabase {
            database: DatabaseUrl::Sqlite(self.directory().join("petstore.db")),
            password: PasswordFile {
                database_password_file: None,
            },
        }
    }
}

/// The history of an animal.
#[derive(Clone, Copy)]
enum Story {
    /// It has just arrived and has no status yet.
    Arrived,
    OnSale,
    Reserved,
    Sold,
    /// It was reserved, and the buyer changed their mind.
    Cancelled,
    /// It was sold and came back.
    Returned,
    /// It was sold, came back and was sold again.
    Resold,
}
use Story::*;

/// The categories and their animals.
const SHOP: [(&str, &[(&str, Story)]); 6] = [
    (
        "Dogs",
        &[
            ("Biscuit", Sold),
            ("Bella", Reserved),
            ("Rex", OnSale),
            ("Frieda", Returned),
            ("Balu", OnSale),
            ("Waldi", Sold),
            ("Luna", Cancelled),
            ("Pepper", OnSale),
        ],
    ),
    (
        "Cats",
        &[
            ("Minka", Resold),
            ("Moss", OnSale),
            ("Cleo", Reserved),
            ("Tiger", OnSale),
            ("Mimi", Sold),
            ("Felix", Cancelled),
            ("Shadow", OnSale),
            ("Olive", Arrived),
        ],
    ),
    (
        "Rabbits",
        &[
            ("Clover", OnSale),
            ("Flocke", Sold),
            ("Thumper", Reserved),
            ("Hazel", OnSale),
            ("Löffel", OnSale),
            ("Dandelion", Returned),
        ],
    ),
    (
        "Guinea pigs",
        &[
            ("Nibbles", OnSale),
            ("Peanut", Sold),
            ("Caramel", OnSale),
            ("Button", Cancelled),
            ("Truffle", OnSale),
        ],
    ),
    (
        "Birds",
        &[
            ("Kiwi", Reserved),
            ("Sunny", OnSale),
            ("Coco", Sold),
            ("Rio", OnSale),
            ("Sky", Arrived),
            ("Mango", OnSale),
        ],
    ),
    (
        "Tortoises",
        &[
            ("Shelly", OnSale),
            ("Turbo", Reserved),
            ("Morla", OnSale),
            ("Crush", Sold),
        ],
    ),
];

/// Fills an empty store the way the clients of a shop would, and returns the secret of an API
/// key with all scopes.
pub async fn fill(store: &Store) -> Result<ApiKeySecret, Box<dyn Error>> {
    let create = async |name: &str| {
        let new = NewApiKey::new(name.parse()?, Clock::system().now());
        Ok::<_, Box<dyn Error>>(keys::create(store, new).await?)
    };
    let (_, secret) = create("demo").await?;
    let (counter, _) = create("counter").await?;
    let (web_shop, _) = create("web shop").await?;
    let mut random = SmallRng::seed_from_u64(5);
    let mut microchips = Microchips::new(&mut random);
    let mut sales = 0;
    for (number, (category, animals)) in (1..).zip(SHOP) {
        let name = CategoryName::parse(category)?;
        let id = CategoryId::from_store(number);
        let _ = store
            .category_put(
                counter.id,
                Category { id, name },
                None,
                ExpectedCategory::Any,
            )
            .await?;
        let mut pets = Vec::new();
        for (name, story) in animals {
            let mut new = NewPet {
                status: (!matches!(story, Arrived)).then_some(PetStatus::Available),
                ..NewPet::new(PetName::parse(name)?, number)
            };
            add_details(&mut new, category, &mut random, &mut microchips);
            let created = executed(store.pet_create(counter.id, new, None).await?)?;
            pets.push((created.map_err(|_| REJECTED)?.id, story));
        }
        for (n, (pet, story)) in pets.into_iter().enumerate() {
            let key = if n % 2 == 0 { counter.id } else { web_shop.id };
            use Transition::{Cancel, Complete, Return};
            let orders: &[&[Transition]] = match story {
                Arrived | OnSale => &[],
                Reserved => &[&[]],
                Sold => &[&[Complete]],
                Cancelled => &[&[Cancel]],
                Returned => &[&[Complete, Return]],
                Resold => &[&[Complete, Return], &[Complete]],
            };
            for transitions in orders {
                sales += 1;
                order(store, key, sale(pet, sales)?, transitions).await?;
            }
        }
    }
    Ok(secret)
}

/// The customers of the shop: name, address and contact.
const CUSTOMERS: [(&str, &str, &str); 5] = [
    (
        "Ada Moreno",
        "4 Orchard Street, Frederick, MD",
        "ada@example.com",
    ),
    ("Jonas Weber", "19 Canal Road, Ithaca, NY", "+1 555 0134"),
    (
        "Priya Nair",
        "230 Elm Avenue, Toledo, OH",
        "priya@example.com",
    ),
    (
        "Sam Okafor",
        "7 Station Place, Salisbury, MD",
        "+1 555 0178",
    ),
    (
        "Lucía Ortega",
        "61 Hill Street, Albany, NY",
        "lucia@example.com",
    ),
];

/// Returns the order of a customer.
fn sale(pet: PetId, number: usize) -> Result<PlaceOrderRequest, String> {
    let (name, address, contact) = CUSTOMERS[number % CUSTOMERS.len()];
    Ok(PlaceOrderRequest {
        buyer: Some(Buyer {
            name: Text::parse(name)?,
            address: Some(Text::parse(address)?),
            contact: Some(Text::parse(contact)?),
        }),
        reference: Some(Text::parse(&format!("R-{}", 1000 + number))?),
        ..PlaceOrderRequest::new(pet)
    })
}

/// Places an order and takes it through its transitions.
async fn order(
    store: &Store,
    key: i64,
    request: PlaceOrderRequest,
    transitions: &[Transition],
) -> Result<(), Box<dyn Error>> {
    let placed = executed(store.order_place(key, request, None, None).await?)?;
    let order = placed.map_err(|_| REJECTED)?;
    for transition in transitions {
        let done = store.order_transition(key, order.id, *transition, None);
        executed(done.await?)?.map_err(|_| REJECTED)?;
    }
    Ok(())
}

const REJECTED: &str = "the store rejected the data of the demo";

fn executed<T>(result: Idempotent<T>) -> Result<T, &'static str> {
    match result {
        Idempotent::Executed(value) | Idempotent::Replayed(value) => Ok(value),
        Idempotent::KeyReused => Err(REJECTED),
    }
}
