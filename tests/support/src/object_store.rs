//! A throwaway S3 service: SeaweedFS, on free loopback ports.

use std::{
    env, fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use tempfile::TempDir;

use crate::{CommandResult, free_address, wait_for};

pub const ACCESS_KEY: &str = "AKTEST";
pub const SECRET: &str = "hush-hush";

/// A running service. Killed on drop.
pub struct ObjectStore {
    server: Child,
    port: u16,
    _dir: Arc<TempDir>,
}

impl ObjectStore {
    #[track_caller]
    pub fn start() -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let config = dir.path().join("s3.json");
        let identity = format!(
            "{{\"identities\":[{{\"name\":\"test\",\"actions\":[\"Admin\"],\"credentials\":[\
             {{\"accessKey\":\"{ACCESS_KEY}\",\"secretKey\":\"{SECRET}\"}}]}}]}}"
        );
        fs::write(&config, identity).unwrap();
        loop {
            let port = free_address().port();
            let mut command = Command::new(python_tool("weed"));
            command
                .args([
                    "server",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    "-filer",
                    "-s3",
                ])
                .args(["-master.telemetry=false", "-master.volumePreallocate=false"])
                .args(["-master.volumeSizeLimitMB=64", "-volume.max=100"])
                .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
                .arg(format!("-dir={}", dir.path().display()))
                .arg(format!("-s3.config={}", config.display()))
                .arg(format!("-s3.port={port}"));
            for part in ["s3", "master", "volume", "filer"] {
                command.arg(format!("-{part}.port.grpc={}", free_address().port()));
            }
            for part in ["master", "volume", "filer"] {
                command.arg(format!("-{part}.port={}", free_address().port()));
            }
            let spawned = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut store = Self {
                server: spawned.unwrap_or_else(|cause| {
                    panic!("cannot run weed (make outside-tools installs it): {cause}")
                }),
                port,
                _dir: dir.clone(),
            };
            let is_ready = wait_for("SeaweedFS to respond", || {
                let is_over = store.server.try_wait().unwrap().is_some();
                (is_over || store.responds()).then_some(!is_over)
            });
            if is_ready {
                return store;
            }
            // Another process took a port in the meantime.
        }
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn responds(&self) -> bool {
        let exchange = || {
            let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
            connection.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            let mut response = Vec::new();
            connection.read_to_end(&mut response)?;
            Ok::<_, std::io::Error>(response)
        };
        exchange().is_ok_and(|response| response.starts_with(b"HTTP/1."))
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The environment variables of a client.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", self.url()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.into()),
        ]
    }

    /// Sends a request with another client, curl, and returns the body of the response.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, more: &[&str]) -> String {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--request", method])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", &format!("{ACCESS_KEY}:{SECRET}")])
            .args(more)
            .arg(self.url() + path);
        CommandResult::of(&mut curl).success().stdout
    }
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The path of a program that `make outside-tools` installs.
pub fn python_tool(name: &str) -> PathBuf {
    let default = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/outside/bin").into();
    let folder = env::var_os("PYTHON_TOOLS").unwrap_or_else(default);
    PathBuf::from(folder).join(name)
}
