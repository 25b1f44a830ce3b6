//! Searches for pets by the start of their words.
//!
//! A page starts from candidates, which are read from the index of words for one term and then
//! checked against the whole filter. Everything that is read is bounded: if too many words and
//! pets start with each term, the list of pets is walked instead, as for other filters that have
//! no index. If that finds too few, because the pets with the term are far down the list, more
//! candidates are read.

use super::{Error, Store, list::MAX_EXAMINED, table::Value};
use domain::{
    page::{ListQuery, Page, Position, Sort},
    pet::{Pet, PetFilter, Search, id_of_term, prefix_end},
};

/// The number of terms for which candidates are looked for.
const MAX_TERMS: usize = 3;
/// The maximum number of words whose pets are merged.
const MAX_WORDS: i64 = 32;
/// The maximum number of candidates of a term with more words. A term with more pets has none.
const MAX_PETS: i64 = 500;
/// The maximum after a walk of the list that found too few pets.
const MAX_DISTANT_PETS: i64 = 10_000;

statements! {
    /// The words in a range, each found by a step in the index.
    WORDS_OF_TERM(Text, Text, Int) = "WITH RECURSIVE words (word) AS (
             SELECT min(word) FROM pet_words WHERE word >= $1 AND word < $2
             UNION ALL
             SELECT (SELECT min(next.word) FROM pet_words AS next
                     WHERE next.word > words.word AND next.word < $2)
             FROM words WHERE words.word IS NOT NULL
         )
         SELECT word FROM words WHERE word IS NOT NULL LIMIT $3";
    /// The pets with a word in a range; none if there are more than the limit. That is decided by
    /// a row that is skipped to, as the rows before it would be returned for nothing.
    PETS_OF_TERM(Text, Text, Int) = "SELECT pet_id FROM pet_words WHERE word >= $1 AND word < $2
         ORDER BY word, pet_id
         LIMIT CASE WHEN EXISTS (SELECT 1 FROM pet_words WHERE word >= $1 AND word < $2
                                 LIMIT 1 OFFSET $3)
               THEN 0 ELSE $3 END";
}

/// Pets that may match a search.
struct Candidates {
    /// Distinct, in the order of the list, after the end of the previous page.
    ids: Vec<i64>,
    /// The id up to which no candidate is missing; `None` if none is missing at all.
    complete_to: Option<i64>,
}

impl Candidates {
    /// Merges the ids of several words. Each list has at most `limit` of them, and one that has as
    /// many may be continued.
    fn merge(lists: Vec<Vec<i64>>, limit: usize, sort: Sort) -> Self {
        let cut = lists.iter().filter(|list| list.len() >= limit);
        let ends = cut.filter_map(|list| list.last().copied());
        let complete_to = ends.min_by_key(|id| sort_key(*id, sort));
        let mut ids = lists.concat();
        ids.sort_unstable_by_key(|id| sort_key(*id, sort));
        ids.dedup();
        if let Some(end) = complete_to {
            ids.retain(|id| sort_key(*id, sort) <= sort_key(end, sort));
        }
        Self { ids, complete_to }
    }
}

/// Returns a number that is lower for an id that comes earlier in the list.
fn sort_key(id: i64, sort: Sort) -> i64 {
    match sort {
        Sort::Asc => id,
        Sort::Desc => !id,
    }
}

/// Returns true if an id comes after the previous page.
fn is_after(query: &ListQuery<PetFilter>, id: i64) -> bool {
    sort_key(id, query.sort) > sort_key(start_id(query), query.sort)
}

/// Returns the id after which the list, sorted by id, is read.
pub(super) fn start_id(query: &ListQuery<PetFilter>) -> i64 {
    let before_all = match query.sort {
        Sort::Asc => i64::MIN,
        Sort::Desc => i64::MAX,
    };
    query.after.as_ref().map_or(before_all, |after| after.id)
}

impl Store {
    /// Reads a page of a search that is sorted by id.
    pub(super) async fn pet_search(
        &self,
        query: ListQuery<PetFilter>,
        search: &Search,
    ) -> Result<Page<Pet>, Error> {
        let sort = query.sort;
        let is_enough = |page: &Page<Pet>| {
            page.next.is_none() || page.items.len() == usize::from(query.limit.get())
        };
        let Some(candidates) = self.candidates(&query, search, MAX_PETS).await? else {
            let walked = self.pet_walk(query.clone()).await?;
            if is_enough(&walked) {
                return Ok(walked);
            }
            return Ok(
                match self.candidates(&query, search, MAX_DISTANT_PETS).await? {
                    Some(more) => {
                        further(walked, self.page_of_candidates(&query, &more).await?, sort)
                    }
                    None => walked,
                },
            );
        };
        let page = self.page_of_candidates(&query, &candidates).await?;
        let filter = &query.filter;
        let has_index = filter.category_id.is_some() || filter.statuses.is_some();
        if is_enough(&page) || !has_index {
            return Ok(page);
        }
        // The term is common, and the other filters are not met often. One of them may have fewer
        // pets than the term.
        Ok(further(page, self.pet_walk(query.clone()).await?, sort))
    }

    /// Looks for a term with few pets. If there is none, returns the candidates that reach furthest
    /// in the list, which are those of the rarest term, or nothing if too many words start with
    /// each.
    async fn candidates(
        &self,
        query: &ListQuery<PetFilter>,
        search: &Search,
        max_pets: i64,
    ) -> Result<Option<Candidates>, Error> {
        let mut rarest = None;
        let mut furthest = i64::MIN;
        for term in search.terms().iter().take(MAX_TERMS) {
            let Some(found) = self.candidates_of_term(query, term, max_pets).await? else {
                continue;
            };
            let Some(end) = found.complete_to else {
                return Ok(Some(found));
            };
            let reach = sort_key(end, query.sort);
            if reach > furthest {
                furthest = reach;
                rarest = Some(found);
            }
        }
        Ok(rarest)
    }

    /// Returns the pets of a term; `None` if neither its words nor its pets are few.
    async fn candidates_of_term(
        &self,
        query: &ListQuery<PetFilter>,
        term: &str,
        max_pets: i64,
    ) -> Result<Option<Candidates>, Error> {
        let end = prefix_end(term).expect("no letter or digit is the last character");
        let range = |limit: i64| {
            vec![
                Value::text(term.to_string()),
                Value::text(end.to_string()),
                Value::Int(limit),
            ]
        };
        let words = self.query(&WORDS_OF_TERM, range(MAX_WORDS + 1)).await?;
        let words: Vec<String> = words.into_iter().map(|(word,)| word).collect();
        let mut limit = usize::MAX;
        let mut lists = if words.len() as i64 <= MAX_WORDS {
            limit = ids_per_word(query, words.len());
            on_database!(self, db => db.pet_ids_of_words(words, query, limit).await)?
        } else {
            let pets: Vec<(i64,)> = self.query(&PETS_OF_TERM, range(max_pets)).await?;
            // Each of the words has a pet.
            if pets.is_empty() {
                return Ok(None);
            }
            let ids = pets.into_iter().map(|(id,)| id);
            vec![ids.filter(|id| is_after(query, *id)).collect()]
        };
        let id = id_of_term(term).map(|id| id.get());
        lists.extend(id.filter(|id| is_after(query, *id)).map(|id| vec![id]));
        Ok(Some(Candidates::merge(lists, limit, query.sort)))
    }

    /// Reads candidates until the page is full, or as many rows as are examined for a page.
    async fn page_of_candidates(
        &self,
        query: &ListQuery<PetFilter>,
        candidates: &Candidates,
    ) -> Result<Page<Pet>, Error> {
        let limit = usize::from(query.limit.get());
        let mut found = Vec::new();
        let (mut ids, rest) = candidates
            .ids
            .split_at(candidates.ids.len().min(MAX_EXAMINED as usize));
        let complete_to = match ids.last() {
            Some(last) if !rest.is_empty() => Some(*last),
            _ => candidates.complete_to,
        };
        let mut count = limit + 1;
        while !ids.is_empty() && found.len() <= limit {
            let (next, rest) = ids.split_at(count.min(ids.len()));
            let mut pets = self.pet_get_many(next).await?;
            pets.retain(|pet| query.filter.matches(pet));
            pets.sort_unstable_by_key(|pet| sort_key(pet.id.get(), query.sort));
            found.append(&mut pets);
            ids = rest;
            count *= 4;
        }
        let is_read = ids.is_empty();
        let end = complete_to.filter(|_| is_read);
        Ok(query.page(found, end.map(Position::of_id)))
    }
}

/// Returns the one of two pages from the same position that reaches further in the list.
fn further(one: Page<Pet>, other: Page<Pet>, sort: Sort) -> Page<Pet> {
    let end = |page: &Page<Pet>| {
        let next = page.next.as_ref();
        next.map_or(i64::MAX, |position| sort_key(position.id, sort))
    };
    if end(&other) > end(&one) { other } else { one }
}

/// Returns the number of pets that are read for each of several words of a term: a page, and more
/// if some of them may not match the rest of the filter.
fn ids_per_word(query: &ListQuery<PetFilter>, words: usize) -> usize {
    let page = usize::from(query.limit.get()) + 1;
    let PetFilter {
        statuses,
        category_id,
        search,
        ..
    } = &query.filter;
    let is_one_term = search.as_ref().is_some_and(|it| it.terms().len() == 1);
    if is_one_term && statuses.is_none() && category_id.is_none() {
        return page;
    }
    page.max(MAX_EXAMINED as usize / words.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_merged_as_far_as_all_are_known() {
        let merge = |lists: &[&[i64]], sort| {
            let lists = lists.iter().map(|list| list.to_vec()).collect();
            let Candidates { ids, complete_to } = Candidates::merge(lists, 3, sort);
            (ids, complete_to)
        };
        // An animal may have several of the words.
        assert_eq!(
            merge(&[&[9, 4], &[9, 7]], Sort::Desc),
            (vec![9, 7, 4], None)
        );
        let cut: &[&[i64]] = &[&[9, 5, 4], &[8, 7, 6], &[9, 1]];
        assert_eq!(merge(cut, Sort::Desc), (vec![9, 8, 7, 6], Some(6)));
        let cut: &[&[i64]] = &[&[1, 2, 6], &[3, 4, 5], &[9]];
        assert_eq!(merge(cut, Sort::Asc), (vec![1, 2, 3, 4, 5], Some(5)));
        assert_eq!(merge(&[], Sort::Asc), (vec![], None));
    }
}
