//! Believable details of sample animals, for `petstore seed` and `petstore serve --demo`.

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use rand::{RngExt, rngs::SmallRng};

use domain::{
    date::PastDate,
    party::Source,
    pet::{Microchip, NewPet, Sex},
    price::{Amount, Currency, Price},
    text::{Lines, Text},
};

/// A kind of animal, by the name of its category.
struct Species {
    category: &'static str,
    breeds: &'static [&'static str],
    colors: &'static [&'static str],
    /// The lowest and the highest price, in whole dollars.
    prices: (i64, i64),
    /// The age at which it arrives, and the oldest one, in days.
    ages: (i64, i64),
    has_microchip: bool,
    place: &'static str,
}

const SPECIES: [Species; 6] = [
    Species {
        category: "Dogs",
        breeds: &[
            "Beagle",
            "Border Collie",
            "Dachshund",
            "Labrador Retriever",
            "Poodle",
            "Spaniel",
        ],
        colors: &["black", "brown", "tricolor", "golden", "white and tan"],
        prices: (450, 1900),
        ages: (63, 900),
        has_microchip: true,
        place: "Kennel",
    },
    Species {
        category: "Cats",
        breeds: &[
            "British Shorthair",
            "European Shorthair",
            "Maine Coon",
            "Ragdoll",
            "Siamese",
        ],
        colors: &["tabby", "black", "blue", "seal point", "ginger"],
        prices: (180, 1200),
        ages: (84, 1400),
        has_microchip: true,
        place: "Room",
    },
    Species {
        category: "Rabbits",
        breeds: &["Dutch", "Holland Lop", "Lionhead", "Mini Rex"],
        colors: &["agouti", "white", "chocolate", "broken black"],
        prices: (35, 120),
        ages: (56, 700),
        has_microchip: false,
        place: "Hutch",
    },
    Species {
        category: "Guinea pigs",
        breeds: &["Abyssinian", "American", "Peruvian", "Teddy"],
        colors: &["cream", "tricolor", "roan", "black"],
        prices: (25, 60),
        ages: (42, 500),
        has_microchip: false,
        place: "Pen",
    },
    Species {
        category: "Birds",
        breeds: &[
            "Budgerigar",
            "Canary",
            "Cockatiel",
            "Lovebird",
            "Zebra finch",
        ],
        colors: &["yellow", "green", "blue", "grey"],
        prices: (20, 240),
        ages: (49, 1000),
        has_microchip: false,
        place: "Aviary",
    },
    Species {
        category: "Tortoises",
        breeds: &[
            "Greek tortoise",
            "Hermann's tortoise",
            "Red-eared slider",
            "Russian tortoise",
        ],
        colors: &["olive", "golden brown", "dark green"],
        prices: (90, 380),
        ages: (200, 9000),
        has_microchip: true,
        place: "Terrarium",
    },
];

/// The sellers that a shop acquires animals from.
const SOURCES: [(&str, &str, &str); 4] = [
    (
        "Hollow Oak Kennels",
        "12 Mill Lane, Frederick, MD",
        "52-B-0187",
    ),
    (
        "Brightwater Farm",
        "870 Old Post Road, Ithaca, NY",
        "21-B-0412",
    ),
    (
        "Lakeside Animal Rescue",
        "5 Harbor Street, Toledo, OH",
        "31-R-0093",
    ),
    (
        "Marlow Aviaries",
        "44 Chapel Road, Salisbury, MD",
        "52-A-0260",
    ),
];

/// Numbers of microchips, none of them twice.
pub struct Microchips {
    /// The code of a manufacturer and of a delivery: seven digits.
    prefix: u32,
    next: u32,
}

impl Microchips {
    pub fn new(random: &mut SmallRng) -> Self {
        Self {
            prefix: random.random_range(9_000_000..9_990_000),
            next: 0,
        }
    }

    fn take(&mut self) -> Option<Microchip> {
        self.next += 1;
        Microchip::parse(&format!("{}{:08}", self.prefix, self.next)).ok()
    }
}

/// Adds what a shop records of an animal of this category.
pub fn add_details(
    pet: &mut NewPet,
    category: &str,
    random: &mut SmallRng,
    microchips: &mut Microchips,
) {
    let Some(species) = SPECIES.iter().find(|species| species.category == category) else {
        return;
    };
    let any = |random: &mut SmallRng, texts: &[&'static str]| {
        Text::parse(texts[random.random_range(0..texts.len())]).ok()
    };
    let (youngest, oldest) = species.ages;
    let acquired = random.random_range(1..60);
    let born = acquired + random.random_range(youngest..oldest);
    pet.breed = any(random, species.breeds);
    pet.color = any(random, species.colors);
    pet.sex = Some(match random.random_range(0..9) {
        0..4 => Sex::Male,
        4..8 => Sex::Female,
        _ => Sex::Unknown,
    });
    pet.birth_date = days_ago(born);
    pet.acquired_on = days_ago(acquired);
    if species.has_microchip {
        pet.microchip = microchips.take();
    }
    let (low, high) = species.prices;
    // In steps of five dollars.
    let amount = Amount::new(random.random_range(low / 5..=high / 5) * 500);
    pet.price = amount
        .zip(Currency::parse("USD").ok())
        .map(|(amount, currency)| Price { amount, currency });
    let place = random.random_range(1..13);
    pet.location = Text::parse(&format!("{} {place}", species.place)).ok();
    let (name, address, licence) = SOURCES[random.random_range(0..SOURCES.len())];
    pet.source = Text::parse(name).ok().map(|name| Source {
        name,
        address: Text::parse(address).ok(),
        licence: Text::parse(licence).ok(),
    });
    if random.random_range(0..3) == 0 {
        pet.description =
            Lines::parse(DESCRIPTIONS[random.random_range(0..DESCRIPTIONS.len())]).ok();
    }
    if random.random_range(0..4) == 0 {
        pet.notes = Lines::parse(NOTES[random.random_range(0..NOTES.len())]).ok();
    }
}

const DESCRIPTIONS: [&str; 5] = [
    "Friendly and curious, used to being handled every day.",
    "Calm, likes company, and is best kept with another animal.",
    "Lively. Needs room and someone with time.",
    "Shy at first. Takes food from the hand after a day or two.",
    "Healthy and vaccinated. Comes with a starter pack of its usual food.",
];

const NOTES: [&str; 4] = [
    "Vet check done, papers in the folder.",
    "Second vaccination is due next week.",
    "Eats slowly; feed apart from the others.",
    "A customer asked about this one. Call back before selling.",
];

fn days_ago(days: i64) -> Option<PastDate> {
    let today: Date = TimeZone::UTC.to_datetime(Timestamp::now()).date();
    let date = today.checked_sub(days.days()).ok()?;
    PastDate::parse(&date.to_string()).ok()
}
