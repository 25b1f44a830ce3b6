//! A PostgreSQL server of the tests' own: a fresh cluster on a free port of
//! the loopback address, which ends with the process that started it.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::{NamedTempFile, TempDir};

/// A running server.
pub struct Cluster {
    pub port: u16,
    folder: TempDir,
    settings: Vec<String>,
    server: Mutex<Child>,
    databases: AtomicU32,
}

impl Cluster {
    /// Starts a server. It must be called on a thread that lives as long as
    /// the server shall: the system ends the server with that thread.
    pub fn start() -> Self {
        Self::start_from(
            as_owner("initdb")
                .args(["--username=petstore", "--auth=trust", "--no-sync"])
                .args(["--encoding=UTF8", "--locale=C", "--pgdata"]),
        )
    }

    /// Starts a server that speaks TLS as `localhost`, and gives the authority
    /// that its certificate is from.
    #[allow(dead_code, reason = "not every test program has one")]
    pub fn start_with_tls() -> (Self, NamedTempFile) {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, key).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".into()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority).unwrap();

        let cluster = Self::start();
        let data = cluster.folder.path().join("data");
        for (name, text) in [
            ("server.crt", certificate.pem()),
            ("server.key", key.serialize_pem()),
        ] {
            let file = data.join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            if let Some((user, group)) = owner() {
                chown(&file, Some(user), Some(group)).unwrap();
            }
        }
        cluster.set("ssl = on");
        while cluster.psql("postgres", "SHOW ssl") == "off" {
            sleep(Duration::from_millis(20));
        }
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(authority.pem().as_bytes()).unwrap();
        (cluster, file)
    }

    /// Starts a server that follows this one.
    #[allow(dead_code, reason = "not every test program has one")]
    pub fn start_standby(&self) -> Self {
        Self::start_from(
            as_owner("pg_basebackup")
                .args(["--checkpoint=fast", "--write-recovery-conf", "--dbname"])
                .arg(self.url("postgres"))
                .arg("--pgdata"),
        )
    }

    /// Starts a server on the data that a command makes in the folder that is
    /// added to it.
    fn start_from(make: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some((user, group)) = owner() {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let made = make.arg(folder.path().join("data")).output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        let port = free_port();
        let all = vec![
            "listen_addresses=127.0.0.1".into(),
            "max_connections=300".into(),
            format!("port={port}"),
            format!("unix_socket_directories={}", folder.path().display()),
        ];
        let cluster = Self {
            port,
            server: Mutex::new(spawn(folder.path(), &all)),
            folder,
            settings: all,
            databases: AtomicU32::new(0),
        };
        cluster.wait();
        cluster
    }

    /// Ends the server at once, as `pg_ctl stop -m immediate` does: it has to
    /// recover at its next start.
    #[allow(dead_code, reason = "not every test program restarts it")]
    pub fn crash(&self) {
        let mut server = self.server.lock().unwrap();
        let mut quit = Command::new("sh");
        quit.args(["-c", "kill -s QUIT \"$1\"", "sh"]);
        assert!(
            quit.arg(server.id().to_string())
                .status()
                .unwrap()
                .success()
        );
        server.wait().unwrap();
    }

    /// Starts it again, on the same thread as before.
    #[allow(dead_code, reason = "not every test program restarts it")]
    pub fn restart(&self) {
        *self.server.lock().unwrap() = spawn(self.folder.path(), &self.settings);
        self.wait();
    }

    fn wait(&self) {
        for _ in 0..600 {
            let ready = Command::new(program("pg_isready"))
                .args(["--quiet", "--host=127.0.0.1", "--username=petstore"])
                .arg(format!("--port={}", self.port))
                .status();
            if ready.unwrap().success() {
                return;
            }
            sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        panic!("PostgreSQL did not start:\n{log}");
    }

    /// Makes an empty database and gives its name.
    pub fn create_database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://petstore@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements and gives what they print.
    pub fn psql(&self, database: &str, sql: &str) -> String {
        let done = self.psql_command(database).arg(sql).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{sql}: {said}");
        String::from_utf8(done.stdout).unwrap().trim().into()
    }

    /// Changes a setting of the running server.
    #[allow(dead_code, reason = "not every test program changes one")]
    pub fn set(&self, setting: &str) {
        self.psql("postgres", &format!("ALTER SYSTEM SET {setting}"));
        self.psql("postgres", "SELECT pg_reload_conf()");
    }

    /// `psql`, to be given a statement.
    pub fn psql_command(&self, database: &str) -> Command {
        let mut psql = Command::new(program("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set=ON_ERROR_STOP=1", "--dbname", &self.url(database)])
            .arg("--command");
        psql
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut server = self.server.lock().unwrap();
        let _ = server.kill();
        let _ = server.wait();
    }
}

fn spawn(folder: &Path, settings: &[String]) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    let mut server = as_owner("postgres");
    server.arg("-D").arg(folder.join("data"));
    for setting in settings {
        server.args(["-c", setting]);
    }
    server
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// A program of PostgreSQL that must not run as root, with `setpriv` before it
/// so that it does not outlive the tests.
pub fn as_owner(name: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=KILL");
    if let Some((user, group)) = owner() {
        command.arg(format!("--reuid={user}"));
        command.arg(format!("--regid={group}"));
        command.arg("--clear-groups");
    }
    command
        .arg(program(name))
        .env("LC_ALL", "C")
        .current_dir("/");
    command
}

/// The user and group that PostgreSQL runs as, if this one is root.
fn owner() -> Option<(u32, u32)> {
    rustix::process::getuid().is_root().then(|| {
        let users = fs::read_to_string("/etc/passwd").unwrap();
        let mut users = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let postgres = users.find(|fields| fields[0] == "postgres").unwrap();
        (postgres[2].parse().unwrap(), postgres[3].parse().unwrap())
    })
}

/// A program of PostgreSQL: where Debian puts it, or on the path. Users who are
/// not root may not have `/usr/sbin` there.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut debian: Vec<_> = debian
        .map(|entry| entry.unwrap().path().join("bin"))
        .collect();
    debian.sort();
    let path = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut places = debian.into_iter().rev().chain(path);
    let found = places.find_map(|place| Some(place.join(name)).filter(|file| file.exists()));
    found.unwrap_or_else(|| panic!("{name} is not installed; `make tools` installs it"))
}

fn free_port() -> u16 {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    probe.local_addr().unwrap().port()
}
