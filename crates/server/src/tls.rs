//! TLS: handshakes, and the server's certificate with its hot reload.
//!
//! The files are read at startup and reread periodically. A new certificate and
//! key replace the current pair only if both are valid and belong together, so
//! a half-finished or broken renewal changes nothing.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{net::TcpStream, task::spawn_blocking};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::protocol::Protocol;
use telemetry::warn_if_public;

const HTTP2: &[u8] = b"h2";
const PROTOCOLS: [&[u8]; 3] = [HTTP2, b"http/1.1", b"http/1.0"];

/// The content type of a TLS handshake record: the first byte of a TLS client.
const HANDSHAKE_RECORD: u8 = 0x16;

/// A valid certificate with its key, and the TLS configuration around them.
#[derive(Debug)]
pub struct Tls {
    files: CertificateFiles,
    current: Arc<CurrentCertificate>,
    config: Arc<ServerConfig>,
    /// The interval at which the files are checked for a renewed certificate.
    pub reload_interval: Duration,
}

/// The reason why a TLS handshake failed.
#[derive(Debug)]
pub enum HandshakeError {
    /// The client speaks plain HTTP, and can be told so.
    PlainHttp(TcpStream),
    /// The client disconnected, or was sent an alert because no version or cipher suite
    /// was acceptable to both.
    Failed,
}

impl Tls {
    /// Loads a certificate chain and its private key from PEM files.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let files = CertificateFiles {
            certificate: certificate.into(),
            key: key.into(),
        };
        let current = Arc::new(CurrentCertificate(ArcSwap::from_pointee(files.load()?)));
        warn_if_public(key);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the default protocols")
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        // Stateless session resumption: tickets instead of a server-side cache.
        config.ticketer = ring::Ticketer::new().expect("the system has random numbers");
        config.alpn_protocols = PROTOCOLS.map(Vec::from).into();
        Ok(Self {
            files,
            current,
            config: Arc::new(config),
            reload_interval: Duration::from_secs(5),
        })
    }

    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, HandshakeError> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1) if first != [HANDSHAKE_RECORD] => return Err(HandshakeError::PlainHttp(stream)),
            _ => {}
        }
        let acceptor = TlsAcceptor::from(self.config.clone());
        let accepted = acceptor.accept(stream).await;
        accepted.map_err(|_| HandshakeError::Failed)
    }

    /// Switches new connections to a renewed certificate, if there is one.
    pub async fn reload(&self) -> Result<(), CertificateError> {
        let files = self.files.clone();
        let found = spawn_blocking(move || files.load())
            .await
            .expect("a load does not panic")?;
        // The same certificate has the same key.
        if found.cert != self.current.0.load().cert {
            self.current.0.store(Arc::new(found));
            let file = self.files.certificate.display();
            tracing::info!(%file, "certificate reloaded");
            warn_if_public(&self.files.key);
        }
        Ok(())
    }
}

/// The protocol that was negotiated by ALPN; HTTP/1.1 if none was.
pub fn negotiated_protocol(stream: &TlsStream<TcpStream>) -> Protocol {
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP2) => Protocol::Http2,
        _ => Protocol::Http1,
    }
}

/// Resolves to the current certificate for each new connection.
#[derive(Debug)]
struct CurrentCertificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// The PEM files of a certificate chain and its private key.
#[derive(Debug, Clone)]
struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// The reason why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot read {}: {cause}", file.display())]
    Unreadable { file: PathBuf, cause: io::Error },
    #[error("{} has no certificate; it needs a PEM block BEGIN CERTIFICATE", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} has a malformed certificate", .0.display())]
    MalformedCertificate(PathBuf),
    #[error(
        "{} has no private key; it needs an unencrypted PEM block BEGIN PRIVATE KEY",
        .0.display()
    )]
    NoKey(PathBuf),
    #[error(
        "{} has a malformed or unsupported key; it must be unencrypted RSA of at least 2048 bits, ECDSA or \
         Ed25519",
        .0.display()
    )]
    UnsupportedKey(PathBuf),
    #[error(
        "the key in {} does not belong to the certificate in {}",
        key.display(),
        certificate.display()
    )]
    KeyMismatch { certificate: PathBuf, key: PathBuf },
}

impl CertificateFiles {
    fn load(&self) -> Result<CertifiedKey, CertificateError> {
        let Self { certificate, key } = self;
        let malformed = || CertificateError::MalformedCertificate(certificate.clone());
        let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| malformed())?;
        let leaf = chain
            .first()
            .ok_or_else(|| CertificateError::NoCertificate(certificate.clone()))?;
        ParsedCertificate::try_from(leaf).map_err(|_| malformed())?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|cause| match cause {
            pem::Error::NoItemsFound => CertificateError::NoKey(key.clone()),
            _ => CertificateError::UnsupportedKey(key.clone()),
        })?;
        let certified = CertifiedKey::from_der(chain, secret, &ring::default_provider());
        certified.map_err(|cause| match cause {
            rustls::Error::InconsistentKeys(_) => CertificateError::KeyMismatch {
                certificate: certificate.clone(),
                key: key.clone(),
            },
            _ => CertificateError::UnsupportedKey(key.clone()),
        })
    }
}

/// The maximum size of a PEM file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = || {
        // Reading a pipe would block.
        if !fs::metadata(file)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(file)?
            .take(MAX_FILE_BYTES)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|cause| CertificateError::Unreadable {
        file: file.into(),
        cause,
    })
}
