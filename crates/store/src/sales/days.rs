//! The days of reports that are kept in memory.
//!
//! A kept day reflects every event that was applied: an event about an order drops the days on
//! which the order counts. A day that is being scanned in the meantime is not kept either, because
//! the scan may have read the order before the change. A scan may take many turns, so each compares
//! its days with the changes since it was started.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use domain::{
    event::{Event, EventId},
    period::{Zone, day_of},
    sales::{DaySales, SaleTimes},
};

/// The maximum size of the kept days.
const MAX_BYTES: usize = 16 << 20;
/// The maximum number of time zones of which days are kept.
const MAX_ZONES: usize = 8;
/// The size of a day besides its sums.
const DAY_OVERHEAD: usize = 64;

/// The changes of orders after a position in the event log, as the database sees them now.
#[derive(Debug)]
pub(crate) struct OrderChanges {
    pub(crate) log: LogIdentity,
    /// A position up to which no event appears later.
    pub(crate) stable: EventId,
    /// The numbers of the events about orders after that position.
    pub(crate) ahead: Vec<i64>,
    /// The events about orders that were not applied, also those that are not stable. `None` if it
    /// is not known which orders have changed.
    pub(crate) events: Option<Vec<Event>>,
}

impl OrderChanges {
    /// The maximum number of events about orders that are read.
    pub(crate) const MAX_EVENTS: usize = 20_000;
    /// The maximum number of events after the stable position that are examined for them. On
    /// PostgreSQL, that position stays while a transaction is open.
    pub(crate) const MAX_EXAMINED: i64 = 200_000;
}

/// Identifies the event log and the changes of orders that it does not have. The first number
/// identifies the run of the server, or the connection to the file. The second one counts changes
/// without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogIdentity(pub(crate) i64, pub(crate) i64);

impl LogIdentity {
    /// The identity of a log whose changes are not known.
    pub(crate) const UNKNOWN: Self = Self(0, 0);
}

#[derive(Debug, Default)]
pub(super) struct KeptDays {
    log: Option<AppliedLog>,
    /// The most recently used zone is the last.
    zones: Vec<ZoneDays>,
    /// The size of all days.
    bytes: usize,
    changes: ChangedTimes,
}

/// The part of an event log that was applied.
#[derive(Debug, Clone)]
pub(crate) struct AppliedLog {
    pub(crate) identity: LogIdentity,
    /// Every event up to this one was applied.
    pub(crate) position: EventId,
    /// The numbers of the later events about orders that were applied.
    pub(crate) ahead: BTreeSet<i64>,
}

#[derive(Debug)]
struct ZoneDays {
    zone: Zone,
    time_zone: TimeZone,
    days: BTreeMap<Date, Arc<DaySales>>,
}

/// The latest changes: the times at which orders count that have changed.
#[derive(Debug, Default)]
struct ChangedTimes {
    /// The number of changes so far.
    count: u64,
    /// The last changes. Any order may have changed before them.
    times: VecDeque<Timestamp>,
}

/// A point in time at which a scan was started: the number of changes before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScanStart(u64);

impl ChangedTimes {
    /// The maximum number of times that are remembered.
    const MAX: usize = 100;

    fn add(&mut self, time: Timestamp) {
        self.count += 1;
        self.times.push_back(time);
        if self.times.len() > Self::MAX {
            self.times.pop_front();
        }
    }

    /// Adds a change of any order.
    fn add_unknown(&mut self) {
        self.count += 1;
        self.times.clear();
    }

    /// Returns true if an order that counts on this day may have changed since a scan was started.
    fn contain_day(&self, day: Date, zone: &TimeZone, since: ScanStart) -> bool {
        let changes = usize::try_from(self.count - since.0).unwrap_or(usize::MAX);
        let mut latest = self.times.iter().rev().take(changes);
        changes > self.times.len() || latest.any(|time| day_of(*time, zone) == day)
    }
}

impl KeptDays {
    /// Returns the part of the log that was applied.
    pub fn applied(&self) -> Option<AppliedLog> {
        self.log.clone()
    }

    /// Drops the days that have changed.
    pub fn apply(&mut self, changes: OrderChanges) {
        let OrderChanges {
            log: identity,
            stable,
            ahead,
            events,
        } = changes;
        let known = self.log.take().filter(|log| log.identity == identity);
        let (Some(mut log), Some(events)) = (known, events) else {
            self.drop_all();
            self.log = Some(AppliedLog {
                identity,
                position: stable,
                ahead: ahead.into_iter().collect(),
            });
            return;
        };
        for event in &events {
            if event.sequence > log.position.sequence && log.ahead.insert(event.sequence) {
                self.drop_days_of(event);
            }
        }
        // Another report may have read the log later.
        if stable.sequence > log.position.sequence {
            log.position = stable;
            log.ahead = log.ahead.split_off(&(stable.sequence + 1));
        }
        self.log = Some(log);
    }

    /// Drops the days on which the order of an event counts.
    fn drop_days_of(&mut self, event: &Event) {
        // Another program may have changed the times themselves.
        let data = Some(&event.data).filter(|data| !data.is_row());
        let Some(SaleTimes { sold, returned }) =
            data.and_then(|data| SaleTimes::of_order(data.as_json()))
        else {
            return self.drop_all();
        };
        for time in [sold, returned].into_iter().flatten() {
            self.changes.add(time);
            for zone in &mut self.zones {
                let dropped = zone.days.remove(&day_of(time, &zone.time_zone));
                self.bytes -= dropped.map_or(0, |sales| size_of_day(&sales));
            }
        }
    }

    fn drop_all(&mut self) {
        self.changes.add_unknown();
        self.zones.clear();
        self.bytes = 0;
    }

    /// Returns the days of a zone, which becomes the most recently used one.
    pub fn of_zone(&mut self, zone: &Zone) -> &BTreeMap<Date, Arc<DaySales>> {
        &self.use_zone(zone).days
    }

    fn use_zone(&mut self, zone: &Zone) -> &mut ZoneDays {
        let used = match self.zones.iter().position(|known| known.zone == *zone) {
            Some(index) => self.zones.remove(index),
            None => {
                if self.zones.len() == MAX_ZONES {
                    let days = self.zones.remove(0).days.into_values();
                    self.bytes -= days.map(|sales| size_of_day(&sales)).sum::<usize>();
                }
                ZoneDays {
                    zone: zone.clone(),
                    time_zone: zone.time_zone(),
                    days: BTreeMap::new(),
                }
            }
        };
        self.zones.push(used);
        self.zones.last_mut().expect("it was pushed")
    }

    pub fn start_scan(&self) -> ScanStart {
        ScanStart(self.changes.count)
    }

    /// Keeps a day that was scanned, unless it has changed since the scan was started. Makes room
    /// by dropping the earliest days of the least recently used zone.
    pub fn keep(&mut self, zone: &Zone, day: Date, sales: Arc<DaySales>, since: ScanStart) {
        if self.changes.contain_day(day, &zone.time_zone(), since) {
            return;
        }
        self.bytes += size_of_day(&sales);
        let replaced = self.use_zone(zone).days.insert(day, sales);
        self.bytes -= replaced.map_or(0, |sales| size_of_day(&sales));
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.zones.first_mut()
        {
            match oldest.days.pop_first() {
                Some((_, sales)) => self.bytes -= size_of_day(&sales),
                None => drop(self.zones.remove(0)),
            }
        }
    }
}

fn size_of_day(sales: &DaySales) -> usize {
    DAY_OVERHEAD + sales.size()
}

#[cfg(test)]
mod tests {
    use domain::{
        event::{EventData, EventType},
        period::PeriodParameters,
        sales::{DayCounter, Movement, MovementKind},
    };

    use super::*;

    const LOG: LogIdentity = LogIdentity(1, 0);

    fn zone(name: &str) -> Zone {
        Zone::parse(name).unwrap()
    }

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    /// An event about an order that was sold at a time.
    fn correction(sequence: i64, sold_at: &str) -> Event {
        let data = format!(r#"{{"status":"completed","completedAt":"{sold_at}"}}"#);
        Event {
            sequence,
            at: Timestamp::UNIX_EPOCH,
            kind: EventType::OrderUpdated,
            api_key_id: None,
            resource_id: 1,
            data: EventData::of_resource(data),
            batch_id: None,
        }
    }

    fn position(sequence: i64) -> EventId {
        correction(sequence, "").id()
    }

    fn changes(stable: i64, events: Vec<Event>) -> OrderChanges {
        OrderChanges {
            log: LOG,
            stable: position(stable),
            ahead: Vec::new(),
            events: Some(events),
        }
    }

    /// Keeps two days of two time zones.
    fn kept() -> KeptDays {
        let mut kept = KeptDays::default();
        kept.apply(changes(5, Vec::new()));
        let now = kept.start_scan();
        for name in ["UTC", "Asia/Kathmandu"] {
            for day in ["2026-01-01", "2026-01-02"] {
                kept.keep(&zone(name), day.parse().unwrap(), Arc::default(), now);
            }
        }
        kept
    }

    fn days(kept: &mut KeptDays, name: &str) -> Vec<String> {
        let days = kept.of_zone(&zone(name)).keys();
        days.map(Date::to_string).collect()
    }

    #[test]
    fn an_event_drops_the_days_of_its_order_in_every_zone() {
        let mut kept = kept();
        let before = kept.start_scan();
        kept.apply(changes(6, vec![correction(6, "2026-01-01T20:00:00Z")]));
        assert_eq!(days(&mut kept, "UTC"), ["2026-01-02"]);
        assert_eq!(days(&mut kept, "Asia/Kathmandu"), ["2026-01-01"]);
        assert_eq!(kept.bytes, 2 * size_of_day(&DaySales::default()));
        assert_eq!(kept.applied().unwrap().position, position(6));
        kept.keep(&zone("UTC"), day("2026-01-01"), Arc::default(), before);
        assert!(
            days(&mut kept, "UTC").len() == 1,
            "it changed during the scan"
        );
        let now = kept.start_scan();
        kept.keep(&zone("UTC"), day("2026-01-01"), Arc::default(), now);
        // What is known already drops nothing.
        kept.apply(changes(6, vec![correction(6, "2026-01-01T20:00:00Z")]));
        assert_eq!(days(&mut kept, "UTC").len(), 2);
    }

    /// On PostgreSQL, an event is visible before those that precede it.
    #[test]
    fn an_event_that_is_not_stable_is_applied_once() {
        let mut kept = kept();
        let later = correction(9, "2026-01-01T00:00:00Z");
        kept.apply(changes(5, vec![later.clone()]));
        assert_eq!(days(&mut kept, "UTC"), ["2026-01-02"]);
        let now = kept.start_scan();
        kept.keep(&zone("UTC"), day("2026-01-01"), Arc::default(), now);
        let earlier = correction(8, "2026-01-02T00:00:00Z");
        kept.apply(changes(7, vec![earlier, later.clone()]));
        assert_eq!(days(&mut kept, "UTC"), ["2026-01-01"]);
        kept.apply(changes(9, vec![later]));
        assert_eq!(days(&mut kept, "UTC"), ["2026-01-01"]);
        assert!(kept.log.unwrap().ahead.is_empty());
    }

    #[test]
    fn nothing_is_kept_if_the_changes_are_not_known() {
        let unknown = OrderChanges {
            events: None,
            ..changes(6, Vec::new())
        };
        let elsewhere = OrderChanges {
            log: LogIdentity(1, 1),
            ..changes(6, Vec::new())
        };
        let mut by_hand = correction(6, "2026-01-03T00:00:00Z");
        by_hand.data = EventData::of_row("{}".into(), by_hand.data.as_json().into());
        let mut untold = correction(6, "");
        untold.data = EventData::of_resource(r#"{"status":"completed"}"#.into());
        for changes in [
            unknown,
            elsewhere,
            changes(6, vec![by_hand]),
            changes(6, vec![untold]),
        ] {
            let mut kept = kept();
            let before = kept.start_scan();
            kept.apply(changes);
            assert_eq!((days(&mut kept, "UTC").len(), kept.bytes), (0, 0));
            kept.keep(&zone("UTC"), day("2026-01-01"), Arc::default(), before);
            assert!(days(&mut kept, "UTC").is_empty());
        }
    }

    #[test]
    fn a_scan_knows_the_changes_since_its_start() {
        let mut changes = ChangedTimes::default();
        let mut starts = Vec::new();
        for hours in 0..=ChangedTimes::MAX as i64 {
            starts.push(ScanStart(changes.count));
            changes.add(Timestamp::from_second(hours * 86_400).unwrap());
        }
        let has_changed = |changes: &ChangedTimes, day: &str, since| {
            changes.contain_day(day.parse().unwrap(), &TimeZone::UTC, since)
        };
        for (day, since, expected) in [
            ("1970-01-03", starts[1], true),
            ("1970-01-03", starts[2], true),
            ("1970-01-03", starts[3], false),
            ("1970-01-01", starts[1], false),
            // Too many changes ago.
            ("2026-01-01", starts[0], true),
        ] {
            assert_eq!(
                has_changed(&changes, day, since),
                expected,
                "{day} {since:?}"
            );
        }
        let now = ScanStart(changes.count);
        assert!(!has_changed(&changes, "1970-01-03", now));
        changes.add_unknown();
        assert!(has_changed(&changes, "2026-01-01", now));
        assert!(!has_changed(
            &changes,
            "2026-01-01",
            ScanStart(changes.count)
        ));
    }

    #[test]
    fn memory_is_bounded() {
        let mut kept = KeptDays::default();
        let now = kept.start_scan();
        let mut counter = DayCounter::default();
        for category in 0..1000 {
            counter.add(&Movement {
                kind: MovementKind::Sold,
                category_id: Some(category),
                api_key_id: Some(1),
                price: None,
            });
        }
        let large = Arc::new(counter.finish());
        let zones = ["UTC", "Europe/Berlin"];
        let period = PeriodParameters::default().period(Timestamp::now(), 366);
        let mut first = period.unwrap().from;
        for _ in 0..500 {
            for name in zones {
                kept.keep(&zone(name), first, large.clone(), now);
            }
            first = first.tomorrow().unwrap();
        }
        assert!((MAX_BYTES - 100_000..=MAX_BYTES).contains(&kept.bytes));
        let counts = zones.map(|name| days(&mut kept, name));
        let total: usize = counts.iter().map(Vec::len).sum();
        assert_eq!(total * size_of_day(&large), kept.bytes);
        // The latest days stay.
        let latest = first.yesterday().unwrap().to_string();
        assert!(counts.iter().all(|days| days.contains(&latest)));
        let unused = ["+01:00", "+02:00"];
        assert!(unused.iter().all(|name| Zone::parse(name).is_err()));
        for hours in 1..=8 {
            days(&mut kept, &format!("Etc/GMT+{hours}"));
        }
        assert_eq!((kept.zones.len(), kept.bytes), (MAX_ZONES, 0));
    }
}
