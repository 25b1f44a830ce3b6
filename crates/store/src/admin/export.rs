//! Export of all pets or orders, and the names of categories.

use super::{
    super::{
        sql::Sql,
        table::{Table, columns},
        url::DatabaseUrl,
    },
    reader::{ReadError, Reader},
};
use domain::{
    category::{Category, CategoryNames},
    order::Order,
    pet::Pet,
};

statements! {
    COUNT_PETS() = "SELECT CAST(sum(pets) AS bigint) FROM counts";
    COUNT_ORDERS() = "SELECT CAST(sum(orders_placed + orders_completed + orders_cancelled
                                     + orders_returned) AS bigint) FROM counts";
    ALL_CATEGORIES() = format!("SELECT {} FROM categories", columns::<Category>());
}

/// Calls `start` with the number of pets, and `take` with every pet by ascending id and the
/// names of the categories, all from one snapshot. Returns the number of pets.
pub async fn export_pets(
    url: &DatabaseUrl,
    start: impl FnMut(u64),
    take: impl FnMut(Pet, &CategoryNames) -> Result<(), String>,
) -> Result<u64, ReadError> {
    export(url, &COUNT_PETS, start, take).await
}

/// Like [`export_pets`], for orders.
pub async fn export_orders(
    url: &DatabaseUrl,
    start: impl FnMut(u64),
    take: impl FnMut(Order, &CategoryNames) -> Result<(), String>,
) -> Result<u64, ReadError> {
    export(url, &COUNT_ORDERS, start, take).await
}

/// Exports the rows of a table. `total` counts them.
async fn export<T: Table>(
    url: &DatabaseUrl,
    total: &Sql,
    mut start: impl FnMut(u64),
    mut take: impl FnMut(T, &CategoryNames) -> Result<(), String>,
) -> Result<u64, ReadError> {
    let store = Reader::open(url).await?;
    store.start_snapshot().await?;
    let names = read_names(&store).await?;
    let total: i64 = store.one(total.text()).await?;
    start(total as u64);
    let rows = format!("SELECT {} FROM {} ORDER BY id", columns::<T>(), T::NAME);
    let mut count = 0;
    let take = |row| {
        count += 1;
        take(row, &names).map_err(ReadError::Aborted)
    };
    store.each(&rows, take).await?;
    Ok(count)
}

/// Returns the names of all categories; none if there is no database yet. Changes nothing.
pub async fn category_names(url: &DatabaseUrl) -> Result<CategoryNames, ReadError> {
    match Reader::open_if_created(url).await? {
        Some(store) => read_names(&store).await,
        None => Ok(CategoryNames::default()),
    }
}

async fn read_names(store: &Reader) -> Result<CategoryNames, ReadError> {
    let categories: Vec<Category> = store.all(ALL_CATEGORIES.text()).await?;
    Ok(categories.into_iter().collect())
}
