//! TLS clients: configurations that verify the server's certificate, and that do not.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Returns a configuration that authenticates the server by a certificate that one of these
/// authorities has signed.
pub fn verifying(authorities: Vec<CertificateDer<'static>>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect(SUPPORTED)
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Returns a configuration that encrypts the connection without authenticating the server. Use it
/// only where the peer is trusted by other means, or where the operator asked for it.
pub fn insecure() -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect(SUPPORTED)
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NoCertificateVerification(provider)))
        .with_no_client_auth()
}

const SUPPORTED: &str = "ring supports the default protocol versions";

/// Accepts any certificate, but still checks handshake signatures.
#[derive(Debug)]
struct NoCertificateVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoCertificateVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let supported = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, supported)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let supported = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, supported)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
