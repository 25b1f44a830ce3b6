//! Parses strace output and checks that no create was acknowledged before its
//! commit was synced to disk.

use std::collections::HashMap;

/// The system calls that receive, send, write or sync data.
pub const SYSCALLS: &str = "trace=read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,\
                         pwrite64,pwritev,pwritev2,fsync,fdatasync";

/// A system call of any thread. Times are line numbers of the trace: a call
/// that happens before another ends on an earlier line.
#[derive(Debug)]
struct Syscall<'a> {
    name: &'a str,
    /// The target of its file descriptor: a path, or a socket's inode.
    target: &'a str,
    text: String,
    began: usize,
    ended: usize,
    succeeded: bool,
}

impl Syscall<'_> {
    fn reads(&self) -> bool {
        let names = ["read", "readv", "recvfrom", "recvmsg"];
        // Zero bytes are EOF.
        self.succeeded && names.contains(&self.name) && !self.text.ends_with(" = 0")
    }

    fn is_201_response(&self) -> bool {
        let names = ["write", "writev", "sendto", "sendmsg"];
        names.contains(&self.name) && self.text.contains("\"HTTP/1.1 201")
    }

    fn writes_wal(&self) -> bool {
        let names = ["write", "writev", "pwrite64", "pwritev", "pwritev2"];
        self.succeeded && names.contains(&self.name) && self.targets_wal()
    }

    fn syncs(&self) -> bool {
        self.succeeded && ["fsync", "fdatasync"].contains(&self.name)
    }

    fn targets_wal(&self) -> bool {
        self.target.ends_with(".db-wal")
    }
}

/// The acknowledgements (201 responses) in a trace.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of acknowledgements.
    pub acknowledged: usize,
    /// The line numbers of those sent before their write was synced.
    pub premature: Vec<usize>,
}

/// Checks, for each 201, that between the last read of its request and the
/// response the WAL was written, and that an fsync that began after this write
/// succeeded.
pub fn check_acknowledgements(trace: &str) -> Report {
    let calls = parse(trace);
    let responses: Vec<_> = calls.iter().filter(|call| call.is_201_response()).collect();
    let premature = responses.iter().filter(|response| {
        let request = calls
            .iter()
            .filter(|call| call.target == response.target && call.reads())
            .rfind(|call| call.ended < response.began);
        let Some(request) = request else { return true };
        let written = calls
            .iter()
            .find(|call| call.writes_wal() && call.began > request.ended);
        let Some(written) = written else { return true };
        !calls.iter().any(|call| {
            call.syncs()
                && call.targets_wal()
                && call.began > written.ended
                && call.ended < response.began
        })
    });
    Report {
        acknowledged: responses.len(),
        premature: premature.map(|response| response.began + 1).collect(),
    }
}

/// Returns true if the directory was synced between the first request and the first
/// response: the entry of a new WAL file must be durable too.
pub fn directory_is_synced(trace: &str, directory: &str) -> bool {
    let calls = parse(trace);
    let request = calls.iter().find(|call| call.text.contains("\"POST "));
    let response = calls.iter().find(|call| call.is_201_response());
    let request = request.unwrap();
    let response = response.unwrap();
    calls.iter().any(|call| {
        call.syncs()
            && call.target == directory
            && call.began > request.ended
            && call.ended < response.began
    })
}

/// Parses the trace, joining `<unfinished ...>` lines with their `resumed`
/// counterparts. Calls are in the order of their ends.
fn parse(trace: &str) -> Vec<Syscall<'_>> {
    let mut calls = Vec::new();
    let mut unfinished = HashMap::new();
    for (number, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let call: Option<Syscall> = unfinished.remove(thread);
            let (_, end) = resumed.split_once(" resumed>").unwrap_or_default();
            calls.extend(call.map(|call| finish(call, end, number)));
            continue;
        }
        let Some((name, arguments)) = rest.split_once('(') else {
            continue;
        };
        let target = arguments
            .split_once('<')
            .and_then(|(_, t)| t.split_once('>'));
        let call = Syscall {
            name,
            target: target.map_or("", |(target, _)| target),
            text: String::new(),
            began: number,
            ended: number,
            succeeded: false,
        };
        match arguments.strip_suffix("<unfinished ...>") {
            Some(start) => {
                let text = start.into();
                unfinished.insert(thread, Syscall { text, ..call });
            }
            None => calls.push(finish(call, arguments, number)),
        }
    }
    calls
}

fn finish<'a>(mut call: Syscall<'a>, end: &str, number: usize) -> Syscall<'a> {
    call.text.push_str(end);
    call.ended = number;
    let result = call.text.rsplit_once(" = ").map(|(_, result)| result);
    call.succeeded = result.is_some_and(|result| result.starts_with(|c: char| c.is_ascii_digit()));
    call
}

/// A request of a client, as strace prints it.
const REQUEST: &str = "8 recvfrom(9<socket:[7]>, \"POST /v1/pets HTTP/1.1\"..., 8192) = 245\n";
/// The response to it.
const RESPONSE: &str =
    "8 writev(9<socket:[7]>, [{iov_base=\"HTTP/1.1 201 Created\"...}], 2) = 238\n";
const WRITE: &str = "6 pwrite64(4</pets/petstore.db-wal>, \"\\0\"..., 4096, 56) = 4096\n";
const SYNC: &str = "6 fsync(4</pets/petstore.db-wal>) = 0\n";

#[track_caller]
fn assert_premature(lines: &[&str]) {
    let report = check_acknowledgements(&lines.concat());
    assert_eq!(report.acknowledged, 1);
    assert_eq!(report.premature, [lines.len()]);
}

#[track_caller]
fn assert_durable(lines: &[&str]) {
    let report = check_acknowledgements(&lines.concat());
    assert_eq!(report.acknowledged, 1);
    assert_eq!(report.premature, [0; 0]);
}

/// A response after the write and the fsync of its commit is accepted, also if
/// strace splits the lines of a call.
#[test]
fn a_response_after_fsync_is_accepted() {
    assert_durable(&[REQUEST, WRITE, SYNC, RESPONSE]);
    let resumed = "6 <... fdatasync resumed>) = 0\n";
    let began = "6 fdatasync(4</pets/petstore.db-wal> <unfinished ...>\n";
    assert_durable(&[REQUEST, WRITE, began, WRITE, resumed, RESPONSE]);
}

#[test]
fn a_response_without_fsync_is_premature() {
    assert_premature(&[REQUEST, WRITE, RESPONSE]);
    assert_premature(&[REQUEST, RESPONSE]);
    assert_premature(&[RESPONSE]);
    assert_premature(&[REQUEST, SYNC, RESPONSE]);
}

/// An fsync covers only writes that ended before it began.
#[test]
fn an_earlier_fsync_does_not_count() {
    assert_premature(&[WRITE, SYNC, REQUEST, RESPONSE]);
    assert_premature(&[REQUEST, SYNC, WRITE, RESPONSE]);
    let began = "6 fsync(4</pets/petstore.db-wal> <unfinished ...>\n";
    let resumed = "6 <... fsync resumed>) = 0\n";
    assert_premature(&[began, REQUEST, WRITE, resumed, RESPONSE]);
}

#[test]
fn a_failed_or_unfinished_fsync_does_not_count() {
    let failed = "6 fsync(4</pets/petstore.db-wal>) = -1 EIO (Input/output error) (INJECTED)\n";
    assert_premature(&[REQUEST, WRITE, failed, RESPONSE]);
    let began = "6 fsync(4</pets/petstore.db-wal> <unfinished ...>\n";
    let resumed = "6 <... fsync resumed>) = 0\n";
    let lines = [REQUEST, WRITE, began, RESPONSE, resumed].concat();
    assert_eq!(check_acknowledgements(&lines).premature, [4]);
}

#[test]
fn an_fsync_of_another_file_or_request_does_not_count() {
    let elsewhere = "6 fsync(3</pets/petstore.db>) = 0\n";
    assert_premature(&[REQUEST, WRITE, elsewhere, RESPONSE]);
    let other_client = REQUEST.replace("[7]", "[8]");
    assert_premature(&[&other_client, WRITE, SYNC, RESPONSE]);
    let next_request = [REQUEST, WRITE, SYNC, RESPONSE, REQUEST, RESPONSE].concat();
    let report = check_acknowledgements(&next_request);
    assert_eq!((report.acknowledged, report.premature), (2, vec![6]));
}
