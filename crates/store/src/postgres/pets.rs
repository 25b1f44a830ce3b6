//! Lists of pets on PostgreSQL.

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        search::start_id,
        table::{Record, columns},
    },
    Postgres,
};
use domain::{
    page::{ListQuery, Page, Sort},
    pet::{Pet, PetFilter},
};

statements! {
    GET_MANY(Ints) = format!("SELECT {} FROM pets WHERE id = ANY($1)", columns::<Pet>());
    PETS_OF_WORDS(Texts, Int, Int) = "SELECT ordinal, pet_id
         FROM unnest($1) WITH ORDINALITY AS words (word, ordinal), LATERAL (
             SELECT pet_id FROM pet_words WHERE word = words.word AND pet_id > $2
             ORDER BY pet_id LIMIT $3) AS first_pets";
    NEWEST_PETS_OF_WORDS(Texts, Int, Int) = "SELECT ordinal, pet_id
         FROM unnest($1) WITH ORDINALITY AS words (word, ordinal), LATERAL (
             SELECT pet_id FROM pet_words WHERE word = words.word AND pet_id < $2
             ORDER BY pet_id DESC LIMIT $3) AS newest_pets";
}

impl Postgres {
    pub(crate) async fn pet_list(&self, query: ListQuery<PetFilter>) -> Result<Page<Pet>, Error> {
        let select = Select::pets(&query, Dialect::Postgres, false);
        self.list(select, query).await
    }

    pub(crate) async fn pet_get_many(&self, ids: &[i64]) -> Result<Vec<Pet>, Error> {
        let rows = self.reads.read(&GET_MANY, &[&ids]).await?;
        rows.iter().map(Pet::from_row).collect()
    }

    /// Returns the first ids of the pets with each word, after the end of the previous page.
    pub(crate) async fn pet_ids_of_words(
        &self,
        words: Vec<String>,
        query: &ListQuery<PetFilter>,
        limit: usize,
    ) -> Result<Vec<Vec<i64>>, Error> {
        let sql = match query.sort {
            Sort::Asc => &PETS_OF_WORDS,
            Sort::Desc => &NEWEST_PETS_OF_WORDS,
        };
        let after = start_id(query);
        let rows = self
            .reads
            .read(sql, &[&words, &after, &(limit as i64)])
            .await?;
        let mut lists = vec![Vec::new(); words.len()];
        for row in &rows {
            let (ordinal, id): (i64, i64) = Record::from_row(row)?;
            lists[ordinal as usize - 1].push(id);
        }
        Ok(lists)
    }
}
