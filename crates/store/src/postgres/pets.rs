//! Lists of pets on PostgreSQL.

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        table::{Record, columns},
    },
    Postgres,
};
use domain::{
    page::{ListQuery, Page},
    pet::{Pet, PetFilter},
};

statements! {
    GET_MANY(Ints) = format!("SELECT {} FROM pets WHERE id = ANY($1)", columns::<Pet>());
}

impl Postgres {
    pub(crate) async fn pet_list(&self, query: ListQuery<PetFilter>) -> Result<Page<Pet>, Error> {
        if let Some(ids) = &query.filter.ids {
            let rows = self.reads.read(&GET_MANY, &[&ids.as_slice()]).await?;
            let pets = rows.iter().map(Pet::from_row).collect::<Result<_, _>>()?;
            return Ok(query.page_of(pets));
        }
        let select = Select::pets(&query, Dialect::Postgres, false);
        self.list(select, query).await
    }
}
