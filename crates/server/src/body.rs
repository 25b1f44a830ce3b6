//! The body of a response: complete in memory, read in parts as the client takes them, or a
//! stream that lasts as long as the client reads.

use std::{
    error, fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hyper::body::{Body, Frame, SizeHint};

pub enum ResponseBody {
    Complete(Bytes),
    Parts(Parts),
    /// Without an end that is known in advance. Produced only as fast as the client reads it.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// A body whose length is known, and whose parts are read one by one, as fast as the client takes
/// them: no more than a few are in memory.
pub struct Parts {
    parts: Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>,
    /// The number of bytes that are still to be read.
    remaining: u64,
}

/// The rest of a body cannot be read. The response is cut off, so that the client notices.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the response cannot be read")]
pub struct BodyError(#[source] Box<dyn error::Error + Send + Sync>);

impl BodyError {
    pub fn new(cause: impl error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(cause))
    }
}

/// The parts have other lengths than the body should have.
#[derive(Debug, thiserror::Error)]
#[error("the parts of the response have another length than announced")]
struct LengthMismatch;

/// The most bytes of a body in parts that are in memory: a part that is being sent, and the next.
pub(super) const PARTS_IN_MEMORY: usize = 128 << 10;

impl Parts {
    /// Takes the next part. A body of another length than announced would be taken for a part of
    /// the next response.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        let part = ready!(self.parts.poll_next_unpin(cx));
        let part = part.unwrap_or_else(|| Err(BodyError::new(LengthMismatch)));
        let counted = part.and_then(|bytes| {
            let rest = self.remaining.checked_sub(bytes.len() as u64);
            self.remaining = rest.ok_or_else(|| BodyError::new(LengthMismatch))?;
            Ok(bytes)
        });
        if let Err(BodyError(cause)) = &counted {
            tracing::error!(%cause, "response cut off");
        }
        Poll::Ready(Some(counted))
    }
}

impl ResponseBody {
    /// Creates a body of `length` bytes, which is read in parts of at most 64 KiB.
    pub fn parts(
        length: u64,
        parts: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
    ) -> Self {
        Self::Parts(Parts {
            parts: Box::pin(parts),
            remaining: length,
        })
    }

    /// Returns the number of bytes that are in memory while the client does not read.
    pub(super) fn bytes_in_memory(&self) -> usize {
        let length = self.size_hint().lower() as usize;
        match self {
            Self::Parts(_) => length.min(PARTS_IN_MEMORY),
            Self::Complete(_) | Self::Stream(_) => length,
        }
    }

    pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(chunks))
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::Complete(Bytes::new())
    }
}

impl<T: Into<Bytes>> From<T> for ResponseBody {
    fn from(bytes: T) -> Self {
        Self::Complete(bytes.into())
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete(bytes) => bytes.fmt(f),
            Self::Parts(_) => f.write_str("Parts"),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Complete(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Complete(bytes) => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            Self::Parts(parts) => {
                let part = parts.poll_part(cx);
                part.map(|part| part.map(|part| part.map(Frame::data)))
            }
            Self::Stream(chunks) => {
                let chunk = chunks.poll_next_unpin(cx);
                chunk.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Complete(bytes) => bytes.is_empty(),
            Self::Parts(parts) => parts.remaining == 0,
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Complete(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Parts(parts) => SizeHint::with_exact(parts.remaining),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests;
