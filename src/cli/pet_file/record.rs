//! Animals as read from a file: their categories may be given by name.

use std::{borrow::Cow, rc::Rc};

use serde_json::{Map, Value};

use domain::{
    category::{Category, CategoryId, CategoryName, CategoryNames},
    import::{NamedCategory, words::CATEGORY},
    invalid::{Invalid, join_messages, quoted},
    json::{FromObject, Object},
    members::{CellMember, Cells, Errors, Members, Scalar},
    pet::{NewPet, PetChange, PetId},
};

/// The reason why a record could not be read.
pub enum RecordError {
    /// This record is invalid; the ones after it may be valid.
    Invalid(String),
    /// The rest of the file cannot be read.
    Fatal(String),
}

pub type Record = Result<PetRecord, RecordError>;
pub type Records = Box<dyn Iterator<Item = (u64, Record)>>;

pub const NOT_UTF8: &str =
    "is not UTF-8; save the file in UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8";

/// An animal in a file.
pub struct PetRecord {
    /// The id in the file. If the store has such an animal, the record changes it.
    pub id: Option<PetId>,
    /// Has a placeholder for its category.
    pub pet: NewPet,
    pub category: CategoryReference,
    /// The columns of the table. Other members of a known animal stay as they are.
    columns: Option<Rc<[String]>>,
}

/// A category by its number, its name, or both.
pub enum CategoryReference {
    Id(i64),
    Name(String),
    Both(i64, String),
    /// The table has no column for it, so a known animal keeps its category.
    Unchanged,
}

/// An animal whose category is known.
pub struct ResolvedPet {
    pub pet: NewPet,
    /// The name of the category, if it has none yet.
    pub new_category: Option<NamedCategory>,
    columns: Option<Rc<[String]>>,
}

impl PetRecord {
    /// Creates a record. Returns a message if it is invalid.
    pub fn new(
        id: Result<Option<PetId>, Errors>,
        members: &impl Members,
        category: Result<CategoryReference, Errors>,
        columns: Option<Rc<[String]>>,
    ) -> Result<Self, String> {
        let members = WithPlaceholders {
            members,
            category: &category,
            has_name: has_column(&columns, "name"),
        };
        let message = |invalid: Errors| join_messages(&invalid);
        let pet = NewPet::from_members(&members).map_err(message)?;
        Ok(Self {
            id: id.map_err(message)?,
            pet,
            category: category.map_err(message)?,
            columns,
        })
    }

    /// Returns a message if the table lacks what a new animal needs.
    pub fn check_addable(&self) -> Result<(), String> {
        let has_category = !matches!(self.category, CategoryReference::Unchanged);
        if has_column(&self.columns, "name") && has_category {
            return Ok(());
        }
        Err(match self.id {
            Some(id) => format!(
                "id: no animal has the number {}; to add one, the table needs a name and a category",
                id.get()
            ),
            None => "id: required, because the table has no name or no category".into(),
        })
    }

    /// Returns the pet, if its category is known. If the record has a name for a category without
    /// one, or with `creates` a name that no category has, adds it to `names` and returns it, too.
    pub fn resolve(
        mut self,
        names: &mut CategoryNames,
        creates: bool,
    ) -> Result<ResolvedPet, String> {
        let (category_id, new_category) = self.category.resolve(names, creates)?;
        self.pet.category_id = category_id;
        Ok(ResolvedPet {
            pet: self.pet,
            new_category,
            columns: self.columns,
        })
    }
}

impl ResolvedPet {
    /// Returns the change of a known animal. An empty cell removes the member; what has no column
    /// stays.
    pub fn change(&self) -> Result<PetChange, String> {
        let members = serde_json::to_value(&self.pet).map_err(|error| error.to_string())?;
        let patch = match &self.columns {
            None => members,
            Some(columns) => members_of(&members, columns),
        };
        let json = patch.to_string();
        let object = Object::parse(json.as_bytes()).map_err(|error| error.to_string())?;
        PetChange::from_object(&object).map_err(|invalid| join_messages(&invalid))
    }
}

/// Returns true unless a table lacks a column.
fn has_column(columns: &Option<Rc<[String]>>, name: &str) -> bool {
    let mut columns = columns.iter().flat_map(|columns| columns.iter()).peekable();
    columns.peek().is_none() || columns.any(|column| column == name)
}

/// Returns a merge patch with the members that have a column.
fn members_of(members: &Value, columns: &[String]) -> Value {
    let mut patch = Map::new();
    let has = |name: &str| columns.iter().any(|column| column == name);
    let category = has(CATEGORY).then_some("categoryId");
    for column in columns.iter().map(String::as_str).chain(category) {
        let (member, key) = match column.split_once('.') {
            Some((member, key)) => (member, Some(key)),
            None => (column, None),
        };
        let value = members.get(member);
        match (member, key, value) {
            ("id" | "category" | "currency", ..) => {}
            // Each of the pairs stands for itself.
            ("metadata", Some(key), _) => {
                let pairs = patch.entry(member).or_insert_with(|| Map::new().into());
                pairs[key] = value.and_then(|value| value.get(key)).cloned().into();
            }
            (_, Some(key), Some(value)) => {
                let object = patch.entry(member).or_insert_with(|| Map::new().into());
                object[key] = value.get(key).cloned().into();
            }
            // Without its name, an object is incomplete, and stays as it is.
            (_, Some(_), None) if !has(&format!("{member}.name")) => {}
            _ => _ = patch.insert(member.into(), value.cloned().into()),
        }
    }
    patch.into()
}

/// The members of an animal whose category may be given by its name, or whose name may be that of
/// the known animal.
struct WithPlaceholders<'a, M> {
    members: &'a M,
    category: &'a Result<CategoryReference, Errors>,
    has_name: bool,
}

impl<M: Members> Members for WithPlaceholders<'_, M> {
    fn optional<T: CellMember>(&self, name: &'static str) -> Result<Option<T>, Errors> {
        match (name, self.category) {
            ("categoryId", Err(errors)) => Err(errors.clone()),
            // A placeholder until the category is found by its name.
            ("categoryId", Ok(_)) => T::from_cells(&Placeholder, name),
            ("name", _) if !self.has_name => T::from_cells(&Placeholder, name),
            _ => self.members.optional(name),
        }
    }
}

/// A record in which every cell is 0.
struct Placeholder;

impl Cells for Placeholder {
    fn get(&self, _: &str, _: bool) -> Option<Cow<'_, str>> {
        Some("0".into())
    }

    fn with_prefix(&self, _: &str) -> Vec<(&str, Cow<'_, str>)> {
        Vec::new()
    }
}

impl CategoryReference {
    /// Parses cells or members with a number and a name.
    pub fn parse(number: Option<&str>, name: Option<&str>) -> Result<Self, Errors> {
        let is_filled = |text: &&str| !text.trim().is_empty();
        let name = name.filter(is_filled).map(String::from);
        match number.filter(is_filled) {
            Some(number) => match i64::from_cell(number) {
                Ok(id) => Ok(Self::new(id, name)),
                Err(reason) => Err(vec![Invalid::new("categoryId", reason)]),
            },
            None => name.map(Self::Name).ok_or_else(|| {
                let reason = "required; must be an integer, or the name of a category in category";
                vec![Invalid::new("categoryId", reason)]
            }),
        }
    }

    /// Returns the number of the category, if the file has one.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Id(id) | Self::Both(id, _) => Some(*id),
            Self::Name(text) => text.trim().parse().ok(),
            Self::Unchanged => None,
        }
    }

    pub fn new(id: i64, name: Option<String>) -> Self {
        match name {
            None => Self::Id(id),
            Some(name) => Self::Both(id, name),
        }
    }

    fn resolve(
        self,
        names: &mut CategoryNames,
        creates: bool,
    ) -> Result<(i64, Option<NamedCategory>), String> {
        // A name may begin or end with spaces; in a table they are rarely intended.
        let find = |text: &str| names.id(text).or_else(|| names.id(text.trim()));
        match self {
            Self::Id(id) => Ok((id, None)),
            Self::Unchanged => Ok((0, None)),
            // The text may also be a number.
            Self::Name(text) => {
                let name = text.trim();
                if let Some(id) = find(&text).or_else(|| name.parse().ok()) {
                    return Ok((id, None));
                }
                if !creates {
                    let name = quoted(name);
                    return Err(format!(
                        "category: no category is named {name}; to create it, use \
                         --create-categories"
                    ));
                }
                let category = names.create(category_name(name)?);
                let is_new = true;
                Ok((category.id.get(), Some(NamedCategory { category, is_new })))
            }
            Self::Both(id, text) => match (find(&text), names.name(id)) {
                (Some(found), _) if found == id => Ok((id, None)),
                (None, None) => {
                    let category = Category {
                        id: CategoryId::from_store(id),
                        name: category_name(text.trim())?,
                    };
                    names.insert(category.clone());
                    let is_new = false;
                    Ok((id, Some(NamedCategory { category, is_new })))
                }
                (Some(found), _) => Err(format!(
                    "categoryId {id} and category {} contradict each other: that category is \
                     {found}; correct one of them",
                    quoted(text.trim())
                )),
                (None, Some(name)) => Err(format!(
                    "categoryId {id} and category {} contradict each other: {id} is {}; correct \
                     one of them",
                    quoted(text.trim()),
                    quoted(name.as_str())
                )),
            },
        }
    }
}

fn category_name(text: &str) -> Result<CategoryName, String> {
    CategoryName::parse(text).map_err(|reason| format!("category: {reason}"))
}

/// The maximum size of a JSON line or CSV record: far more than an animal needs.
pub const MAX_RECORD_BYTES: usize = 256 << 10;
