//! Lists of pets on PostgreSQL.

use tokio_postgres::types::ToSql;

use super::{
    super::{
        error::Error,
        list::{Dialect, MAX_EXAMINED, Select},
        table::{Record, columns},
    },
    Postgres,
};
use domain::{
    page::{ListQuery, Page},
    pet::{Pet, PetFilter},
};

statements! {
    GET_BY_MICROCHIP(Text, Int) = format!(
        "SELECT {} FROM pets WHERE microchip = $1 ORDER BY id LIMIT $2",
        columns::<Pet>()
    );
    GET_MANY(Ints) = format!("SELECT {} FROM pets WHERE id = ANY($1)", columns::<Pet>());
}

impl Postgres {
    pub(crate) async fn pet_list(&self, query: ListQuery<PetFilter>) -> Result<Page<Pet>, Error> {
        if let Some(ids) = &query.filter.ids {
            let rows = self.reads.read(&GET_MANY, &[&ids.as_slice()]).await?;
            let pets = rows.iter().map(Pet::from_row).collect::<Result<_, _>>()?;
            return Ok(query.page_of(pets));
        }
        if let Some(microchip) = &query.filter.microchip {
            let parameters: [&(dyn ToSql + Sync); 2] = [&microchip.as_str(), &MAX_EXAMINED];
            let rows = self.reads.read(&GET_BY_MICROCHIP, &parameters).await?;
            let pets = rows.iter().map(Pet::from_row).collect::<Result<_, _>>()?;
            return Ok(query.page_of(pets));
        }
        let select = Select::pets(&query, Dialect::Postgres, false);
        self.list(select, query).await
    }
}
