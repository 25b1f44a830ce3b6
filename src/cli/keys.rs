//! `petstore keys`: manages API keys.

mod list;

use std::error::Error;

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Span, Timestamp, Zoned, tz::TimeZone};

use super::{CommandResult, Database, block_on, duration::grace, print, status};
use crate::{
    api_key::{ApiKey, ApiKeySecret, KeyName, NewApiKey, Scope},
    clock::Clock,
    store::{self, Options, Role, Store},
};

#[derive(Subcommand)]
pub enum Keys {
    /// Create an API key and print its secret once.
    ///
    /// Only the secret goes to standard output, so it can be stored in a
    /// variable. A running service accepts the key immediately.
    Create(Create),
    /// List all API keys, including revoked and expired ones.
    List(list::List),
    /// Replace an API key: create its successor and print the secret once.
    ///
    /// The successor has the same name, scopes and lifetime. The old key expires after the
    /// grace period, in which clients can change over. Only the secret goes to standard
    /// output.
    Rotate(Rotate),
    /// Revoke an API key permanently.
    ///
    /// A running service rejects the key within a second.
    #[command(visible_aliases = ["delete", "rm"])]
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
pub struct Rotate {
    /// Id of the key, or its name if no other key has it.
    #[arg(value_name = "ID|NAME")]
    key: String,
    /// How long the old key stays valid, such as 1h, 24h or 7d; 0s ends it at once.
    #[arg(
        long,
        env = "PETSTORE_GRACE",
        value_name = "DURATION",
        value_parser = grace,
        default_value = "24h",
        allow_hyphen_values = true
    )]
    grace: SignedDuration,
    #[command(flatten)]
    database: Database,
}

#[derive(Args)]
pub struct Revoke {
    /// Id of the key, or its name if no other key has it.
    #[arg(value_name = "ID|NAME")]
    key: String,
    #[command(flatten)]
    database: Database,
}

impl Keys {
    pub fn run(self) -> CommandResult {
        block_on(async {
            match self {
                Self::Create(create) => create.run().await,
                Self::List(list) => list.run().await,
                Self::Rotate(rotate) => rotate.run().await,
                Self::Revoke(revoke) => revoke.run().await,
            }
        })
    }
}

impl Create {
    async fn run(self) -> CommandResult {
        let now = Clock::system().now();
        let mut new = NewApiKey::new(self.name, now);
        new.expires_at = self.expires;
        if !self.scopes.is_empty() {
            new.scopes = self.scopes.iter().copied().collect();
        }
        let store = open(&self.database).await?;
        let others = store.api_key_list().await?;
        let (key, secret) = create(&store, new).await?;
        store.close().await;
        status!(
            "Created {} in {}: scopes {}; {}.",
            shown(&key),
            self.database.location(),
            key.scopes,
            validity(&key)
        );
        let others = others.iter().map(|(_, key)| key);
        let others: Vec<_> = others
            .filter(|other| other.name == key.name && other.is_valid_at(now))
            .map(|other| format!("key {}", other.id))
            .collect();
        if !others.is_empty() {
            status!("Also valid under this name: {}.", others.join(", "));
        }
        print_secret(&secret)
    }
}

impl Rotate {
    async fn run(self) -> CommandResult {
        let now = Clock::system().now();
        let store = open(&self.database).await?;
        let old = find(&store, &self.key, now).await?;
        // If it was rotated before, its expiry is the end of a grace period: a successor with
        // that lifetime would be a trap.
        let keys = store.api_key_list().await?;
        let mut newer = keys.iter().map(|(_, key)| key);
        let newer =
            newer.rfind(|key| key.name == old.name && key.id > old.id && key.is_valid_at(now));
        if (old.revoked_at.is_none() && old.expires_at.is_some())
            && let Some(newer) = newer
        {
            let (old, id, newer) = (shown(&old), newer.id, shown(newer));
            let message = format!("{newer} is newer than {old}; rotate that one:");
            let options = self.database.options();
            return Err(format!("{message} petstore keys rotate {id}{options}").into());
        }
        let lifetime = old.expires_at.map(|at| at.duration_since(old.created_at));
        let successor = NewApiKey {
            name: old.name.clone(),
            scopes: old.scopes,
            created_at: now,
            expires_at: lifetime.and_then(|lifetime| now.checked_add(lifetime).ok()),
        };
        let (secret, end) = (ApiKeySecret::generate(), now + self.grace);
        let created = store.api_key_rotate(old.id, end, successor, secret.hash());
        let created = created.await?;
        store.close().await;
        let old_key = shown(&old);
        let Some(key) = created else {
            let message = format!("{old_key} was revoked; create a new key instead");
            return Err(message.into());
        };
        let end = old.expires_at.map_or(end, |expiry| expiry.min(end));
        let until = match end > now {
            true => format!("stays valid until {end:.0}"),
            false => "is no longer valid".into(),
        };
        status!(
            "Created {} in {}: scopes {}; {}.",
            shown(&key),
            self.database.location(),
            key.scopes,
            validity(&key)
        );
        status!("It replaces {old_key}, which {until}.");
        print_secret(&secret)
    }
}

impl Revoke {
    async fn run(self) -> CommandResult {
        let now = Clock::system().now();
        let store = open(&self.database).await?;
        let key = find(&store, &self.key, now).await?;
        let key = store.api_key_revoke(key.id, now).await?.unwrap_or(key);
        store.close().await;
        let (key, before, location) = (shown(&key), key.revoked_at, self.database.location());
        match before {
            None => {
                status!("Revoked {key} in {location}. Services reject it within a second.");
            }
            Some(at) => status!("In {location}, {key} was already revoked at {at:.0}."),
        }
        Ok(())
    }
}

/// Generates a secret and stores a new key with its hash.
pub async fn create(store: &Store, new: NewApiKey) -> Result<(ApiKey, ApiKeySecret), store::Error> {
    let secret = ApiKeySecret::generate();
    let key = store.api_key_create(new, secret.hash()).await?;
    Ok((key, secret))
}

async fn open(database: &Database) -> Result<Store, Box<dyn Error>> {
    Ok(Store::open(&database.url()?, &Options::new(Role::Command)).await?)
}

/// Finds a key by its id, or by a name. Of several with that name, it is the only valid one.
async fn find(store: &Store, id_or_name: &str, now: Timestamp) -> Result<ApiKey, String> {
    let keys = store.api_key_list().await.map_err(|e| e.to_string())?;
    let keys: Vec<_> = keys.into_iter().map(|(_, key)| key).collect();
    let named = |key: &&ApiKey| key.name.as_str() == id_or_name;
    if let Some(key) = keys.iter().find(|key| key.id.to_string() == id_or_name) {
        return match keys.iter().find(|other| named(other) && other.id != key.id) {
            None => Ok(key.clone()),
            Some(other) => Err(format!(
                "{id_or_name} is the id of {} and the name of key {}; give the name of the first, \
                 or the id of the second",
                shown(key),
                other.id
            )),
        };
    }
    let all: Vec<_> = keys.iter().filter(named).collect();
    let valid: Vec<_> = keys
        .iter()
        .filter(named)
        .filter(|key| key.is_valid_at(now))
        .collect();
    match (&valid[..], &all[..]) {
        ([key], _) | ([], [key]) => Ok((*key).clone()),
        ([], []) => {
            let name = id_or_name.escape_debug();
            Err(format!(
                "there is no key {name}; run `petstore keys list` to see all keys"
            ))
        }
        ([], several) | (several, _) => {
            let ids = several.iter().map(|key| {
                let used = key
                    .last_used_at
                    .map_or("never used".into(), |at| format!("last used {at:.0}"));
                format!("\n  {} (created {:.0}, {used})", key.id, key.created_at)
            });
            Err(format!(
                "{} keys are named {id_or_name}; give the id of one of them:{}",
                several.len(),
                ids.collect::<String>()
            ))
        }
    }
}

/// A key in messages: by its id, because names are not unique.
fn shown(key: &ApiKey) -> String {
    format!("key {} ({})", key.id, key.name.as_str())
}

fn validity(key: &ApiKey) -> String {
    let never = || "never expires".into();
    key.expires_at
        .map_or_else(never, |at| format!("expires {at:.0}"))
}

fn print_secret(secret: &ApiKeySecret) -> CommandResult {
    status!("Its secret, which won't be shown again:");
    print(format!("{}\n", secret.reveal()).as_bytes())
}

/// Parses the lifetime of a key and returns when a key created now expires.
fn expiry(text: &str) -> Result<Timestamp, &'static str> {
    let now = Zoned::new(Clock::system().now(), TimeZone::UTC);
    let span = text.parse::<Span>().ok().filter(|span| span.is_positive());
    let then = span.and_then(|span| now.checked_add(span).ok());
    then.map(|then| then.timestamp())
        .ok_or("must be a duration such as 90d, 12h or 1y")
}
