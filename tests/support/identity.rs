//! A certificate of the tests' own, in files as an operator has them, and
//! clients that trust it alone.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// The files of a certificate and its key, for the loopback address.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Identity {
    /// Makes both in a folder.
    pub fn new(folder: &Path) -> Self {
        let identity = Self {
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        };
        let (certificate, key) = make();
        identity.replace_certificate(&certificate);
        identity.replace_key(&key);
        identity
    }

    pub fn replace_certificate(&self, text: &str) {
        replace(&self.certificate, text);
    }

    pub fn replace_key(&self, text: &str) {
        replace(&self.key, text);
    }

    /// A client that trusts what is in the file now.
    #[allow(dead_code, reason = "not every test program has one")]
    pub fn client(&self) -> ClientConfig {
        self.client_with_versions(rustls::DEFAULT_VERSIONS)
    }

    #[allow(dead_code, reason = "not every test program has one")]
    pub fn client_with_versions(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut trusted = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(&self.certificate).unwrap();
        trusted.add(certificate).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth()
    }
}

/// A new certificate and its key, in PEM form.
pub fn make() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// Puts a new file in the place of one, as those who renew certificates do.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}
