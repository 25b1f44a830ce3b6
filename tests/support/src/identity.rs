//! A self-signed certificate in PEM files, as an operator provides them, and TLS
//! clients that trust only it.

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

/// The PEM files of a certificate for localhost and of its private key.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Identity {
    /// Generates both files in a directory.
    pub fn new(dir: &Path) -> Self {
        let identity = Self {
            certificate: dir.join("cert.pem"),
            key: dir.join("key.pem"),
        };
        let (certificate, key) = self_signed();
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

    /// A client configuration that trusts only the certificate now in the file.
    pub fn client(&self) -> ClientConfig {
        self.client_with_versions(rustls::DEFAULT_VERSIONS)
    }

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

/// Generates a self-signed certificate and its private key as PEM.
pub fn self_signed() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// Replaces a file atomically with a rename, as certificate renewal tools do.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}
