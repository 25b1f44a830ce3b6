//! TLS: the service's certificate, and its renewal.
//!
//! The files are read when the service starts, and again and again while it
//! runs. What takes the place of the certificate in use is good as a whole:
//! half of a renewal, or a broken one, changes nothing.

use std::{
    fs::{self, File},
    future::pending,
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

use super::App;

const HTTP2: &[u8] = b"h2";
const HTTP1: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// The first byte of a client that begins with a handshake.
const HANDSHAKE: u8 = 0x16;

/// A certificate and its key, which were found good.
#[derive(Debug)]
pub struct Tls {
    files: Files,
    in_use: Arc<InUse>,
    config: Arc<ServerConfig>,
    config_of_http1: Arc<ServerConfig>,
    /// How often it is looked for a renewal.
    pub look_every: Duration,
}

/// Why there is no TLS with a client.
#[derive(Debug)]
pub enum NoTls {
    /// It speaks without, and can be told so.
    Plain(TcpStream),
    /// It has left, or there is nothing that both sides take. An alert said so.
    Failed,
}

impl Tls {
    /// Reads the certificate, with those that lead to its authority, and its
    /// key from files in PEM form.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Unusable> {
        let files = Files {
            certificate: certificate.into(),
            key: key.into(),
        };
        let in_use = Arc::new(InUse(ArcSwap::from_pointee(files.load()?)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the default protocols")
            .with_no_client_auth()
            .with_cert_resolver(in_use.clone());
        // A client that comes back is known by what it brings: nothing is kept.
        config.ticketer = ring::Ticketer::new().expect("the system has random numbers");
        config.alpn_protocols = HTTP1.map(Vec::from).into();
        let config_of_http1 = Arc::new(config.clone());
        config.alpn_protocols.insert(0, HTTP2.into());
        Ok(Self {
            files,
            in_use,
            config: Arc::new(config),
            config_of_http1,
            look_every: Duration::from_secs(5),
        })
    }

    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, NoTls> {
        shake_hands(&self.config, stream).await
    }

    /// The same for a client who shall not choose HTTP/2.
    pub async fn accept_http1(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, NoTls> {
        shake_hands(&self.config_of_http1, stream).await
    }

    /// Takes a renewed certificate into use, if there is one.
    async fn renew(&self) -> Result<(), Unusable> {
        let files = self.files.clone();
        let found = spawn_blocking(move || files.load()).await;
        let found = found.expect("a load does not panic")?;
        // A key that belongs to the same certificate is the same key.
        if found.cert != self.in_use.0.load().cert {
            self.in_use.0.store(Arc::new(found));
            let file = self.files.certificate.display();
            tracing::info!(%file, "a renewed certificate is in use");
        }
        Ok(())
    }
}

async fn shake_hands(
    config: &Arc<ServerConfig>,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, NoTls> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) if first != [HANDSHAKE] => return Err(NoTls::Plain(stream)),
        _ => {}
    }
    let acceptor = TlsAcceptor::from(config.clone());
    acceptor.accept(stream).await.map_err(|_| NoTls::Failed)
}

/// Whether the client has chosen HTTP/2. Without a choice it is HTTP/1.1.
pub fn speaks_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

/// Looks for a renewed certificate, again and again. One that cannot be used is
/// told once.
pub async fn keep_renewed(app: Arc<App>) {
    let Some(tls) = &app.tls else {
        return pending().await;
    };
    let mut told = None;
    loop {
        tokio::time::sleep(tls.look_every).await;
        let trouble = tls.renew().await.err().map(|error| error.to_string());
        if let Some(error) = trouble.as_ref().filter(|_| trouble != told) {
            tracing::warn!(
                error,
                "the certificate in use stays, as the one on disk is no good"
            );
        }
        told = trouble;
    }
}

/// Hands the certificate that is in use to new connections.
#[derive(Debug)]
struct InUse(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for InUse {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// Where a certificate and its key are.
#[derive(Debug, Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("cannot read {}: {cause}", file.display())]
    Unreadable { file: PathBuf, cause: io::Error },
    #[error("{} holds no certificate; it must have a PEM block BEGIN CERTIFICATE", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} holds a broken certificate", .0.display())]
    BrokenCertificate(PathBuf),
    #[error(
        "{} holds no private key; it must have a PEM block BEGIN PRIVATE KEY, not encrypted",
        .0.display()
    )]
    NoKey(PathBuf),
    #[error(
        "{} holds a key that cannot be used: it must be RSA of 2048 bits or more, ECDSA or \
         Ed25519, whole and not encrypted",
        .0.display()
    )]
    BrokenKey(PathBuf),
    #[error(
        "the key in {} does not belong to the certificate in {}",
        key.display(),
        certificate.display()
    )]
    Strangers { certificate: PathBuf, key: PathBuf },
}

impl Files {
    fn load(&self) -> Result<CertifiedKey, Unusable> {
        let Self { certificate, key } = self;
        let broken_certificate = || Unusable::BrokenCertificate(certificate.clone());
        let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| broken_certificate())?;
        let own = chain.first();
        let own = own.ok_or_else(|| Unusable::NoCertificate(certificate.clone()))?;
        ParsedCertificate::try_from(own).map_err(|_| broken_certificate())?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|cause| match cause {
            pem::Error::NoItemsFound => Unusable::NoKey(key.clone()),
            _ => Unusable::BrokenKey(key.clone()),
        })?;
        let fitted = CertifiedKey::from_der(chain, secret, &ring::default_provider());
        fitted.map_err(|cause| match cause {
            rustls::Error::InconsistentKeys(_) => Unusable::Strangers {
                certificate: certificate.clone(),
                key: key.clone(),
            },
            _ => Unusable::BrokenKey(key.clone()),
        })
    }
}

/// The most that is read of a file.
const LARGEST: u64 = 1 << 20;

fn read(file: &Path) -> Result<Vec<u8>, Unusable> {
    let read = || {
        // A pipe would never come to its end.
        if !fs::metadata(file)?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let mut bytes = Vec::new();
        File::open(file)?.take(LARGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|cause| Unusable::Unreadable {
        file: file.into(),
        cause,
    })
}
