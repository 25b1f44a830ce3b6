//! Pets: the commands that change them, and reads.

use std::sync::Arc;

use super::{
    Error, Store,
    command::{Command, Lane, RecordedResult, Reply},
    draft::Draft,
    list::MAX_EXAMINED,
    photos::remove_others,
    row_keys::{Keys, Sequence},
    rows::{LoggedChange, Stored, to_json},
    table::{Value, columns},
};
use domain::{
    event::EventType,
    idempotency::{Idempotent, IdempotentRequest},
    members::Patch,
    page::{Filter, ListQuery, Page, PageLimit, Sort},
    pet::{
        FilteredInventory, NewPet, Pet, PetChange, PetFilter, PetId, PetRejection, decide_deletion,
    },
    register::DeletedPet,
};

statements! {
    GET(Int) = format!("SELECT {} FROM pets WHERE id = $1", columns::<Pet>());
    /// The pet that is not sold, and the newest ones that are.
    GET_BY_MICROCHIP(Text, Int) = format!(
        "SELECT {columns} FROM pets WHERE microchip = $1 AND status IS DISTINCT FROM 'sold'
         UNION ALL SELECT * FROM (
             SELECT {columns} FROM pets WHERE microchip = $1 AND status = 'sold'
             ORDER BY id DESC LIMIT $2
         ) AS sold",
        columns = columns::<Pet>()
    );
}

pub(super) struct CreatePet(pub(super) Arc<NewPet>);

impl Command for CreatePet {
    type Output = PetId;
    type Rejection = PetRejection;

    /// Only a pet with a microchip can be rejected, by what is read.
    fn lane(&self) -> Lane {
        match self.0.microchip {
            Some(_) => Lane::Change,
            None => Lane::Create,
        }
    }

    fn keys(&self, keys: &mut Keys) {
        keys.draw(Sequence::Pets, 1);
        if let Some(microchip) = &self.0.microchip {
            keys.microchips.push(microchip.clone());
        }
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<PetId, PetRejection> {
        let id = PetId::from_store(draft.new_id(Sequence::Pets));
        let pet = NewPet::clone(&self.0).with_id(id);
        if let Some(holder) = draft.microchip_holder(&pet) {
            return Err(PetRejection::MicrochipTaken(holder));
        }
        draft.put(pet);
        Ok(id)
    }

    fn recorded(id: &PetId) -> RecordedResult {
        RecordedResult::of_id(id.get())
    }
}

pub(super) struct UpdatePet {
    pub(super) id: PetId,
    pub(super) change: PetChange,
    pub(super) expected: Option<Pet>,
}

impl Command for UpdatePet {
    type Output = Pet;
    type Rejection = PetRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.pets.push(self.id);
        if let Patch::Set(microchip) = &self.change.microchip {
            keys.microchips.push(microchip.clone());
        }
        if self.change.status != Patch::Keep {
            keys.unsold_pets.push(self.id);
        }
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Pet, PetRejection> {
        let before = draft
            .tables
            .pets
            .get(&self.id)
            .ok_or(PetRejection::NoSuchPet)?
            .clone();
        let claim = draft.claims.get(&self.id).copied();
        let after = self.change.decide(&before, self.expected.as_ref(), claim)?;
        if after != before {
            if let Some(holder) = draft.microchip_holder(&after) {
                return Err(PetRejection::MicrochipTaken(holder));
            }
            draft.put(after.clone());
        }
        Ok(after)
    }
}

pub(super) struct DeletePet {
    pub(super) id: PetId,
    pub(super) expected: Option<Pet>,
}

impl Command for DeletePet {
    type Output = ();
    type Rejection = PetRejection;

    /// An earlier deletion may have been undone, and its record be replaced.
    fn keys(&self, keys: &mut Keys) {
        keys.pets.push(self.id);
        keys.deleted_pets.push(self.id);
        keys.photos_of.push(self.id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<(), PetRejection> {
        let pets = &draft.tables.pets;
        let before = pets.get(&self.id).ok_or(PetRejection::NoSuchPet)?.clone();
        let claim = draft.claims.get(&self.id).copied();
        decide_deletion(&before, self.expected.as_ref(), claim)?;
        let deleted = DeletedPet::new(&before, draft.times.now);
        remove_others(draft, &before, &[]);
        draft.delete::<Pet>(self.id);
        draft.put(deleted);
        Ok(())
    }
}

impl Stored for Pet {
    fn must_reach_index(before: Option<&Self>, after: Option<&Self>) -> bool {
        let claimed = |pet: Option<&Self>| pet.and_then(Self::claimed_microchip).cloned();
        claimed(before) != claimed(after)
    }

    fn resource(&self) -> Option<String> {
        Some(to_json(self))
    }

    fn event(before: Option<&Self>, after: Option<&Self>) -> Option<LoggedChange> {
        let (kind, pet) = match (before, after) {
            (None, after) => (EventType::PetCreated, after?),
            (Some(_), Some(after)) => (EventType::PetUpdated, after),
            (Some(before), None) => (EventType::PetDeleted, before),
        };
        Some(LoggedChange {
            is_append: before.is_none(),
            ..LoggedChange::new(kind, pet.id.get(), pet)
        })
    }
}

impl Store {
    /// Creates a pet and returns it with its new id.
    pub async fn pet_create(
        &self,
        api_key_id: i64,
        new: NewPet,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<Pet, PetRejection>>, Error> {
        let new = Arc::new(new);
        let create = CreatePet(Arc::clone(&new));
        let reply = self.execute(Some(api_key_id), create, request).await?;
        let with_id = |id| Arc::unwrap_or_clone(new).with_id(id);
        Ok(match reply {
            Reply::Executed(created) => Idempotent::Executed(created.map(with_id)),
            Reply::Replayed(created) => {
                Idempotent::Replayed(created.map(|it| with_id(PetId::from_store(it.id))))
            }
            Reply::KeyReused => Idempotent::KeyReused,
        })
    }

    /// Changes a pet and returns it.
    ///
    /// With `expected`, the pet must still have that value (optimistic concurrency);
    /// otherwise the change is rejected as outdated.
    pub async fn pet_update(
        &self,
        api_key_id: i64,
        id: PetId,
        change: PetChange,
        expected: Option<Pet>,
    ) -> Result<Result<Pet, PetRejection>, Error> {
        let update = UpdatePet {
            id,
            change,
            expected,
        };
        self.execute_once(Some(api_key_id), update).await
    }

    /// Deletes a pet, unless an open order reserves it. `expected` as for an update.
    pub async fn pet_delete(
        &self,
        api_key_id: i64,
        id: PetId,
        expected: Option<Pet>,
    ) -> Result<Result<(), PetRejection>, Error> {
        self.execute_once(Some(api_key_id), DeletePet { id, expected })
            .await
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        self.find(&GET, vec![Value::Int(id.get())]).await
    }

    pub async fn pet_list(&self, query: ListQuery<PetFilter>) -> Result<Page<Pet>, Error> {
        let filter = &query.filter;
        if let Some(ids) = &filter.ids {
            let pets = self.pet_get_many(ids.as_slice()).await?;
            return Ok(query.page_of(pets));
        }
        if let Some(microchip) = &filter.microchip {
            let microchip = Value::text(microchip.as_str().to_string());
            let parameters = vec![microchip, Value::Int(MAX_EXAMINED)];
            let pets = self.query(&GET_BY_MICROCHIP, parameters).await?;
            return Ok(query.page_of(pets));
        }
        match &filter.search {
            Some(search) if filter.is_sorted_by_id() => {
                let search = search.clone();
                self.pet_search(query, &search).await
            }
            _ => self.pet_walk(query).await,
        }
    }

    /// Counts the newest 1,000 pets that match a filter, by status. Reads at most ten pages of
    /// their list, which may be short, so the cost is bounded.
    pub async fn pet_count(&self, filter: PetFilter) -> Result<FilteredInventory, Error> {
        const MAX_PAGES: usize = 10;
        let mut query = ListQuery {
            filter,
            sort: Sort::Desc,
            limit: PageLimit::LARGEST,
            after: None,
        };
        let mut counted = FilteredInventory::default();
        for _ in 0..MAX_PAGES {
            let page = self.pet_list(query.clone()).await?;
            for pet in &page.items {
                counted.counts.add(pet.status);
            }
            if page.next.is_none() {
                return Ok(counted);
            }
            query.after = page.next;
        }
        counted.at_least = true;
        Ok(counted)
    }

    /// Reads a page from an index of pets.
    pub(super) async fn pet_walk(&self, query: ListQuery<PetFilter>) -> Result<Page<Pet>, Error> {
        on_database!(self, db => db.pet_list(query).await)
    }

    /// Returns the pets with these ids, in any order.
    pub(super) async fn pet_get_many(&self, ids: &[i64]) -> Result<Vec<Pet>, Error> {
        on_database!(self, db => db.pet_get_many(ids).await)
    }
}
