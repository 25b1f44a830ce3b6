//! Export of all pets or orders, and the names of categories.

use std::collections::HashSet;

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

/// Facts about an export that apply to all of its records.
pub struct ExportContext {
    /// The number of records.
    pub total: u64,
    pub category_names: CategoryNames,
    /// The columns of the database in which a record has a value, and the keys of all metadata,
    /// sorted. Both are read only for a table.
    pub used_columns: HashSet<&'static str>,
    pub metadata_keys: Vec<String>,
}

/// Calls `start`, and `take` with every pet by ascending id, all from one snapshot. Returns the
/// number of pets.
pub async fn export_pets(
    url: &DatabaseUrl,
    is_table: bool,
    start: impl FnMut(&ExportContext) -> Result<(), String>,
    take: impl FnMut(Pet, &ExportContext) -> Result<(), String>,
) -> Result<u64, ReadError> {
    export(url, &COUNT_PETS, is_table, start, take).await
}

/// Like [`export_pets`], for orders.
pub async fn export_orders(
    url: &DatabaseUrl,
    is_table: bool,
    start: impl FnMut(&ExportContext) -> Result<(), String>,
    take: impl FnMut(Order, &ExportContext) -> Result<(), String>,
) -> Result<u64, ReadError> {
    export(url, &COUNT_ORDERS, is_table, start, take).await
}

/// Exports the rows of a table. `total` counts them.
async fn export<T: Table>(
    url: &DatabaseUrl,
    total: &Sql,
    is_table: bool,
    mut start: impl FnMut(&ExportContext) -> Result<(), String>,
    mut take: impl FnMut(T, &ExportContext) -> Result<(), String>,
) -> Result<u64, ReadError> {
    let store = Reader::open(url).await?;
    store.start_snapshot().await?;
    let mut context = ExportContext {
        total: store.one::<i64>(total.text()).await? as u64,
        category_names: read_names(&store).await?,
        used_columns: HashSet::new(),
        metadata_keys: Vec::new(),
    };
    if is_table {
        context.used_columns = used_columns::<T>(&store).await?;
        if context.used_columns.contains("metadata") {
            context.metadata_keys = read_keys(&store).await?;
        }
    }
    start(&context).map_err(ReadError::Aborted)?;
    let rows = format!("SELECT {} FROM {} ORDER BY id", columns::<T>(), T::NAME);
    let mut count = 0;
    let take = |row| {
        count += 1;
        take(row, &context).map_err(ReadError::Aborted)
    };
    store.each(&rows, take).await?;
    Ok(count)
}

/// Returns the columns of a table in which a row has a value, from one scan with a bit for each.
async fn used_columns<T: Table>(store: &Reader) -> Result<HashSet<&'static str>, ReadError> {
    let columns = T::columns("");
    let bits = columns.iter().enumerate().map(|(index, column)| {
        let bit = 1_i64 << index;
        format!(
            "max(CASE WHEN {} IS NULL THEN 0 ELSE {bit} END)",
            column.name
        )
    });
    let bits: Vec<_> = bits.collect();
    let sql = format!(
        "SELECT CAST(coalesce({}, 0) AS bigint) FROM {}",
        bits.join(" + "),
        T::NAME
    );
    let used: i64 = store.one(&sql).await?;
    let is_used = |(index, _): &(usize, _)| used >> index & 1 == 1;
    let columns = columns.into_iter().enumerate().filter(is_used);
    Ok(columns.map(|(_, column)| column.name).collect())
}

/// The maximum number of keys that a table has columns for.
const MAX_KEYS: usize = 1000;

async fn read_keys(store: &Reader) -> Result<Vec<String>, ReadError> {
    let sql = match store {
        Reader::File(_) => {
            "SELECT DISTINCT pairs.key FROM pets, json_each(pets.metadata) AS pairs
             WHERE metadata IS NOT NULL ORDER BY 1"
        }
        Reader::Server(_) => {
            "SELECT DISTINCT jsonb_object_keys(metadata::jsonb) COLLATE \"C\" FROM pets
             WHERE metadata IS NOT NULL ORDER BY 1"
        }
    };
    let keys: Vec<String> = store.all(sql).await?;
    if keys.len() > MAX_KEYS {
        let reason = format!(
            "the animals have {} different metadata keys, too many for a table; export them as \
             JSON Lines with --format jsonl",
            keys.len()
        );
        return Err(ReadError::Aborted(reason));
    }
    Ok(keys)
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
