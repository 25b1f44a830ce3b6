//! Counts the frames of an HTTP/2 connection that ask for no response: floods of them
//! (CVE-2019-9511, CVE-2019-9512, CVE-2019-9513, CVE-2019-9515) cost the server more than
//! the client.
//!
//! h2 limits the frames that it answers with a reset, but reads any number of SETTINGS,
//! PING, WINDOW_UPDATE, PRIORITY and unknown frames.

use std::sync::Arc;

use tokio::time::Instant;

use super::activity::Activity;

/// The number of frames between two checks. A client may send as many at once.
const CHECK_EVERY: u32 = 1000;

/// Frames per second that a client may send without a reason.
const FRAMES_PER_SECOND: f64 = 10.0;

/// Frames per request: its priority, and window updates for a response that fits into one
/// frame.
const FRAMES_PER_REQUEST: u64 = 10;

/// Frames per part of a response: updates of the windows of the stream and the connection.
const FRAMES_PER_CHUNK: u64 = 4;

/// The length of the preface, which precedes the first frame.
const PREFACE_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;

pub struct FrameMeter {
    activity: Arc<Activity>,
    /// Bytes to skip before the next frame.
    skip: usize,
    /// The part of the next frame's head that has arrived.
    head: [u8; HEAD_BYTES],
    head_length: usize,
    /// Control frames since the last check.
    frames: u32,
    checked_at: Instant,
    started: u64,
    sent_chunks: u64,
}

impl FrameMeter {
    pub fn new(activity: Arc<Activity>) -> Self {
        Self {
            activity,
            skip: PREFACE_BYTES,
            head: [0; HEAD_BYTES],
            head_length: 0,
            frames: 0,
            checked_at: Instant::now(),
            started: 0,
            sent_chunks: 0,
        }
    }

    /// Reads the next bytes of the connection; returns false if they belong to a flood.
    pub fn accepts(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let copied = (HEAD_BYTES - self.head_length).min(bytes.len());
            if copied == 0 {
                return true;
            }
            self.head[self.head_length..][..copied].copy_from_slice(&bytes[..copied]);
            self.head_length += copied;
            bytes = &bytes[copied..];
            if self.head_length < HEAD_BYTES {
                return true;
            }
            self.head_length = 0;
            let [high, middle, low, kind, ..] = self.head;
            self.skip = u32::from_be_bytes([0, high, middle, low]) as usize;
            if !matches!(kind, DATA | HEADERS | RST_STREAM | CONTINUATION) {
                self.frames += 1;
                if self.frames == CHECK_EVERY && !self.is_justified() {
                    return false;
                }
            }
        }
    }

    /// Returns true if the control frames since the last check are explained by the client's
    /// requests, by the responses sent to it, or by the elapsed time.
    fn is_justified(&mut self) -> bool {
        let now = Instant::now();
        let started = self.activity.started();
        let sent_chunks = self.activity.sent().chunks;
        let by_time = (now - self.checked_at).as_secs_f64() * FRAMES_PER_SECOND;
        let by_use = (started - self.started) * FRAMES_PER_REQUEST
            + (sent_chunks - self.sent_chunks) * FRAMES_PER_CHUNK;
        self.frames = 0;
        self.checked_at = now;
        self.started = started;
        self.sent_chunks = sent_chunks;
        by_time + by_use as f64 >= f64::from(CHECK_EVERY)
    }
}

#[cfg(test)]
mod tests;
