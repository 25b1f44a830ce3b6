//! A set of statuses, to find the pets that have one of them.

use std::fmt;

use super::PetStatus;
use crate::{
    invalid::{Invalid, quoted},
    members::Choice,
};

/// One or more statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PetStatuses([bool; PetStatus::ALL.len()]);

impl PetStatuses {
    /// Parses statuses that are separated by commas, each at most once.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |got: String| {
            let all: Vec<_> = PetStatus::ALL.iter().map(|it| it.as_str()).collect();
            let all = all.join(", ");
            let reason = format!("must be one of {all}, or several separated by commas, got {got}");
            Invalid::new("status", reason)
        };
        let mut statuses = Self([false; _]);
        for part in text.split(',') {
            let status = PetStatus::parse(part).map_err(|_| invalid(quoted(part)))?;
            if std::mem::replace(&mut statuses.0[status as usize], true) {
                return Err(invalid(format!("{} twice", quoted(part))));
            }
        }
        Ok(statuses)
    }

    pub fn iter(self) -> impl Iterator<Item = PetStatus> + Clone {
        let all = PetStatus::ALL.iter().copied();
        all.filter(move |status| self.0[*status as usize])
    }

    /// Returns the status, if there is only one.
    pub fn single(self) -> Option<PetStatus> {
        let mut statuses = self.iter();
        statuses.next().filter(|_| statuses.next().is_none())
    }

    pub fn contains(self, status: Option<PetStatus>) -> bool {
        status.is_some_and(|status| self.0[status as usize])
    }
}

impl fmt::Display for PetStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(|status| status.as_str()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_is_named_at_most_once() {
        use PetStatus::*;
        let statuses = PetStatuses::parse("sold,available").unwrap();
        assert_eq!(statuses.to_string(), "available,sold");
        assert_eq!(statuses.single(), None);
        let of = |status| statuses.contains(status);
        assert_eq!(
            [Some(Available), Some(Pending), Some(Sold), None].map(of),
            [true, false, true, false]
        );
        assert_eq!(PetStatuses::parse("sold").unwrap().single(), Some(Sold));
        for (text, got) in [
            ("", "\"\""),
            ("sold,", "\"\""),
            ("sold, pending", "\" pending\""),
            ("sold,pending,sold", "\"sold\" twice"),
            ("Sold", "\"Sold\""),
        ] {
            let reason = PetStatuses::parse(text).unwrap_err().reason;
            let allowed = "must be one of available, pending, sold, or several separated by commas";
            assert_eq!(reason, format!("{allowed}, got {got}"));
        }
    }
}
