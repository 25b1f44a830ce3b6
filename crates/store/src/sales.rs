//! Reports of sales: sums of days, which are kept in memory, and scanned where they are not.

mod days;

use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use jiff::{Timestamp, civil::Date};

use super::{
    Error, Fault, Store,
    scan_queue::{MakingReport, ScanQueue, Scans},
    table::{Value, columns},
};
pub(crate) use days::{AppliedLog, LogIdentity, OrderChanges};
use days::{KeptDays, ScanStart};
use domain::{
    order::OrderId,
    price::Price,
    sales::{DayCounter, DaySales, Movement, MovementKind, SalesQuery, SalesReport, TooManyTotals},
};

/// The number of orders that are read at a time. Other reads run in between.
const PART_SIZE: usize = 2000;
/// The number of sales after which a turn to scan ends, and of returns.
pub const SCAN_SIZE: usize = 10_000;

statements! {
    SALES(Int, Int, Int, Int) = select_by_time("completed_at");
    RETURNS(Int, Int, Int, Int) = select_by_time("returned_at");
}

/// Selects the orders after a time and an id, and before another time, with that time.
fn select_by_time(time: &str) -> String {
    let columns = columns::<CountedOrder>();
    format!(
        "SELECT {time}, {columns} FROM orders
         WHERE ({time}, id) > ($1, $2) AND {time} < $3 ORDER BY {time}, id LIMIT $4"
    )
}

/// The members of an order that a report counts by.
struct CountedOrder {
    id: OrderId,
    category_id: Option<i64>,
    completed_by: Option<i64>,
    price: Option<Price>,
}

columns! {
    CountedOrder {
        id,
        category_id,
        completed_by,
        price as "price_amount, price_currency",
    }
}

/// Makes reports. The days that they are added up from stay in memory until the event log names an
/// order that counts on them.
#[derive(Debug)]
pub struct SalesReports {
    store: Arc<Store>,
    scans: Arc<Scans>,
    kept: Mutex<KeptDays>,
    fault: Option<Fault>,
}

/// A report that is being made.
#[derive(Debug)]
pub struct PendingReport<'a> {
    _making: MakingReport<'a>,
    query: SalesQuery,
    report: SalesReport,
    /// The days that are missing, with the time at which each starts, the last one first.
    missing: Vec<(Timestamp, Date)>,
    /// The scan of the first of them, if it takes more than one turn.
    scan: Option<DayScan>,
}

impl<'a> PendingReport<'a> {
    fn new(query: SalesQuery, making: MakingReport<'a>) -> Self {
        let mut missing = query.period.days();
        missing.reverse();
        Self {
            _making: making,
            report: SalesReport::new(query.clone()),
            missing,
            scan: None,
            query,
        }
    }

    /// Returns the report, once no day is missing.
    pub fn finished(&self) -> Option<&SalesReport> {
        self.missing.is_empty().then_some(&self.report)
    }

    /// Adds the missing days that are kept.
    fn add_kept(&mut self, kept: &mut KeptDays) -> Result<(), TooManyTotals> {
        let mut failed = Ok(());
        let days = kept.of_zone(&self.query.period.zone);
        self.missing.retain(|(_, day)| match days.get(day) {
            Some(sales) if failed.is_ok() => {
                failed = self.report.add(*day, sales);
                false
            }
            _ => true,
        });
        failed
    }

    /// Returns the first of the missing days and those that follow it without a gap, with the time
    /// at which the last one ends.
    fn next_run(&self) -> (Vec<(Timestamp, Date)>, Timestamp) {
        let mut run: Vec<(Timestamp, Date)> = Vec::new();
        for (start, day) in self.missing.iter().rev() {
            let follows = run
                .last()
                .is_none_or(|(_, last)| last.tomorrow().ok() == Some(*day));
            if !follows {
                break;
            }
            run.push((*start, *day));
        }
        let last = run.last().map_or(self.query.period.to, |(_, day)| *day);
        (run, self.query.period.end_of(last))
    }
}

impl SalesReports {
    pub fn new(store: Arc<Store>, scans: Arc<Scans>, fault: Option<Fault>) -> Self {
        Self {
            store,
            scans,
            kept: Mutex::default(),
            fault,
        }
    }

    /// Starts a report, from the days that are kept. It reflects every change that was acknowledged
    /// before the call.
    pub async fn start<'a>(
        &self,
        query: SalesQuery,
        making: MakingReport<'a>,
    ) -> Result<Result<PendingReport<'a>, TooManyTotals>, Error> {
        let applied = self.kept().applied();
        let mut changes = self.store.order_changes(applied).await?;
        if self.fault == Some(Fault::OutdatedDays)
            && let Some(events) = &mut changes.events
        {
            events.clear();
        }
        let mut kept = self.kept();
        kept.apply(changes);
        let mut pending = PendingReport::new(query, making);
        let added = pending.add_kept(&mut kept);
        Ok(added.map(|()| pending))
    }

    /// Scans about [`SCAN_SIZE`] orders of the missing days of a report. Waits for its turn first.
    /// Returns the number of orders that were scanned.
    pub async fn scan(
        &self,
        pending: &mut PendingReport<'_>,
        queue: &ScanQueue,
    ) -> Result<Result<usize, TooManyTotals>, Error> {
        let _turn = self.scans.turn(queue).await;
        let mut scan = match pending.scan.take() {
            Some(unfinished) => unfinished,
            None => {
                let mut kept = self.kept();
                if let Err(too_many) = pending.add_kept(&mut kept) {
                    return Ok(Err(too_many));
                }
                let (days, end) = pending.next_run();
                if days.is_empty() {
                    return Ok(Ok(0));
                }
                DayScan::new(days, end, kept.start_scan())
            }
        };
        let orders = scan.take_turn(&self.store).await?;
        if !scan.is_finished() {
            pending.scan = Some(scan);
            return Ok(Ok(orders));
        }
        let mut kept = self.kept();
        for ((_, day), counter) in scan.days.into_iter().zip(scan.counters) {
            let sales = if counter.is_empty() {
                EMPTY.clone()
            } else {
                Arc::new(counter.finish())
            };
            pending.missing.pop();
            let added = pending.report.add(day, &sales);
            kept.keep(&pending.query.period.zone, day, sales, scan.start);
            if let Err(too_many) = added {
                return Ok(Err(too_many));
            }
        }
        Ok(Ok(orders))
    }

    fn kept(&self) -> MutexGuard<'_, KeptDays> {
        let kept = self.kept.lock();
        kept.expect("no task panics while holding the lock")
    }
}

/// A scan of consecutive days: of their sales, and then of their returns. Each part is read by
/// itself, so an order that changes in the meantime is counted as it was before or after; if it was
/// sold and returned in these days, it may be one for its sale and the other for its return.
#[derive(Debug)]
struct DayScan {
    /// The days, with the time at which each starts. The sales of the last ones may be left to the
    /// next scan.
    days: Vec<(Timestamp, Date)>,
    end: Timestamp,
    counters: Vec<DayCounter>,
    start: ScanStart,
    /// The kind of orders that are read next; `None` if the scan is finished.
    kind: Option<MovementKind>,
    /// The time and the id of the last order of this kind that was read.
    position: (Timestamp, i64),
}

impl DayScan {
    fn new(days: Vec<(Timestamp, Date)>, end: Timestamp, start: ScanStart) -> Self {
        let mut counters = Vec::new();
        counters.resize_with(days.len(), DayCounter::default);
        Self {
            position: (days[0].0, 0),
            days,
            end,
            counters,
            start,
            kind: Some(MovementKind::Sold),
        }
    }

    fn is_finished(&self) -> bool {
        self.kind.is_none()
    }

    /// Reads up to [`SCAN_SIZE`] orders of each kind. Returns the number of orders that were read.
    async fn take_turn(&mut self, store: &Store) -> Result<usize, Error> {
        let mut orders = 0;
        while let Some(kind) = self.kind {
            let mut scanned = 0;
            let is_last = loop {
                let read = self.read_part(store, kind).await?;
                scanned += read;
                if read < PART_SIZE || scanned >= SCAN_SIZE {
                    break read < PART_SIZE;
                }
                tokio::task::yield_now().await;
            };
            orders += scanned;
            let is_done = is_last || kind == MovementKind::Sold && self.leave_last_day();
            if !is_done {
                break;
            }
            self.position = (self.days[0].0, 0);
            self.kind = match kind {
                MovementKind::Sold => Some(MovementKind::Returned),
                MovementKind::Returned => None,
            };
        }
        Ok(orders)
    }

    /// Counts the next orders of a kind. Returns their number; less than [`PART_SIZE`] if there are
    /// no more.
    async fn read_part(&mut self, store: &Store, kind: MovementKind) -> Result<usize, Error> {
        let sql = match kind {
            MovementKind::Sold => &SALES,
            MovementKind::Returned => &RETURNS,
        };
        let (time, id) = self.position;
        let parameters = [time.as_microsecond(), id, self.end.as_microsecond()];
        let mut parameters: Vec<_> = parameters.map(Value::Int).into();
        parameters.push(Value::Int(PART_SIZE as i64));
        let rows: Vec<(Timestamp, CountedOrder)> = store.query(sql, parameters).await?;
        let count = rows.len();
        for (at, order) in rows {
            self.position = (at, order.id.get());
            let day = self.day_at(at);
            self.counters[day].add(&Movement {
                kind,
                category_id: order.category_id,
                api_key_id: order.completed_by,
                price: order.price,
            });
        }
        Ok(count)
    }

    /// Returns the index of the day in which a time lies.
    fn day_at(&self, time: Timestamp) -> usize {
        let started = self.days.partition_point(|(start, _)| *start <= time);
        started.saturating_sub(1)
    }

    /// Leaves the day of the last order, which may have more, and those after it to the next scan.
    /// Returns false if that is the first day.
    fn leave_last_day(&mut self) -> bool {
        let day = self.day_at(self.position.0);
        if day > 0 {
            self.end = self.days[day].0;
            self.days.truncate(day);
            self.counters.truncate(day);
        }
        day > 0
    }
}

/// A day without sales, of which there may be thousands.
static EMPTY: LazyLock<Arc<DaySales>> = LazyLock::new(Arc::default);
