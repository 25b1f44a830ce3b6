//! `petstore keys`: manages API keys.

use clap::{Args, Subcommand};
use jiff::{Span, Timestamp, Zoned, tz::TimeZone};

use super::{CommandResult, Database, block_on, print, status, table};
use crate::{
    api_key::{ApiKey, ApiKeySecret, KeyName, NewApiKey, Scope, Scopes},
    clock::Clock,
    store::{Error, Options, Role, Store},
};

#[derive(Subcommand)]
pub enum Keys {
    /// Create an API key and print its secret once.
    ///
    /// Only the secret goes to standard output, so it can be stored in a
    /// variable. A running service accepts the key immediately.
    Create(Create),
    /// List all API keys, including revoked and expired ones.
    List(List),
    /// Revoke an API key permanently.
    ///
    /// A running service rejects the key within a second.
    Revoke(Revoke),
}

#[derive(Args)]
pub struct Create {
    /// Name of the key: who or what will use it.
    name: KeyName,
    /// Scope to grant: pets:read, pets:write, orders:read, orders:write, webhooks:read or
    /// webhooks:write.
    ///
    /// Repeat the option, or separate scopes with commas, to grant several. By
    /// default, the key has all scopes.
    #[arg(
        long = "scope",
        env = "PETSTORE_SCOPE",
        value_delimiter = ',',
        value_name = "SCOPE"
    )]
    scopes: Vec<Scope>,
    /// How long the key is valid, such as 90d, 12h or 1y.
    ///
    /// By default, the key never expires.
    #[arg(long, env = "PETSTORE_EXPIRES", value_name = "DURATION", value_parser = expiry, allow_hyphen_values = true)]
    expires: Option<Timestamp>,
    #[command(flatten)]
    database: Database,
}

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    database: Database,
}

#[derive(Args)]
pub struct Revoke {
    /// Id of the key, as shown by `petstore keys list`.
    #[arg(value_parser = key_id)]
    id: i64,
    #[command(flatten)]
    database: Database,
}

impl Keys {
    pub fn run(self) -> CommandResult {
        block_on(async {
            match self {
                Self::Create(create) => create.run().await,
                Self::List(list) => list.run().await,
                Self::Revoke(revoke) => revoke.run().await,
            }
        })
    }
}

impl Create {
    async fn run(self) -> CommandResult {
        let scopes = match self.scopes.as_slice() {
            [] => Scopes::all(),
            scopes => scopes.iter().copied().collect(),
        };
        let new = NewApiKey {
            name: self.name,
            scopes,
            created_at: Clock::system().now(),
            expires_at: self.expires,
        };
        let store = Store::open(&self.database.url()?, &Options::new(Role::Command)).await?;
        let (key, secret) = create(&store, new).await?;
        store.close().await;
        let expiry = key
            .expires_at
            .map_or("never expires".into(), |at| format!("expires {at:.0}"));
        status!(
            "Created key {} ({}): scopes {}; {expiry}.",
            key.id,
            key.name.as_str(),
            key.scopes
        );
        status!("Its secret, which won't be shown again:");
        print(format!("{}\n", secret.reveal()).as_bytes())
    }
}

impl List {
    async fn run(self) -> CommandResult {
        let store = open_existing(&self.database).await?;
        let keys = store.api_key_list().await?;
        store.close().await;
        if keys.is_empty() {
            status!("There are no API keys yet. Create one with: petstore keys create NAME");
            return Ok(());
        }
        let now = Clock::system().now();
        let header = [
            "ID",
            "NAME",
            "STATE",
            "SCOPES",
            "CREATED",
            "LAST USED",
            "EXPIRES",
            "DEPRECATED CALLS",
        ];
        let rows = keys.iter().map(|(_, key)| row(key, now));
        print(table(header, rows).as_bytes())
    }
}

impl Revoke {
    async fn run(self) -> CommandResult {
        let store = open_existing(&self.database).await?;
        let previous = store.api_key_revoke(self.id, Clock::system().now()).await?;
        store.close().await;
        let id = self.id;
        let Some(key) = previous else {
            let message = format!("there is no key {id}; run `petstore keys list` to see all keys");
            return Err(message.into());
        };
        let name = key.name.as_str();
        match key.revoked_at {
            None => status!("Revoked key {id} ({name}). Services reject it within a second."),
            Some(at) => status!("Key {id} ({name}) was already revoked at {at:.0}."),
        }
        Ok(())
    }
}

/// Generates a secret and stores a new key with its hash.
pub async fn create(store: &Store, new: NewApiKey) -> Result<(ApiKey, ApiKeySecret), Error> {
    let secret = ApiKeySecret::generate();
    let key = store.api_key_create(new, secret.hash()).await?;
    Ok((key, secret))
}

async fn open_existing(database: &Database) -> Result<Store, Box<dyn std::error::Error>> {
    let options = Options {
        create: false,
        ..Options::new(Role::Command)
    };
    Ok(Store::open(&database.url()?, &options).await?)
}

fn row(key: &ApiKey, now: Timestamp) -> [String; 8] {
    let state = match key.revoked_at {
        Some(_) => "revoked",
        None if key.is_valid_at(now) => "valid",
        None => "expired",
    };
    let time = |at: Option<Timestamp>| at.map_or("never".into(), |at| format!("{at:.0}"));
    [
        key.id.to_string(),
        key.name.as_str().into(),
        state.into(),
        key.scopes.to_string(),
        time(Some(key.created_at)),
        time(key.last_used_at),
        time(key.expires_at),
        match key.last_deprecated_call_at {
            None => "none".into(),
            Some(last) => format!("{}, last {last:.0}", key.deprecated_calls),
        },
    ]
}

fn key_id(text: &str) -> Result<i64, &'static str> {
    text.parse()
        .map_err(|_| "must be a number; run `petstore keys list` to see the ids")
}

/// Parses the lifetime of a key and returns when a key created now expires.
fn expiry(text: &str) -> Result<Timestamp, &'static str> {
    let now = Zoned::new(Clock::system().now(), TimeZone::UTC);
    let span = text.parse::<Span>().ok().filter(|span| span.is_positive());
    let then = span.and_then(|span| now.checked_add(span).ok());
    then.map(|then| then.timestamp())
        .ok_or("must be a duration such as 90d, 12h or 1y")
}
