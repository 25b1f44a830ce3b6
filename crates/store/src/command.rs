//! Commands: writes that are decided from rows in pure code.
//!
//! A command names the rows that it reads. Both databases run a commit group of commands in the
//! same way: load the rows, decide one command after the other, write what has changed, commit.
//! Idempotency keys are handled here, around all of them.
//!
//! A command that decides because a row does not exist needs a row lock that the creator of
//! that row takes too, or a unique index: if that index rejects the change, the group runs again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use compact_str::CompactString;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::oneshot;

use super::{
    draft::Draft,
    error::Error,
    row_keys::Keys,
    rows::{Access, Keyed, RowChange, Stored, to_json},
    tables::IdempotencyRecord,
    working_set::{ChangeContext, NewIds, WorkingSet},
};
use domain::{
    idempotency::{Idempotent, IdempotentRequest, RecordedRejection},
    pet::batch::BatchId,
};

/// The stored outcome of a request that succeeded.
const SUCCEEDED: &str = "succeeded";

/// The size of large writes that share a commit, in bytes: a large commit takes long, and all of
/// its callers wait for it.
pub(super) const MAX_GROUP_BYTES: usize = 2 << 20;

/// The queue of PostgreSQL that a command waits in, so that quick commands do not wait for
/// slow ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Reads nothing: one round trip.
    Create,
    /// Reads and locks rows first: two round trips.
    Change,
    /// Large writes (imports, batches, undo, photos), and work in the background.
    Bulk,
}

/// A write that is decided in pure code.
pub(super) trait Command: Send + 'static {
    const LANE: Lane = Lane::Change;
    /// True if rows may be added whose ids are not new.
    const RESTORES: bool = false;

    type Output: Send + 'static;
    type Rejection: RecordedRejection;

    fn lane(&self) -> Lane {
        Self::LANE
    }

    /// Adds the keys of the rows that the decision depends on, and the number of new ids. The
    /// order that claims a pet is loaded with the pet, and the pet of an order with the order.
    fn keys(&self, keys: &mut Keys);

    /// The size of what is written, in bytes, if it is large.
    fn payload_bytes(&self) -> usize {
        0
    }

    /// Decides the changes. It may run more than once, and has no effect outside `draft`.
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Self::Output, Self::Rejection>;

    /// Returns the batch that the changes belong to, if they can be undone together.
    fn batch_id(&self) -> Option<&BatchId> {
        None
    }

    /// Returns what an idempotency key remembers.
    fn recorded(_: &Self::Output) -> RecordedResult {
        RecordedResult::of_id(0)
    }
}

/// The part of a result that an idempotency key remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedResult {
    /// The id of the resource.
    pub(super) id: i64,
    /// The result as JSON, if an id is not enough.
    pub(super) results: Option<String>,
}

impl RecordedResult {
    pub(super) fn of_id(id: i64) -> Self {
        Self { id, results: None }
    }

    pub(super) fn of_json(id: i64, result: &impl Serialize) -> Self {
        Self {
            id,
            results: Some(to_json(result)),
        }
    }

    /// Parses the recorded JSON.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let results = self.results.as_deref().unwrap_or_default();
        serde_json::from_str(results).map_err(|error| Error::Internal(Arc::new(error)))
    }
}

/// The result of a command whose transaction was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply<T, R> {
    Executed(Result<T, R>),
    /// A retry: the recorded result of the first request, or its rejection.
    Replayed(Result<RecordedResult, R>),
    KeyReused,
}

impl<T, R> Reply<T, R> {
    /// Returns the result of a command without an idempotency key.
    pub(super) fn executed(self) -> Result<T, R> {
        match self {
            Self::Executed(result) => result,
            Self::Replayed(_) | Self::KeyReused => {
                unreachable!("without an idempotency key nothing is replayed")
            }
        }
    }

    /// Returns the result of a request. A retry gets the resource that `read` returns for the
    /// recorded id.
    pub(super) async fn or_replay(
        self,
        read: impl AsyncFnOnce(i64) -> Result<Result<T, R>, Error>,
    ) -> Result<Idempotent<Result<T, R>>, Error> {
        Ok(match self {
            Self::Executed(result) => Idempotent::Executed(result),
            Self::Replayed(Ok(recorded)) => Idempotent::Replayed(read(recorded.id).await?),
            Self::Replayed(Err(rejection)) => Idempotent::Replayed(Err(rejection)),
            Self::KeyReused => Idempotent::KeyReused,
        })
    }

    /// Returns the result of a request. A retry gets the result that was recorded as JSON.
    pub(super) fn or_recorded(self) -> Result<Idempotent<Result<T, R>>, Error>
    where
        T: DeserializeOwned,
    {
        Ok(match self {
            Self::Executed(result) => Idempotent::Executed(result),
            Self::Replayed(Ok(recorded)) => Idempotent::Replayed(Ok(recorded.parse()?)),
            Self::Replayed(Err(rejection)) => Idempotent::Replayed(Err(rejection)),
            Self::KeyReused => Idempotent::KeyReused,
        })
    }
}

type ReplyOf<C> = Reply<<C as Command>::Output, <C as Command>::Rejection>;

pub(super) type CommandResult<C> = Result<ReplyOf<C>, Error>;

/// A command of any kind, in a queue or a commit group.
pub(super) trait PendingCommand: Send {
    fn keys(&self, keys: &mut Keys);

    /// See [`Command::payload_bytes`].
    fn payload_bytes(&self) -> usize;

    /// Decides the command, and makes its changes in the working set. Returns false if it has to
    /// be decided again, because a row that it would change is locked.
    fn decide(&mut self, set: &mut WorkingSet, ids: &mut NewIds, is_locked: bool) -> bool;

    /// Sends the caller the result, or the error with which the transaction failed.
    fn finish(self: Box<Self>, committed: Result<(), Error>);
}

/// A queued command, with the channel for its result.
pub(super) struct QueuedCommand<C: Command> {
    command: C,
    /// The API key to name in the event; `None` if there is no event or no key.
    api_key_id: Option<i64>,
    request: Option<IdempotentRequest>,
    result: Option<CommandResult<C>>,
    sender: oneshot::Sender<CommandResult<C>>,
}

impl<C: Command> QueuedCommand<C> {
    /// Returns the command, and the receiver of its result.
    pub(super) fn with_receiver(
        command: C,
        api_key_id: Option<i64>,
        request: Option<IdempotentRequest>,
    ) -> (Box<dyn PendingCommand>, oneshot::Receiver<CommandResult<C>>) {
        let (sender, receiver) = oneshot::channel();
        let queued = Self {
            command,
            api_key_id,
            request,
            result: None,
            sender,
        };
        (Box::new(queued), receiver)
    }

    /// Returns `None` if a row that the command would change is locked. A rejection, or a retry
    /// that is replayed, needs no lock.
    fn run(
        &self,
        set: &mut WorkingSet,
        ids: &mut NewIds,
        is_locked: bool,
    ) -> Result<Option<ReplyOf<C>>, Error> {
        if let Some(request) = &self.request
            && let Some(record) = set.tables.records.get(&record_key(request))
        {
            return replay(record, request).map(Some);
        }
        let mut draft = Draft::new(set, ids);
        // A command decides before anything is changed, so a panic leaves no part of it.
        let decide = AssertUnwindSafe(|| self.command.decide(&mut draft));
        let decided = catch_unwind(decide).map_err(|_| Error::Internal(Arc::new(WritePanic)))?;
        let changes = draft.changes;
        if decided.is_ok() {
            if is_locked {
                return Ok(None);
            }
            let events = set.events.len();
            let context = ChangeContext {
                api_key_id: self.api_key_id,
                batch_id: self.command.batch_id(),
            };
            for change in changes {
                set.apply(change, context);
            }
            set.has_updates |= C::RESTORES;
            set.writes += usize::from(set.events.len() > events);
        }
        if let Some(request) = &self.request {
            record(set, request, decided.as_ref().map(C::recorded));
        }
        Ok(Some(Reply::Executed(decided)))
    }
}

impl<C: Command> PendingCommand for QueuedCommand<C> {
    fn keys(&self, keys: &mut Keys) {
        self.command.keys(keys);
        keys.records.extend(self.request.as_ref().map(record_key));
    }

    fn payload_bytes(&self) -> usize {
        self.command.payload_bytes()
    }

    fn decide(&mut self, set: &mut WorkingSet, ids: &mut NewIds, is_locked: bool) -> bool {
        self.result = self.run(set, ids, is_locked).transpose();
        self.result.is_some()
    }

    fn finish(self: Box<Self>, committed: Result<(), Error>) {
        let result = match committed {
            Ok(()) => self.result.expect("a command is decided before its commit"),
            Err(error) => Err(error),
        };
        // The caller may have disconnected.
        let _ = self.sender.send(result);
    }
}

fn record_key(request: &IdempotentRequest) -> (i64, CompactString) {
    (request.api_key_id, request.key.as_str().into())
}

/// Returns the recorded result of the first request with an idempotency key.
fn replay<T, R: RecordedRejection>(
    record: &IdempotencyRecord,
    request: &IdempotentRequest,
) -> Result<Reply<T, R>, Error> {
    // The outcome of another operation may be one that this one does not know.
    if record.fingerprint != request.fingerprint {
        return Ok(Reply::KeyReused);
    }
    match (record.outcome.as_str(), record.resource_id) {
        (SUCCEEDED, Some(id)) => Ok(Reply::Replayed(Ok(RecordedResult {
            id,
            results: record.results.clone(),
        }))),
        (code, _) => match R::from_code(code) {
            Some(rejection) => Ok(Reply::Replayed(Err(rejection))),
            None => Err(Error::Internal(Arc::new(UnknownOutcome(code.into())))),
        },
    }
}

fn record<R: RecordedRejection>(
    set: &mut WorkingSet,
    request: &IdempotentRequest,
    outcome: Result<RecordedResult, &R>,
) {
    let (outcome, resource_id, results) = match outcome {
        Ok(RecordedResult { id, results }) => (SUCCEEDED, Some(id), results),
        Err(rejection) => match rejection.code() {
            Some(code) => (code, None, None),
            None => return,
        },
    };
    let record = IdempotencyRecord {
        api_key_id: request.api_key_id,
        key: request.key.as_str().into(),
        fingerprint: request.fingerprint,
        outcome: outcome.into(),
        resource_id,
        created_at: set.times.now,
        results,
    };
    let key = record.key();
    let row = Some(record);
    set.apply(RowChange { key, row }.into(), ChangeContext::default());
}

/// The rejection of a command that finds nothing to change. Such commands have no idempotency
/// keys, so it is never recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotFound;

impl RecordedRejection for NotFound {}

#[derive(Debug, thiserror::Error)]
#[error("unknown outcome {0:?} in idempotency_keys; was it written by a newer version?")]
struct UnknownOutcome(String);

#[derive(Debug, thiserror::Error)]
#[error("a write panicked")]
pub(super) struct WritePanic;

impl Stored for IdempotencyRecord {
    const ACCESS: Access = Access::Unlocked;
}
