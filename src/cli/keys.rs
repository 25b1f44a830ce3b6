//! `petstore keys`: manages API keys.

mod list;
mod role;

use std::{error::Error, str::FromStr};

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Span, Timestamp, Zoned, tz::TimeZone};

use super::{
    CommandResult, Database, block_on,
    client::ServiceUrl,
    duration::grace,
    escape_for_terminal,
    serve::console_path,
    shell_quote, status,
    stdout::{self, print_all},
};
use domain::{
    api_key::{ApiKey, ApiKeySecret, KeyName, NewApiKey, Scope, Scopes},
    clock::Clock,
    idempotency::Idempotent,
    invalid::Invalid,
};
use import_socket::ImportConnection;
use role::Role;
use store::{Options, Store};

#[derive(Subcommand)]
pub enum Keys {
    /// Create an API key and print its secret once.
    ///
    /// Only the secret goes to standard output, so it can be stored in a
    /// variable. A link that opens the console signed in goes to standard error; discard
    /// it where that is logged. A running service accepts the key immediately. To let
    /// people in, invite them in the console instead: an invitation works once and expires.
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
    #[arg(value_parser = parse::<KeyName>)]
    name: KeyName,
    /// Role to grant the scopes of: owner (all), staff (pets and orders) or read-only.
    #[arg(long, env = "PETSTORE_ROLE", conflicts_with = "scopes")]
    role: Option<Role>,
    /// Scope to grant: pets:read, pets:write, orders:read, orders:write, webhooks:read,
    /// webhooks:write, keys:read, keys:write or store:write.
    ///
    /// Repeat the option, or separate scopes with commas, to grant several. By
    /// default, the key has all scopes except keys:read and keys:write.
    #[arg(
        long = "scope",
        env = "PETSTORE_SCOPE",
        value_delimiter = ',',
        value_parser = parse::<Scope>,
        value_name = "SCOPE"
    )]
    scopes: Vec<Scope>,
    /// Lifetime of the key, such as 90d, 12h or 1y.
    ///
    /// By default, the key never expires.
    #[arg(long, env = "PETSTORE_EXPIRES", value_name = "DURATION", value_parser = expiry, allow_hyphen_values = true)]
    expires: Option<Timestamp>,
    /// URL of the service, for the link that opens the console signed in.
    ///
    /// By default, it is that of the service that has the SQLite file open.
    #[arg(long, env = "PETSTORE_URL")]
    url: Option<ServiceUrl>,
    #[command(flatten)]
    database: Database,
}

#[derive(Args)]
pub struct Rotate {
    /// Id of the key, or its name if no other key has it.
    #[arg(value_name = "ID|NAME")]
    key: String,
    /// Time for which the old key stays valid, such as 1h, 24h or 7d; 0s ends it at once.
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
    pub fn database(&self) -> &Database {
        match self {
            Self::Create(create) => &create.database,
            Self::List(list) => &list.database,
            Self::Rotate(rotate) => &rotate.database,
            Self::Revoke(revoke) => &revoke.database,
        }
    }

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
        new.scopes = match self.role {
            Some(role) => role.scopes(),
            None if self.scopes.is_empty() => Scopes::all_but_keys(),
            None => self.scopes.iter().copied().collect(),
        };
        let store = open(&self.database).await?;
        let others = store.api_key_list().await?;
        let secret = ApiKeySecret::generate();
        print_secret(&secret)?;
        let created = store.api_key_create(new, secret.hash()).await;
        let key = created.map_err(|error| unusable(error, &self.database))?;
        let url = service_url(self.url, &store).await;
        store.close().await;
        announce(&key, &self.database);
        let path = console_path(&secret);
        match url {
            Some(url) => status!("Open the console signed in: {}", url.page(&path)),
            None => status!("To open the console signed in, add to the URL of the service: {path}"),
        }
        let namesakes: Vec<_> = others
            .iter()
            .filter(|(_, other)| other.name == key.name && other.is_valid_at(now))
            .map(|(_, other)| format!("key {}", other.id))
            .collect();
        if !namesakes.is_empty() {
            status!("Also valid under this name: {}.", namesakes.join(", "));
        }
        Ok(())
    }
}

impl Rotate {
    async fn run(self) -> CommandResult {
        let now = Clock::system().now();
        let store = open(&self.database).await?;
        let old = find(&store, &self.key, now, &self.database).await?;
        let old_key = shown(&old);
        let options = self.database.options();
        let name = shell_quote(old.name.as_str());
        let instead = format!("create a new key instead: petstore keys create {name}{options}");
        if !old.is_valid_at(now) {
            let location = self.database.location();
            let ended = match old.revoked_at {
                Some(at) => format!("was revoked at {at:.0}"),
                None => "has expired".into(),
            };
            return Err(format!("{old_key} in {location} {ended}; {instead}").into());
        }
        if let Some(id) = old.successor {
            let keys = store.api_key_list().await?;
            let newer = keys.iter().map(|(_, key)| key).find(|key| key.id == id);
            let message = match newer.filter(|newer| newer.is_valid_at(now)) {
                Some(newer) => format!(
                    "{} has replaced {old_key}; rotate that one: petstore keys rotate {id}{options}",
                    shown(newer)
                ),
                None => {
                    format!("key {id} has replaced {old_key}, and is no longer valid; {instead}")
                }
            };
            return Err(message.into());
        }
        let secret = ApiKeySecret::generate();
        print_secret(&secret)?;
        let rotated = store.api_key_rotate(old.id, None, self.grace, secret.hash(), 0, None);
        let created = rotated
            .await
            .map_err(|error| unusable(error, &self.database))?;
        store.close().await;
        let Idempotent::Executed(Ok(key)) = created else {
            let message =
                format!("{old_key} was just revoked or rotated, so the secret above is not valid");
            return Err(format!("{message}; {instead}").into());
        };
        let grace_end = key.created_at + self.grace;
        let end = old.expires_at.unwrap_or(grace_end).min(grace_end);
        let until = if end > key.created_at {
            format!("stays valid until {end:.0}")
        } else {
            "is no longer valid".into()
        };
        announce(&key, &self.database);
        status!("It replaces {old_key}, which {until}.");
        Ok(())
    }
}

impl Revoke {
    async fn run(self) -> CommandResult {
        let now = Clock::system().now();
        let store = open(&self.database).await?;
        let key = find(&store, &self.key, now, &self.database).await?;
        let key = store.api_key_revoke(key.id, None).await?.unwrap_or(key);
        store.close().await;
        let shown = shown(&key);
        let location = self.database.location();
        match key.revoked_at {
            None => {
                status!("Revoked {shown} in {location}. Services reject it within a second.");
            }
            Some(at) => status!("In {location}, {shown} was already revoked at {at:.0}."),
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

/// Returns the URL of the service: the one that was given, or that of a running service.
async fn service_url(given: Option<ServiceUrl>, store: &Store) -> Option<ServiceUrl> {
    if given.is_some() {
        return given;
    }
    let mut service = ImportConnection::open(store.file()?).await.ok()?;
    service.url().await.ok()?.parse().ok()
}

async fn open(database: &Database) -> Result<Store, Box<dyn Error>> {
    Ok(Store::open(&database.url()?, &Options::new(store::Role::Cli)).await?)
}

/// Finds a key by its id or its name. If several keys have the name, exactly one of them must be
/// valid.
async fn find(
    store: &Store,
    id_or_name: &str,
    now: Timestamp,
    database: &Database,
) -> Result<ApiKey, String> {
    let location = database.location();
    let name = escape_for_terminal(id_or_name);
    let keys = store.api_key_list().await.map_err(|e| e.to_string())?;
    let keys = keys.iter().map(|(_, key)| key);
    // No name is a number.
    if let Some(key) = keys.clone().find(|key| key.id.to_string() == id_or_name) {
        return Ok(key.clone());
    }
    let all: Vec<_> = keys.filter(|key| key.name.as_str() == id_or_name).collect();
    let is_valid = |key: &&ApiKey| key.is_valid_at(now);
    let valid: Vec<_> = all.iter().copied().filter(is_valid).collect();
    match (&valid[..], &all[..]) {
        ([key], _) | ([], [key]) => Ok((*key).clone()),
        ([], []) => Err(format!(
            "there is no key {name} in {location}; see all keys with: petstore keys list{}",
            database.options()
        )),
        ([], several) | (several, _) => {
            let ids = several.iter().map(|key| {
                let used = match key.last_used_at {
                    Some(at) => format!("last used {at:.0}"),
                    None => "never used".into(),
                };
                format!(
                    "\n  {} (created {:.0}, {}, {used})",
                    key.id,
                    key.created_at,
                    validity(key)
                )
            });
            Err(format!(
                "{} keys in {location} are named {name}; give the id of one of them:{}",
                several.len(),
                ids.collect::<String>()
            ))
        }
    }
}

/// Formats a key for messages: with its id, because names are not unique.
fn shown(key: &ApiKey) -> String {
    format!(
        "key {} ({})",
        key.id,
        escape_for_terminal(key.name.as_str())
    )
}

fn announce(key: &ApiKey, database: &Database) {
    status!(
        "Created {} in {}: scopes {}; {}.",
        shown(key),
        database.location(),
        key.scopes,
        validity(key)
    );
}

fn validity(key: &ApiKey) -> String {
    match key.expires_at {
        Some(at) => format!("expires {at:.0}"),
        None => "never expires".into(),
    }
}

/// Prints the secret of a key before the key exists: if that fails, there is no valid key with a
/// lost secret.
fn print_secret(secret: &ApiKeySecret) -> CommandResult {
    if stdout::is_null() {
        let message = "standard output is closed or /dev/null, so the secret would be lost; \
                       no key was created";
        return Err(message.into());
    }
    status!("The secret of the new key, which won't be shown again:");
    print_all(format!("{}\n", secret.reveal()).as_bytes())
        .map_err(|cause| format!("cannot print the secret: {cause}; no key was created").into())
}

/// Formats the error for a secret that was printed although its key was not created.
fn unusable(error: store::Error, database: &Database) -> String {
    let options = database.options();
    match error {
        store::Error::OutcomeUnknown(_) => {
            format!("{error}; see whether the key was created with: petstore keys list{options}")
        }
        _ => format!("{error}; no key was created, and the secret above is not valid"),
    }
}

/// Parses a value. The error does not name the option, because clap does.
fn parse<T: FromStr<Err = Invalid>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|invalid: Invalid| invalid.reason)
}

/// Parses the lifetime of a key. Returns the time at which a key created now expires.
fn expiry(text: &str) -> Result<Timestamp, &'static str> {
    let now = Zoned::new(Clock::system().now(), TimeZone::UTC);
    let span = text.parse::<Span>().ok().filter(|span| span.is_positive());
    let then = span.and_then(|span| now.checked_add(span).ok());
    then.map(|then| then.timestamp())
        .ok_or("must be a duration such as 90d, 12h or 1y")
}
