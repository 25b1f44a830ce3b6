//! `petstore keys`: who may use the service.

use clap::{Args, Subcommand};
use jiff::{Span, Timestamp, Zoned, tz::TimeZone};

use super::{Database, Outcome, block_on, print, say};
use crate::{
    api_key::{ApiKey, ApiKeySecret, KeyName, NewApiKey, Scope, Scopes},
    clock::Clock,
    invalid::{Invalid, quoted},
    store::{Error, Options, Role, Store},
};

#[derive(Subcommand)]
pub enum Keys {
    /// Make a key and print its secret, this one time.
    ///
    /// The secret alone goes to standard output, so that it can be kept in a
    /// variable. A running service takes the key at once.
    Create(Create),
    /// List the keys, the revoked and expired ones too.
    List(List),
    /// Revoke a key for good. A running service refuses it within a second.
    Revoke(Revoke),
}

#[derive(Args)]
pub struct Create {
    /// What to call it: who or what will use it.
    name: KeyName,
    /// Something the key may do; give it again for more. All, if left out.
    /// One of pets:read, pets:write, orders:read, orders:write.
    #[arg(
        long = "scope",
        env = "PETSTORE_SCOPE",
        value_delimiter = ',',
        value_name = "SCOPE"
    )]
    scopes: Vec<Scope>,
    /// How long it is valid, for example 90d, 12h or 1y. For ever, if left out.
    #[arg(long, env = "PETSTORE_EXPIRES", value_name = "TIME", value_parser = expiry, allow_hyphen_values = true)]
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
    /// The key's id, as `petstore keys list` shows it.
    id: i64,
    #[command(flatten)]
    database: Database,
}

impl Keys {
    pub fn run(self) -> Outcome {
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
    async fn run(self) -> Outcome {
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
        let store = Store::open(&self.database.database, &Options::new(Role::Tool)).await?;
        let (key, secret) = create(&store, new).await?;
        store.close().await;
        let expiry = key
            .expires_at
            .map_or("never expires".into(), |at| format!("expires {at:.0}"));
        say!(
            "Key {} ({}) may {}; it {expiry}.",
            key.id,
            key.name.as_str(),
            key.scopes
        );
        say!("This is its secret. It is not shown again:");
        print(format!("{}\n", secret.reveal()).as_bytes())
    }
}

impl List {
    async fn run(self) -> Outcome {
        let store = open_existing(&self.database).await?;
        let keys = store.api_key_list().await?;
        store.close().await;
        if keys.is_empty() {
            say!("There are no keys yet. Make one: petstore keys create NAME");
            return Ok(());
        }
        let now = Clock::system().now();
        let head = [
            "ID",
            "NAME",
            "STATE",
            "SCOPES",
            "CREATED",
            "LAST USED",
            "EXPIRES",
            "GETPET CALLS",
        ];
        let mut rows = vec![head.map(String::from)];
        rows.extend(keys.iter().map(|(_, key)| row(key, now)));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: [usize; 8] = std::array::from_fn(|column| width(column).unwrap_or(0));
        let mut table = String::new();
        for row in &rows {
            let cells = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"));
            table += &format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        print(table.as_bytes())
    }
}

impl Revoke {
    async fn run(self) -> Outcome {
        let store = open_existing(&self.database).await?;
        let before = store.api_key_revoke(self.id, Clock::system().now()).await?;
        store.close().await;
        let id = self.id;
        let Some(key) = before else {
            return Err(format!("there is no key {id}; `petstore keys list` shows them").into());
        };
        let name = key.name.as_str();
        match key.revoked_at {
            None => say!("Revoked key {id} ({name}). Services refuse it within a second."),
            Some(at) => say!("Key {id} ({name}) was revoked before, {at:.0}."),
        }
        Ok(())
    }
}

/// Makes a key and stores it.
pub async fn create(store: &Store, new: NewApiKey) -> Result<(ApiKey, ApiKeySecret), Error> {
    let secret = ApiKeySecret::generate();
    let key = store.api_key_create(new, secret.hash()).await?;
    Ok((key, secret))
}

async fn open_existing(database: &Database) -> Result<Store, crate::store::OpenError> {
    let options = Options {
        create: false,
        ..Options::new(Role::Tool)
    };
    Store::open(&database.database, &options).await
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

/// The time at which a key that is made now expires.
fn expiry(text: &str) -> Result<Timestamp, Invalid> {
    let now = Zoned::new(Clock::system().now(), TimeZone::UTC);
    let span = text.parse::<Span>().ok().filter(|span| span.is_positive());
    let then = span.and_then(|span| now.checked_add(span).ok());
    then.map(|then| then.timestamp()).ok_or_else(|| {
        let got = quoted(text);
        let reason = format!("must be a time span such as 90d, 12h or 1y, got {got}");
        Invalid::new("expires", reason)
    })
}
