//! The members of resources and of objects in them: each is declared once, by its name and
//! type, and read from and written to JSON and CSV.

mod member;
mod object;
mod patch;
mod resource;
mod scalar;

pub use member::{Cell, CellMember, Cells, Errors, Member, Members};
pub use patch::Patch;
pub use scalar::{Choice, Integer, Scalar};

pub(crate) use member::{UnreadMembers, missing, object_of};
pub(crate) use object::{Nested, dotted_columns, object, read_dotted};
pub(crate) use resource::{all_valid, change, resource};
pub(crate) use scalar::string;
