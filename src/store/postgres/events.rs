//! The event log on PostgreSQL.

use jiff::SignedDuration;
use tokio::sync::watch;

use super::{super::error::Error, Postgres};
use crate::event::{Event, EventId, Gone};

impl Postgres {
    pub(in super::super) fn event_source(&self) -> &str {
        todo!()
    }

    pub(in super::super) fn event_head(&self) -> watch::Receiver<i64> {
        todo!()
    }

    pub(in super::super) async fn event_sync(&self) -> Result<(), Error> {
        todo!()
    }

    pub(in super::super) async fn event_newest(&self) -> Result<Option<Event>, Error> {
        todo!()
    }

    pub(in super::super) async fn event_read(
        &self,
        _after: Option<EventId>,
        _limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        todo!()
    }

    pub(in super::super) async fn event_purge(
        &self,
        _retention: SignedDuration,
        _max: u64,
    ) -> Result<u64, Error> {
        todo!()
    }

    pub(in super::super) async fn event_follow(&self) {
        todo!()
    }
}
