//! Options for opening a store, and its version.

use jiff::SignedDuration;

use domain::clock::ClockTrust;

/// The purpose for which a process opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves requests. An SQLite file has at most one such process.
    Service,
    /// Runs one command, possibly beside a running service.
    Cli,
}

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    pub role: Role,
    /// True to create the store if it does not exist: for a service, and for `import` and
    /// `seed`. Other commands fail: in the wrong folder they would create a second store.
    pub create: bool,
    /// The capacity of each write queue. Writes beyond it are rejected.
    pub write_queue_capacity: usize,
    /// The time after opening the store until the clock is trusted: see [`ClockTrust`].
    pub trust_clock_after: SignedDuration,
    /// A defect to inject, for the negative controls of tests.
    pub fault: Option<Fault>,
}

/// A defect that the checks of tests must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Rows are read without being locked.
    UnlockedRows,
    /// The orders that claim pets are read before the pets are locked.
    EarlyClaims,
    /// No command waits for a row in the queue of the server.
    NoLockQueue,
    /// The days of reports are kept when their orders change.
    OutdatedDays,
}

impl Options {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            create: role == Role::Service,
            write_queue_capacity: 4096,
            trust_clock_after: match role {
                Role::Service => ClockTrust::DELAY,
                Role::Cli => SignedDuration::ZERO,
            },
            fault: None,
        }
    }
}

/// Version of the store, for cache validation.
///
/// It advances before a write is acknowledged. A read that starts after the version was
/// taken therefore sees every write that the version counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Version {
    /// Changes with every commit that inserts a row. An inserted row has the highest id.
    pub inserts: u64,
    /// Changes with every commit that changes an existing row.
    pub updates: u64,
}
