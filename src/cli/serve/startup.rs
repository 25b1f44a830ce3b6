//! Reports that the service has started, and how to use it: with a screen on a terminal, with log
//! events otherwise.

use std::{
    env,
    io::{self, Write},
    net::SocketAddr,
};

use super::{
    super::{database::location, keys, shell_quote},
    Serve,
    network::reachable_address,
    start_screen::{CLEAR_TEXT, KeyAdvice, StartScreen, console_path},
};
use api::{PublicUrl, Scheme};
use domain::{
    api_key::{ApiKeySecret, NewApiKey},
    clock::Clock,
};
use store::{DatabaseUrl, Store};
use telemetry::log::{stderr_has_color, stderr_is_terminal};

/// The addresses and the database of a service that is ready.
pub struct Start {
    pub scheme: Scheme,
    pub address: SocketAddr,
    pub url: String,
    pub metrics_url: Option<String>,
    pub database: DatabaseUrl,
    /// True if the file did not exist.
    pub is_new: bool,
}

impl Serve {
    /// Reports the address of the service, and how to get an API key.
    pub(super) async fn report_startup(
        &self,
        store: &Store,
        start: &Start,
        demo_key: Option<ApiKeySecret>,
    ) {
        let version = env!("CARGO_PKG_VERSION");
        let metrics_url = start.metrics_url.clone();
        let url = &start.url;
        let database = &start.database;
        let base_url = base_url(self.urls.public_url.as_ref(), start.scheme, start.address);
        let is_terminal = stderr_is_terminal();
        if !is_terminal {
            tracing::info!(url, version, %database, metrics_url, "listening");
            if let Some(secret) = &demo_key {
                // The data is made up, and the link is the purpose of the demo.
                let console_url = base_url.clone() + &console_path(secret);
                tracing::info!(console_url, "demo ready");
            }
        }
        let public_url = self.urls.public_url.as_ref();
        let is_clear_text = is_clear_text(public_url, start.scheme, start.address);
        if is_clear_text && !is_terminal {
            tracing::warn!(address = %start.address, "{CLEAR_TEXT}");
        }
        let is_demo = demo_key.is_some();
        let keys = match demo_key {
            Some(secret) => KeyAdvice::Created(secret),
            // The service is useful without the advice.
            None => self
                .advise(store, is_terminal)
                .await
                .unwrap_or_else(|error| {
                    tracing::warn!(%error, "api keys not read at startup");
                    KeyAdvice::Unknown
                }),
        };
        if !is_terminal {
            if let KeyAdvice::Existing {
                valid: 0, command, ..
            } = keys
            {
                tracing::info!(command, "no valid api keys");
            }
            return;
        }
        let note = if is_demo {
            " (temporary)"
        } else if start.is_new {
            " (new)"
        } else {
            ""
        };
        let has_other_url = self.urls.public_url.is_some() || start.address.ip().is_unspecified();
        let screen = StartScreen {
            base_url,
            network_url: self.network_url(start),
            is_clear_text,
            listening: has_other_url.then(|| url.clone()),
            console: !self.no_console,
            docs: !self.no_docs,
            metrics_url,
            database: format!("{}{note}", location(database)),
            is_demo,
            keys,
        };
        // `status!` would escape the colours.
        let _ = writeln!(io::stderr(), "{}", screen.text(stderr_has_color()));
    }

    /// Returns the URL of the console for other devices, if the other links do not lead there.
    fn network_url(&self, start: &Start) -> Option<String> {
        if self.no_console || self.urls.public_url.is_some() {
            return None;
        }
        let address = reachable_address(start.address)?;
        Some(base_url(None, start.scheme, address) + "/console")
    }

    /// Returns advice about API keys. On a terminal, creates the first key if the database has
    /// none.
    async fn advise(&self, store: &Store, is_terminal: bool) -> Result<KeyAdvice, store::Error> {
        let now = Clock::system().now();
        let keys = store.api_key_list().await?;
        if is_terminal && keys.is_empty() {
            let name = "first".parse().expect("a valid name");
            let (_, secret) = keys::create(store, NewApiKey::new(name, now)).await?;
            return Ok(KeyAdvice::Created(secret));
        }
        let valid = keys.iter().filter(|(_, key)| key.is_valid_at(now)).count();
        let has_owner = keys.iter().any(|(_, key)| key.is_owner_at(now));
        Ok(KeyAdvice::Existing {
            valid: valid as u64,
            command: self.create_key_command(has_owner),
            asks_for_password: self.database.asks_for_password(),
        })
    }

    /// Returns the shell command that creates an API key in this database: an owner's, if there is
    /// none.
    fn create_key_command(&self, has_owner: bool) -> String {
        let program = shell_quote(&env::args().next().unwrap_or("petstore".into()));
        let role = if has_owner { "" } else { " --role owner" };
        let options = self.database.options();
        format!("{program} keys create NAME{role}{options}")
    }
}

/// Returns the URL of the service for a browser on this machine, without `/v1`.
fn base_url(public_url: Option<&PublicUrl>, scheme: Scheme, address: SocketAddr) -> String {
    let local = || PublicUrl::local(scheme, address);
    let url = public_url.cloned().unwrap_or_else(local).to_string();
    url.strip_suffix("/v1").unwrap_or(&url).into()
}

/// Returns true if other machines reach the service without TLS, as far as it knows.
fn is_clear_text(public_url: Option<&PublicUrl>, scheme: Scheme, address: SocketAddr) -> bool {
    let has_proxy = public_url.is_some_and(|url| url.to_string().starts_with("https:"));
    scheme == Scheme::Http && !address.ip().is_loopback() && !has_proxy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_travel_in_clear_text_through_a_network_without_tls() {
        let is_clear = |public_url: Option<&str>, scheme, address: &str| {
            let public_url = public_url.map(|url| url.parse().expect("a URL"));
            let address = address.parse().expect("an address");
            is_clear_text(public_url.as_ref(), scheme, address)
        };
        assert!(is_clear(None, Scheme::Http, "0.0.0.0:8080"));
        assert!(is_clear(None, Scheme::Http, "192.0.2.7:8080"));
        assert!(is_clear(None, Scheme::Http, "[::]:8080"));
        assert!(is_clear(
            Some("http://pets.example/v1"),
            Scheme::Http,
            "0.0.0.0:80"
        ));
        assert!(!is_clear(
            Some("https://pets.example/v1"),
            Scheme::Http,
            "0.0.0.0:80"
        ));
        assert!(!is_clear(None, Scheme::Https, "0.0.0.0:8443"));
        assert!(!is_clear(None, Scheme::Http, "127.0.0.1:8080"));
        assert!(!is_clear(None, Scheme::Http, "[::1]:8080"));
    }

    /// The screen of a service that a phone can reach.
    #[test]
    fn the_screen_shows_the_address_for_a_phone() {
        let screen = |is_clear_text| StartScreen {
            base_url: "http://127.0.0.1:8080".into(),
            network_url: Some("http://192.0.2.7:8080/console".into()),
            is_clear_text,
            listening: Some("http://0.0.0.0:8080".into()),
            console: true,
            docs: true,
            metrics_url: None,
            database: "petstore.db".into(),
            is_demo: false,
            keys: KeyAdvice::Unknown,
        };
        let text = screen(true).text(false);
        assert!(
            text.contains("Phone     http://192.0.2.7:8080/console"),
            "{text}"
        );
        assert!(text.contains(CLEAR_TEXT), "{text}");
        assert!(!screen(false).text(false).contains(CLEAR_TEXT));
    }

    #[test]
    fn links_lead_to_the_service() {
        for (address, scheme, link) in [
            ("127.0.0.1:8080", Scheme::Http, "http://127.0.0.1:8080"),
            ("0.0.0.0:80", Scheme::Http, "http://127.0.0.1:80"),
            ("[::1]:8080", Scheme::Http, "http://[::1]:8080"),
            ("[::]:8443", Scheme::Https, "https://[::1]:8443"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(base_url(None, scheme, address), link);
            let public = "https://pets.example/shop/v1".parse().expect("a URL");
            let link = base_url(Some(&public), scheme, address);
            assert_eq!(link, "https://pets.example/shop");
        }
    }
}
