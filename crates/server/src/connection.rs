//! One connection, from its first byte to the protocol that it speaks: it continues in
//! `http1.rs` or `http2.rs`.

use std::{pin::pin, sync::Arc};

use tokio::{net::TcpStream, time::timeout};

use super::{
    Limits, Rejection, Server, Service,
    closing::FIRST_REQUEST_GRACE,
    connections::{Slot, Stop},
    http1, http2,
    protocol::{Protocol, ReadAhead},
    tls::{self, HandshakeError, Tls},
};

/// Serves a connection until it ends, or until it must close and the requests in flight are
/// finished.
///
/// I/O errors are ignored: they mean that the client is gone.
pub async fn serve<S: Service>(server: &Arc<Server<S>>, mut stream: TcpStream, slot: &Slot) {
    // Responses are small and written at once: Nagle's algorithm only delays them.
    let _ = stream.set_nodelay(true);
    let mut limits = server.limits.clone();
    if slot.health_only {
        limits.head_timeout = limits.head_timeout.min(limits.reserved_head_timeout);
    }
    if let Some(tls) = &server.tls {
        // Boxed, so that plain connections do not pay for its size.
        return Box::pin(serve_tls(server, tls, stream, slot, &limits)).await;
    }
    let mut read_ahead = ReadAhead::default();
    let detect = timeout(limits.head_timeout, read_ahead.detect(&mut stream));
    let detected = match until_stopped(slot, detect).await {
        Ok(detected) => detected,
        Err(Stop::Evicted(eviction)) => {
            return http1::reject_evicted(server, stream, slot, eviction).await;
        }
        Err(Stop::Shutdown) => return,
    };
    match detected {
        Ok(Ok(Protocol::Http1)) => {
            http1::serve(server, stream, read_ahead, slot, &limits).await;
        }
        Ok(Ok(Protocol::Http2)) => {
            http2::serve(server, stream, read_ahead, slot, &limits).await;
        }
        Err(_) if read_ahead.first_byte_at().is_some() => {
            let rejection = server.service.reject(Rejection::HeadTimeout);
            http1::reject(stream, slot, &limits, rejection).await;
        }
        // The client disconnected, or has not sent a byte.
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn serve_tls<S: Service>(
    server: &Arc<Server<S>>,
    tls: &Tls,
    stream: TcpStream,
    slot: &Slot,
    limits: &Limits,
) {
    let accept = timeout(limits.head_timeout, tls.accept(stream));
    let Ok(accepted) = until_stopped(slot, accept).await else {
        return;
    };
    match accepted {
        Ok(Ok(stream)) => match tls::negotiated_protocol(&stream) {
            Protocol::Http1 => {
                http1::serve(server, stream, ReadAhead::default(), slot, limits).await;
            }
            Protocol::Http2 => {
                http2::serve(server, stream, ReadAhead::default(), slot, limits).await;
            }
        },
        Ok(Err(HandshakeError::PlainHttp(stream))) => {
            let rejection = server.service.reject(Rejection::PlainHttpOnTlsPort);
            http1::reject(stream, slot, limits, rejection).await;
        }
        Ok(Err(HandshakeError::Failed)) | Err(_) => {}
    }
}

/// Waits for the start of the first request, unless the connection must close.
async fn until_stopped<T>(slot: &Slot, start: impl Future<Output = T>) -> Result<T, Stop> {
    let mut start = pin!(start);
    let stop = tokio::select! {
        biased;
        started = &mut start => return Ok(started),
        stop = slot.stopped() => stop,
    };
    match stop {
        Stop::Shutdown => timeout(FIRST_REQUEST_GRACE, start).await.or(Err(stop)),
        Stop::Evicted(_) => Err(stop),
    }
}

#[cfg(test)]
mod tests;
