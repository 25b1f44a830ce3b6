//! The prices of a table: amounts as people and spreadsheets write them, and their currencies.
//!
//! The console reads them in the same way (`js/import/prices.js`).

use std::borrow::Cow;

use domain::{import::words, invalid::quoted, price::Currency};

/// The rules by which the prices of a table are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriceRules {
    /// The currency of prices that have none.
    pub currency: Option<Currency>,
    /// The decimal mark of the column, if its cells have one that cannot be anything else.
    pub decimal_mark: Option<char>,
    /// True for a workbook, whose numbers have a decimal point.
    pub is_sheet: bool,
}

/// The prices of a table, after all rows were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PriceColumn {
    /// True if a price has no currency in the table.
    pub lacks_currency: bool,
    /// The decimal mark, if the prices have one that cannot be anything else, and always the same.
    pub decimal_mark: Option<char>,
}

/// A price as it is written in a cell.
struct WrittenPrice<'a> {
    /// The amount, without a sign of its currency.
    amount: &'a str,
    /// The currencies that the sign may stand for, if there is one.
    currencies: Option<Vec<Currency>>,
}

/// The parts of an amount.
#[derive(Debug, PartialEq, Eq)]
enum Amount {
    /// An amount that reads the same with either decimal mark: the digits, and those after the
    /// mark.
    Clear {
        whole: String,
        fraction: String,
        mark: Option<char>,
    },
    /// One mark in front of three digits, which may separate thousands.
    Ambiguous {
        whole: String,
        fraction: String,
        mark: char,
    },
}

impl PriceRules {
    /// Returns the currency of a price, given the cell with its currency.
    pub fn currency(&self, price: &str, currency: Option<&str>) -> Result<Currency, String> {
        let written = WrittenPrice::parse(price);
        let sign = written.as_ref().and_then(|it| it.currencies.as_deref());
        let named = currency
            .map(str::trim)
            .filter(|code| !code.is_empty())
            .map(|code| Currency::parse(&code.to_uppercase()))
            .transpose()
            .map_err(|it| format!("currency: {it}"))?;
        match (named, sign) {
            (Some(currency), Some(sign)) if !sign.contains(&currency) => Err(format!(
                "price: {} is not in {}, the currency of the row; correct one of them",
                quoted(price.trim()),
                currency.as_str()
            )),
            (Some(currency), _) => Ok(currency),
            (None, Some([currency])) => Ok(*currency),
            (None, Some(sign)) => {
                let currency = self.currency.filter(|currency| sign.contains(currency));
                currency.ok_or_else(|| {
                    format!(
                        "price: {} may be in several currencies; say which one with --currency",
                        quoted(price.trim())
                    )
                })
            }
            (None, None) => self.currency.ok_or_else(|| {
                "currency: required for a price; say which one with --currency, such as \
                 --currency EUR, or set the currency of the shop"
                    .into()
            }),
        }
    }

    /// Returns the amount with a decimal point, or the text if it is none.
    pub fn amount<'a>(&self, price: &'a str, currency: Currency) -> Result<Cow<'a, str>, String> {
        let amount = WrittenPrice::parse(price)
            .and_then(|written| Amount::parse(written.amount, self.is_sheet));
        let (whole, fraction) = match amount {
            None => return Ok(price.trim().into()),
            Some(Amount::Clear {
                whole, fraction, ..
            }) => (whole, fraction),
            Some(Amount::Ambiguous {
                whole,
                fraction,
                mark,
            }) => match self.decimal_mark {
                Some(decimal_mark) if decimal_mark == mark => (whole, fraction),
                Some(_) => (whole + &fraction, String::new()),
                None if currency.digits() == 0 => (whole + &fraction, String::new()),
                // As an export writes it.
                None if currency.digits() == 3 && mark == '.' => (whole, fraction),
                None => {
                    return Err(format!(
                        "price: {} may be {whole}{fraction} or {whole}.{fraction}, and no other \
                         price tells; write it without a mark between thousands",
                        quoted(price.trim())
                    ));
                }
            },
        };
        Ok(match &*fraction {
            "" => whole.into(),
            fraction => format!("{whole}.{fraction}").into(),
        })
    }

    /// Returns the decimal mark that a price is written with, if it can be nothing else.
    pub fn decimal_mark_of(&self, price: &str) -> Option<char> {
        let written = WrittenPrice::parse(price)?;
        match Amount::parse(written.amount, self.is_sheet)? {
            Amount::Clear { mark, .. } => mark,
            Amount::Ambiguous { .. } => None,
        }
    }
}

impl<'a> WrittenPrice<'a> {
    /// Splits a cell into the amount and the sign in front of it or behind it. Returns `None` if
    /// it is no price.
    fn parse(cell: &'a str) -> Option<Self> {
        let first = cell.find(|c: char| c.is_ascii_digit())?;
        let end = cell.rfind(|c: char| c.is_ascii_digit())? + 1;
        let before = cell[..first].trim();
        let after = cell[end..].trim();
        let currencies = match (before, after) {
            ("", "") => None,
            (sign, "") | ("", sign) => {
                let currencies = words::sign(sign);
                if currencies.is_empty() {
                    return None;
                }
                Some(currencies)
            }
            _ => return None,
        };
        let amount = &cell[first..end];
        Some(Self { amount, currencies })
    }
}

/// Marks between groups of three digits that are never decimal marks: blanks and apostrophes.
const SEPARATORS: [char; 6] = [' ', '\u{a0}', '\u{202f}', '\u{2009}', '\'', '\u{2019}'];

impl Amount {
    /// Parses digits with marks. Returns `None` if they are no amount.
    fn parse(text: &str, is_sheet: bool) -> Option<Self> {
        let is_digit = |c: char| c.is_ascii_digit();
        let mut marks = text.char_indices().filter(|(_, c)| !is_digit(*c));
        let clear = |whole: String, fraction: &str, mark| {
            let fraction = fraction.into();
            Some(Self::Clear {
                whole,
                fraction,
                mark,
            })
        };
        let Some((last, mark)) = marks.next_back() else {
            return clear(text.into(), "", None);
        };
        let whole = &text[..last];
        let fraction = &text[last + mark.len_utf8()..];
        if SEPARATORS.contains(&mark) {
            return clear(ungroup(text, mark)?, "", None);
        }
        if !matches!(mark, '.' | ',') {
            return None;
        }
        let other = whole.chars().find(|c| !is_digit(*c));
        match other {
            // Several of the same mark separate groups, so the other mark is the decimal one.
            Some(other) if other == mark => {
                let decimal_mark = if mark == '.' { ',' } else { '.' };
                clear(ungroup(text, mark)?, "", Some(decimal_mark))
            }
            Some(other) => clear(ungroup(whole, other)?, fraction, Some(mark)),
            None if is_sheet && mark == '.' => clear(whole.into(), fraction, None),
            None if fraction.len() == 3 && ungroup(text, mark).is_some() => Some(Self::Ambiguous {
                whole: whole.into(),
                fraction: fraction.into(),
                mark,
            }),
            None => clear(whole.into(), fraction, Some(mark)),
        }
    }
}

/// Returns the digits without the marks between groups of three, if that is what the marks do.
fn ungroup(text: &str, mark: char) -> Option<String> {
    let mut groups = text.split(mark);
    let first = groups.next()?;
    let is_number = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let starts = (1..=3).contains(&first.len()) && is_number(first) && !first.starts_with('0');
    let is_grouped = starts && groups.all(|group| group.len() == 3 && is_number(group));
    is_grouped.then(|| text.replace(mark, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EUR: &str = "EUR";

    /// The amount in euros; `None` if it is ambiguous.
    fn amount(price: &str, decimal_mark: Option<char>) -> Option<String> {
        let rules = PriceRules {
            currency: None,
            decimal_mark,
            is_sheet: false,
        };
        let amount = rules.amount(price, Currency::parse(EUR).unwrap());
        amount.ok().map(Cow::into_owned)
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (price, expected, mark) in [
            ("450", "450", None),
            ("450.00", "450.00", Some('.')),
            ("450,5", "450.5", Some(',')),
            ("1.234,56", "1234.56", Some(',')),
            ("1,234.56", "1234.56", Some('.')),
            ("1.234.567", "1234567", Some(',')),
            ("1,234,567.8", "1234567.8", Some('.')),
            ("1 234,50", "1234.50", Some(',')),
            ("1\u{202f}234", "1234", None),
            ("1'234.50", "1234.50", Some('.')),
            ("1234.567", "1234.567", Some('.')),
            (" 1450 € ", "1450", None),
            ("€ 1.450,00", "1450.00", Some(',')),
            ("CHF 20", "20", None),
            // These are no amounts.
            ("1.23.456", "1.23.456", None),
            ("1,2,3", "1,2,3", None),
            ("0.123,45", "0.123,45", None),
            ("12 34", "12 34", None),
            ("1450 x", "1450 x", None),
            ("-5", "-5", None),
            ("1.450,-", "1.450,-", None),
        ] {
            assert_eq!(amount(price, None).as_deref(), Some(expected), "{price}");
            let rules = PriceRules::default();
            assert_eq!(rules.decimal_mark_of(price), mark, "{price}");
        }
    }

    #[test]
    fn a_mark_before_three_digits_depends_on_the_column() {
        for (price, mark, expected) in [
            ("1,450", None, None),
            ("1,450", Some('.'), Some("1450")),
            ("1,450", Some(','), Some("1.450")),
            ("1.450", None, None),
            ("1.450", Some(','), Some("1450")),
            ("1.450", Some('.'), Some("1.450")),
            ("0,450", Some('.'), Some("0.450")),
        ] {
            assert_eq!(amount(price, mark).as_deref(), expected, "{price} {mark:?}");
        }
        for (price, code, expected) in [
            ("1,450", "JPY", Some("1450")),
            ("1.450", "KWD", Some("1.450")),
            ("1,450", "KWD", None),
        ] {
            let found = PriceRules::default().amount(price, Currency::parse(code).unwrap());
            assert_eq!(found.ok().as_deref(), expected, "{price} {code}");
        }
        let sheet = PriceRules {
            decimal_mark: Some(','),
            is_sheet: true,
            ..PriceRules::default()
        };
        let euro = Currency::parse(EUR).unwrap();
        assert_eq!(sheet.amount("1.450", euro).unwrap(), "1.450");
        assert_eq!(sheet.amount("1.234,56", euro).unwrap(), "1234.56");
        assert_eq!(sheet.decimal_mark_of("12.5"), None);
    }

    #[test]
    fn the_currency_is_that_of_the_row_the_sign_or_the_table() {
        let [euro, dollar] = [EUR, "USD"].map(|code| Currency::parse(code).ok());
        let rules = |currency| PriceRules {
            currency,
            ..PriceRules::default()
        };
        for (price, cell, default, expected) in [
            ("5", Some(" usd "), euro, Ok(dollar)),
            ("5", Some(""), euro, Ok(euro)),
            ("5", None, euro, Ok(euro)),
            ("5 €", None, dollar, Ok(euro)),
            ("$5", None, dollar, Ok(dollar)),
            ("$5", Some("USD"), euro, Ok(dollar)),
            ("$5", None, euro, Err("may be in several currencies")),
            ("$5", Some("EUR"), None, Err("is not in EUR")),
            ("5", None, None, Err("currency: required")),
            ("5", Some("Mark"), None, Err("currency: must be the code")),
        ] {
            let found = rules(default).currency(price, cell);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(Some(found), expected, "{price}"),
                (Err(found), Err(text)) => assert!(found.contains(text), "{price}: {found}"),
                (found, _) => panic!("{price} {cell:?}: {found:?}"),
            }
        }
    }
}
