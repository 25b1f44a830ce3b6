//! Measures the cost of a page in the store, by filter: `pages FILE KIND N` reads N pages of ten
//! pets at random positions and prints the CPU time of one page in microseconds. No page is
//! cached at this level.

use std::{env, error::Error, time::Duration};

use domain::{
    page::{ListQuery, Position, Sort},
    pet::PetFilter,
};
use mimalloc::MiMalloc;
use petstore_bench::{cpu_time, mix, name};
use store::{Options, Role, Store};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The filters of the query, in which `#` stands for a random number, `@` for a random letter, `+`
/// for a random syllable, and `*` for the name of one of the first thousand pets.
const KINDS: [(&str, &str); 11] = [
    ("all", ""),
    ("status", "&status=sold"),
    ("category", "&categoryId=#"),
    ("category-status", "&categoryId=#&status=sold"),
    ("name", "&name=@"),
    ("name-status", "&name=@&status=sold"),
    ("name-category", "&name=@&categoryId=#"),
    ("search-letter", "&q=@"),
    ("search-syllable", "&q=+"),
    ("search-name", "&q=*"),
    ("search-syllable-status", "&q=+&status=sold"),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, kind, count] = arguments.as_slice() else {
        return Err("usage: pages FILE KIND N".into());
    };
    let filters = KINDS.iter().find(|(name, _)| name == kind);
    let (_, filters) = filters.ok_or("no such kind of page")?;
    let url = format!("sqlite:{file}").parse()?;
    let store = Store::open(&url, &Options::new(Role::Service)).await?;
    let pets = store.counts().await?.pets.total;
    let count: u64 = count.parse()?;
    let mut spent = Duration::ZERO;
    let mut read = 0;
    // The first tenth only warms up.
    for n in 0..count + count / 10 {
        let mut query = query(filters, n)?;
        // The position is in the first third, so that a page is full in a small store, too.
        let position = (mix(n + 1) >> 1) as i64 % (pets / 3).max(1);
        let id = match query.sort {
            Sort::Asc => position,
            Sort::Desc => pets - position,
        };
        // A name has few pets.
        let is_first = query.filter.name.is_some() || filters.contains('*');
        query.after = (!is_first).then(|| Position::of_id(id));
        let before = cpu_time();
        let page = store.pet_list(query).await?;
        if n >= count / 10 {
            spent += cpu_time() - before;
            read += page.items.len();
        }
    }
    println!("{:.3}", spent.as_secs_f64() * 1e6 / count as f64);
    eprintln!("{:.1} pets per page", read as f64 / count as f64);
    store.close().await;
    Ok(())
}

fn query(filters: &str, n: u64) -> Result<ListQuery<PetFilter>, Box<dyn Error>> {
    let random = mix((n ^ 0x5eed) + 1);
    let letter = char::from(b"bdfglmnprst"[random as usize % 11]);
    let syllable = &name(random)[..2].to_lowercase();
    let filters = filters
        .replace('#', &(random % 20).to_string())
        .replace('@', &letter.to_string())
        .replace('+', syllable)
        .replace('*', &name(mix(random % 1000)));
    let query = format!("limit=10{filters}");
    Ok(ListQuery::parse(&query)?)
}
