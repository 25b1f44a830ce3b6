//! Options that say how a table is read.

use clap::Args;

use super::dates::DateOrder;
use domain::{
    import::words::{self, Heading, simplify},
    members::Choice,
    pet::{PetStatus, Sex},
    price::Currency,
};

/// The choices of a person about a table.
#[derive(Args, Default)]
pub struct TableOptions {
    /// Sheet of a workbook to read; by default, the first one that has a table.
    #[arg(long, env = "PETSTORE_SHEET", value_name = "NAME")]
    pub sheet: Option<String>,
    /// Member that a column has, such as 'Pet Name=name'; can be repeated.
    ///
    /// Headings in other words and languages are recognised, such as Kategorie. This option is
    /// for those that are not. Without a member, as in 'Price=', the column is ignored.
    #[arg(
        long = "column",
        env = "PETSTORE_COLUMN",
        value_name = "HEADING=MEMBER"
    )]
    #[arg(value_parser = ColumnChoice::parse)]
    pub columns: Vec<ColumnChoice>,
    /// Status or sex that a text in these columns means, such as 'on hold=pending'; can be
    /// repeated.
    #[arg(long = "value", env = "PETSTORE_VALUE", value_name = "TEXT=VALUE")]
    #[arg(value_parser = ValueChoice::parse)]
    pub values: Vec<ValueChoice>,
    /// Status of the animals of a table that have none there: available, pending or sold.
    #[arg(long, env = "PETSTORE_DEFAULT_STATUS", value_name = "STATUS")]
    #[arg(value_parser = PetStatus::parse)]
    pub default_status: Option<PetStatus>,
    /// Currency of the prices of a table that have none there, such as EUR; by default that of
    /// the shop, unless the table has a column for it.
    #[arg(long, env = "PETSTORE_CURRENCY", value_name = "CODE")]
    #[arg(value_parser = parse_currency)]
    pub currency: Option<Currency>,
    /// Order of dates such as 5/6/2020 in columns whose other dates do not tell it.
    #[arg(long, env = "PETSTORE_DATE_ORDER", value_name = "ORDER")]
    pub date_order: Option<DateOrder>,
}

fn parse_currency(code: &str) -> Result<Currency, String> {
    Currency::parse(&code.to_uppercase())
}

impl TableOptions {
    /// Returns the name of an option that was given, if there is one.
    pub fn given(&self) -> Option<&'static str> {
        [
            (self.sheet.is_some(), "--sheet"),
            (!self.columns.is_empty(), "--column"),
            (!self.values.is_empty(), "--value"),
            (self.default_status.is_some(), "--default-status"),
            (self.currency.is_some(), "--currency"),
            (self.date_order.is_some(), "--date-order"),
        ]
        .into_iter()
        .find_map(|(is_given, option)| is_given.then_some(option))
    }

    /// Returns the value of a column that a cell was chosen to mean.
    pub fn value(&self, column: &str, cell: &str) -> Option<&'static str> {
        let mut choices = self.values.iter();
        let found = choices.find(|choice| choice.column == column && same(&choice.text, cell));
        found.map(|choice| choice.value)
    }
}

/// A column and the member that it has.
#[derive(Clone)]
pub struct ColumnChoice {
    pub heading: String,
    /// `None` to ignore the column.
    pub column: Option<String>,
}

impl ColumnChoice {
    fn parse(text: &str) -> Result<Self, String> {
        // A heading may contain the sign, a member does not.
        let (heading, member) = text
            .rsplit_once('=')
            .filter(|(heading, _)| !heading.trim().is_empty())
            .ok_or("must be a heading and a member, such as 'Pet Name=name'")?;
        let column = match (member.trim(), Heading::parse(member)) {
            ("", _) => None,
            (_, Some(Heading::Own(column))) => Some(column),
            _ => {
                let members = words::columns().join(", ");
                return Err(format!("the member must be one of {members}, metadata.KEY"));
            }
        };
        let heading = heading.trim().into();
        Ok(Self { heading, column })
    }

    pub fn is_for(&self, heading: &str) -> bool {
        same(&self.heading, heading)
    }
}

/// A text, and the value that it means.
#[derive(Clone)]
pub struct ValueChoice {
    text: String,
    column: &'static str,
    value: &'static str,
}

impl ValueChoice {
    fn parse(text: &str) -> Result<Self, String> {
        let (text, value) = text
            .rsplit_once('=')
            .filter(|(text, _)| !text.trim().is_empty())
            .ok_or("must be a text and a value, such as 'on hold=pending'")?;
        let status = PetStatus::parse(value.trim()).map(|status| ("status", status.as_str()));
        let sex = Sex::parse(value.trim()).map(|sex| ("sex", sex.as_str()));
        let (column, value) = status.or(sex).map_err(|_| {
            let statuses = PetStatus::ALL.iter().map(|status| status.as_str());
            let sexes = Sex::ALL.iter().map(|sex| sex.as_str());
            let all: Vec<_> = statuses.chain(sexes).collect();
            format!("the value must be one of {}", all.join(", "))
        })?;
        let text = text.trim().into();
        Ok(Self {
            text,
            column,
            value,
        })
    }
}

/// Returns true if two texts are the same for a person. Some have neither letters nor digits.
fn same(a: &str, b: &str) -> bool {
    let simple = simplify(a);
    a.trim() == b.trim() || !simple.is_empty() && simple == simplify(b)
}
