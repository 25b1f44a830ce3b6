//! The contract as it is served: its examples use the address that the client used.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use http::{header, request::Parts, uri::Authority};

use super::{
    cached_response::{Document, document},
    openapi::{Contract, PublicUrl, Scheme, loopback_if_unspecified},
    rate_limit::{ArrivalTime, Limiter, RateLimit},
};
use server::header_values;

/// The number of hosts whose contracts are kept. One takes about 700 kB.
const MAX_HOSTS: usize = 8;
/// The longest host with a port: DNS has no longer names.
const MAX_HOST_BYTES: usize = 260;

const LOCK: &str = "no task panics while holding the lock";

/// The contract for every host at which clients reach the service. A client can name any host, so
/// a limited number of them is kept, and new ones are limited in time; beyond that, the contract
/// names the address of the listener.
pub struct Contracts {
    default: Arc<ContractFiles>,
    staging_url: Option<PublicUrl>,
    /// `None` if a public URL is configured.
    hosts: Option<Hosts>,
}

/// The contract with the URLs of one host.
pub struct ContractFiles {
    pub yaml: Document,
    pub json: Document,
}

struct Hosts {
    scheme: Scheme,
    /// The host of the default.
    local: String,
    /// The most recently used one is the last.
    kept: Mutex<Vec<(String, Arc<ContractFiles>)>>,
    limiter: Limiter,
    last_new: ArrivalTime,
}

impl Contracts {
    pub fn with_public_url(url: PublicUrl, staging_url: Option<PublicUrl>) -> Self {
        Self {
            default: Arc::new(ContractFiles::new(url, staging_url.as_ref())),
            staging_url,
            hosts: None,
        }
    }

    pub fn by_host(scheme: Scheme, address: SocketAddr, staging_url: Option<PublicUrl>) -> Self {
        let local = loopback_if_unspecified(address).to_string();
        let url = PublicUrl::of_host(scheme, &local);
        let hosts = Hosts {
            scheme,
            local,
            kept: Mutex::default(),
            limiter: Limiter::new(RateLimit::NEW_HOSTS),
            last_new: ArrivalTime::default(),
        };
        Self {
            hosts: Some(hosts),
            ..Self::with_public_url(url, staging_url)
        }
    }

    /// Returns the contract for the host that the request names.
    pub fn get(&self, request: &Parts) -> Arc<ContractFiles> {
        let for_host = || {
            let hosts = self.hosts.as_ref()?;
            hosts.get(host_of(request)?, self.staging_url.as_ref())
        };
        for_host().unwrap_or_else(|| self.default.clone())
    }
}

impl Hosts {
    /// Returns the contract of a host, unless it is the default or too many are new.
    fn get(&self, host: String, staging_url: Option<&PublicUrl>) -> Option<Arc<ContractFiles>> {
        if host == self.local {
            return None;
        }
        let mut kept = self.kept.lock().expect(LOCK);
        let contract = match kept.iter().position(|(known, _)| *known == host) {
            Some(position) => kept.remove(position).1,
            None if self.limiter.charge(&self.last_new, Instant::now()).granted => {
                let url = PublicUrl::of_host(self.scheme, &host);
                Arc::new(ContractFiles::new(url, staging_url))
            }
            None => return None,
        };
        kept.push((host, contract.clone()));
        if kept.len() > MAX_HOSTS {
            kept.remove(0);
        }
        Some(contract)
    }
}

impl ContractFiles {
    /// Creates the contract. It is written when a client requests it.
    fn new(url: PublicUrl, staging_url: Option<&PublicUrl>) -> Self {
        let contract = Contract::new(url, staging_url.cloned());
        let same = contract.clone();
        Self {
            yaml: document(move || contract.yaml(), "application/yaml"),
            json: document(move || same.json(), "application/json"),
        }
    }
}

/// Returns the host and port that the request names, in lower case, if they can stand in a URL
/// and in a shell command as they are.
fn host_of(request: &Parts) -> Option<String> {
    let target = request.uri.authority().map(Authority::as_str);
    let mut headers = header_values(&request.headers, header::HOST);
    let host = target.or_else(|| headers.next()?.to_str().ok())?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let fits = host.len() <= MAX_HOST_BYTES && host.bytes().all(is_plain);
    fits.then(|| host.to_ascii_lowercase())
}
