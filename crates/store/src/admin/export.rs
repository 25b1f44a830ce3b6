//! Export of all pets or orders, and the names of categories.

use std::collections::HashSet;

use bytes::Bytes;

use super::{
    super::{
        sql::Sql,
        table::{Table, Value, columns},
        tables::StoredPhoto,
        url::DatabaseUrl,
    },
    reader::{ReadError, Reader},
};
use domain::{
    category::{Category, CategoryNames},
    members::Choice,
    order::Order,
    pet::Pet,
    photo::{PhotoId, PhotoSize},
};

statements! {
    COUNT_PETS() = "SELECT CAST(sum(pets) AS bigint) FROM counts";
    COUNT_ORDERS() = "SELECT CAST(sum(orders_placed + orders_completed + orders_cancelled
                                     + orders_returned) AS bigint) FROM counts";
    /// A photo, even if its pet no longer shows it.
    STORED_PHOTO(Int) = format!(
        "SELECT {} FROM photos WHERE id = $1", columns::<StoredPhoto>()
    );
    IMAGE(Int, Text) =
        "SELECT bytes FROM photo_parts WHERE photo_id = $1 AND kind = $2 ORDER BY part";
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

/// Reads the photos of a store.
pub struct PhotoReader(Reader);

impl PhotoReader {
    pub async fn open(url: &DatabaseUrl) -> Result<Self, ReadError> {
        Ok(Self(Reader::open(url).await?))
    }

    /// Returns the large image of a photo, even if its pet no longer shows it. Returns `None` if
    /// the photo was purged or is incomplete.
    pub async fn image(&self, id: PhotoId) -> Result<Option<Vec<u8>>, ReadError> {
        let id = Value::Int(id.get());
        let found = self.0.query(&STORED_PHOTO, vec![id.clone()]);
        let photo: Option<StoredPhoto> = found.await?.pop();
        let size = PhotoSize::Full;
        let parameters = vec![id, Value::text(size.as_str())];
        let parts: Vec<(Bytes,)> = self.0.query(&IMAGE, parameters).await?;
        let image = parts.iter().flat_map(|(part,)| part).copied();
        let image: Vec<u8> = image.collect();
        let length = photo.map(|photo| photo.image_bytes(size));
        Ok(Some(image).filter(|image| length == Some(image.len() as u64)))
    }
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

/// Returns the numbers of categories from 1 on that pets have.
pub async fn used_categories(url: &DatabaseUrl) -> Result<Vec<i64>, ReadError> {
    let Some(store) = Reader::open_if_created(url).await? else {
        return Ok(Vec::new());
    };
    // PostgreSQL has one index of the pets with a status, and one of those without.
    let conditions = match &store {
        Reader::File(_) => &[""][..],
        Reader::Server(_) => &["AND status IS NOT NULL", "AND status IS NULL"],
    };
    let mut all = Vec::new();
    for condition in conditions {
        // Each is found by a step in the index.
        let sql = format!(
            "WITH RECURSIVE used (id) AS (
                 SELECT CAST(0 AS bigint)
                 UNION ALL
                 SELECT (SELECT min(category_id) FROM pets
                         WHERE category_id > used.id {condition})
                 FROM used WHERE used.id IS NOT NULL
             )
             SELECT id FROM used WHERE id > 0"
        );
        let used: Vec<(i64,)> = store.all(&sql).await?;
        all.extend(used.into_iter().map(|(id,)| id));
    }
    Ok(all)
}

pub(super) async fn read_names(store: &Reader) -> Result<CategoryNames, ReadError> {
    let categories: Vec<Category> = store.all(ALL_CATEGORIES.text()).await?;
    Ok(categories.into_iter().collect())
}
