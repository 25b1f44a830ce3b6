//! Webhooks: the commands by which clients change them, and reads.

use super::{
    Error, Store,
    command::{Command, RecordedResult, Reply},
    draft::Draft,
    row_keys::{Keys, Sequence},
    rows::Stored,
    table::{Value, columns},
};
use domain::{
    api_key::Scopes,
    event::EventId,
    idempotency::{Idempotent, IdempotentRequest},
    page::{ListQuery, Page},
    webhook::{
        MAX_WEBHOOKS, NewWebhook, WebhookChange, WebhookFilter, WebhookId, WebhookRejection,
        delivery::StoredWebhook,
        schedule::EndpointHealth,
        secret::{SigningSecrets, WebhookSecret},
    },
};

type WebhookResult = Result<StoredWebhook, WebhookRejection>;

statements! {
    GET(Int) = format!("SELECT {} FROM webhooks WHERE id = $1", columns::<StoredWebhook>());
}

struct CreateWebhook {
    api_key_id: i64,
    scopes: Scopes,
    new: NewWebhook,
    secrets: SigningSecrets,
    position: EventId,
}

impl Command for CreateWebhook {
    type Output = StoredWebhook;
    type Rejection = WebhookRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.counts_webhooks = true;
        keys.draw(Sequence::Webhooks, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> WebhookResult {
        let id = WebhookId::from_store(draft.new_id(Sequence::Webhooks));
        let created = self
            .new
            .clone()
            .create(id, self.api_key_id, self.scopes, draft.times.now);
        let webhook = created.map_err(WebhookRejection::MissingScope)?;
        if draft.webhook_count >= MAX_WEBHOOKS {
            return Err(WebhookRejection::TooMany);
        }
        let stored = StoredWebhook {
            webhook,
            secrets: self.secrets.clone(),
            position: self.position,
            health: EndpointHealth::default(),
            paused_until: None,
            revision: 1,
            epoch: 1,
            lease: None,
        };
        draft.put(stored.clone());
        Ok(stored)
    }

    fn recorded(stored: &StoredWebhook) -> RecordedResult {
        RecordedResult::of_id(stored.webhook.id.get())
    }
}

/// A change of a webhook by a client.
struct ChangeWebhook {
    id: WebhookId,
    scopes: Scopes,
    change: ClientChange,
}

enum ClientChange {
    /// A merge patch. If the webhook had fallen out of the log, it continues after `newest`.
    Update {
        change: WebhookChange,
        newest: EventId,
    },
    RotateSecret {
        new: WebhookSecret,
        request: Option<String>,
    },
    /// Moves the webhook to another position.
    Replay(EventId),
}

impl Command for ChangeWebhook {
    type Output = StoredWebhook;
    type Rejection = WebhookRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.webhooks.push(self.id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> WebhookResult {
        let before = draft
            .tables
            .webhooks
            .get(&self.id)
            .ok_or(WebhookRejection::NoSuchWebhook)?
            .clone();
        let scopes = self.scopes;
        let now = draft.times.now;
        let after = match &self.change {
            ClientChange::Update { change, newest } => before.update(change, scopes, *newest, now),
            ClientChange::RotateSecret { new, request } => before
                .rotate_secret(new, request.clone(), scopes, now)
                .map(Some),
            ClientChange::Replay(position) => before.replay(*position, scopes, now).map(Some),
        };
        let Some(after) = after.map_err(WebhookRejection::MissingScope)? else {
            return Ok(before);
        };
        draft.put(after.clone());
        Ok(after)
    }

    fn recorded(stored: &StoredWebhook) -> RecordedResult {
        RecordedResult::of_id(stored.webhook.id.get())
    }
}

/// Deletes a webhook with its deliveries.
struct DeleteWebhook(WebhookId);

impl Command for DeleteWebhook {
    type Output = ();
    type Rejection = WebhookRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.webhooks.push(self.0);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<(), WebhookRejection> {
        let stored = draft.tables.webhooks.get(&self.0);
        stored.ok_or(WebhookRejection::NoSuchWebhook)?;
        draft.delete::<StoredWebhook>(self.0);
        Ok(())
    }
}

impl Stored for StoredWebhook {}

impl Store {
    /// Creates a webhook for an API key with these scopes. It delivers the events after
    /// `position`.
    pub async fn webhook_create(
        &self,
        api_key_id: i64,
        scopes: Scopes,
        new: NewWebhook,
        secret: WebhookSecret,
        position: EventId,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        // Checked here, too, so that no id is drawn for a rejected webhook.
        if let Err(missing) = new.check_scopes(scopes) {
            let rejection = WebhookRejection::MissingScope(missing);
            return Ok(Idempotent::Executed(Err(rejection)));
        }
        let create = CreateWebhook {
            api_key_id,
            scopes,
            new,
            secrets: SigningSecrets {
                request: request.as_ref().map(IdempotentRequest::id),
                ..SigningSecrets::new(secret)
            },
            position,
        };
        let reply = self.execute(Some(api_key_id), create, request).await?;
        self.webhook_result(reply).await
    }

    /// Changes a webhook for an API key with these scopes. A webhook that had fallen out
    /// of the log and is enabled again continues after `newest`.
    pub async fn webhook_update(
        &self,
        id: WebhookId,
        change: WebhookChange,
        scopes: Scopes,
        newest: EventId,
    ) -> Result<WebhookResult, Error> {
        let change = ClientChange::Update { change, newest };
        self.execute_once(None, ChangeWebhook { id, scopes, change })
            .await
    }

    /// Replaces the secret of a webhook for an API key with these scopes; see
    /// [`SigningSecrets::rotate`].
    pub async fn webhook_rotate_secret(
        &self,
        id: WebhookId,
        new: WebhookSecret,
        scopes: Scopes,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        let change = ClientChange::RotateSecret {
            new,
            request: request.as_ref().map(IdempotentRequest::id),
        };
        let rotate = ChangeWebhook { id, scopes, change };
        let reply = self.execute(None, rotate, request).await?;
        self.webhook_result(reply).await
    }

    /// Moves a webhook to another position, for an API key with these scopes.
    pub async fn webhook_replay(
        &self,
        id: WebhookId,
        position: EventId,
        scopes: Scopes,
    ) -> Result<WebhookResult, Error> {
        let change = ClientChange::Replay(position);
        self.execute_once(None, ChangeWebhook { id, scopes, change })
            .await
    }

    /// Deletes a webhook with its deliveries. Returns whether it existed.
    pub async fn webhook_delete(&self, id: WebhookId) -> Result<bool, Error> {
        let deleted = self.execute_once(None, DeleteWebhook(id)).await?;
        Ok(deleted.is_ok())
    }

    /// Returns the webhook that was created or changed. A retry gets its current state.
    async fn webhook_result(
        &self,
        reply: Reply<StoredWebhook, WebhookRejection>,
    ) -> Result<Idempotent<WebhookResult>, Error> {
        let read = async |id| {
            let stored = self.webhook_get(WebhookId::from_store(id)).await?;
            Ok(stored.ok_or(WebhookRejection::NoSuchWebhook))
        };
        reply.or_replay(read).await
    }

    pub async fn webhook_get(&self, id: WebhookId) -> Result<Option<StoredWebhook>, Error> {
        self.find(&GET, vec![Value::Int(id.get())]).await
    }

    pub async fn webhook_list(
        &self,
        query: ListQuery<WebhookFilter>,
    ) -> Result<Page<StoredWebhook>, Error> {
        self.list_all(query).await
    }
}
