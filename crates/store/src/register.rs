//! The register of animals: pages of those that were acquired, and of those that were sold.

use super::{
    Error, Store,
    error::MissingRow,
    rows::{Access, Stored},
    sql::Sql,
    table::{ColumnGroup, Columns, Record, Row, Value, columns, columns_of},
};
use domain::{
    order::OrderId,
    page::{Filter, ListQuery, Page},
    pet::PetId,
    register::{
        DeletedPet, EntryKind, RegisterEntry, RegisterFilter, RegisteredPet, RegisteredSale,
        time_of,
    },
};

statements! {
    /// Pets, and pets that were deleted, after a day and an id, with the completed order of each. A
    /// deletion was undone if the pet exists. It comes after the pet, which no page may skip.
    ACQUIRED(Text, Int, Int, Text) = format!(
        "SELECT entry.id, entry.deleted_at,
                entry.deleted_at IS NOT NULL
                    AND EXISTS (SELECT 1 FROM pets WHERE pets.id = entry.id),
                {pet}, {sale}
         FROM (SELECT * FROM ({pets} UNION ALL {deleted}) AS entries
               ORDER BY acquired_on, id, deleted_at IS NOT NULL LIMIT $3) AS entry
         LEFT JOIN orders ON orders.pet_id = entry.id AND orders.status = 'completed'
         ORDER BY entry.acquired_on, entry.id, entry.deleted_at IS NOT NULL",
        pet = columns_of::<RegisteredPet>("entry"),
        sale = columns_of::<RegisteredSale>("orders"),
        pets = select_acquired("pets", "CAST(NULL AS bigint)"),
        deleted = select_acquired("deleted_pets", "deleted_at"),
    );
    IS_DELETED(Int) = "SELECT EXISTS (SELECT 1 FROM deleted_pets WHERE id = $1)";
    ERASE_SOURCE(Int) =
        "UPDATE deleted_pets SET source_name = NULL, source_address = NULL, source_licence = NULL
         WHERE id = $1";
    /// Completed orders after a time and an id, with the pet of each, even if it was deleted.
    SOLD(Int, Int, Int, Int) = format!(
        "SELECT sold.pet_id, deleted_pets.deleted_at, false, {pet}, {sale}
         FROM (SELECT * FROM orders WHERE (completed_at, id) > ($1, $2) AND completed_at < $3
               ORDER BY completed_at, id LIMIT $4) AS sold
         LEFT JOIN pets ON pets.id = sold.pet_id
         LEFT JOIN deleted_pets ON deleted_pets.id = sold.pet_id AND pets.id IS NULL
         ORDER BY sold.completed_at, sold.id",
        sale = columns_of::<RegisteredSale>("sold"),
        pet = RegisteredPet::columns("")
            .iter()
            .map(|column| format!("coalesce(pets.{0}, deleted_pets.{0})", column.name))
            .collect::<Vec<_>>()
            .join(", "),
    );
}

/// Selects the rows of a table in the order of its index of days. The other rows of the day, and
/// those of later days, are a range each: SQLite enters an index at an id only if the columns
/// before it have one value.
fn select_acquired(table: &str, deleted_at: &str) -> String {
    let columns = columns::<RegisteredPet>();
    let range = |name: &str, condition: &str| {
        format!(
            "SELECT * FROM (SELECT id, {deleted_at} AS deleted_at, {columns} FROM {table}
                            WHERE {condition} ORDER BY acquired_on, id LIMIT $3)
                 AS {name}_{table}"
        )
    };
    let rest_of_day = range("rest_of", "acquired_on = $1 AND id > $2");
    let later = range("later", "acquired_on > $1 AND acquired_on <= $4");
    format!("{rest_of_day} UNION ALL {later}")
}

columns! {
    RegisteredSale {
        order_id as "id",
        sold_at as "completed_at",
        price as "price_amount, price_currency",
        buyer as "buyer_name, buyer_address, buyer_contact",
        reference,
        returned_at,
    }
}

/// A row of either statement.
pub(super) struct EntryRow {
    entry: RegisterEntry,
    /// True if the pet was deleted and the deletion was undone.
    is_undone: bool,
}

impl Record for EntryRow {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let pet_id = columns.next()?;
        let deleted_at = columns.next()?;
        let is_undone = columns.next()?;
        let entry = RegisterEntry {
            pet_id,
            pet: columns.next_joined::<_, String>()?,
            deleted_at,
            sale: columns.next_joined::<_, OrderId>()?,
        };
        Ok(Self { entry, is_undone })
    }
}

/// The lock of the pet protects the record of its deletion.
impl Stored for DeletedPet {
    const ACCESS: Access = Access::Unlocked;
}

/// Returns the statement that reads a page, and its parameters.
pub(super) fn select(query: &ListQuery<RegisterFilter>) -> (&'static Sql, Vec<Value<'static>>) {
    let filter = &query.filter;
    let after = query.after.clone().unwrap_or_else(|| filter.start());
    let id = Value::Int(after.id);
    let lookahead = Value::Int(i64::from(query.limit.get()) + 1);
    match filter.entry {
        EntryKind::Acquired => {
            let day = Value::text(after.key.to_string());
            let last_day = Value::text(filter.period.to.to_string());
            (&ACQUIRED, vec![day, id, lookahead, last_day])
        }
        EntryKind::Sold => {
            let time = Value::Int(time_of(&after));
            let end = Value::Int(filter.period.bounds().1.as_microsecond());
            (&SOLD, vec![time, id, end, lookahead])
        }
    }
}

/// Builds a page from the rows that were selected. It has fewer entries than its limit if
/// deletions were undone.
pub(super) fn page(query: &ListQuery<RegisterFilter>, rows: Vec<EntryRow>) -> Page<RegisterEntry> {
    let limit = usize::from(query.limit.get());
    let has_next = rows.len() > limit;
    let mut items = Vec::new();
    let mut last = None;
    for EntryRow { entry, is_undone } in rows.into_iter().take(limit) {
        last = Some(query.filter.position(&entry));
        if !is_undone {
            items.push(entry);
        }
    }
    Page {
        items,
        next: last.filter(|_| has_next),
    }
}

impl Store {
    /// Reads a page of the register.
    pub async fn register_list(
        &self,
        query: &ListQuery<RegisterFilter>,
    ) -> Result<Page<RegisterEntry>, Error> {
        let (sql, parameters) = select(query);
        let rows = self.query(sql, parameters).await?;
        Ok(page(query, rows))
    }

    /// Erases the source of a pet in the record of its deletion. Returns false if there is none.
    pub async fn deleted_pet_erase_source(&self, id: PetId) -> Result<bool, Error> {
        let id = Value::Int(id.get());
        let is_deleted = self.find(&IS_DELETED, vec![id.clone()]).await?;
        let is_deleted: bool = is_deleted.ok_or(MissingRow)?;
        if is_deleted {
            self.write(&ERASE_SOURCE, vec![id]).await?;
        }
        Ok(is_deleted)
    }
}
