//! The body of a response: complete in memory, or a stream that lasts as long as the client
//! reads.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

pub enum ResponseBody {
    Complete(Full<Bytes>),
    /// Produced only as fast as the client reads it.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl ResponseBody {
    pub fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(chunks))
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::Complete(Full::default())
    }
}

impl<T: Into<Bytes>> From<T> for ResponseBody {
    fn from(bytes: T) -> Self {
        Self::Complete(Full::new(bytes.into()))
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete(body) => body.fmt(f),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Complete(body) => Pin::new(body).poll_frame(cx),
            Self::Stream(chunks) => {
                let chunk = chunks.poll_next_unpin(cx);
                chunk.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Complete(body) => body.is_end_stream(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Complete(body) => body.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
