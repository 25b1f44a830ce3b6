//! Delivers events to webhooks.

mod client;
mod metrics;
mod resolver;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;

use client::{Client, Connections, Message};
use metrics::Metrics;
pub use resolver::Resolver;

use crate::{
    clock::Clock,
    event_tail::EventTail,
    store::Store,
    webhook::{
        delivery::AttemptError,
        schedule::Outcome,
        secret::SigningSecrets,
        url::{UrlPolicy, WebhookUrl},
    },
};

/// How webhooks are delivered.
#[derive(Debug, Clone)]
pub struct Config {
    pub urls: UrlPolicy,
    pub resolver: Resolver,
    /// Certificate authorities to trust besides the system's.
    pub tls_roots: Vec<CertificateDer<'static>>,
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            urls: UrlPolicy::default(),
            resolver: Resolver::system(),
            tls_roots: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// Size limits and timeouts.
#[derive(Debug, Clone)]
pub struct Limits {
    /// From the start of an attempt to the head of the response.
    pub attempt_timeout: Duration,
    /// To resolve the name, connect, and negotiate TLS.
    pub connect_timeout: Duration,
    /// To read the body of a response, which is dropped. After that, the connection is
    /// closed.
    pub drain_timeout: Duration,
    /// Bytes of a response's body that are read.
    pub max_response: usize,
    /// How long an idle connection is kept for the next request.
    pub idle_timeout: Duration,
    /// Attempts in flight in this process.
    pub max_attempts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempt_timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(1),
            max_response: 16 << 10,
            idle_timeout: Duration::from_secs(30),
            max_attempts: 1024,
        }
    }
}

/// Delivers events to the webhooks that this replica has leased.
pub(crate) struct Dispatcher {
    store: Arc<Store>,
    tail: Arc<EventTail>,
    urls: UrlPolicy,
    client: Arc<Client>,
    clock: Clock,
    changed: Notify,
    pub metrics: Arc<Metrics>,
}

/// The result of an attempt to deliver a message.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub outcome: Outcome,
    pub status: Option<u16>,
    /// `None` if it was delivered.
    pub error: Option<AttemptError>,
    pub duration: Duration,
}

impl Dispatcher {
    pub fn new(store: Arc<Store>, tail: Arc<EventTail>, config: Config, clock: Clock) -> Self {
        let metrics = Arc::<Metrics>::default();
        Self {
            store,
            tail,
            urls: config.urls.clone(),
            client: Arc::new(Client::new(config, clock.clone(), metrics.clone())),
            clock,
            changed: Notify::new(),
            metrics,
        }
    }

    /// Which URLs a webhook may have.
    pub fn url_policy(&self) -> &UrlPolicy {
        &self.urls
    }

    /// To be called after a client has changed a webhook: this replica then heeds it at
    /// once, others within a second.
    pub fn notify_changed(&self) {
        self.changed.notify_one();
    }

    /// Sends a message once.
    pub async fn attempt(
        &self,
        url: &WebhookUrl,
        secrets: &SigningSecrets,
        message_id: &str,
        body: Bytes,
    ) -> Attempt {
        let message = Message {
            url,
            secrets,
            id: message_id,
            body,
        };
        self.client.attempt(&message, &Connections::default()).await
    }

    /// Delivers events. Never returns.
    pub async fn run(&self) {
        std::future::pending().await
    }
}
