//! A client's byte stream that does not wait for ever for its client.
//!
//! - A client that does not read, or reads at a trickle, fails the write.
//! - Lingering close: after a rejection the client may still be sending. Its bytes are read for a
//!   moment; otherwise the kernel would reset the connection and discard the response.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::{Limits, activity::Activity};

/// The time for which the bytes of a rejected client are still read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

pub struct ClientStream<S> {
    stream: S,
    activity: Arc<Activity>,
    write_timeout: Duration,
    min_read_rate: u32,
    /// The time since which a write is blocked because the client does not read.
    blocked_at: Option<Instant>,
    /// Runs while a write is blocked.
    write_timer: Option<Pin<Box<Sleep>>>,
    /// The time for which writes were blocked since the client's rate was last checked, and
    /// the bytes written since the first of them blocked.
    blocked_for: Duration,
    written: u64,
    /// Runs once the sending side is shut down, until the client has closed its side.
    linger_timer: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientStream<S> {
    pub fn new(stream: S, activity: Arc<Activity>, limits: &Limits) -> Self {
        Self {
            stream,
            activity,
            write_timeout: limits.write_timeout,
            min_read_rate: limits.min_read_rate,
            blocked_at: None,
            write_timer: None,
            blocked_for: Duration::ZERO,
            written: 0,
            linger_timer: None,
        }
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
        let period = self.write_timeout;
        if self.blocked_for >= period {
            let min_written = f64::from(self.min_read_rate) * period.as_secs_f64();
            if (self.written as f64) < min_written {
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

    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written += bytes as u64;
        }
        self.with_min_rate(cx, written)
    }

    /// Shuts down the sending side, and reads what the client is still sending. If it `lingers`,
    /// that may be on its way.
    pub async fn close(&mut self, lingers: bool) {
        let _ = poll_fn(|cx| self.poll_close(cx, lingers)).await;
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, mut lingers: bool) -> Poll<io::Result<()>> {
        if self.linger_timer.is_none() {
            let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.with_min_rate(cx, closed))?;
            self.activity.unblock();
            // It has been served, so it may be evicted.
            self.activity.mark_idle(Instant::now());
        } else {
            // It was pending before, because something was or may be on its way.
            lingers = true;
        }
        let timer = self
            .linger_timer
            .get_or_insert_with(|| Box::pin(sleep(LINGER_TIMEOUT)));
        let mut scratch = [0; 4096];
        while timer.as_mut().poll(cx).is_pending() {
            let mut unread = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => lingers = true,
                Poll::Pending if lingers => return Poll::Pending,
                // Nothing is in transit, and nothing is expected.
                Poll::Pending | Poll::Ready(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        ready!(self.with_min_rate(cx, flushed))?;
        self.activity.unblock();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_close(cx, false)
    }
}
