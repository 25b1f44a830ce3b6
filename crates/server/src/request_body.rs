//! The body of a request, read from its connection when the service asks for it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A body that has not been read, or only in part, ends with its request.
pub struct RequestBody<'a>(Source<'a>);

enum Source<'a> {
    Empty,
    Http1(&'a (dyn ReadBody + 'a)),
    Http2(Incoming),
}

/// A connection that the body of a request is read from.
pub(super) trait ReadBody: Sync {
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RequestBodyError>>>;

    /// The size of the rest of the body.
    fn body_size(&self) -> SizeHint;
}

/// The rest of a body is malformed, or its client is gone.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the request cannot be read")]
pub struct RequestBodyError;

impl<'a> RequestBody<'a> {
    pub(super) fn empty() -> Self {
        Self(Source::Empty)
    }

    pub(super) fn http1(connection: &'a (dyn ReadBody + 'a)) -> Self {
        Self(Source::Http1(connection))
    }

    pub(super) fn http2(body: Incoming) -> Self {
        Self(Source::Http2(body))
    }
}

impl Body for RequestBody<'_> {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match &mut self.0 {
            Source::Empty => Poll::Ready(None),
            Source::Http1(connection) => {
                let bytes = ready!(connection.poll_body(cx));
                Poll::Ready(bytes.map(|bytes| bytes.map(Frame::data)))
            }
            Source::Http2(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(|_| RequestBodyError)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Empty => true,
            Source::Http1(_) => self.size_hint().exact() == Some(0),
            Source::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Empty => SizeHint::with_exact(0),
            Source::Http1(connection) => connection.body_size(),
            Source::Http2(body) => body.size_hint(),
        }
    }
}
