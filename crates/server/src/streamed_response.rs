//! A response that is a stream, on an HTTP/1.1 connection.
//!
//! The connection is taken from hyper, because nothing else happens on it any more:
//! hyper's buffers would take more memory than everything else, and it would not notice
//! that the client has disconnected.

use std::{future::poll_fn, io, pin::Pin, task::Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, Version, header};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::sleep,
};

use super::{
    Response, ResponseBody,
    activity::Activity,
    closing::CLOSE_TIMEOUT,
    connections::{Slot, Stop},
    stream::serialize_head,
};

/// Sends the response, and closes the connection when the response ends or when the client
/// disconnects. A client that shuts down its sending side counts as disconnected.
pub async fn send<S>(mut stream: S, version: Version, response: Response, slot: &Slot)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // I/O errors mean that the client is gone.
    let sent = send_chunks(&mut stream, &slot.activity, version, response);
    tokio::select! {
        biased;
        _ = sent => {}
        () = stopped(slot) => return,
    }
    let _ = stream.shutdown().await;
}

/// Waits until the connection must close.
async fn stopped(slot: &Slot) {
    // At shutdown the service ends the stream itself, if the client reads.
    if slot.stopped().await == Stop::Shutdown {
        sleep(CLOSE_TIMEOUT).await;
    }
}

async fn send_chunks<S>(
    stream: &mut S,
    activity: &Activity,
    version: Version,
    response: Response,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut head, body) = response.into_parts();
    let ResponseBody::Stream(mut chunks) = body else {
        unreachable!("only a stream is sent this way");
    };
    // HTTP/1.0 has no chunked encoding: there the body ends with the connection.
    let is_chunked = version == Version::HTTP_11;
    if is_chunked {
        let chunked = HeaderValue::from_static("chunked");
        head.headers.insert(header::TRANSFER_ENCODING, chunked);
    }
    stream.write_all(&serialize_head(head)).await?;
    while let Some(chunk) = next_chunk(stream, &mut chunks).await? {
        activity.set_response_bytes(chunk.len());
        if is_chunked {
            let size = format!("{:x}\r\n", chunk.len());
            stream
                .write_all(&[size.as_bytes(), &chunk, b"\r\n"].concat())
                .await?;
        } else {
            stream.write_all(&chunk).await?;
        }
        stream.flush().await?;
    }
    if is_chunked {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}

/// Waits for the next chunk; fails if the client disconnects. Bytes from the client are discarded.
async fn next_chunk<S: AsyncRead + Unpin>(
    stream: &mut S,
    chunks: &mut (impl StreamExt<Item = Bytes> + Unpin),
) -> io::Result<Option<Bytes>> {
    poll_fn(|cx| {
        if let Poll::Ready(chunk) = chunks.poll_next_unpin(cx) {
            return Poll::Ready(Ok(chunk));
        }
        loop {
            let mut bytes = [0; 512];
            let mut discarded = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(cx, &mut discarded)? {
                Poll::Ready(()) if discarded.filled().is_empty() => {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}
