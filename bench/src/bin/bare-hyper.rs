//! Upper bound for HTTP: bare hyper, sending a fixed response to every request.
//!
//! `bare-hyper FILE` reads the raw bytes of the response from a file, listens on
//! a free loopback port and prints its address. It speaks HTTP/2 if the client
//! starts with the connection preface (prior knowledge).

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
    let response = parse_response(&fs::read(file)?)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let response = response.clone();
        tokio::spawn(async move {
            // Clients may disconnect at any time.
            let _ = serve(stream, response).await;
        });
    }
}

async fn serve(stream: TcpStream, response: Response<Full<Bytes>>) -> Result<(), Box<dyn Error>> {
    stream.set_nodelay(true)?;
    let mut start = [0; 4];
    stream.peek(&mut start).await?;
    let service = service_fn(move |request: Request<Incoming>| {
        let response = response.clone();
        async move {
            if !request.body().is_end_stream() {
                let _ = request.into_body().collect().await;
            }
            Ok::<_, Infallible>(response)
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

/// Parses a raw response, without the headers that hyper adds itself.
fn parse_response(wire: &[u8]) -> Result<Response<Full<Bytes>>, Box<dyn Error>> {
    let end = wire
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or("the response head is incomplete")?;
    let mut lines = std::str::from_utf8(&wire[..end])?.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let mut response = Response::builder().status(status.ok_or("the response has no status")?);
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or("a header has no value")?;
        if !["date", "content-length"].contains(&name.to_ascii_lowercase().as_str()) {
            response = response.header(name, value);
        }
    }
    Ok(response.body(Full::new(Bytes::copy_from_slice(&wire[end + 4..])))?)
}
