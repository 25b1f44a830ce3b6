//! The byte stream of an HTTP/2 client, whose frames are counted, and which is not read while
//! memory is short.

use std::{
    io::{self, IoSlice},
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

use super::{activity::Activity, frame_meter::FrameMeter, stream::ClientStream};

/// The time for which a connection is not read while memory is short.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

pub struct MeteredStream<S> {
    stream: ClientStream<S>,
    /// Bytes that were read to detect the protocol.
    read_ahead: BytesMut,
    meter: FrameMeter,
    activity: Arc<Activity>,
    pause: Pin<Box<Sleep>>,
}

impl<S> MeteredStream<S> {
    pub fn new(stream: ClientStream<S>, read_ahead: BytesMut, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            read_ahead,
            meter: FrameMeter::new(activity.clone()),
            activity,
            pause: Box::pin(sleep(MEMORY_PAUSE)),
        }
    }

    /// Waits while memory is short.
    fn poll_memory(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.activity.is_memory_short() {
            self.pause.as_mut().reset(Instant::now() + MEMORY_PAUSE);
            ready!(self.pause.as_mut().poll(cx));
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.poll_memory(cx));
        let start = buf.filled().len();
        if this.read_ahead.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        } else {
            let length = this.read_ahead.len().min(buf.remaining());
            buf.put_slice(&this.read_ahead[..length]);
            this.read_ahead.advance(length);
        }
        if this.meter.accepts(&buf.filled()[start..]) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
