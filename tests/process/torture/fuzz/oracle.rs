//! Checks the bytes that the service sent back.

use std::{collections::BTreeMap, io::Read};

use flate2::read::GzDecoder;
use serde_json::Value;

use super::requests::{HostileInput, Protocol};

/// Every status that a request may get while the service is well.
const DESIGNED: &[u16] = &[
    200, 201, 204, 304, 307, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 415, 422, 429, 431,
    505,
];

/// Returns the statuses of the responses, where they are not compressed.
pub fn check(input: &HostileInput, received: &[u8]) -> Result<Vec<u16>, String> {
    match input.protocol {
        Protocol::Http1 => {
            let may_be_head = input.bytes.windows(4).any(|part| part == b"HEAD");
            check_http1(received, may_be_head)
        }
        Protocol::Http2 => check_http2(received),
    }
}

/// Checks a sequence of responses. The response to a HEAD request has a length, but
/// no body.
fn check_http1(mut received: &[u8], may_be_head: bool) -> Result<Vec<u16>, String> {
    let mut statuses = Vec::new();
    while !received.is_empty() {
        let end = received.windows(4).position(|part| part == b"\r\n\r\n");
        let end = end.ok_or("an incomplete response head")?;
        let head = str::from_utf8(&received[..end]).map_err(|_| "a head that is not text")?;
        received = &received[end + 4..];
        let mut lines = head.split("\r\n");
        let status = status(lines.next().unwrap_or_default())?;
        if status == 100 {
            continue;
        }
        if !DESIGNED.contains(&status) {
            return Err(format!("status {status}"));
        }
        statuses.push(status);
        let mut headers = BTreeMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").ok_or("a malformed header")?;
            if headers.insert(name.to_ascii_lowercase(), value).is_some() && name != "vary" {
                return Err(format!("{name} twice"));
            }
        }
        let header = |name: &str| headers.get(name).copied();
        for name in ["x-request-id", "date"] {
            header(name).ok_or_else(|| format!("no {name}"))?;
        }
        if header("x-content-type-options") != Some("nosniff") {
            return Err("no nosniff".into());
        }
        if [204, 304].contains(&status) {
            continue;
        }
        let length: usize = header("content-length")
            .and_then(|length| length.parse().ok())
            .ok_or("no content-length")?;
        let is_head = may_be_head && (received.is_empty() || received.starts_with(b"HTTP/1."));
        if is_head {
            continue;
        }
        let (body, rest) = received
            .split_at_checked(length)
            .ok_or("an incomplete body")?;
        received = rest;
        let is_json = header("content-type") == Some("application/json");
        if status >= 400 && !is_json {
            return Err("an error that is not JSON".into());
        }
        let mut decoded = Vec::new();
        let body = match header("content-encoding") {
            Some("gzip") => {
                let mut gzip = GzDecoder::new(body);
                gzip.read_to_end(&mut decoded)
                    .map_err(|cause| cause.to_string())?;
                &decoded
            }
            Some("zstd") => {
                decoded = zstd::decode_all(body).map_err(|cause| cause.to_string())?;
                &decoded
            }
            _ => body,
        };
        if is_json {
            check_json(body, Some(status))?;
        }
    }
    Ok(statuses)
}

fn status(line: &str) -> Result<u16, String> {
    let status = line
        .strip_prefix("HTTP/1.1 ")
        .or(line.strip_prefix("HTTP/1.0 "));
    let status = status.and_then(|rest| rest.get(..3)?.parse().ok());
    status.ok_or_else(|| format!("a malformed status line: {line}"))
}

/// Checks the frames, and the bodies that they carry: the heads are compressed, but
/// the body of an error has its status.
fn check_http2(mut received: &[u8]) -> Result<Vec<u16>, String> {
    let mut bodies = BTreeMap::<u32, Vec<u8>>::new();
    let mut ended = Vec::new();
    while !received.is_empty() {
        let (head, rest) = received.split_at_checked(9).ok_or("an incomplete frame")?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, rest) = rest.split_at_checked(length).ok_or("an incomplete frame")?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match head[3] {
            0 => {
                bodies.entry(stream).or_default().extend_from_slice(payload);
                if head[4] & 1 == 1 {
                    ended.push(stream);
                }
            }
            // :status 500, the last entry of its kind in HPACK's static table.
            1 if payload.first() == Some(&0x8e) => return Err("status 500".into()),
            kind if kind < 10 => {}
            kind => return Err(format!("a frame of type {kind}")),
        }
        received = rest;
    }
    for stream in ended {
        let body = &bodies[&stream];
        if body.starts_with(b"{\"code\"") || body.starts_with(b"[") {
            check_json(body, None)?;
        }
    }
    Ok(Vec::new())
}

/// Checks a JSON body: that of an error has exactly the three members.
fn check_json(body: &[u8], status: Option<u16>) -> Result<(), String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("body: {error}"))?;
    if status.is_some_and(|status| status < 400) || value.is_array() {
        return Ok(());
    }
    let members = value.as_object().ok_or("an error that is not an object")?;
    let names: Vec<_> = members.keys().map(String::as_str).collect();
    if names != ["code", "message", "status"] {
        return Err(format!("an error with the members {names:?}"));
    }
    let own = value["status"]
        .as_u64()
        .and_then(|own| u16::try_from(own).ok());
    let own = own
        .filter(|own| DESIGNED.contains(own))
        .ok_or("an undesigned status")?;
    if status.is_some_and(|status| status != own) {
        return Err(format!("an error with status {own}"));
    }
    for name in ["code", "message"] {
        if value[name].as_str().is_none_or(str::is_empty) {
            return Err(format!("an error without {name}"));
        }
    }
    Ok(())
}

/// The control: each of these must be found.
#[test]
fn bad_responses_are_found() {
    let response = |status: &str, headers: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ndate: now\r\nx-request-id: 1\r\nx-content-type-options: nosniff\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        )
    };
    const JSON: &str = "content-type: application/json\r\n";
    let error = r#"{"code":"not_found","message":"no","status":404}"#;
    let good = response("404 Not Found", JSON, error);
    let list = response("200 OK", JSON, "[]");
    let head = response("200 OK", JSON, "").replace("length: 0", "length: 2");
    let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{list}");
    for (good, may_be_head, statuses) in [
        ("", false, vec![]),
        (&good, false, vec![404]),
        (&interim, false, vec![200]),
        (&format!("{list}{good}"), false, vec![200, 404]),
        (&format!("{head}{good}"), true, vec![200, 404]),
    ] {
        assert_eq!(
            check_http1(good.as_bytes(), may_be_head),
            Ok(statuses),
            "{good}"
        );
    }
    for bad in [
        "garbage".into(),
        good[..good.len() - 1].into(),
        good.replace("404 Not", "500 Not"),
        good.replace("404 Not", "503 Not"),
        good.replace("HTTP/1.1", "HTTP/2"),
        good.replace("application/json", "text/plain"),
        good.replace("x-request-id: 1\r\n", ""),
        good.replace("x-content-type-options: nosniff\r\n", ""),
        good.replace("content-length", "content-lengthy"),
        format!("{good}garbage"),
        response("404 Not Found", JSON, "Not Found"),
        response("404 Not Found", JSON, "[]x"),
        response("404 Not Found", JSON, r#"{"code":"a","message":"b"}"#),
        response(
            "404 Not Found",
            JSON,
            r#"{"code":"a","message":"b","status":400}"#,
        ),
        response(
            "404 Not Found",
            JSON,
            r#"{"code":"a","message":"","status":404}"#,
        ),
        response(
            "404 Not Found",
            JSON,
            r#"{"code":1,"message":"b","status":404}"#,
        ),
        response(
            "404 Not Found",
            JSON,
            r#"{"code":"a","message":"b","status":404,"x":1}"#,
        ),
        head.clone() + &good,
    ] {
        assert!(check_http1(bad.as_bytes(), false).is_err(), "{bad}");
    }
    let frame = |kind: u8, flags: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    };
    assert_eq!(check_http2(&frame(0, 1, error.as_bytes())), Ok(vec![]));
    for bad in [
        frame(0, 1, error.replace("404", "500").as_bytes()),
        frame(0, 1, b"{\"code\":\"a\"}"),
        frame(0, 1, b"[")[..10].to_vec(),
        frame(0, 1, b"[1")[..].to_vec(),
        frame(1, 5, &[0x8e]),
        frame(99, 0, &[]),
        b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
    ] {
        assert!(check_http2(&bad).is_err(), "{}", bad.escape_ascii());
    }
}
