//! The limit of serving: hyper and nothing else, answering every request with
//! the same bytes.
//!
//! `bare-hyper FILE` reads the answer from a file that holds it as it was on
//! the wire, listens on a free port of the loopback and prints the address. It
//! speaks HTTP/2 if the client begins with its preface.

use std::{convert::Infallible, error::Error, fs};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Body, Bytes, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: bare-hyper FILE")?;
    let answer = read_answer(&fs::read(file)?)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let answer = answer.clone();
        tokio::spawn(async move {
            // A client that leaves is no failure.
            let _ = serve(stream, answer).await;
        });
    }
}

async fn serve(stream: TcpStream, answer: Response<Full<Bytes>>) -> Result<(), Box<dyn Error>> {
    stream.set_nodelay(true)?;
    let mut start = [0; 4];
    stream.peek(&mut start).await?;
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            if !request.body().is_end_stream() {
                let _ = request.into_body().collect().await;
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(stream);
    if start == *b"PRI " {
        http2::Builder::new(TokioExecutor::new())
            .serve_connection(io, service)
            .await?;
    } else {
        http1::Builder::new().serve_connection(io, service).await?;
    }
    Ok(())
}

/// Reads an answer as it was on the wire. The headers that hyper makes by
/// itself are left to it.
fn read_answer(wire: &[u8]) -> Result<Response<Full<Bytes>>, Box<dyn Error>> {
    let end = wire
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or("the answer has no end of its head")?;
    let mut lines = std::str::from_utf8(&wire[..end])?.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let mut answer = Response::builder().status(status.ok_or("the answer has no status")?);
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or("a header has no value")?;
        if !["date", "content-length"].contains(&name.to_ascii_lowercase().as_str()) {
            answer = answer.header(name, value);
        }
    }
    Ok(answer.body(Full::new(Bytes::copy_from_slice(&wire[end + 4..])))?)
}
