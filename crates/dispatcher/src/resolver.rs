//! Name resolution, injected so that tests control the addresses of a name.

use std::{
    fmt, io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio::{sync::Semaphore, task::spawn_blocking};

type Lookup = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;

/// The maximum number of concurrent lookups. Each blocks a thread, for longer than its caller
/// waits.
const MAX_LOOKUPS: usize = 64;

/// Resolves host names to addresses. Cheap to clone.
#[derive(Clone)]
pub struct Resolver(Arc<Lookup>);

impl Resolver {
    /// Returns the system's resolver: `/etc/hosts`, then DNS.
    pub fn system() -> Self {
        let lookups = Arc::new(Semaphore::new(MAX_LOOKUPS));
        Self::new(move |name| {
            let lookups = lookups.clone();
            async move {
                let permit = lookups.acquire_owned().await;
                let lookup = move || {
                    let _permit = permit;
                    let addresses = (name.as_str(), 0).to_socket_addrs()?;
                    Ok(addresses.map(|address| address.ip()).collect())
                };
                spawn_blocking(lookup).await?
            }
        })
    }

    pub fn new<F>(lookup: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(lookup(name))))
    }

    pub async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        (self.0)(name.into()).await
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
