//! Turns the contract into JSON, so that the program needs no YAML.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=openapi.yaml");
    let yaml = fs::read_to_string("openapi.yaml")?;
    let contract: serde_json::Value = serde_saphyr::from_str(&yaml)?;
    let json = Path::new(&env::var("OUT_DIR")?).join("openapi.json");
    fs::write(json, serde_json::to_string(&contract)?)?;
    Ok(())
}
