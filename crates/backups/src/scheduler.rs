//! Takes backups of a store in all their places.

use std::{path::PathBuf, sync::Arc};

use jiff::SignedDuration;
use tokio::join;

use super::{
    folder::Folder,
    keeper::Keeper,
    name::StoreId,
    place::{BucketPlace, Copier, FolderPlace, LocalBackups, Place},
    s3::{S3Settings, S3Url},
    status::{Destination, Status},
    worker::Worker,
};
use store::BackupSource;

/// The backups to take.
#[derive(Debug, Clone)]
pub struct Config {
    pub folder: Option<PathBuf>,
    pub bucket: Option<(S3Url, Arc<S3Settings>)>,
    pub every: SignedDuration,
    /// The number of backups to keep in each place, at least one.
    pub keep: usize,
}

/// Takes backups of a store.
pub struct Backups {
    config: Config,
    copier: Copier,
    status: Arc<Status>,
}

impl Backups {
    pub fn new(source: BackupSource, config: Config) -> Self {
        let folder = config.folder.as_ref().map(|_| Destination::Folder);
        let bucket = config.bucket.as_ref().map(|_| Destination::S3);
        let destinations: Vec<_> = folder.into_iter().chain(bucket).collect();
        Self {
            status: Arc::new(Status::new(config.every, &destinations)),
            copier: Copier {
                store: StoreId::new(source.event_source()),
                source,
                worker: Worker::new(),
            },
            config,
        }
    }

    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Takes backups until the future is dropped. A bucket that does not respond delays none in
    /// the folder.
    pub async fn run(&self) {
        let Self { config, copier, .. } = self;
        let folder = config.folder.as_ref().map(|path| {
            let keeper = self.keeper(FolderPlace::new(path, copier.clone()));
            let local = LocalBackups {
                folder: Folder::new(path),
                results: keeper.results(),
            };
            (keeper, local)
        });
        let (folder, local) = folder.unzip();
        let bucket = config.bucket.clone().map(|(url, settings)| {
            let place = BucketPlace::new(url, settings, copier.clone(), local);
            self.keeper(place)
        });
        join!(run(folder), run(bucket));
    }

    fn keeper<P: Place>(&self, place: P) -> Keeper<P> {
        let worker = self.copier.worker.clone();
        Keeper::new(place, self.config.keep, self.status.clone(), worker)
    }

    /// Ends the copy or the check in progress, and waits until its file is deleted.
    pub async fn shutdown(&self) {
        self.copier.worker.stop().await;
    }
}

async fn run<P: Place>(keeper: Option<Keeper<P>>) {
    if let Some(keeper) = keeper {
        keeper.run().await;
    }
}
