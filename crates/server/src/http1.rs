//! HTTP/1.1 on one connection: receives a request, calls the service, sends its response, and
//! starts again.

mod framing;
mod head;
mod receiver;
mod serializer;

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use http::{Method, Request, Version, header, request, response};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};

use super::{
    Client, Limits, Rejection, Response, ResponseBody, Server, Service,
    activity::{Activity, Eviction, HeldMemory},
    closing::{CLOSE_TIMEOUT, FIRST_REQUEST_GRACE},
    connections::{Slot, Stop},
    limits::max_body_bytes,
    protocol::ReadAhead,
    request_body::RequestBody,
    stream::ClientStream,
};
use head::Head;
use receiver::{Receiver, lock};
use serializer::{Length, Persistence, closes_connection, has_no_body, write_head};

/// A request body up to this size is not charged to the connection.
const SMALL_BODY_BYTES: usize = 4 << 10;

/// Up to this size, a body is copied behind its head and both are sent at once.
const MAX_JOINED: usize = 16 << 10;

/// The reason why a connection ends.
pub enum End {
    /// At once: the client is gone, or must notice that a response is not complete.
    Abort,
    /// Everything was sent. If the client may still be sending, that is read for a moment.
    Close { lingers: bool },
    /// The client is told why its request is not served.
    Reject(Rejection),
    /// The same, if the connection was evicted before the service had a request.
    RejectEvicted(Eviction),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Abort
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve<S: Service>(
    server: &Server<S>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    read_ahead: ReadAhead,
    slot: &Slot,
    limits: &Limits,
) {
    let mut connection = Connection::new(stream, read_ahead, slot, limits);
    let end = loop {
        if let Err(end) = connection.serve_request(server).await {
            break end;
        }
    };
    match end {
        End::Abort => {}
        End::Close { lingers } => connection.close(lingers).await,
        End::Reject(rejection) => connection.reject(server.service.reject(rejection)).await,
        End::RejectEvicted(eviction) => connection.reject_evicted(server, eviction).await,
    }
}

/// Sends a response to a client that has not sent a request, and closes its connection.
pub(super) async fn reject(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    slot: &Slot,
    limits: &Limits,
    response: Response,
) {
    let mut connection = Connection::new(stream, ReadAhead::default(), slot, limits);
    connection.reject(response).await;
}

/// Tells a client that has not sent a request that its connection was evicted, and closes it.
pub(super) async fn reject_evicted<S: Service>(
    server: &Server<S>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    slot: &Slot,
    eviction: Eviction,
) {
    let mut connection = Connection::new(stream, ReadAhead::default(), slot, &server.limits);
    connection.reject_evicted(server, eviction).await;
}

struct Connection<'a, S> {
    /// Only the service's own request body locks it while the service has a request.
    receiver: Mutex<Receiver<S>>,
    slot: &'a Slot,
    limits: &'a Limits,
    /// The arrival time of the first byte of the first request, if it was received already.
    first_byte_at: Option<Instant>,
    /// True until the service has had a request.
    is_new: bool,
    /// The time at which the client must have sent a request.
    deadline: Instant,
    /// Fires at the deadline or earlier. It is reset only when it fires, so that a request
    /// costs no timer operation.
    timer: Pin<Box<Sleep>>,
}

/// The next thing that a client has to send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    FirstByte,
    RestOfHead,
    /// Of a body that the service has not read.
    RestOfBody,
}

impl<'a, S: AsyncRead + AsyncWrite + Send + Unpin> Connection<'a, S> {
    fn new(stream: S, read_ahead: ReadAhead, slot: &'a Slot, limits: &'a Limits) -> Self {
        let stream = ClientStream::new(stream, slot.activity.clone(), limits);
        let first_byte_at = read_ahead.first_byte_at();
        let deadline = Instant::now() + limits.head_timeout;
        Self {
            receiver: Mutex::new(Receiver::new(
                stream,
                read_ahead.into_bytes(),
                slot.activity.clone(),
            )),
            slot,
            limits,
            first_byte_at,
            is_new: true,
            deadline,
            timer: Box::pin(sleep_until(deadline)),
        }
    }

    fn activity(&self) -> &'a Arc<Activity> {
        &self.slot.activity
    }

    fn receiver(&mut self) -> &mut Receiver<S> {
        self.receiver
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&mut self) -> &mut ClientStream<S> {
        &mut self.receiver().stream
    }

    async fn serve_request<T: Service>(&mut self, server: &Server<T>) -> Result<(), End> {
        let Head {
            parts,
            framing,
            keeps_alive,
            expects_continue,
        } = self.next_head().await?;
        self.is_new = false;
        self.first_byte_at = None;
        let activity = self.activity();
        activity.mark_serving();
        let version = parts.version;
        let is_head = parts.method == Method::HEAD;
        let body_bytes = max_body_bytes(&framing.size());
        let held = (body_bytes > SMALL_BODY_BYTES).then(|| HeldMemory::new(activity, body_bytes));
        self.receiver().start_body(framing, expects_continue);
        let response = self.call(server, parts).await?;
        drop(held);

        let (head, body) = response.into_parts();
        let closes = !keeps_alive
            || self.slot.closes_after_response()
            || activity.evicted().is_some()
            || closes_connection(&head)
            || !self.receiver().can_skip_body();
        self.finish_invitation().await?;
        let persistence = match version {
            _ if closes => Persistence::Close,
            Version::HTTP_10 => Persistence::KeepAlive,
            _ => Persistence::Default,
        };
        activity.set_response_bytes(body.bytes_in_memory());
        let status = head.status;
        match body {
            ResponseBody::Stream(chunks) => {
                return Err(self.send_stream(head, chunks, version).await);
            }
            ResponseBody::Complete(bytes) => {
                self.send(head, bytes, is_head, persistence).await?;
            }
            body @ ResponseBody::Parts(_) => self.send_parts(head, body, persistence).await?,
        }
        if closes {
            let lingers = status.as_u16() >= 400 || !self.receiver().is_body_complete();
            return Err(End::Close { lingers });
        }
        Ok(())
    }

    /// Receives the head of the next request.
    async fn next_head(&mut self) -> Result<Head, End> {
        let mut awaited = None;
        loop {
            let receiver = self.receiver();
            if receiver.skip_body()?
                && let Some(head) = receiver.take_head().map_err(End::Reject)?
            {
                return Ok(head);
            }
            let next = match awaited {
                // An empty line in front of a request does not extend the deadline.
                Some(Awaited::RestOfHead) => Awaited::RestOfHead,
                _ => receiver.awaited(),
            };
            if awaited != Some(next) {
                awaited = Some(next);
                self.start_waiting(next);
            }
            self.receive(next).await?;
        }
    }

    /// Sets the deadline for what the client has to send next.
    fn start_waiting(&mut self, awaited: Awaited) {
        // A new connection has been waiting since it was accepted.
        if self.is_new && awaited == Awaited::FirstByte {
            return;
        }
        self.receiver().release_memory();
        let since = self.first_byte_at.take().unwrap_or_else(Instant::now);
        let limit = match awaited {
            Awaited::FirstByte => {
                self.activity().mark_idle(since);
                self.limits.idle_timeout
            }
            Awaited::RestOfHead | Awaited::RestOfBody => {
                self.activity().mark_receiving(since);
                self.limits.head_timeout
            }
        };
        self.set_deadline(since + limit);
    }

    fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
    }

    /// Receives more bytes before the deadline.
    async fn receive(&mut self, awaited: Awaited) -> Result<(), End> {
        let deadline = self.deadline;
        let receiver = self
            .receiver
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let timer = &mut self.timer;
        let slot = self.slot;
        let mut received = pin!(poll_fn(|cx| {
            match receiver.poll_receive(cx) {
                Poll::Ready(Ok(1..)) => return Poll::Ready(Ok(())),
                Poll::Ready(_) => return Poll::Ready(Err(End::Close { lingers: false })),
                Poll::Pending => {}
            }
            while timer.as_mut().poll(cx).is_ready() {
                if timer.deadline() >= deadline {
                    return Poll::Ready(Err(match awaited {
                        Awaited::RestOfHead => End::Reject(Rejection::HeadTimeout),
                        Awaited::FirstByte | Awaited::RestOfBody => End::Close { lingers: false },
                    }));
                }
                timer.as_mut().reset(deadline);
            }
            Poll::Pending
        }));
        let stop = tokio::select! {
            biased;
            received = &mut received => return received,
            stop = slot.stopped() => stop,
        };
        match (stop, awaited) {
            (Stop::Evicted(Eviction::Reset), _) => Err(End::Abort),
            (Stop::Evicted(eviction), Awaited::RestOfHead) => Err(End::RejectEvicted(eviction)),
            (Stop::Evicted(eviction), Awaited::FirstByte) if self.is_new => {
                Err(End::RejectEvicted(eviction))
            }
            // The first request may be on its way.
            (Stop::Shutdown, Awaited::FirstByte) if self.is_new => {
                let received = timeout(FIRST_REQUEST_GRACE, received).await;
                received.unwrap_or(Err(End::Close { lingers: false }))
            }
            (Stop::Shutdown, Awaited::RestOfHead) => {
                tokio::select! {
                    biased;
                    received = received => received,
                    () = slot.reset() => Err(End::Abort),
                }
            }
            _ => Err(End::Close { lingers: false }),
        }
    }

    /// Calls the service, unless the connection must close before it responds.
    async fn call<T: Service>(
        &mut self,
        server: &Server<T>,
        parts: request::Parts,
    ) -> Result<Response, End> {
        let path = parts.uri.path();
        if let Some(rejection) = server.reject_over_limit(self.slot.health_only, path) {
            return Ok(rejection);
        }
        let may_wait = server.service.may_wait(path);
        let body = if self.receiver().is_body_complete() {
            RequestBody::empty()
        } else {
            RequestBody::http1(&self.receiver)
        };
        let request = Request::from_parts(parts, body);
        let disconnected = poll_fn(|cx| {
            if !may_wait {
                return Poll::Pending;
            }
            lock(&self.receiver).poll_disconnected(cx)
        });
        tokio::select! {
            biased;
            response = server.service.call(Client(&self.slot.activity), request) => Ok(response),
            () = disconnected => Err(End::Abort),
            () = self.slot.aborted() => Err(End::Abort),
        }
    }

    /// Sends the rest of an interim response that was sent in part.
    async fn finish_invitation(&mut self) -> Result<(), End> {
        let rest = self.receiver().started_invitation();
        if rest.is_empty() {
            return Ok(());
        }
        let slot = self.slot;
        unless_aborted(slot, async { Ok(self.stream().write_all(rest).await?) }).await
    }

    /// Sends a response whose body is in memory.
    async fn send(
        &mut self,
        head: response::Parts,
        body: Bytes,
        is_head: bool,
        persistence: Persistence,
    ) -> Result<(), End> {
        let has_no_body = has_no_body(head.status);
        // For HEAD, the service may have removed the body, but not its length if it has one.
        let is_removed =
            is_head && (body.is_empty() || head.headers.contains_key(header::CONTENT_LENGTH));
        let length = if has_no_body || is_removed {
            Length::NoBody
        } else {
            Length::Bytes(body.len() as u64)
        };
        let body = if has_no_body || is_head {
            Bytes::new()
        } else {
            body
        };
        let slot = self.slot;
        let stream = self.stream();
        let sent = async {
            if body.len() <= MAX_JOINED {
                let mut joined = write_head(&head, length, persistence, body.len());
                joined.extend_from_slice(&body);
                stream.write_all(&joined).await?;
            } else {
                let head = write_head(&head, length, persistence, 0);
                stream.write_all(&head).await?;
                stream.write_all(&body).await?;
            }
            Ok(stream.flush().await?)
        };
        unless_aborted(slot, sent).await
    }

    /// Sends a response whose body is read in parts.
    async fn send_parts(
        &mut self,
        head: response::Parts,
        mut body: ResponseBody,
        persistence: Persistence,
    ) -> Result<(), End> {
        let slot = self.slot;
        let stream = self.stream();
        let sent = async {
            let length = Length::Bytes(body.size_hint().lower());
            stream
                .write_all(&write_head(&head, length, persistence, 0))
                .await?;
            while let Some(part) = body.frame().await {
                // The rest cannot be read. The client must notice.
                let part = part.map_err(|_| End::Abort)?;
                stream
                    .write_all(&part.into_data().unwrap_or_default())
                    .await?;
                stream.flush().await?;
            }
            Ok(stream.flush().await?)
        };
        unless_aborted(slot, sent).await
    }

    /// Sends a response that is a stream, which ends the connection. It ends when the stream
    /// does, or when the client disconnects; a client that shuts down its sending side counts as
    /// disconnected.
    async fn send_stream(
        &mut self,
        head: response::Parts,
        mut chunks: impl Stream<Item = Bytes> + Unpin,
        version: Version,
    ) -> End {
        let slot = self.slot;
        let receiver = self.receiver();
        receiver.discard();
        let is_chunked = version == Version::HTTP_11;
        let length = if is_chunked {
            Length::Chunked
        } else {
            Length::Connection
        };
        let sent = async {
            let head = write_head(&head, length, Persistence::Close, 0);
            receiver.stream.write_all(&head).await?;
            receiver.stream.flush().await?;
            while let Some(chunk) = receiver.unless_disconnected(chunks.next()).await? {
                if chunk.is_empty() {
                    // It would end a chunked body.
                    continue;
                }
                slot.activity.set_response_bytes(chunk.len());
                let chunk = if is_chunked {
                    [format!("{:x}\r\n", chunk.len()).as_bytes(), &chunk, b"\r\n"].concat()
                } else {
                    chunk.into()
                };
                receiver.stream.write_all(&chunk).await?;
                receiver.stream.flush().await?;
            }
            if is_chunked {
                receiver.stream.write_all(b"0\r\n\r\n").await?;
            }
            receiver.stream.flush().await
        };
        tokio::select! {
            biased;
            // An I/O error means that the client is gone.
            _ = sent => End::Close { lingers: false },
            () = stopped(slot) => End::Abort,
        }
    }

    /// Sends a response to a request that the service does not get, and closes the connection.
    async fn reject(&mut self, response: Response) {
        let (head, body) = response.into_parts();
        let body = match body {
            ResponseBody::Complete(bytes) => bytes,
            ResponseBody::Parts(_) | ResponseBody::Stream(_) => Bytes::new(),
        };
        if self
            .send(head, body, false, Persistence::Close)
            .await
            .is_ok()
        {
            self.close(true).await;
        }
    }

    /// The same if the connection was evicted, so that it must end soon.
    async fn reject_evicted<T: Service>(&mut self, server: &Server<T>, eviction: Eviction) {
        let response = server.service.reject(Rejection::TooManyConnections);
        let rejected = self.reject(response);
        match eviction {
            Eviction::Close => drop(timeout(CLOSE_TIMEOUT, rejected).await),
            Eviction::Abort | Eviction::Reset => drop(rejected.now_or_never()),
        }
    }

    async fn close(&mut self, lingers: bool) {
        let slot = self.slot;
        tokio::select! {
            biased;
            () = self.stream().close(lingers) => {}
            () = slot.evicted() => {}
        }
    }
}

/// Sends something, unless the connection must close before that is done.
async fn unless_aborted(
    slot: &Slot,
    sent: impl Future<Output = Result<(), End>>,
) -> Result<(), End> {
    tokio::select! {
        biased;
        sent = sent => sent,
        () = slot.aborted() => Err(End::Abort),
    }
}

/// Waits until a connection with a stream must close. At shutdown the service ends the stream
/// itself, if the client reads.
async fn stopped(slot: &Slot) {
    if slot.stopped().await == Stop::Shutdown {
        sleep(CLOSE_TIMEOUT).await;
    }
}
