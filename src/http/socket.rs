//! A client's socket, with what hyper leaves open.
//!
//! - A head must arrive in time, a silent connection is closed, and so is one
//!   whose client does not read.
//! - What cannot be read as a request is refused with the Error body; hyper by
//!   itself would answer with an empty one.
//! - A connection is closed so that a refusal arrives: what the client still
//!   sends is read for a moment, as the system would otherwise reset the
//!   connection and throw the answer away.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use jiff::{Timestamp, fmt::rfc2822};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::{
    error::ApiError,
    exchange::{X_REQUEST_ID, new_request_id},
    limits::Limits,
};

/// How long a client that was told goodbye is still listened to.
const LINGER: Duration = Duration::from_secs(2);

/// Where a connection stands, told by its service and asked by its socket: the
/// low two bits are the step, the next says that the last request was refused,
/// the rest counts the requests.
#[derive(Debug, Default)]
pub struct Phase(AtomicU32);

impl Phase {
    /// No byte of a request has come.
    const WAITING: u32 = 0;
    /// A part of a head has come.
    const HEAD: u32 = 1;
    /// The service has the request.
    const BUSY: u32 = 2;
    const STEP: u32 = 3;
    const REFUSED: u32 = 4;
    const ONE: u32 = 8;

    /// Of a connection whose requests the socket cannot tell apart.
    pub fn busy() -> Self {
        Self(AtomicU32::new(Self::BUSY))
    }

    pub fn begin(&self) {
        let next = (self.get() & !(Self::STEP | Self::REFUSED)).wrapping_add(Self::ONE);
        self.0.store(next | Self::BUSY, Ordering::Relaxed);
    }

    /// Ends a request. If it was refused, the client may still be sending it.
    pub fn end(&self, refused: bool) {
        self.set(Self::WAITING | if refused { Self::REFUSED } else { 0 });
    }

    /// Whether the client has not sent a single byte yet.
    pub fn is_untouched(&self) -> bool {
        self.get() == Self::WAITING
    }

    fn is_waiting(&self) -> bool {
        self.get() & Self::STEP == Self::WAITING
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, step: u32) {
        self.0
            .store(self.get() & !Self::STEP | step, Ordering::Relaxed);
    }
}

pub struct Socket<S> {
    stream: S,
    phase: Arc<Phase>,
    limits: Limits,
    /// The part of the phase for which the deadline was set.
    watched: Option<u32>,
    deadline: Instant,
    /// Rings at the deadline or earlier; it is moved only when it rings, so
    /// that a request costs no change of timers.
    timer: Pin<Box<Sleep>>,
    blocked: Option<Pin<Box<Sleep>>>,
    /// Nothing of an answer has been written that was not flushed: what is
    /// written next starts an answer.
    flushed: bool,
    /// The client was sent away; what is left is to close.
    ended: bool,
    lingering: bool,
}

/// Refuses a client before it has asked for anything.
pub async fn dismiss<S>(stream: S, limits: Limits, error: &ApiError)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut socket = Socket::new(stream, Arc::default(), limits);
    poll_fn(|cx| {
        socket.say(cx, error);
        Poll::Ready(())
    })
    .await;
    let _ = poll_fn(|cx| Pin::new(&mut socket).poll_shutdown(cx)).await;
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub fn new(stream: S, phase: Arc<Phase>, limits: Limits) -> Self {
        Self {
            stream,
            phase,
            watched: None,
            deadline: Instant::now(),
            timer: Box::pin(sleep(limits.head)),
            blocked: None,
            flushed: true,
            ended: false,
            lingering: false,
            limits,
        }
    }

    /// Whether the client has kept us waiting too long for a request.
    ///
    /// The timer is set while the service is still busy, as hyper does not ask
    /// for the next request before something wakes it.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let phase = self.phase.get();
        let (watch, limit) = match phase & Phase::STEP {
            Phase::HEAD => (phase, self.limits.head),
            _ if phase == Phase::WAITING => (phase, self.limits.head),
            _ => (phase & !Phase::STEP, self.limits.idle),
        };
        if self.watched != Some(watch) {
            self.watched = Some(watch);
            self.deadline = Instant::now() + limit;
            if self.timer.deadline() > self.deadline {
                self.timer.as_mut().reset(self.deadline);
            }
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if phase & Phase::STEP == Phase::BUSY {
                // The body has a limit of its own, and so have the handlers.
                self.deadline = now + limit;
            } else if now >= self.deadline {
                return true;
            }
            self.timer.as_mut().reset(self.deadline);
        }
        false
    }

    /// Writes an answer that no service gave, as far as the client takes it.
    fn say(&mut self, cx: &mut Context<'_>, error: &ApiError) {
        self.phase.set(Phase::WAITING | Phase::REFUSED);
        let status = error.status();
        let body = error.body();
        let mut answer = format!("HTTP/1.1 {status}\r\n").into_bytes();
        let mut headers = error.headers();
        headers.insert(X_REQUEST_ID, new_request_id());
        if let Ok(date) =
            rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now())
        {
            headers.insert(
                http::header::DATE,
                date.try_into().expect("a date is plain ASCII"),
            );
        }
        headers.insert(http::header::CONTENT_LENGTH, body.len().into());
        headers.insert(
            http::header::CONNECTION,
            http::HeaderValue::from_static("close"),
        );
        for (name, value) in &headers {
            answer.extend_from_slice(name.as_str().as_bytes());
            answer.extend_from_slice(b": ");
            answer.extend_from_slice(value.as_bytes());
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"\r\n");
        answer.extend_from_slice(&body);
        let _ = Pin::new(&mut self.stream).poll_write(cx, &answer);
    }

    /// Replaces an answer that hyper gives by itself with one of ours.
    fn replaced(&mut self, cx: &mut Context<'_>, start: &[u8]) -> bool {
        match unasked(start).filter(|_| self.flushed) {
            Some(error) => self.say(cx, &error),
            None => return false,
        }
        true
    }

    /// Ends a write that has been blocked for too long. With TLS that may also
    /// show when it is flushed.
    fn unless_blocked<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        let limit = self.limits.write;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(blocked.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Recognises an answer that hyper gives by itself: every answer of the service
/// has a request id.
fn unasked(head: &[u8]) -> Option<ApiError> {
    let status = head
        .strip_prefix(b"HTTP/1.1 4")
        .or(head.strip_prefix(b"HTTP/1.0 4"))?;
    let name = X_REQUEST_ID;
    let id = name.as_str().as_bytes();
    if head
        .windows(id.len())
        .any(|window| window.eq_ignore_ascii_case(id))
    {
        return None;
    }
    Some(match status.get(..2) {
        Some(b"31" | b"14") => ApiError::HeadTooLarge,
        _ => ApiError::InvalidRequest("the request is not valid HTTP/1.1"),
    })
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ended {
            let before = buf.filled().len();
            let read = Pin::new(&mut self.stream).poll_read(cx, buf);
            if read.is_ready() {
                if self.phase.is_waiting() && buf.filled().len() > before {
                    self.phase.set(Phase::HEAD);
                }
                return read;
            }
            if !self.is_late(cx) {
                return Poll::Pending;
            }
            if !self.phase.is_waiting() {
                let late = "the request line and headers did not arrive in time";
                self.say(cx, &ApiError::RequestTimeout(late));
            }
            self.ended = true;
        }
        // hyper does not close what ends in the middle of a head.
        let _ = ready!(self.as_mut().poll_shutdown(cx));
        // To hyper it looks as if the client had left.
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replaced(cx, buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.flushed = false;
        self.unless_blocked(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if bufs.first().is_some_and(|start| self.replaced(cx, start)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.flushed = false;
        self.unless_blocked(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.unless_blocked(cx, flushed))?;
        self.flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = &mut *self;
        if !socket.lingering {
            let closed = Pin::new(&mut socket.stream).poll_shutdown(cx);
            ready!(socket.unless_blocked(cx, closed))?;
            socket.timer.as_mut().reset(Instant::now() + LINGER);
        }
        let mut space = [0; 4096];
        while socket.timer.as_mut().poll(cx).is_pending() {
            let mut unread = ReadBuf::new(&mut space);
            let read = Pin::new(&mut socket.stream).poll_read(cx, &mut unread);
            let refused = socket.phase.get() & Phase::REFUSED != 0;
            match read {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => socket.lingering = true,
                // Nothing was on its way, and nothing is to be expected.
                Poll::Pending if !refused && !socket.lingering => break,
                Poll::Pending => {
                    socket.lingering = true;
                    return Poll::Pending;
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
