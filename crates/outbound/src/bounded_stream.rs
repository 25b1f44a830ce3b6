//! A byte stream that fails once a peer has sent too much.
//!
//! hyper bounds the head of a response, but not the number of interim responses (1xx) before
//! it, and callers bound only the content of a body. A budget of bytes on the connection
//! bounds all of it, with chunk extensions, trailers and TLS records.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of bytes that a peer may still send.
#[derive(Debug, Clone)]
pub struct ReadBudget(Arc<AtomicUsize>);

impl ReadBudget {
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(bytes.into()))
    }

    /// Allows this many bytes from now on, regardless of the rest.
    pub fn reset(&self, bytes: usize) {
        self.0.store(bytes, Relaxed);
    }
}

/// A stream whose reads fail with [`TooMuchReceived`] once its budget is used up. The last read
/// may exceed it.
pub struct BoundedStream<S> {
    stream: S,
    budget: ReadBudget,
}

impl<S> BoundedStream<S> {
    pub fn new(stream: S, budget: ReadBudget) -> Self {
        Self { stream, budget }
    }
}

/// The peer has sent more than it may.
#[derive(Debug, thiserror::Error)]
#[error("the response is too long")]
pub struct TooMuchReceived;

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let budget = self.budget.0.load(Relaxed);
        if budget == 0 {
            return Poll::Ready(Err(io::Error::other(TooMuchReceived)));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let received = buffer.filled().len() - before;
        self.budget.reset(budget.saturating_sub(received));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
