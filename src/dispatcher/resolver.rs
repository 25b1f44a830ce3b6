//! Name resolution, injected so that tests decide where a name leads.

use std::{fmt, io, net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::net::lookup_host;

type Lookup = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;

/// Resolves host names to addresses. Cheap to clone.
#[derive(Clone)]
pub struct Resolver(Arc<Lookup>);

impl Resolver {
    /// The system's resolver: `/etc/hosts`, then DNS.
    pub fn system() -> Self {
        Self::new(async |name| {
            let addresses = lookup_host((name, 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }

    pub fn new<F>(lookup: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(lookup(name))))
    }

    pub(super) async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        (self.0)(name.into()).await
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
