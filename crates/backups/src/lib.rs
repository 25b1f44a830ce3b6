//! Backups that the service takes by itself.
//!
//! A backup is a checked copy of the store in a file whose name has its time, its number of
//! animals and its checksum. The service makes one in every interval, keeps a number of them in a
//! folder, in a bucket or in both, and deletes none that it cannot tell to be its own.

mod folder;
mod keeper;
mod name;
mod place;
mod s3;
mod schedule;
mod scheduler;
mod status;
mod worker;

pub use folder::{BackupFile, Folder, hash};
pub use name::{BackupName, StoreId};
pub use s3::{Bucket, S3Error, S3Settings, S3Url};
pub use schedule::past;
pub use scheduler::{Backups, Config};
pub use status::{Destination, DestinationStatus, Status, is_late};
