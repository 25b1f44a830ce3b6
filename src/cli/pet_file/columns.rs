//! The columns of a table, by their headings, and the animals in its rows.

use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

use csv::StringRecord;

use super::{
    dates::DATES,
    options::TableOptions,
    prices::PriceRules,
    record::{CategoryReference, PetRecord},
    rules::Rules,
};
use crate::cli::formula;
use domain::{
    import::words::{self, CATEGORY, Heading},
    invalid::{Invalid, quoted},
    members::{Cells, Choice},
    pet::{PetId, PetStatus},
    price::Currency,
};

const PRICE: &str = "price";
const CURRENCY: &str = "currency";

/// The texts in which blanks at the ends are removed.
const TRIMMED: [&str; 2] = ["name", "breed"];

/// The columns of a table.
pub struct Columns {
    /// The headings, in order, each with the column that it was recognised as.
    pub headings: Vec<(String, Option<String>)>,
    /// The recognised columns.
    names: Rc<[String]>,
    positions: BTreeMap<String, usize>,
    /// The status that yes means, if the column of the status has yes and no.
    flag: Option<PetStatus>,
    options: Rc<TableOptions>,
    rules: Rules,
}

/// The reason why a row is not the header.
pub enum NoHeader {
    /// A required column was not recognised; with its name, and the number of those that were.
    Missing(&'static str, usize),
    Invalid(String),
}

/// The ways in which a heading stands for a column, the strongest last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Word,
    Own,
    Chosen,
}

impl Columns {
    pub fn from_headings(
        headings: &StringRecord,
        options: &Rc<TableOptions>,
        rules: &Rules,
    ) -> Result<Self, NoHeader> {
        let mut flags = BTreeMap::new();
        let mut candidates: BTreeMap<String, (Strength, Vec<usize>)> = BTreeMap::new();
        for (position, heading) in headings.iter().enumerate() {
            let mut choices = options.columns.iter();
            let choice = choices.find(|choice| choice.is_for(heading));
            let meaning = match choice {
                Some(choice) => choice.column.clone().map(Heading::Own),
                None => Heading::parse(heading),
            };
            let Some(meaning) = meaning else {
                continue;
            };
            let strength = match &meaning {
                _ if choice.is_some() => Strength::Chosen,
                Heading::Own(_) => Strength::Own,
                Heading::Word(_) => Strength::Word,
                Heading::Flag(status) => {
                    flags.insert(position, *status);
                    Strength::Word
                }
            };
            let entry = candidates.entry(meaning.column().into());
            let (strongest, positions) = entry.or_insert((Strength::Word, Vec::new()));
            if strength > *strongest {
                *strongest = strength;
                positions.clear();
            } else if strength < *strongest {
                continue;
            }
            positions.push(position);
        }
        let recognised = candidates.len();
        // With ids, the table can change animals that have the rest.
        let by_id = candidates.get("id").map(|(strength, _)| strength);
        let changes_only = recognised > 1 && by_id >= Some(&Strength::Own);
        for (column, alternatives) in [("name", &["name"][..]), CATEGORY_COLUMNS] {
            let is_found = |column: &&str| candidates.contains_key(*column);
            if !changes_only && !alternatives.iter().any(is_found) {
                return Err(NoHeader::Missing(column, recognised));
            }
        }
        for choice in &options.columns {
            if !headings.iter().any(|heading| choice.is_for(heading)) {
                return Err(NoHeader::Invalid(format!(
                    "no column is headed {}, as --column says; the headings are {}",
                    quoted(&choice.heading),
                    list(headings.iter())
                )));
            }
        }
        let mut positions = BTreeMap::new();
        for (column, (_, candidates)) in candidates {
            if candidates.len() > 1 {
                let found: Vec<_> = candidates
                    .iter()
                    .filter_map(|at| headings.get(*at))
                    .collect();
                return Err(NoHeader::Invalid(format!(
                    "more than one {column} column: {}; ignore the others, as with --column {}",
                    list(found.iter().copied()),
                    crate::cli::shell_quote(&format!("{}=", found[1].trim()))
                )));
            }
            positions.insert(column, candidates[0]);
        }
        let recognised: BTreeMap<_, _> = positions.iter().map(|(name, at)| (at, name)).collect();
        let named = headings.iter().enumerate().map(|(position, heading)| {
            let column = recognised.get(&position).copied();
            (heading.trim().into(), column.cloned())
        });
        Ok(Self {
            headings: named.collect(),
            flag: positions
                .get("status")
                .and_then(|at| flags.get(at))
                .copied(),
            names: positions.keys().cloned().collect(),
            positions,
            options: Rc::clone(options),
            rules: rules.clone(),
        })
    }

    /// Returns true if the table has this column.
    pub fn has(&self, column: &str) -> bool {
        self.positions.contains_key(column)
    }

    /// Returns the price in a row, with its currency; `None` if it has no price.
    fn price(&self, row: &Row<'_>) -> Result<Option<(String, Currency)>, String> {
        let Some(price) = row.cell(PRICE).filter(|cell| !is_blank(cell)) else {
            return Ok(None);
        };
        let prices = &self.rules.prices;
        let currency = prices.currency(price, row.cell(CURRENCY))?;
        let amount = prices.amount(price, currency)?;
        Ok(Some((amount.into_owned(), currency)))
    }

    /// Returns the decimal mark of the price in a row, if it can be nothing else, and whether it
    /// lacks a currency.
    pub fn examine_price(&self, row: &StringRecord) -> (Option<char>, bool) {
        let row = Row {
            columns: self,
            row,
            price: None,
        };
        let Some(price) = row.cell(PRICE).filter(|cell| !is_blank(cell)) else {
            return (None, false);
        };
        let without = PriceRules {
            currency: None,
            ..self.rules.prices
        };
        let lacks_currency =
            row.cell(CURRENCY).is_none_or(is_blank) && without.currency(price, None).is_err();
        (self.rules.prices.decimal_mark_of(price), lacks_currency)
    }

    /// Returns the cells of a row that have dates, each with its column.
    pub fn dates<'a>(
        &self,
        row: &'a StringRecord,
    ) -> impl Iterator<Item = (&'static str, &'a str)> {
        DATES.into_iter().filter_map(|column| {
            let position = self.positions.get(column)?;
            Some((column, row.get(*position)?))
        })
    }

    /// Parses a row.
    pub fn pet(&self, row: &StringRecord) -> Result<PetRecord, String> {
        let count = self.headings.len();
        if !row.iter().skip(count).all(is_blank) {
            return Err(format!(
                "has more cells than the {count} columns of the header"
            ));
        }
        for (column, position) in &self.positions {
            if let Some(error) = row.get(*position).filter(|cell| words::is_error(cell)) {
                let error = error.trim();
                return Err(format!(
                    "{column}: the cell is the error {error}; correct it in the spreadsheet"
                ));
            }
        }
        for (column, cell) in self.dates(row) {
            self.rules.dates.read(column, cell)?;
        }
        let mut row = Row {
            columns: self,
            row,
            price: None,
        };
        row.price = self.price(&row)?;
        let category_name = row.cell(CATEGORY).map(formula::unescape);
        let number = row.cell("categoryId");
        let category = if number.is_some() || category_name.is_some() {
            CategoryReference::parse(number, category_name.as_deref())
        } else {
            Ok(CategoryReference::Unchanged)
        };
        let id = row.cell("id").filter(|cell| !is_blank(cell));
        let id = id.map(|cell| {
            // Spreadsheets may show numbers with zeros in front.
            let digits = cell.trim().trim_start_matches('0');
            let id = PetId::parse(digits).filter(|id| id.get() <= PetId::MAX);
            id.ok_or_else(|| {
                let got = quoted(cell);
                let reason = format!(
                    "must be the number of an animal, got {got}; to ignore the column, use \
                     --column id="
                );
                vec![Invalid::new("id", reason)]
            })
        });
        let columns = Rc::clone(&self.names);
        PetRecord::new(id.transpose(), &row, category, Some(columns))
    }

    /// Returns the value that a cell stands for, if it is known; otherwise the cell.
    fn value<'a>(&self, column: &str, cell: &'a str) -> Cow<'a, str> {
        let flag = self.flag.filter(|_| column == "status");
        let answer = flag.and_then(|status| {
            let is_yes = words::flag(cell)?;
            Some(if is_yes { status } else { PetStatus::Available })
        });
        let chosen = self.options.value(column, cell);
        let known = chosen
            .or(answer.map(PetStatus::as_str))
            .or_else(|| words::value(column, cell));
        known.map_or(cell.into(), Cow::from)
    }
}

/// The columns of which one is needed, with their name in messages.
const CATEGORY_COLUMNS: (&str, &[&str]) = ("categoryId or category", &["categoryId", CATEGORY]);

pub fn is_blank(cell: &str) -> bool {
    cell.trim().is_empty()
}

/// Writes the cells that are not blank as a list.
pub fn list<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells = cells.map(str::trim).filter(|cell| !cell.is_empty());
    cells.map(quoted).collect::<Vec<_>>().join(", ")
}

/// A row with its columns.
struct Row<'a> {
    columns: &'a Columns,
    row: &'a StringRecord,
    /// The price with a decimal point, if there is one, and its currency.
    price: Option<(String, Currency)>,
}

impl<'a> Row<'a> {
    /// Returns the cell in a column, if there is such a column. Cells at the end may be left out.
    fn cell(&self, column: &str) -> Option<&'a str> {
        let position = self.columns.positions.get(column)?;
        Some(self.row.get(*position).unwrap_or_default())
    }
}

impl Cells for Row<'_> {
    fn get(&self, column: &str, is_free_text: bool) -> Option<Cow<'_, str>> {
        match (column, &self.price) {
            (PRICE, price) => return price.as_ref().map(|(amount, _)| amount.into()),
            (CURRENCY, Some((_, currency))) => return Some(currency.as_str().into()),
            _ => {}
        }
        let Some(cell) = self.cell(column).filter(|cell| !is_blank(cell)) else {
            let default = self.columns.options.default_status;
            let status = default.filter(|_| column == "status")?;
            return Some(status.as_str().into());
        };
        if DATES.contains(&column) {
            return self.columns.rules.dates.read(column, cell).ok();
        }
        Some(if TRIMMED.contains(&column) {
            formula::unescape_and_trim(cell).into()
        } else if is_free_text {
            formula::unescape(cell).into()
        } else {
            self.columns.value(column, cell)
        })
    }

    fn with_prefix(&self, prefix: &str) -> Vec<(&str, Cow<'_, str>)> {
        let columns = self.columns.positions.keys().filter_map(|column| {
            let key = column.strip_prefix(prefix)?;
            Some((key, self.get(column, true)?))
        });
        columns.collect()
    }
}
