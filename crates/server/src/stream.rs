//! A client's byte stream, with features that hyper lacks.
//!
//! - Timeouts: a request head must arrive in time (slowloris), an idle
//!   connection is closed, and so is one whose client does not read, or reads
//!   at a trickle.
//! - Error bodies: hyper answers what it cannot parse with an empty 400 or 431
//!   of its own. Such a response is replaced by the service's.
//! - Request boundaries: hyper gets the bytes of one request at a time, so that the start of
//!   the next head is recognised, and the head timeout applies to it.
//! - Lingering close: after a rejection the client may still be sending. Its
//!   bytes are read for a moment; otherwise the kernel would reset the
//!   connection and discard the response.

mod head;

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    mem::{self, MaybeUninit},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::{
    Limits, Rejection, Response, activity::Activity, frame_meter::FrameMeter,
    head_scanner::HeadScanner, protocol::ReadAhead, request_state::RequestState,
};
pub use head::serialize_head;
use head::{parse_error_status, serialize};

/// Up to this size, a head and its body are copied into one buffer: a plain write costs the
/// kernel less than a vectored one.
const MAX_JOINED: usize = 4096;

/// The time for which a rejected client's bytes are still read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// The time for which an HTTP/2 connection is not read while memory is short.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

pub struct ClientStream<S, R> {
    stream: S,
    /// Bytes that were read already, by protocol detection or behind a request.
    read_ahead: BytesMut,
    /// Set on HTTP/1.1.
    scanner: Option<HeadScanner>,
    /// Set on HTTP/2.
    frame_meter: Option<FrameMeter>,
    /// The arrival time of the first byte of the first request, until a deadline is set.
    first_byte_at: Option<Instant>,
    activity: Arc<Activity>,
    limits: Limits,
    /// Renders the response to a rejected client.
    reject: R,
    /// The part of the request's state for which the deadline was set, and the time from which
    /// it counts.
    watched: Option<u32>,
    watched_since: Instant,
    deadline: Instant,
    /// Fires at the deadline or earlier. It is reset only when it fires, so
    /// that a request costs no timer operation.
    timer: Pin<Box<Sleep>>,
    /// The time since which a write is blocked because the client does not read.
    blocked_at: Option<Instant>,
    /// Runs while a write is blocked.
    write_timer: Option<Pin<Box<Sleep>>>,
    /// The time for which writes were blocked since the client's rate was last checked, and
    /// the bytes written since the first of them blocked.
    blocked_for: Duration,
    written: u64,
    /// True if everything written was flushed, so that the next write starts a response.
    flushed: bool,
    /// True once the client has timed out: the connection only has to be closed.
    ended: bool,
    /// True once the connection is being closed: everything is written, or the client has not
    /// read it.
    closing: bool,
    lingering: bool,
    closed: bool,
}

/// Sends a response to a client that has not sent a request, and closes.
pub async fn reject<S>(stream: S, activity: &Arc<Activity>, limits: &Limits, response: Response)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut response = Some(response);
    let reject = |_| Response::default();
    let mut stream = ClientStream::new(
        stream,
        ReadAhead::default(),
        activity.clone(),
        limits.clone(),
        reject,
    );
    poll_fn(|cx| {
        if let Some(response) = response.take() {
            stream.send(cx, response);
        }
        Poll::Ready(())
    })
    .await;
    let _ = poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await;
}

impl<S, R> ClientStream<S, R>
where
    S: AsyncRead + AsyncWrite + Unpin,
    R: Fn(Rejection) -> Response,
{
    pub fn new(
        stream: S,
        read_ahead: ReadAhead,
        activity: Arc<Activity>,
        limits: Limits,
        reject: R,
    ) -> Self {
        let now = Instant::now();
        Self {
            stream,
            first_byte_at: read_ahead.first_byte_at(),
            read_ahead: read_ahead.into_bytes(),
            scanner: None,
            frame_meter: None,
            activity,
            reject,
            watched: None,
            watched_since: now,
            deadline: now,
            timer: Box::pin(sleep(limits.head_timeout)),
            blocked_at: None,
            write_timer: None,
            blocked_for: Duration::ZERO,
            written: 0,
            flushed: true,
            ended: false,
            closing: false,
            lingering: false,
            closed: false,
            limits,
        }
    }

    /// Scans requests as they are read.
    pub fn with_scanner(mut self, scanner: HeadScanner) -> Self {
        self.scanner = Some(scanner);
        self
    }

    /// Counts frames as they are read.
    pub fn with_frame_meter(mut self, meter: FrameMeter) -> Self {
        self.frame_meter = Some(meter);
        self
    }

    /// Returns true if the client has exceeded the head or idle timeout.
    ///
    /// The timer is armed while the service is still busy, because hyper does
    /// not read again until something wakes it.
    fn is_timed_out(&mut self, cx: &mut Context<'_>) -> bool {
        let state = self.activity.request.get() & !RequestState::RESPONSE_READY;
        let (watched, limit) = match state & RequestState::PHASE {
            RequestState::HEAD => (state, self.limits.head_timeout),
            _ if state == RequestState::IDLE => (state, self.limits.head_timeout),
            _ => (state & !RequestState::PHASE, self.limits.idle_timeout),
        };
        if self.watched != Some(watched) {
            self.watched = Some(watched);
            let first_byte_at = self.first_byte_at.take();
            let start = first_byte_at.filter(|_| state & RequestState::PHASE == RequestState::HEAD);
            self.watched_since = start.unwrap_or_else(Instant::now);
            self.deadline = self.watched_since + limit;
            if self.timer.deadline() > self.deadline {
                self.timer.as_mut().reset(self.deadline);
            }
        }
        match state & RequestState::PHASE {
            RequestState::IDLE => self.activity.mark_idle(self.watched_since),
            _ => self.activity.mark_receiving(self.watched_since),
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if state & RequestState::PHASE == RequestState::BUSY {
                // Bodies and handlers have timeouts of their own.
                self.deadline = now + limit;
            } else if now >= self.deadline {
                return true;
            }
            self.timer.as_mut().reset(self.deadline);
        }
        false
    }

    /// Fails if the client has disconnected. hyper does not read while the service has a
    /// request, so that a client may shut down its sending side.
    fn poll_disconnect(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.read_ahead.is_empty() {
            let mut bytes = [0; 1024];
            let mut buf = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf)? {
                Poll::Ready(()) if buf.filled().is_empty() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                // The next request, which stays until the response is sent.
                Poll::Ready(()) => self.read_ahead.extend_from_slice(buf.filled()),
                Poll::Pending => {}
            }
        }
        Ok(())
    }

    /// Returns true while reading is paused because memory is short. HTTP/1.1 is never paused:
    /// such a connection has one request at a time.
    fn is_paused(&mut self, cx: &mut Context<'_>) -> bool {
        while self.frame_meter.is_some() && self.activity.is_memory_short() {
            self.timer.as_mut().reset(Instant::now() + MEMORY_PAUSE);
            if self.timer.as_mut().poll(cx).is_pending() {
                return true;
            }
        }
        false
    }

    /// Reads bytes of one request.
    fn poll_read_request(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read_ahead.is_empty() {
            let start = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            let end = start + self.scan(&mut buf.filled_mut()[start..]);
            if end < buf.filled().len() {
                self.read_ahead = buf.filled()[end..].into();
                buf.set_filled(end);
            }
        } else {
            let mut ahead = mem::take(&mut self.read_ahead);
            let length = ahead.len().min(buf.remaining());
            let scanned = self.scan(&mut ahead[..length]);
            buf.put_slice(&ahead[..scanned]);
            ahead.advance(scanned);
            // The memory is freed with the last byte.
            if !ahead.is_empty() {
                self.read_ahead = ahead;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Scans the bytes that were read next, and returns how many of them belong to the same
    /// request.
    fn scan(&mut self, bytes: &mut [u8]) -> usize {
        let Some(scanner) = &mut self.scanner else {
            return bytes.len();
        };
        let request = &self.activity.request;
        if !bytes.is_empty() && request.is_idle() && !scanner.is_in_body() {
            request.set_phase(RequestState::HEAD);
        }
        scanner.scan(bytes)
    }

    /// Writes a response without hyper's knowledge, as much of it as fits into the socket
    /// buffer.
    fn send(&mut self, cx: &mut Context<'_>, response: Response) {
        self.activity
            .request
            .set_phase(RequestState::IDLE | RequestState::REJECTED);
        let _ = Pin::new(&mut self.stream).poll_write(cx, &serialize(response));
    }

    /// Replaces a response that hyper generated itself, not the service. A response that hyper
    /// appends to one that the client has not read yet is not recognised.
    fn replace_unsolicited(&mut self, cx: &mut Context<'_>, start: &[u8]) -> bool {
        if !self.flushed || self.activity.request.expects_write() {
            return false;
        }
        let Some(rejection) = parse_error_status(start) else {
            return false;
        };
        let response = (self.reject)(rejection);
        self.send(cx, response);
        true
    }

    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.flushed = false;
        self.activity.request.response_started();
        if let Poll::Ready(Ok(bytes)) = written {
            self.written += bytes as u64;
        }
        self.with_min_rate(cx, written)
    }

    /// Fails a write if the client reads at less than the minimum rate. Only the time during
    /// which writes are blocked counts. With TLS, the flush can block as well.
    fn with_min_rate<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() && self.blocked_at.is_none() {
            return written;
        }
        let now = Instant::now();
        match self.blocked_at.replace(now) {
            Some(blocked_at) => self.blocked_for += now - blocked_at,
            None if self.blocked_for.is_zero() => self.written = 0,
            None => {}
        }
        self.activity.block(now);
        let period = self.limits.write_timeout;
        if self.blocked_for >= period {
            let min_written = f64::from(self.limits.min_read_rate) * period.as_secs_f64();
            if (self.written as f64) < min_written {
                self.closing = true;
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.blocked_for = Duration::ZERO;
            self.written = 0;
            self.write_timer = None;
        }
        if written.is_ready() {
            self.blocked_at = None;
            self.write_timer = None;
            return written;
        }
        let check_in = period - self.blocked_for;
        let timer = self
            .write_timer
            .get_or_insert_with(|| Box::pin(sleep(check_in)));
        if timer.as_mut().poll(cx).is_ready() {
            // Checked on the next poll.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<S, R> AsyncRead for ClientStream<S, R>
where
    S: AsyncRead + AsyncWrite + Unpin,
    R: Fn(Rejection) -> Response + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ended {
            if self.is_paused(cx) {
                return Poll::Pending;
            }
            let start = buf.filled().len();
            let read = self.poll_read_request(cx, buf);
            if let Some(meter) = &mut self.frame_meter
                && read.is_ready()
                && !meter.accepts(&buf.filled()[start..])
            {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            let request = &self.activity.request;
            if read.is_ready() {
                if request.is_busy() && !request.is_multiplexed() {
                    self.activity.mark_serving();
                }
                return read;
            }
            if request.is_multiplexed() || !self.is_timed_out(cx) {
                return Poll::Pending;
            }
            if !self.activity.request.is_idle() {
                let response = (self.reject)(Rejection::HeadTimeout);
                self.send(cx, response);
            }
            self.ended = true;
        }
        // hyper does not close a connection that ends in the middle of a head.
        let _ = ready!(self.as_mut().poll_shutdown(cx));
        // To hyper it looks like end of file.
        Poll::Ready(Ok(()))
    }
}

impl<S, R> AsyncWrite for ClientStream<S, R>
where
    S: AsyncRead + AsyncWrite + Unpin,
    R: Fn(Rejection) -> Response + Unpin,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replace_unsolicited(cx, buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if bufs
            .first()
            .is_some_and(|start| self.replace_unsolicited(cx, start))
        {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let stream = Pin::new(&mut self.stream);
        let written = match bufs {
            [buf] => stream.poll_write(cx, buf),
            _ if bufs.iter().map(|buf| buf.len()).sum::<usize>() <= MAX_JOINED => {
                let mut space = [MaybeUninit::uninit(); MAX_JOINED];
                let mut joined = ReadBuf::uninit(&mut space);
                bufs.iter().for_each(|buf| joined.put_slice(buf));
                stream.poll_write(cx, joined.filled())
            }
            _ => stream.poll_write_vectored(cx, bufs),
        };
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.with_min_rate(cx, flushed))?;
        self.flushed = true;
        if self.activity.is_blocked() {
            self.activity.unblock();
            // hyper may have a response that it holds back until this flush, and does not look
            // for it again: if the service left a body unread, it reads the next request early.
            cx.waker().wake_by_ref();
        }
        if self.activity.is_waiting() {
            self.poll_disconnect(cx)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.closed {
            return Poll::Ready(Ok(()));
        }
        // If the service left a body unread, hyper closes before it has written all of the
        // response. It continues to write whenever it is polled.
        let is_http1 = this.scanner.is_some();
        if is_http1 && this.blocked_at.is_some() && !this.closing && !this.ended {
            return Poll::Pending;
        }
        this.closing = true;
        if !this.lingering {
            let closed = Pin::new(&mut this.stream).poll_shutdown(cx);
            ready!(this.with_min_rate(cx, closed))?;
            let now = Instant::now();
            this.timer.as_mut().reset(now + LINGER_TIMEOUT);
            // It has been served, so it may be evicted.
            this.activity.mark_idle(now);
        }
        let mut scratch = [0; 4096];
        while this.timer.as_mut().poll(cx).is_pending() {
            let mut unread = ReadBuf::new(&mut scratch);
            match Pin::new(&mut this.stream).poll_read(cx, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => this.lingering = true,
                // Nothing is in transit, and nothing is expected.
                Poll::Pending if !this.activity.request.is_rejected() && !this.lingering => break,
                Poll::Pending => {
                    this.lingering = true;
                    return Poll::Pending;
                }
                Poll::Ready(_) => break,
            }
        }
        this.closed = true;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
