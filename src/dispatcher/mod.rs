//! Delivers events to webhooks.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

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
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub urls: UrlPolicy,
}

/// Delivers events to the webhooks that this replica has leased.
pub(crate) struct Dispatcher {
    store: Arc<Store>,
    tail: Arc<EventTail>,
    config: Config,
    clock: Clock,
    changed: Notify,
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
        Self {
            store,
            tail,
            config,
            clock,
            changed: Notify::new(),
        }
    }

    /// Which URLs a webhook may have.
    pub fn url_policy(&self) -> &UrlPolicy {
        &self.config.urls
    }

    /// To be called after a client has changed a webhook: this replica then heeds it at
    /// once, others within a second.
    pub fn notify_changed(&self) {
        self.changed.notify_one();
    }

    /// Sends a message once.
    pub async fn attempt(
        &self,
        _url: &WebhookUrl,
        _secrets: &SigningSecrets,
        _message_id: &str,
        _body: bytes::Bytes,
    ) -> Attempt {
        todo!()
    }

    /// Delivers events. Never returns.
    pub async fn run(&self) {
        std::future::pending().await
    }
}
