//! The receiving side of an HTTP/1.1 connection.

use std::{
    future::poll_fn,
    io, mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use hyper::body::SizeHint;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tokio_util::io::poll_read_buf;

use super::{
    Awaited, End,
    framing::{Framing, Taken},
    head::{self, Head},
};
use crate::{
    MAX_BODY_BYTES, Rejection,
    activity::Activity,
    request_body::{ReadBody, RequestBodyError},
    stream::ClientStream,
};

/// The fewest bytes that are received at a time if so many have arrived; most requests are
/// smaller.
const MIN_READ: usize = 4 << 10;

/// The most memory of the bytes that were received that an idle connection keeps.
const USUAL_CAPACITY: usize = 2 * MIN_READ;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

pub struct Receiver<S> {
    pub stream: ClientStream<S>,
    activity: Arc<Activity>,
    /// The bytes that were received, and not taken yet.
    received: BytesMut,
    /// True if they have taken more memory than a usual request.
    is_large: bool,
    /// The number of them in which a head was found not to end.
    scanned: usize,
    /// The rest of the current request's body.
    body: Framing,
    /// The number of bytes of this body that were skipped.
    skipped: usize,
    /// True if the service is done with this body, so that the rest is skipped.
    is_skipping: bool,
    /// The rest of what the client waits for before it sends this body; empty until it is
    /// flushed.
    invitation: Option<&'static [u8]>,
    /// The time since which this body has been received.
    receiving_since: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Receiver<S> {
    pub fn new(stream: ClientStream<S>, received: BytesMut, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            received,
            is_large: false,
            scanned: 0,
            body: Framing::Length(0),
            skipped: 0,
            is_skipping: false,
            invitation: None,
            receiving_since: None,
        }
    }

    /// Takes the head of the next request, if it is complete.
    pub fn take_head(&mut self) -> Result<Option<Head>, Rejection> {
        head::take(&mut self.received, &mut self.scanned)
    }

    /// Starts the body of a request whose head was taken.
    pub fn start_body(&mut self, body: Framing, expects_continue: bool) {
        self.body = body;
        self.skipped = 0;
        self.is_skipping = false;
        self.invitation = expects_continue.then_some(CONTINUE);
        self.receiving_since = None;
    }

    pub fn is_body_complete(&self) -> bool {
        self.body.is_complete()
    }

    /// Skips the rest of the body, as far as it was received. Returns true if the next request may
    /// follow on the connection.
    pub fn can_skip_body(&mut self) -> bool {
        match self.skip_body() {
            Ok(true) => true,
            // A client that still waits for its invitation may never send the body.
            Ok(false) => {
                let length = (self.skipped as u64).saturating_add(self.body.announced());
                self.invitation.is_none() && length <= MAX_BODY_BYTES as u64
            }
            Err(_) => false,
        }
    }

    /// Skips the rest of the body, as far as it was received; returns true if that is all of it.
    pub fn skip_body(&mut self) -> Result<bool, End> {
        self.is_skipping = true;
        loop {
            match self.body.take(&mut self.received) {
                Taken::End => return Ok(true),
                Taken::Incomplete => return Ok(false),
                Taken::Data(bytes) if self.skipped + bytes.len() <= MAX_BODY_BYTES => {
                    self.skipped += bytes.len();
                }
                Taken::Data(_) | Taken::Malformed => return Err(End::Close { lingers: true }),
            }
        }
    }

    /// Releases the memory of a large head or body, unless bytes are left in it.
    pub fn release_memory(&mut self) {
        if self.received.is_empty() && mem::take(&mut self.is_large) {
            self.received = BytesMut::new();
        }
    }

    /// Discards what the client sends from now on.
    pub fn discard(&mut self) {
        self.body = Framing::Malformed;
        self.received.clear();
        self.release_memory();
    }

    pub fn awaited(&self) -> Awaited {
        if !self.body.is_complete() {
            Awaited::RestOfBody
        } else if self.received.is_empty() {
            Awaited::FirstByte
        } else {
            Awaited::RestOfHead
        }
    }

    /// Receives more bytes; 0 if the client sends no more.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = match self.body.size().exact() {
            Some(expected) if !self.is_skipping => usize::try_from(expected)
                .unwrap_or(MAX_BODY_BYTES)
                .clamp(MIN_READ, MAX_BODY_BYTES),
            _ => MIN_READ,
        };
        self.received.reserve(room);
        self.is_large |= self.received.capacity() > USUAL_CAPACITY;
        poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.received)
    }

    /// Completes when the client sends no more. If it sends another request, that stays until
    /// this one is served.
    pub fn poll_disconnected(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.received.is_empty() {
            return Poll::Pending;
        }
        match ready!(self.poll_receive(cx)) {
            Ok(0) | Err(_) => Poll::Ready(()),
            Ok(_) => Poll::Pending,
        }
    }

    /// Waits for a future; fails if the client disconnects. What it sends is discarded.
    pub async fn unless_disconnected<T>(
        &mut self,
        future: impl Future<Output = T>,
    ) -> io::Result<T> {
        let disconnected = poll_fn(|cx| {
            while let Poll::Ready(received) = self.poll_receive(cx) {
                if !matches!(received, Ok(1..)) {
                    return Poll::Ready(());
                }
                self.received.clear();
            }
            Poll::Pending
        });
        tokio::select! {
            biased;
            result = future => Ok(result),
            () = disconnected => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Takes the rest of an invitation that was written in part: the socket was full.
    pub fn started_invitation(&mut self) -> &'static [u8] {
        match self.invitation.take() {
            Some(rest) if rest.len() < CONTINUE.len() => rest,
            _ => b"",
        }
    }

    /// Invites the client to send the body.
    fn poll_invite(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(rest) = &mut self.invitation else {
            return Poll::Ready(Ok(()));
        };
        while !rest.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            *rest = &rest[written..];
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.invitation = None;
        Poll::Ready(Ok(()))
    }

    fn poll_receive_body(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_invite(cx))?;
        let received = self.poll_receive(cx);
        if received.is_pending() {
            let since = *self.receiving_since.get_or_insert_with(Instant::now);
            self.activity.mark_receiving(since);
        } else if self.receiving_since.is_some() {
            self.activity.mark_serving();
        }
        received
    }

    /// Receives the next bytes of the body.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RequestBodyError>>> {
        loop {
            match self.body.take(&mut self.received) {
                Taken::Data(bytes) => {
                    // A client that has not waited needs no invitation.
                    if self.invitation == Some(CONTINUE) {
                        self.invitation = None;
                    }
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Taken::End => return Poll::Ready(None),
                Taken::Malformed => return Poll::Ready(Some(Err(RequestBodyError))),
                Taken::Incomplete => {}
            }
            if !matches!(ready!(self.poll_receive_body(cx)), Ok(1..)) {
                self.body = Framing::Malformed;
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ReadBody for Mutex<Receiver<S>> {
    fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RequestBodyError>>> {
        lock(self).poll_body(cx)
    }

    fn body_size(&self) -> SizeHint {
        lock(self).body.size()
    }
}

/// Only the body of a request that the service has is contended for, by one task.
pub fn lock<S>(receiver: &Mutex<Receiver<S>>) -> MutexGuard<'_, Receiver<S>> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner)
}
