//! The newest events of the log, in memory.

use std::{collections::VecDeque, sync::Arc};

use super::SerializedEvent;
use domain::event::EventId;

/// The maximum size of the events in memory.
const MAX_BYTES: usize = 4 << 20;

/// Consecutive events in memory.
pub struct Newest {
    /// The position before the first event.
    start: EventId,
    events: VecDeque<Arc<SerializedEvent>>,
    /// The total size of the events.
    bytes: usize,
}

impl Newest {
    pub fn after_position(start: EventId) -> Self {
        Self {
            start,
            events: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Returns the position after the last event.
    pub fn end(&self) -> EventId {
        self.events.back().map_or(self.start, |last| last.id)
    }

    pub fn push(&mut self, event: Arc<SerializedEvent>) {
        self.bytes += event.framed.len();
        self.events.push_back(event);
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= oldest.framed.len();
            self.start = oldest.id;
        }
    }

    /// Returns the events after a position, or `None` if it is not in memory.
    pub fn after(
        &self,
        position: EventId,
    ) -> Option<impl ExactSizeIterator<Item = &Arc<SerializedEvent>>> {
        let skip = if position == self.start {
            0
        } else {
            let is_before = |event: &Arc<SerializedEvent>| event.id.sequence < position.sequence;
            let index = self.events.partition_point(is_before);
            (self.events.get(index)?.id == position).then_some(index + 1)?
        };
        Some(self.events.iter().skip(skip))
    }
}
