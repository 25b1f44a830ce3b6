//! `petstore openapi`: prints the contract.

use std::net::{Ipv4Addr, SocketAddr};

use clap::{Args, builder::FalseyValueParser};

use super::{CommandResult, PublicUrls, print};
use api::{Contract, PublicUrl, Scheme};

#[derive(Args)]
pub struct Openapi {
    /// Print JSON instead of YAML.
    #[arg(long, env = "PETSTORE_JSON", value_parser = FalseyValueParser::new())]
    json: bool,
    #[command(flatten)]
    urls: PublicUrls,
}

impl Openapi {
    pub fn run(self) -> CommandResult {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let local = PublicUrl::local(Scheme::Http, address);
        let production = self.urls.public_url.unwrap_or(local);
        let contract = Contract::new(production, self.urls.staging_url);
        let text = if self.json {
            contract.json()
        } else {
            contract.yaml()
        };
        print(text.as_bytes())
    }
}
