//! Reads what strace wrote, and judges it: was an answer given before its pet
//! was on disk?

use std::collections::HashMap;

/// The system calls by which bytes can come, go or be made safe.
pub const CALLS: &str = "trace=read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,\
                         pwrite64,pwritev,pwritev2,fsync,fdatasync";

/// A system call of any thread. Its times are line numbers of the trace: a
/// call that another one waited for ends on an earlier line.
#[derive(Debug)]
struct Call<'a> {
    name: &'a str,
    /// What its file descriptor stands for: a path, or a socket's number.
    target: &'a str,
    text: String,
    began: usize,
    ended: usize,
    succeeded: bool,
}

impl Call<'_> {
    fn reads(&self) -> bool {
        let names = ["read", "readv", "recvfrom", "recvmsg"];
        // No bytes at all is the end of the connection.
        self.succeeded && names.contains(&self.name) && !self.text.ends_with(" = 0")
    }

    fn answers_201(&self) -> bool {
        let names = ["write", "writev", "sendto", "sendmsg"];
        names.contains(&self.name) && self.text.contains("\"HTTP/1.1 201")
    }

    fn writes_to_log(&self) -> bool {
        let names = ["write", "writev", "pwrite64", "pwritev", "pwritev2"];
        self.succeeded && names.contains(&self.name) && self.is_on_log()
    }

    fn syncs(&self) -> bool {
        self.succeeded && ["fsync", "fdatasync"].contains(&self.name)
    }

    fn is_on_log(&self) -> bool {
        self.target.ends_with(".db-wal")
    }
}

/// What a trace shows of the answers with 201.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How many there were.
    pub answers: usize,
    /// Those before which the pet was not made safe, by their line numbers.
    pub too_early: Vec<usize>,
}

/// Looks, for each answer, at what came between the last bytes of its request
/// and itself: the log was written, and a sync that began after that has
/// succeeded.
pub fn judge(trace: &str) -> Verdict {
    let calls = parse(trace);
    let answers: Vec<_> = calls.iter().filter(|call| call.answers_201()).collect();
    let too_early = answers.iter().filter(|answer| {
        let request = calls
            .iter()
            .filter(|call| call.target == answer.target && call.reads())
            .rfind(|call| call.ended < answer.began);
        let Some(request) = request else { return true };
        let written = calls
            .iter()
            .find(|call| call.writes_to_log() && call.began > request.ended);
        let Some(written) = written else { return true };
        !calls.iter().any(|call| {
            call.syncs()
                && call.is_on_log()
                && call.began > written.ended
                && call.ended < answer.began
        })
    });
    Verdict {
        answers: answers.len(),
        too_early: too_early.map(|answer| answer.began + 1).collect(),
    }
}

/// Whether the folder was synced between the first request and the first
/// answer: a new log is not safe before its name is.
pub fn folder_is_synced(trace: &str, folder: &str) -> bool {
    let calls = parse(trace);
    let request = calls.iter().find(|call| call.text.contains("\"POST "));
    let answer = calls.iter().find(|call| call.answers_201());
    let (request, answer) = (request.unwrap(), answer.unwrap());
    calls.iter().any(|call| {
        call.syncs()
            && call.target == folder
            && call.began > request.ended
            && call.ended < answer.began
    })
}

/// Puts the halves of interrupted lines together. Calls are in the order in
/// which they ended.
fn parse(trace: &str) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    let mut unfinished = HashMap::new();
    for (number, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let call: Option<Call> = unfinished.remove(thread);
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
        let call = Call {
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
                unfinished.insert(thread, Call { text, ..call });
            }
            None => calls.push(finish(call, arguments, number)),
        }
    }
    calls
}

fn finish<'a>(mut call: Call<'a>, end: &str, number: usize) -> Call<'a> {
    call.text.push_str(end);
    call.ended = number;
    let result = call.text.rsplit_once(" = ").map(|(_, result)| result);
    call.succeeded = result.is_some_and(|result| result.starts_with(|c: char| c.is_ascii_digit()));
    call
}

/// A client's request, as one line.
const REQUEST: &str = "8 recvfrom(9<socket:[7]>, \"POST /v1/pets HTTP/1.1\"..., 8192) = 245\n";
/// Its answer.
const ANSWER: &str = "8 writev(9<socket:[7]>, [{iov_base=\"HTTP/1.1 201 Created\"...}], 2) = 238\n";
const WRITE: &str = "6 pwrite64(4</pets/petstore.db-wal>, \"\\0\"..., 4096, 56) = 4096\n";
const SYNC: &str = "6 fsync(4</pets/petstore.db-wal>) = 0\n";

#[track_caller]
fn assert_too_early(lines: &[&str]) {
    let verdict = judge(&lines.concat());
    assert_eq!(verdict.answers, 1);
    assert_eq!(verdict.too_early, [lines.len()]);
}

#[track_caller]
fn assert_in_order(lines: &[&str]) {
    let verdict = judge(&lines.concat());
    assert_eq!(verdict.answers, 1);
    assert_eq!(verdict.too_early, [0; 0]);
}

/// An answer after its write and its sync is in order, also if strace had to
/// interrupt the lines.
#[test]
fn an_answer_after_the_sync_is_in_order() {
    assert_in_order(&[REQUEST, WRITE, SYNC, ANSWER]);
    let resumed = "6 <... fdatasync resumed>) = 0\n";
    let begun = "6 fdatasync(4</pets/petstore.db-wal> <unfinished ...>\n";
    assert_in_order(&[REQUEST, WRITE, begun, WRITE, resumed, ANSWER]);
}

#[test]
fn an_answer_without_a_sync_is_found() {
    assert_too_early(&[REQUEST, WRITE, ANSWER]);
    assert_too_early(&[REQUEST, ANSWER]);
    assert_too_early(&[ANSWER]);
    assert_too_early(&[REQUEST, SYNC, ANSWER]);
}

/// A sync counts only for what was written before it began.
#[test]
fn a_sync_from_before_is_not_enough() {
    assert_too_early(&[WRITE, SYNC, REQUEST, ANSWER]);
    assert_too_early(&[REQUEST, SYNC, WRITE, ANSWER]);
    let begun = "6 fsync(4</pets/petstore.db-wal> <unfinished ...>\n";
    let resumed = "6 <... fsync resumed>) = 0\n";
    assert_too_early(&[begun, REQUEST, WRITE, resumed, ANSWER]);
}

#[test]
fn a_sync_that_fails_or_is_not_over_is_not_enough() {
    let failed = "6 fsync(4</pets/petstore.db-wal>) = -1 EIO (Input/output error) (INJECTED)\n";
    assert_too_early(&[REQUEST, WRITE, failed, ANSWER]);
    let begun = "6 fsync(4</pets/petstore.db-wal> <unfinished ...>\n";
    let resumed = "6 <... fsync resumed>) = 0\n";
    let lines = [REQUEST, WRITE, begun, ANSWER, resumed].concat();
    assert_eq!(judge(&lines).too_early, [4]);
}

#[test]
fn another_file_or_another_request_does_not_count() {
    let elsewhere = "6 fsync(3</pets/petstore.db>) = 0\n";
    assert_too_early(&[REQUEST, WRITE, elsewhere, ANSWER]);
    let other_client = REQUEST.replace("[7]", "[8]");
    assert_too_early(&[&other_client, WRITE, SYNC, ANSWER]);
    let next_request = [REQUEST, WRITE, SYNC, ANSWER, REQUEST, ANSWER].concat();
    let verdict = judge(&next_request);
    assert_eq!((verdict.answers, verdict.too_early), (2, vec![6]));
}
