//! The plan of an import: the changes that the records of a file make to the store.

use std::{
    collections::{HashMap, HashSet},
    error::Error,
};

use indicatif::ProgressBar;

use super::{
    super::{
        Interrupt,
        bulk::{MAX_REPORTED, PetWrite},
        counted,
        pet_file::{PetRecord, RecordError, ResolvedPet},
        status,
    },
    file::ImportFile,
};
use domain::{
    category::CategoryNames,
    import::{ComparedMembers, NamedCategory, PetUpdate},
    pet::{Microchip, PetId},
};
use store::{KnownPet, KnownPets};

/// The number of records that are compared with the store at a time.
const COMPARED_RECORDS: usize = 1000;

/// The content of the store that decides what a record does.
pub struct PlanInput {
    pub names: CategoryNames,
    /// The animals that are not sold and have a microchip of the file.
    pub holders: HashMap<Microchip, PetId>,
    /// The number of records that an earlier command of the same run has imported.
    pub done: usize,
    /// The highest id of an animal when the run started.
    pub last_known_id: i64,
    /// True if a category that no category is named like is created.
    pub creates_categories: bool,
    /// True if a record with a known microchip changes the animal that has it.
    pub matches_microchips: bool,
}

/// The steps of all records of a file, in order.
pub struct Plan {
    pub steps: Vec<Step>,
    pub invalid: u64,
    /// The categories that get a name.
    pub categories: Vec<NamedCategory>,
    /// The number of records with an id that no animal has, which are added.
    pub unknown_ids: u64,
    names: CategoryNames,
    creates_categories: bool,
}

/// The effect of a record.
#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    Add,
    /// Changes these members, which are kept as JSON: a file may change millions of animals.
    Change(PetId, Box<str>),
    /// The animal is in the store as it is in the file.
    Keep,
    Invalid,
}

impl Plan {
    /// Reads the whole file, compares it with the store, and reports its invalid lines.
    pub async fn of(
        file: &ImportFile,
        input: PlanInput,
        known: &KnownPets,
        interrupt: &Interrupt,
    ) -> Result<Self, Box<dyn Error>> {
        let bar = file.progress_bar("bytes checked", interrupt)?;
        let mut plan = Self {
            steps: Vec::new(),
            invalid: 0,
            categories: Vec::new(),
            unknown_ids: 0,
            names: input.names.clone(),
            creates_categories: input.creates_categories,
        };
        let unit = file.layout.unit();
        let mut decider = Decider {
            names: input.names.clone(),
            input,
            unit,
            lines: HashMap::new(),
            changed: HashMap::new(),
        };
        let mut problems = Problems::default();
        let mut records = file.records(&bar)?;
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
                let has_id = record.as_ref().is_ok_and(|record| record.id.is_some());
                let step = record.and_then(|record| {
                    let decided = decider.decide(number, line, record, &pets);
                    decided.map_err(RecordError::Invalid)
                });
                let step = match step {
                    Ok((step, category)) => {
                        plan.categories.extend(category);
                        plan.unknown_ids += u64::from(has_id && step == Step::Add);
                        step
                    }
                    Err(RecordError::Invalid(reason)) => {
                        plan.invalid += 1;
                        if problems.add(line, &reason) {
                            bar.suspend(|| status!("{}, {unit} {line}: {reason}", file.name));
                        }
                        Step::Invalid
                    }
                    Err(RecordError::Fatal(reason)) => {
                        let name = &file.name;
                        let reason =
                            format!("{name}, {unit} {line}: {reason}; nothing was imported");
                        return Err(reason.into());
                    }
                };
                plan.steps.push(step);
            }
        }
        bar.finish_and_clear();
        problems.report_rest(unit);
        Ok(plan)
    }

    fn count(&self, is_counted: impl Fn(&Step) -> bool) -> u64 {
        self.steps.iter().filter(|step| is_counted(step)).count() as u64
    }

    pub fn added(&self) -> u64 {
        self.count(|step| *step == Step::Add)
    }

    pub fn changed(&self) -> u64 {
        self.count(|step| matches!(step, Step::Change(..)))
    }

    pub fn unchanged(&self) -> u64 {
        self.count(|step| *step == Step::Keep)
    }

    /// Describes what the import adds and changes.
    pub fn describe(&self) -> String {
        let added = self.added();
        let changed = self.changed();
        let unchanged = self.unchanged();
        let animals = if changed == 0 && unchanged == 0 {
            counted(added, "animal")
        } else {
            format!("{added} new, {changed} changed and {unchanged} unchanged animals")
        };
        match self.categories.len() as u64 {
            0 => animals,
            names => format!("{animals} and {}", counted(names, "category name")),
        }
    }

    /// Reads the file again. Yields the line of each record, with what it writes.
    pub fn writes<'a>(
        &'a self,
        file: &ImportFile,
    ) -> Result<impl Iterator<Item = (u64, Result<Option<PetWrite>, String>)> + use<'a>, String>
    {
        let mut names = self.names.clone();
        let mut steps = self.steps.iter();
        let mut write = move |record: Result<PetRecord, RecordError>| {
            let step = steps.next().unwrap_or(&Step::Invalid);
            let record = match (record, step) {
                (_, Step::Invalid) => return Ok(None),
                (Ok(record), _) => record,
                (Err(RecordError::Invalid(reason) | RecordError::Fatal(reason)), _) => {
                    return Err(reason);
                }
            };
            let resolved = record.resolve(&mut names, self.creates_categories)?;
            Ok(match step {
                Step::Change(id, members) => {
                    let members = serde_json::from_str(members).map_err(|it| it.to_string())?;
                    let update = PetUpdate::new(*id, members)?;
                    Some(PetWrite::Change(Box::new(update)))
                }
                Step::Add => Some(PetWrite::Add(Box::new(resolved.pet))),
                Step::Keep | Step::Invalid => None,
            })
        };
        let records = file.records(&ProgressBar::hidden())?;
        Ok(records.map(move |(line, record)| (line, write(record))))
    }
}

/// The lines that are reported for one reason, before further ones are only counted.
const MAX_SAME: u64 = 3;

/// The invalid lines, by their reasons, so that a mistake in every line is reported a few times.
#[derive(Default)]
struct Problems {
    /// By reason: its place among all of them, its first line, and the number of its lines.
    reasons: HashMap<String, (usize, u64, u64)>,
    reported: u64,
    /// The number of lines that are neither reported nor counted for their reason.
    others: u64,
}

impl Problems {
    /// Counts a line. Returns true if it is to be reported.
    fn add(&mut self, line: u64, reason: &str) -> bool {
        if self.reported >= MAX_REPORTED && !self.reasons.contains_key(reason) {
            self.others += 1;
            return false;
        }
        let place = self.reasons.len();
        let known = self.reasons.entry(reason.into());
        let (_, _, count) = known.or_insert((place, line, 0));
        *count += 1;
        let is_reported = *count <= MAX_SAME && self.reported < MAX_REPORTED;
        self.reported += u64::from(is_reported);
        self.others += u64::from(!is_reported && *count <= MAX_SAME);
        is_reported
    }

    /// Reports the number of the lines that were only counted.
    fn report_rest(&self, unit: &str) {
        let mut repeated: Vec<_> = self.reasons.values().collect();
        repeated.retain(|(.., count)| *count > MAX_SAME);
        repeated.sort_unstable();
        for (_, first, count) in repeated {
            status!(
                "… and {} more with the problem of {unit} {first}",
                count - MAX_SAME
            );
        }
        if self.others > 0 {
            status!("… and {} more", self.others);
        }
    }
}

/// Decides the steps of the records, one after the other.
struct Decider {
    input: PlanInput,
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
        self.known_id(record).into_iter().chain(self.holder(record))
    }

    /// Returns the id of a record, unless the run itself has added the animal with this id.
    fn known_id(&self, record: &PetRecord) -> Option<PetId> {
        let last_known_id = self.input.last_known_id;
        record.id.filter(|id| id.get() <= last_known_id)
    }

    /// Returns the animal in the store that has the microchip of a record.
    fn holder(&self, record: &PetRecord) -> Option<PetId> {
        let microchip = record.pet.microchip.as_ref()?;
        self.input.holders.get(microchip).copied()
    }

    /// Returns the step, and the category that gets a name.
    fn decide(
        &mut self,
        number: usize,
        line: u64,
        record: PetRecord,
        pets: &HashMap<PetId, KnownPet>,
    ) -> Result<(Step, Option<NamedCategory>), String> {
        let unit = self.unit;
        let holder = self.holder(&record);
        let by_id = self.known_id(&record).and_then(|id| pets.get(&id));
        let by_microchip = holder.filter(|_| self.input.matches_microchips);
        let target = by_id.or_else(|| pets.get(&by_microchip?));
        if target.is_none() {
            record.check_addable()?;
        }
        if let Some(microchip) = record.pet.claimed_microchip() {
            if let Some(first) = self.lines.get(microchip) {
                return Err(format!("microchip: {unit} {first} has the same number"));
            }
            // The animals that were imported have their microchips themselves.
            let is_new = number >= self.input.done;
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
        let resolved = record.resolve(&mut self.names, self.input.creates_categories)?;
        let decided = match target {
            Some(target) => change_of(&resolved, target),
            None => Ok(Step::Add),
        };
        let step = decided.inspect_err(|_| {
            // An invalid record creates no category.
            if let Some(named) = &resolved.new_category {
                self.names.remove(&named.category);
            }
        })?;
        let microchip = resolved.pet.claimed_microchip().cloned();
        self.lines
            .extend(microchip.map(|microchip| (microchip, line)));
        let id = target.map(|target| target.pet.id);
        self.changed.extend(id.map(|id| (id, line)));
        Ok((step, resolved.new_category))
    }
}

/// Returns the step of a record that is about a known animal.
fn change_of(resolved: &ResolvedPet, known: &KnownPet) -> Result<Step, String> {
    let id = known.pet.id;
    let decided = resolved.change()?.decide(&known.pet, None, known.claim);
    let after = decided.map_err(|rejection| format!("animal {}: {rejection}", id.get()))?;
    if after == known.pet {
        return Ok(Step::Keep);
    }
    let members = ComparedMembers::between(&known.pet, &after);
    let members = serde_json::to_string(&members).map_err(|error| error.to_string())?;
    Ok(Step::Change(id, members.into()))
}
