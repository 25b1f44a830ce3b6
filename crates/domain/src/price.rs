//! Prices: an amount in the smallest unit of a currency.

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use serde::{Serialize, Serializer};

use crate::{
    invalid::{Invalid, quoted},
    json::Value,
    members::{Cell, CellMember, Cells, Errors, Integer, Members, Scalar, object, string},
};

object! {
    /// A price, such as 45000 cents.
    Price
    /// A change of a price.
    PriceChange
    required {
        amount "amount": Amount,
        currency "currency": Currency,
    }
    optional {}
}

/// The number of the smallest units of a currency, such as cents: 0 to 10^12.
pub type Amount = Integer<0, 1_000_000_000_000>;

/// A currency of ISO 4217, by its code. Clients can only use active ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

/// Currencies with two digits after the decimal point. Funds, metals and test codes are left out.
const TWO_DIGITS: &str = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD \
    BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP \
    GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP \
    LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD \
    PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC \
    SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG";
const NO_DIGITS: &str = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF";
const THREE_DIGITS: &str = "BHD IQD JOD KWD LYD OMR TND";

impl Currency {
    /// Parses a code. Returns the reason if there is no such currency.
    pub fn parse(code: &str) -> Result<Self, String> {
        let known = Self::from_store(code).filter(|_| DIGITS.contains_key(code));
        known.ok_or_else(|| {
            format!(
                "must be the code of a currency (ISO 4217), such as EUR or USD, got {}",
                quoted(code)
            )
        })
    }

    /// Reads a code that was stored. It may be that of a currency that is no longer active. Returns
    /// `None` if it is not a code.
    pub fn from_store(code: &str) -> Option<Self> {
        let letters: [u8; 3] = code.as_bytes().try_into().ok()?;
        let is_code = letters.iter().all(u8::is_ascii_uppercase);
        is_code.then_some(Self(letters))
    }

    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("the letters are ASCII")
    }

    /// Returns the number of digits after the decimal point.
    pub fn digits(self) -> usize {
        DIGITS.get(self.as_str()).copied().unwrap_or(2)
    }
}

/// The number of digits after the decimal point of each currency, by its code.
static DIGITS: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let all = [(TWO_DIGITS, 2), (NO_DIGITS, 0), (THREE_DIGITS, 3)];
    let codes = all.into_iter().flat_map(|(codes, digits)| {
        let codes = codes.split_ascii_whitespace();
        codes.map(move |code| (code, digits))
    });
    codes.collect()
});

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Scalar for Currency {
    fn from_json(value: Value) -> Result<Self, String> {
        Self::parse(&string(value)?)
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(&cell.trim().to_uppercase())
    }

    fn to_cell(&self) -> String {
        self.as_str().into()
    }
}

/// The name of the column that has the currency of a price.
const CURRENCY: &str = "currency";

/// In a CSV file, a price is a decimal number, with the currency in a column of its own.
impl CellMember for Price {
    fn from_cells(cells: &impl Cells, name: &'static str) -> Result<Option<Self>, Errors> {
        let Some(cell) = cells.get(name, false) else {
            return Ok(None);
        };
        let currency: Currency = cells.required(CURRENCY)?;
        let amount = parse_decimal(cell.trim(), currency.digits()).ok_or_else(|| {
            let example = decimal(45_000, currency.digits());
            let got = quoted(cell.trim());
            let reason = format!("must be a decimal number such as {example}, got {got}");
            vec![Invalid::new("", reason)]
        })?;
        Ok(Some(Self { amount, currency }))
    }

    fn columns(name: &'static str, _: &[String]) -> Vec<Cow<'static, str>> {
        vec![name.into(), CURRENCY.into()]
    }

    fn write_cells(value: Option<&Self>, _: &[String], put: &mut dyn FnMut(Cell)) {
        let amount = value.map(|price| decimal(price.amount.get(), price.currency.digits()));
        let currency = value.map(|price| price.currency.as_str().into());
        for text in [amount, currency] {
            put(Cell {
                text: text.unwrap_or_default(),
                is_free_text: false,
            });
        }
    }
}

/// Writes an amount with the digits of its currency, such as 450.00.
fn decimal(amount: i64, digits: usize) -> String {
    let width = digits + 1;
    let text = format!("{amount:0width$}");
    match text.split_at(text.len() - digits) {
        (whole, "") => whole.into(),
        (whole, fraction) => format!("{whole}.{fraction}"),
    }
}

/// Parses an amount such as 450, 450.00 or, as spreadsheets write it in many countries, 450,00.
/// A comma before three digits may separate thousands, so it is refused.
fn parse_decimal(text: &str, digits: usize) -> Option<Amount> {
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_ambiguous = fraction.len() == 3 && text.contains(',');
    if whole.is_empty()
        || fraction.len() > digits
        || is_ambiguous
        || !is_number(whole)
        || !is_number(fraction)
    {
        return None;
    }
    let amount = format!("{whole}{fraction:0<digits$}").parse().ok()?;
    Amount::new(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_currency_that_is_no_longer_active_can_be_read() {
        assert!(Currency::parse("DEM").is_err());
        let mark = Currency::from_store("DEM").unwrap();
        assert_eq!((mark.as_str(), mark.digits()), ("DEM", 2));
        for malformed in ["", "eur", "EU", "EURO", "€"] {
            assert_eq!(Currency::from_store(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn amounts_are_written_with_the_digits_of_the_currency() {
        for (code, amount, text) in [
            ("USD", 45_000, "450.00"),
            ("USD", 5, "0.05"),
            ("USD", 0, "0.00"),
            ("JPY", 450, "450"),
            ("JPY", 0, "0"),
            ("KWD", 5, "0.005"),
            ("EUR", 1_000_000_000_000, "10000000000.00"),
        ] {
            let digits = Currency::parse(code).unwrap().digits();
            assert_eq!(decimal(amount, digits), text);
            assert_eq!(parse_decimal(text, digits), Amount::new(amount), "{text}");
        }
        for (text, digits, amount) in [("450", 2, 45_000), ("450,5", 2, 45_050), ("007.10", 2, 710)]
        {
            assert_eq!(parse_decimal(text, digits), Amount::new(amount), "{text}");
        }
        for (text, digits) in [
            ("", 2),
            (".5", 2),
            ("-1", 2),
            ("+1", 2),
            ("1.234", 2),
            ("1.0", 0),
            ("1,234.50", 2),
            ("1,234", 3),
            ("1 000", 2),
            ("10000000000.01", 2),
            ("99999999999999999999", 2),
        ] {
            assert_eq!(parse_decimal(text, digits), None, "{text}");
        }
    }
}
