//! `petstore serve`: runs the service until it is told to stop.

use std::{
    io::{self, IsTerminal},
    net::{SocketAddr, TcpListener},
};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{Addresses, DEFAULT_DATABASE, Database, Outcome, keys};
use crate::{
    clock::Clock,
    http::{self, Settings},
    key::{NewKey, Scopes},
    store::{Error, Options, Role, Store},
};

#[derive(Args)]
pub struct Serve {
    /// The address and port to listen on; port 0 takes a free one.
    #[arg(
        long,
        env = "PETSTORE_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS"
    )]
    listen: SocketAddr,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    addresses: Addresses,
}

impl Serve {
    pub fn run(self) -> Outcome {
        tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .with_target(false)
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Outcome {
        // Signals are taken from here on, so that one that comes early counts.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            eprintln!("Stopping: finishing the requests that run.");
        };

        let listener = TcpListener::bind(self.listen)
            .map_err(|cause| format!("cannot listen on {}: {cause}", self.listen))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let store = Store::open(&self.database.database, &Options::new(Role::Service))?;

        eprintln!(
            "Petstore {} listens on http://{address}",
            env!("CARGO_PKG_VERSION")
        );
        eprintln!("  docs      http://{address}/docs");
        eprintln!("  contract  http://{address}/v1/openapi.yaml");
        eprintln!("  database  {}", self.database.database);
        self.introduce_keys(&store, address).await?;

        let settings = Settings {
            public_url: self.addresses.public_url,
            staging_url: self.addresses.staging_url,
            ..Settings::default()
        };
        http::serve(listener.try_into()?, store, settings, shutdown).await?;
        Ok(())
    }

    /// Helps with the first key: makes it for a person who is looking, and
    /// otherwise says how.
    async fn introduce_keys(&self, store: &Store, address: SocketAddr) -> Result<(), Error> {
        if !store.key_list().await?.is_empty() {
            return Ok(());
        }
        if !io::stderr().is_terminal() {
            let database = match self.database.database.to_string() {
                default if default == DEFAULT_DATABASE => String::new(),
                other => format!(" --database {other}"),
            };
            eprintln!("There are no keys yet. Make one: petstore keys create NAME{database}");
            return Ok(());
        }
        let new = NewKey {
            name: "first".parse().expect("a valid name"),
            scopes: Scopes::all(),
            created_at: Clock::system().now(),
            expires_at: None,
        };
        let (_, secret) = keys::create(store, new).await?;
        eprintln!("There were no keys yet, so here is the first. It is shown only now. Try it:\n");
        eprintln!(
            "  curl -H 'Authorization: Bearer {}' http://{address}/v1/pets\n",
            secret.reveal()
        );
        Ok(())
    }
}
