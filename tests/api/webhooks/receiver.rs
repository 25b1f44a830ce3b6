//! A receiver of webhooks on this machine.

use std::sync::{Arc, Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sha2::Sha256;
use tokio::{net::TcpListener, sync::Semaphore};

pub struct Receiver {
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
    /// Requests that may be responded to.
    pub responses: Arc<Semaphore>,
}

/// A request that a receiver got.
#[derive(Debug, Clone)]
pub struct Received {
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The signature that this request has with a secret, as Standard Webhooks defines it.
    pub fn signature(&self, secret: &str) -> String {
        let key = STANDARD
            .decode(secret.strip_prefix("whsec_").unwrap())
            .unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        for part in [
            self.header("webhook-id"),
            ".",
            self.header("webhook-timestamp"),
            ".",
        ] {
            mac.update(part.as_bytes());
        }
        mac.update(&self.body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl Receiver {
    /// Responds to every request with this status.
    pub async fn start(status: u16) -> Self {
        let receiver = Self::start_paused(status).await;
        receiver.responses.add_permits(Semaphore::MAX_PERMITS / 2);
        receiver
    }

    /// Responds when permits are added.
    pub async fn start_paused(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            url: format!("http://{}/hook?a=b", listener.local_addr().unwrap()),
            received: Arc::default(),
            responses: Arc::new(Semaphore::new(0)),
        };
        let (received, responses) = (receiver.received.clone(), receiver.responses.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (received, responses) = (received.clone(), responses.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (received, responses) = (received.clone(), responses.clone());
                    async move {
                        let (head, body) = request.into_parts();
                        let request = Received {
                            target: head.uri.to_string(),
                            headers: head.headers,
                            body: body.collect().await?.to_bytes(),
                        };
                        received.lock().unwrap().push(request);
                        responses.acquire().await.unwrap().forget();
                        let response = Response::builder().status(status);
                        Ok::<_, hyper::Error>(response.body(Full::<Bytes>::default()).unwrap())
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        receiver
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}
