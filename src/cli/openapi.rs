//! `petstore openapi`: prints the contract.

use std::{
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
};

use clap::Args;

use super::{Addresses, Outcome};
use crate::http::{Contract, PublicUrl};

#[derive(Args)]
pub struct Openapi {
    /// Print JSON instead of YAML.
    #[arg(long, env = "PETSTORE_JSON")]
    json: bool,
    #[command(flatten)]
    addresses: Addresses,
}

impl Openapi {
    pub fn run(self) -> Outcome {
        let local = PublicUrl::local(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
        let production = self.addresses.public_url.unwrap_or(local);
        let contract = Contract::new(&production, self.addresses.staging_url.as_ref());
        let text = if self.json {
            contract.json
        } else {
            contract.yaml
        };
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }
}
