//! A model of the page cache: what a disk may contain after a power cut.
//!
//! A service under disk.c records its writes and fsyncs. Until an fsync of the file
//! succeeds, each write may or may not have reached the disk, in whole or by
//! sectors, in any order. When an fsync fails, the kernel gives up: the writes
//! before it are on disk or lost, and a later fsync does not write them again.

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use rand::{Rng, RngExt};

use crate::harness::Home;

const SECTOR: usize = 512;
/// The size of `struct record` in disk.c.
const RECORD: usize = 24;

/// disk.c, compiled.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/torture/disk.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("disk.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
    let compiled = compile.arg(&library).arg(source).arg("-ldl").status();
    assert!(compiled.unwrap().success(), "cc cannot compile disk.c");
    library
});

/// A periodic pattern of failing fsyncs of a file.
#[derive(Debug, Clone, Copy)]
pub struct Failures {
    /// The length of the pattern, in fsyncs.
    pub period: u32,
    /// The number of fsyncs that fail, at the end of each period.
    pub length: u32,
}

/// The faults of a disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub database: Option<Failures>,
    pub wal: Option<Failures>,
    /// SQLite ignores them.
    pub directory: Option<Failures>,
    /// As if the service never called fsync.
    pub ignore_sync: bool,
    /// The number of a call, and the error with which it fails.
    pub call: Option<(usize, i32)>,
    /// True if the disk fills up: while the file `room` exists, its size is the room that is
    /// left.
    pub fills_up: bool,
}

impl Faults {
    /// Runs the command on a disk with these faults. The trace continues that of
    /// earlier processes in the same directory.
    pub fn apply(&self, home: &Home, command: &mut Command) {
        command.env("LD_PRELOAD", &*LIBRARY);
        command.env("DISK_TRACE", trace_path(home));
        let variables = [
            ("DISK_FAIL_DB", self.database),
            ("DISK_FAIL_WAL", self.wal),
            ("DISK_FAIL_DIR", self.directory),
        ];
        for (variable, failures) in variables {
            if let Some(Failures { period, length }) = failures {
                command.env(variable, format!("{period} {length}"));
            }
        }
        if self.ignore_sync {
            command.env("DISK_IGNORE_SYNC", "1");
        }
        if self.fills_up {
            command.env("DISK_ROOM", home.path("room"));
        }
        if let Some((number, error)) = self.call {
            command.env("DISK_FAULT", format!("{number} {error}"));
        }
    }
}

pub fn trace_path(home: &Home) -> PathBuf {
    home.path("disk-trace")
}

/// The current end of the trace: the time of the model.
pub fn now(trace: &Path) -> u64 {
    fs::metadata(trace).map_or(0, |file| file.len())
}

enum Operation {
    /// The WAL's name leads to this inode now.
    Open,
    Write(Range<usize>),
    Truncate,
    Sync,
    FailedSync,
    Unlink,
    Fault,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Database,
    Wal,
    Directory,
}

struct Record {
    operation: Operation,
    kind: Kind,
    offset: usize,
    inode: u64,
    /// The end of the record in the trace.
    end: u64,
}

/// The operations of a service on its files.
pub struct Trace {
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// The database file before the trace began. There was no WAL.
    database: Vec<u8>,
}

impl Trace {
    /// Reads the trace of a service that ended. `database` is the file from before.
    pub fn read(home: &Home, database: Vec<u8>) -> Self {
        let bytes = fs::read(trace_path(home)).unwrap();
        let mut records = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let head = &bytes[at..at + RECORD];
            let long = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap());
            let length = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
            let kind = match head[1] {
                1 => Kind::Database,
                2 => Kind::Wal,
                _ => Kind::Directory,
            };
            at += RECORD;
            let operation = match head[0] {
                b'O' => Operation::Open,
                b'W' => Operation::Write(at..at + length),
                b'T' => Operation::Truncate,
                b'S' => Operation::Sync,
                b'F' => Operation::FailedSync,
                b'U' => Operation::Unlink,
                b'X' => Operation::Fault,
                other => panic!("an unknown record: {other}"),
            };
            at += length;
            records.push(Record {
                operation,
                kind,
                offset: long(8) as usize,
                inode: long(16),
                end: at as u64,
            });
        }
        Self {
            bytes,
            records,
            database,
        }
    }

    pub fn failed_syncs(&self) -> usize {
        let failed = |record: &&Record| matches!(record.operation, Operation::FailedSync);
        self.records.iter().filter(failed).count()
    }

    /// Returns true if the call that was to fail was reached.
    pub fn has_fault(&self) -> bool {
        let fault = |record: &Record| matches!(record.operation, Operation::Fault);
        self.records.iter().any(fault)
    }

    /// Returns the number of bytes written to the WAL.
    pub fn wal_bytes(&self) -> usize {
        let written = |record: &Record| match &record.operation {
            Operation::Write(data) if record.kind == Kind::Wal => data.len(),
            _ => 0,
        };
        self.records.iter().map(written).sum()
    }

    /// Returns the number of syncs of the database file: one per checkpoint.
    pub fn checkpoints(&self) -> usize {
        let synced = |record: &&Record| {
            record.kind == Kind::Database && matches!(record.operation, Operation::Sync)
        };
        self.records.iter().filter(synced).count()
    }

    /// Cuts the power at random moments and passes each resulting disk to `check`,
    /// with the time of the cut.
    pub fn cut_power(
        &self,
        random: &mut impl Rng,
        cuts: usize,
        mut check: impl FnMut(u64, &Image),
    ) {
        let mut moments: Vec<_> = (0..cuts)
            .map(|_| random.random_range(0..self.records.len()))
            .collect();
        moments.sort_unstable();
        let mut moments = moments.into_iter().peekable();
        let mut disk = Disk {
            trace: &self.bytes,
            database: File {
                durable: self.database.clone(),
                pending: Vec::new(),
            },
            wals: BTreeMap::new(),
            wal: None,
            durable_wal: None,
        };
        for (number, record) in self.records.iter().enumerate() {
            disk.apply(record, random);
            while moments.next_if_eq(&number).is_some() {
                check(record.end, &disk.image(random));
            }
        }
    }
}

/// The files after a power cut.
pub struct Image {
    pub database: Vec<u8>,
    pub wal: Option<Vec<u8>>,
}

struct Disk<'a> {
    trace: &'a [u8],
    database: File,
    /// Every file that was the WAL, by inode.
    wals: BTreeMap<u64, File>,
    /// The present WAL, and the one in the directory on disk.
    wal: Option<u64>,
    durable_wal: Option<u64>,
}

impl Disk<'_> {
    fn apply(&mut self, record: &Record, random: &mut impl Rng) {
        let file = match record.kind {
            Kind::Database => &mut self.database,
            Kind::Wal => self.wals.entry(record.inode).or_default(),
            Kind::Directory => {
                if matches!(record.operation, Operation::Sync) {
                    self.durable_wal = self.wal;
                }
                return;
            }
        };
        match &record.operation {
            Operation::Open => self.wal = Some(record.inode),
            Operation::Unlink => self.wal = None,
            Operation::Write(data) => file.pending.push(Change::Write {
                offset: record.offset,
                data: data.clone(),
            }),
            Operation::Truncate => file.pending.push(Change::Truncate(record.offset)),
            Operation::Sync => file.flush(self.trace, |_| true),
            Operation::FailedSync => file.flush(self.trace, |_| random.random()),
            Operation::Fault => {}
        }
    }

    fn image(&self, random: &mut impl Rng) -> Image {
        let entry = [self.wal, self.durable_wal][random.random_range(0..2)];
        Image {
            database: self.database.after_power_cut(self.trace, random),
            wal: entry.map(|inode| self.wals[&inode].after_power_cut(self.trace, random)),
        }
    }
}

#[derive(Default)]
struct File {
    /// The content that is certain to be on disk.
    durable: Vec<u8>,
    /// Changes that may be in the page cache only.
    pending: Vec<Change>,
}

enum Change {
    Write { offset: usize, data: Range<usize> },
    Truncate(usize),
}

impl File {
    fn flush(&mut self, trace: &[u8], mut reaches_disk: impl FnMut(&Change) -> bool) {
        for change in std::mem::take(&mut self.pending) {
            if reaches_disk(&change) {
                change.apply(trace, &mut self.durable);
            }
        }
    }

    fn after_power_cut(&self, trace: &[u8], random: &mut impl Rng) -> Vec<u8> {
        let mut content = self.durable.clone();
        for change in &self.pending {
            match (random.random_range(0..3), change) {
                (0, _) => {}
                (1, Change::Write { offset, data }) => {
                    let data = &trace[data.clone()];
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        if random.random() {
                            write(&mut content, offset + number * SECTOR, sector);
                        }
                    }
                }
                _ => change.apply(trace, &mut content),
            }
        }
        content
    }
}

impl Change {
    fn apply(&self, trace: &[u8], content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => write(content, *offset, &trace[data.clone()]),
            Self::Truncate(length) => content.resize(*length, 0),
        }
    }
}

fn write(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}
