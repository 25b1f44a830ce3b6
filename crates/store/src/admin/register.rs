//! Export of the register of animals.

use std::collections::HashSet;

use super::{
    super::{register, table::Value, url::DatabaseUrl},
    export::read_names,
    reader::{ReadError, Reader},
};
use domain::{
    category::CategoryNames,
    members::Choice,
    page::{ListQuery, PageLimit, Sort},
    period::Period,
    register::{EntryKind, RegisterEntry, RegisterFilter, RegisteredPet},
};

/// The newest pets of each status whose dates of acquisition are looked at, so that the cost is
/// bounded.
const MAX_STOCK: i64 = 50_000;

statements! {
    /// The number of the newest pets in stock, and of those with a date of acquisition.
    COUNT_STOCK(Int) = format!(
        "SELECT count(*), count(acquired_on) FROM ({} UNION ALL {}) AS stock",
        newest("available"),
        newest("pending"),
    );
}

fn newest(status: &str) -> String {
    format!(
        "SELECT * FROM (SELECT acquired_on FROM pets WHERE status = '{status}'
                        ORDER BY id DESC LIMIT $1) AS {status}"
    )
}

/// The size of an exported register, and the pets without a date of acquisition, which are not
/// among those that were acquired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegisterSummary {
    pub entries: u64,
    /// Pets in stock, of which only the newest are looked at.
    pub undated_in_stock: i64,
    /// Pets that were sold in the period.
    pub undated_sold: usize,
}

/// Calls `take` with every entry of a period, those of animals that were acquired first, all from
/// one snapshot.
pub async fn export_register(
    url: &DatabaseUrl,
    period: &Period,
    mut take: impl FnMut(EntryKind, RegisterEntry, &CategoryNames) -> Result<(), String>,
) -> Result<RegisterSummary, ReadError> {
    let store = Reader::open(url).await?;
    store.start_snapshot().await?;
    let names = read_names(&store).await?;
    let mut entries = 0;
    let mut undated_sold = HashSet::new();
    for entry in EntryKind::ALL {
        let period = period.clone();
        let mut query = ListQuery {
            filter: RegisterFilter {
                entry: *entry,
                period,
            },
            sort: Sort::Asc,
            limit: PageLimit::LARGEST,
            after: None,
        };
        loop {
            let (sql, parameters) = register::select(&query);
            let page = register::page(&query, store.query(sql, parameters).await?);
            for item in page.items {
                entries += 1;
                let is_undated = |pet: &RegisteredPet| pet.acquired_on.is_none();
                if *entry == EntryKind::Sold && item.pet.as_ref().is_some_and(is_undated) {
                    undated_sold.insert(item.pet_id);
                }
                take(*entry, item, &names).map_err(ReadError::Aborted)?;
            }
            if page.next.is_none() {
                break;
            }
            query.after = page.next;
        }
    }
    let stock: Vec<(i64, i64)> = store
        .query(&COUNT_STOCK, vec![Value::Int(MAX_STOCK)])
        .await?;
    Ok(RegisterSummary {
        entries,
        undated_in_stock: stock.iter().map(|(pets, dated)| pets - dated).sum(),
        undated_sold: undated_sold.len(),
    })
}
