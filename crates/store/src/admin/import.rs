//! Import of many pets into a file that is not served, and the progress of imports.

use std::{collections::HashMap, path::Path};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::{
    super::{
        command::{Command, QueuedCommand},
        error::{Error, OpenError, sqlite_reason},
        imports::{FORGET, GET, GET_OF_BATCH, WriteChunk},
        postgres::MICROCHIP_HOLDERS,
        sql::Sql,
        sqlite::{self, MICROCHIP_HOLDER},
        table::{Record, Value, columns},
        undo::{CHANGES, COUNT_CHANGES, PlanReader, UndoChanges},
        url::DatabaseUrl,
        working_set::Times,
    },
    reader::{ReadError, Reader},
};
use domain::{
    import::{Import, ImportChunk, ImportId, StoppedImport, WrittenChunk},
    members::Choice,
    order::OrderStatus,
    pet::{Claim, Microchip, Pet, PetId, batch::BatchId},
    price::Currency,
    undo::UndoOutcome,
};

/// The reason why an import into a file failed.
#[derive(Debug, thiserror::Error)]
pub enum FileImportError {
    #[error("cannot use the database file: {}", sqlite_reason(.0))]
    File(#[from] rusqlite::Error),
    #[error(transparent)]
    Store(#[from] Error),
}

/// An import into a file that is not served, in one transaction. While the file is locked, no
/// service can open it. Dropping it rolls the transaction back.
pub struct FileImport(Box<sqlite::ExclusiveFile>);

impl FileImport {
    /// Opens a file, and creates it if needed. Fails with [`OpenError::InUse`] if it is served.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let file = sqlite::ExclusiveFile::open(path)?;
        let begin = file.db().execute_batch("BEGIN IMMEDIATE");
        begin.map_err(OpenError::database(path))?;
        Ok(Self(Box::new(file)))
    }

    pub fn find(&self, id: ImportId) -> Result<Option<Import>, FileImportError> {
        Ok(find(self.0.db(), id)?)
    }

    /// Writes a chunk, as [`Store::pet_import`](super::super::Store::pet_import) does.
    pub async fn write(
        &self,
        chunk: ImportChunk,
    ) -> Result<Result<WrittenChunk, StoppedImport>, FileImportError> {
        self.run(WriteChunk::new(chunk)).await
    }

    /// Undoes a part of a batch, as [`Store::undo_part`](super::super::Store::undo_part) does.
    pub async fn undo(
        &self,
        batch: &BatchId,
        below: Option<i64>,
    ) -> Result<Option<UndoOutcome>, FileImportError> {
        let imports = self.query(&GET_OF_BATCH, PlanReader::origin(batch))?;
        let mut reader = PlanReader::new(batch, imports, below);
        while let Some(parameters) = reader.next_page() {
            reader.add_page(self.query(&CHANGES, parameters)?)?;
        }
        if let Some(parameters) = reader.count() {
            let counted: Vec<(Option<i64>,)> = self.query(&COUNT_CHANGES, parameters)?;
            reader.add_count(counted.first().and_then(|(count,)| *count));
        }
        let Some(plan) = reader.into_plan() else {
            return Ok(None);
        };
        let Ok(outcome) = self.run(UndoChanges(plan)).await?;
        Ok(Some(outcome))
    }

    fn query<T: Record, const N: usize>(
        &self,
        sql: &Sql,
        parameters: [Value<'_>; N],
    ) -> rusqlite::Result<Vec<T>> {
        sqlite::query(self.0.db(), sql, parameters)
    }

    /// Runs a command in the transaction.
    async fn run<C: Command>(
        &self,
        command: C,
    ) -> Result<Result<C::Output, C::Rejection>, FileImportError> {
        let (command, reply) = QueuedCommand::with_receiver(command, None, None);
        let mut commands = [command];
        let times = Times::of_one_clock(Timestamp::now());
        sqlite::run(self.0.db(), &mut commands, times)?;
        let [command] = commands;
        command.finish(Ok(()));
        let reply = reply.await.expect("the command was finished")?;
        Ok(reply.executed())
    }

    /// Deletes the record of a run.
    pub fn forget(&self, id: ImportId, run: &BatchId) -> Result<(), FileImportError> {
        let parameters = (id.0.as_slice(), run.as_str());
        self.0.db().execute(FORGET.text(), parameters)?;
        Ok(())
    }

    pub fn commit(self) -> Result<(), FileImportError> {
        Ok(self.0.commit()?)
    }
}

/// Returns the progress of an import, in a store that is served or not.
pub async fn find_import(url: &DatabaseUrl, id: ImportId) -> Result<Option<Import>, ReadError> {
    match Reader::open_if_created(url).await? {
        None => Ok(None),
        Some(Reader::File(db)) => Ok(find(&db, id)?),
        Some(Reader::Server(client)) => {
            let row = client.query_opt(GET.text(), &[&id.0.as_slice()]).await?;
            Ok(row.as_ref().map(Import::from_row).transpose()?)
        }
    }
}

/// The pets of a store, whether or not it is being served.
pub struct KnownPets(Option<Reader>);

/// A pet, and the claim of an order on it.
pub struct KnownPet {
    pub pet: Pet,
    pub claim: Option<Claim>,
}

impl KnownPets {
    pub async fn open(url: &DatabaseUrl) -> Result<Self, ReadError> {
        Ok(Self(Reader::open_if_created(url).await?))
    }

    /// Returns the highest id of a pet; 0 if there is none.
    pub async fn last_id(&self) -> Result<i64, ReadError> {
        let Some(reader) = &self.0 else {
            return Ok(0);
        };
        let (last,) = reader.one("SELECT coalesce(max(id), 0) FROM pets").await?;
        Ok(last)
    }

    /// Returns those of the pets that exist.
    pub async fn find(&self, ids: Vec<PetId>) -> Result<HashMap<PetId, KnownPet>, ReadError> {
        let mut found = HashMap::new();
        let Some(reader) = self.0.as_ref().filter(|_| !ids.is_empty()) else {
            return Ok(found);
        };
        let ids: Vec<_> = ids.iter().map(|id| id.get().to_string()).collect();
        let sql = format!(
            "SELECT {}, (SELECT status FROM orders WHERE pet_id = pets.id AND status IN ('{}', '{}'))
             FROM pets WHERE id IN ({})",
            columns::<Pet>(),
            OrderStatus::Placed.as_str(),
            OrderStatus::Completed.as_str(),
            ids.join(", ")
        );
        let add = |(pet, order): (Pet, Option<OrderStatus>)| {
            let claim = order.and_then(OrderStatus::claim);
            found.insert(pet.id, KnownPet { pet, claim });
            Ok(())
        };
        reader.each(&sql, add).await?;
        Ok(found)
    }
}

/// Returns true if the log of a store has a change by a batch.
pub async fn has_changes(url: &DatabaseUrl, batch: &BatchId) -> Result<bool, ReadError> {
    // An id has no quotation marks.
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM events WHERE batch_id = '{}' LIMIT 1) AS first",
        batch.as_str()
    );
    let (count,): (i64,) = Reader::open(url).await?.one(&sql).await?;
    Ok(count > 0)
}

/// Returns the currency of the shop, if it is set.
pub async fn shop_currency(url: &DatabaseUrl) -> Result<Option<Currency>, ReadError> {
    let Some(reader) = Reader::open_if_created(url).await? else {
        return Ok(None);
    };
    let mut found = None;
    let add = |(currency,): (Option<Currency>,)| {
        found = currency;
        Ok(())
    };
    reader.each("SELECT currency FROM settings", add).await?;
    Ok(found)
}

/// Returns the pets that have these microchips and are not sold.
pub async fn find_microchips(
    url: &DatabaseUrl,
    microchips: &[Microchip],
) -> Result<HashMap<Microchip, PetId>, ReadError> {
    let mut holders = HashMap::new();
    match Reader::open_if_created(url).await? {
        None => {}
        Some(Reader::File(db)) => {
            let mut select = db.prepare(MICROCHIP_HOLDER.text())?;
            for microchip in microchips {
                let row = select.query_row([microchip.as_str()], sqlite::read_row::<(PetId,)>);
                let holder = row.optional()?;
                holders.extend(holder.map(|(holder,)| (microchip.clone(), holder)));
            }
        }
        Some(Reader::Server(client)) => {
            let none: Vec<i64> = Vec::new();
            for some in microchips.chunks(10_000) {
                let some: Vec<_> = some.iter().map(Microchip::as_str).collect();
                for row in client
                    .query(MICROCHIP_HOLDERS.text(), &[&some, &none, &none])
                    .await?
                {
                    holders.extend([<(Microchip, PetId)>::from_row(&row)?]);
                }
            }
        }
    }
    Ok(holders)
}

fn find(db: &Connection, id: ImportId) -> rusqlite::Result<Option<Import>> {
    let import = db.query_row(GET.text(), [id.0.as_slice()], sqlite::read_row);
    import.optional()
}
