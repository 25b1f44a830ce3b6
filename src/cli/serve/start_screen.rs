//! The screen that the service prints on a terminal when it is ready.

use super::super::{counted, shell_quote};
use domain::api_key::ApiKeySecret;

/// The warning about a service that other machines reach without TLS.
pub const CLEAR_TEXT: &str = "API keys travel in clear text through this network. Use \
    --tls-cert and --tls-key, or a proxy with TLS and --public-url.";

pub struct StartScreen {
    /// The URL of the service for browsers and clients on this machine, without `/v1`.
    pub base_url: String,
    /// The URL at which other devices reach the console, if the links do not show it.
    pub network_url: Option<String>,
    /// True if API keys travel through a network without encryption.
    pub is_clear_text: bool,
    /// The URL that the service listens on, if the links don't show it.
    pub listening: Option<String>,
    pub console: bool,
    pub docs: bool,
    pub metrics_url: Option<String>,
    pub database: String,
    pub is_demo: bool,
    pub keys: KeyAdvice,
}

/// Advice about API keys.
pub enum KeyAdvice {
    /// A key was created; this is the only time its secret is shown.
    Created(ApiKeySecret),
    /// The number of valid keys, and the command that creates one.
    Existing {
        valid: u64,
        command: String,
        /// True if the command reads the password of the database from standard input.
        asks_for_password: bool,
    },
    /// The keys could not be read.
    Unknown,
}

impl StartScreen {
    pub fn text(&self, color: bool) -> String {
        let style = |code: &str, text: &str| {
            if color {
                format!("\x1b[{code}m{text}\x1b[0m")
            } else {
                text.into()
            }
        };
        let bold = |text: &str| style("1", text);
        let dim = |text: &str| style("2", text);
        let link = |path: &str| style("36", &format!("{}{path}", self.base_url));

        let version = env!("CARGO_PKG_VERSION");
        let state = if self.is_demo {
            "is running a demo. Its data is made up, and deleted when it stops."
        } else {
            "is running."
        };
        let mut screen = format!("\n{} {state}\n\n", bold(&format!("Petstore {version}")));
        let console = self.console.then(|| match &self.keys {
            KeyAdvice::Created(secret) => {
                let link = link(&console_path(secret));
                format!("{link} {}", dim("(opens signed in)"))
            }
            _ => link("/console"),
        });
        for (label, value) in [
            ("Console", console),
            ("Phone", self.network_url.clone()),
            ("API docs", self.docs.then(|| link("/docs"))),
            ("API", Some(link("/v1"))),
            ("Metrics", self.metrics_url.clone()),
            ("Listening", self.listening.clone()),
            ("Database", Some(self.database.clone())),
        ] {
            if let Some(value) = value {
                screen += &format!("  {} {value}\n", bold(&format!("{label:<9}")));
            }
        }
        if self.is_clear_text {
            screen += &format!("\n  {}\n", bold(CLEAR_TEXT));
        }
        screen += &match &self.keys {
            KeyAdvice::Created(secret) => {
                let key = secret.reveal();
                let pets = shell_quote(&format!("{}/v1/pets", self.base_url));
                format!(
                    "\n  An API key with all scopes; it is not shown again:\n\n    \
                     {}\n\n  Try it in another terminal:\n\n    {}\n",
                    bold(&format!("export PETSTORE_KEY={key}")),
                    bold(&format!(
                        "curl -H \"Authorization: Bearer $PETSTORE_KEY\" {pets}"
                    ))
                )
            }
            KeyAdvice::Existing {
                valid,
                command,
                asks_for_password,
            } => {
                let advice = match valid {
                    0 => "No API key is valid. Create one with:".into(),
                    1 => "1 API key is valid. Create another with:".into(),
                    _ => format!(
                        "{} are valid. Create another with:",
                        counted(*valid, "API key")
                    ),
                };
                let note = if *asks_for_password {
                    "  It asks for the password of the database.\n"
                } else {
                    ""
                };
                format!("\n  {advice} {}\n{note}", bold(command))
            }
            KeyAdvice::Unknown => String::new(),
        };
        screen + "\n  Press Ctrl-C to stop.\n"
    }
}

/// Returns the path of the console, signed in. A browser does not send the fragment to the
/// service.
pub fn console_path(secret: &ApiKeySecret) -> String {
    format!("/console#key={}", secret.reveal())
}
