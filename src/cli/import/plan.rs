//! The plan of an import: the changes that the records of a file make to the store.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
};

use indicatif::ProgressBar;

use super::{
    super::{
        Interrupt,
        bulk::PetWrite,
        counted,
        pet_file::{PetRecord, RecordError},
        status,
    },
    source::Source,
};
use domain::{
    category::{Category, CategoryNames},
    import::PetUpdate,
    pet::{Microchip, PetId},
};
use store::{KnownPet, KnownPets};

/// The maximum number of invalid lines that are reported one by one. Further ones are only
/// counted.
const MAX_REPORTED: u64 = 100;

/// The number of records that are compared with the store at a time.
const COMPARED_RECORDS: usize = 1000;

/// The content of the store that decides what a record does.
pub struct Checks {
    pub names: CategoryNames,
    /// The animals that are not sold and have a microchip of the file.
    pub holders: HashMap<Microchip, PetId>,
    /// The number of records that an earlier command has imported.
    pub done: usize,
    /// True if a record with a known microchip changes the animal that has it.
    pub matches_microchips: bool,
}

/// The steps of all records of a file, in order.
pub struct Plan {
    pub steps: Vec<Step>,
    pub invalid: u64,
    /// The number of categories that get a name.
    pub new_names: u64,
    names: CategoryNames,
}

/// The effect of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Add,
    Change(PetId),
    /// The animal is in the store as it is in the file.
    Keep,
    Invalid,
}

/// A record that changes the store.
pub type PlannedWrite = (PetWrite, Option<Category>);

impl Plan {
    /// Reads the whole file, compares it with the store, and reports its invalid lines.
    pub async fn of(
        source: &Source,
        checks: Checks,
        known: &KnownPets,
        interrupt: &Interrupt,
    ) -> Result<Self, Box<dyn Error>> {
        let bar = source.progress_bar("bytes checked", interrupt)?;
        let mut plan = Self {
            steps: Vec::new(),
            invalid: 0,
            new_names: 0,
            names: checks.names.clone(),
        };
        let unit = source.layout.unit();
        let mut decider = Decider {
            names: checks.names.clone(),
            checks,
            unit,
            lines: HashMap::new(),
            changed: HashMap::new(),
        };
        let mut records = source.records(&bar)?;
        loop {
            let some: Vec<_> = records.by_ref().take(COMPARED_RECORDS).collect();
            if some.is_empty() {
                break;
            }
            let valid = some.iter().filter_map(|(_, record)| record.as_ref().ok());
            let ids: HashSet<_> = valid
                .flat_map(|record| decider.candidates(record))
                .collect();
            let pets = known.find(ids.into_iter().collect()).await?;
            for (line, record) in some {
                let number = plan.steps.len();
                let step = record.and_then(|record| {
                    let decided = decider.decide(number, line, record, &pets);
                    decided.map_err(RecordError::Invalid)
                });
                let step = match step {
                    Ok((step, is_new_name)) => {
                        plan.new_names += u64::from(is_new_name);
                        step
                    }
                    Err(RecordError::Invalid(reason)) => {
                        plan.invalid += 1;
                        if plan.invalid <= MAX_REPORTED {
                            bar.suspend(|| status!("{}, {unit} {line}: {reason}", source.name));
                        }
                        Step::Invalid
                    }
                    Err(RecordError::Fatal(reason)) => {
                        let name = &source.name;
                        let reason =
                            format!("{name}, {unit} {line}: {reason}; nothing was imported");
                        return Err(reason.into());
                    }
                };
                plan.steps.push(step);
            }
        }
        bar.finish_and_clear();
        if plan.invalid > MAX_REPORTED {
            status!("… and {} more", plan.invalid - MAX_REPORTED);
        }
        Ok(plan)
    }

    fn count(&self, is_counted: impl Fn(Step) -> bool) -> u64 {
        self.steps.iter().filter(|step| is_counted(**step)).count() as u64
    }

    pub fn added(&self) -> u64 {
        self.count(|step| step == Step::Add)
    }

    pub fn changed(&self) -> u64 {
        self.count(|step| matches!(step, Step::Change(_)))
    }

    pub fn unchanged(&self) -> u64 {
        self.count(|step| step == Step::Keep)
    }

    /// Describes what the import adds and changes.
    pub fn describe(&self) -> String {
        let (added, changed, unchanged) = (self.added(), self.changed(), self.unchanged());
        let animals = match (changed, unchanged) {
            (0, 0) => counted(added, "animal"),
            _ => {
                format!("{added} new, {changed} changed and {unchanged} unchanged animals")
            }
        };
        match self.new_names {
            0 => animals,
            names => format!("{animals} and {}", counted(names, "category name")),
        }
    }

    /// Reads the file again. Yields the line of each record, with its write if it has one.
    pub fn writes<'a>(
        &'a self,
        source: &Source,
    ) -> Result<impl Iterator<Item = (u64, Result<Option<PlannedWrite>, String>)> + use<'a>, String>
    {
        let mut names = self.names.clone();
        let mut steps = self.steps.iter();
        let mut write = move |record: Result<PetRecord, RecordError>| {
            let step = steps.next().copied().unwrap_or(Step::Invalid);
            let record = match (record, step) {
                (_, Step::Invalid) => return Ok(None),
                (Ok(record), _) => record,
                (Err(RecordError::Invalid(reason) | RecordError::Fatal(reason)), _) => {
                    return Err(reason);
                }
            };
            let resolved = record.resolve(&mut names)?;
            let write = match step {
                Step::Change(id) => {
                    let change = resolved.change()?;
                    PetWrite::Change(Box::new(PetUpdate { id, change }))
                }
                Step::Add => PetWrite::Add(Box::new(resolved.pet)),
                Step::Keep | Step::Invalid => return Ok(None),
            };
            Ok(Some((write, resolved.new_category)))
        };
        let records = source.records(&ProgressBar::hidden())?;
        Ok(records.map(move |(line, record)| (line, write(record))))
    }
}

/// Decides the steps of the records, one after the other.
struct Decider {
    checks: Checks,
    names: CategoryNames,
    /// The word for a line in messages.
    unit: &'static str,
    /// The line of each microchip that no other animal may have.
    lines: HashMap<Microchip, u64>,
    /// The line that changes an animal.
    changed: HashMap<PetId, u64>,
}

impl Decider {
    /// Returns the animals that a record may change.
    fn candidates(&self, record: &PetRecord) -> impl Iterator<Item = PetId> + use<> {
        record.id.into_iter().chain(self.holder(record))
    }

    /// Returns the animal in the store that has the microchip of a record.
    fn holder(&self, record: &PetRecord) -> Option<PetId> {
        let microchip = record.pet.microchip.as_ref()?;
        self.checks.holders.get(microchip).copied()
    }

    /// Returns the step, and true if a category gets a name.
    fn decide(
        &mut self,
        number: usize,
        line: u64,
        record: PetRecord,
        pets: &HashMap<PetId, KnownPet>,
    ) -> Result<(Step, bool), String> {
        let unit = self.unit;
        let holder = self.holder(&record);
        let by_microchip = holder.filter(|_| self.checks.matches_microchips);
        let target = record.id.and_then(|id| pets.get(&id));
        let target = target.or_else(|| pets.get(&by_microchip?));
        if let Some(microchip) = record.pet.claimed_microchip() {
            if let Some(first) = self.lines.get(microchip) {
                return Err(format!("microchip: {unit} {first} has the same number"));
            }
            // The animals that were imported have their microchips themselves.
            let is_new = number >= self.checks.done;
            let is_other = |holder: &PetId| target.is_none_or(|target| target.pet.id != *holder);
            if let Some(holder) = holder.filter(is_other).filter(|_| is_new) {
                let holder = holder.get();
                return Err(format!("microchip: animal {holder} has this number"));
            }
        }
        if let Some(target) = target
            && let Some(first) = self.changed.get(&target.pet.id)
        {
            let id = target.pet.id.get();
            return Err(format!("id: {unit} {first} is about animal {id}, too"));
        }
        let resolved = record.resolve(&mut self.names)?;
        let microchip = resolved.pet.claimed_microchip().cloned();
        self.lines
            .extend(microchip.map(|microchip| (microchip, line)));
        let is_new_name = resolved.new_category.is_some();
        let Some(target) = target else {
            return Ok((Step::Add, is_new_name));
        };
        let id = target.pet.id;
        self.changed.insert(id, line);
        let decided = resolved.change()?.decide(&target.pet, None, target.claim);
        let after = decided.map_err(|rejection| format!("animal {}: {rejection}", id.get()))?;
        let step = if after == target.pet {
            Step::Keep
        } else {
            Step::Change(id)
        };
        Ok((step, is_new_name))
    }
}
