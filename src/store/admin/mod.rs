//! Administration of a store from the command line, beside or instead of a
//! running service.

mod backup;
mod bulk;
mod check;
mod copy;

pub use backup::backup;
pub use bulk::{export, import};
pub use check::check;
pub use copy::copy;
