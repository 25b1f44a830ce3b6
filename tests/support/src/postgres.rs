//! A throwaway PostgreSQL server: a fresh cluster on a free loopback port that does not
//! outlive the test process.

use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::{NamedTempFile, TempDir};

use crate::{free_address, wait_for};

static SHARED: OnceLock<Cluster> = OnceLock::new();

/// The server that all tests of a process share, each with a database of its own. The first one
/// starts it, and [`delete_shared`] ends it.
pub fn shared() -> &'static Cluster {
    SHARED.get_or_init(|| {
        let (started, cluster) = mpsc::channel();
        thread::spawn(move || {
            started.send(Cluster::start_without_sync()).unwrap();
            // The kernel kills the server when this thread exits.
            loop {
                thread::park();
            }
        });
        cluster.recv().expect("PostgreSQL starts")
    })
}

/// Stops the shared server, if there is one, and deletes its files: a static variable is never
/// dropped.
pub(crate) fn delete_shared() {
    if let Some(cluster) = SHARED.get() {
        cluster.crash();
        fs::remove_dir_all(cluster.dir.path()).unwrap();
    }
}

/// A running PostgreSQL server.
pub struct Cluster {
    pub port: u16,
    dir: TempDir,
    settings: Vec<String>,
    server: Mutex<Child>,
    databases: AtomicU32,
}

impl Cluster {
    /// Starts a server. The calling thread must outlive it: the kernel kills the server
    /// when that thread exits (`PR_SET_PDEATHSIG`).
    pub fn start() -> Self {
        Self::start_from(&mut copy_data(), &[])
    }

    /// Starts a server that does not survive a crash of the operating system, for tests
    /// that are not about durability: it does not wait for the disk.
    pub fn start_without_sync() -> Self {
        let settings = ["fsync=off", "full_page_writes=off", "max_wal_size=64MB"];
        Self::start_from(&mut copy_data(), &settings)
    }

    /// Starts a server with a TLS certificate for `localhost`, and returns the CA
    /// certificate that signed it.
    pub fn start_with_tls() -> (Self, NamedTempFile) {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, key).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".into()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority).unwrap();

        let cluster = Self::start();
        let data = cluster.dir.path().join("data");
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
        wait_for("PostgreSQL to offer TLS", || {
            (cluster.psql("postgres", "SHOW ssl") == "on").then_some(())
        });
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(authority.pem().as_bytes()).unwrap();
        (cluster, file)
    }

    /// Starts a streaming replication standby of this server.
    pub fn start_standby(&self) -> Self {
        Self::start_from(
            as_owner("pg_basebackup")
                .args(["--checkpoint=fast", "--write-recovery-conf", "--dbname"])
                .arg(self.url("postgres"))
                .arg("--pgdata"),
            &[],
        )
    }

    /// Starts a server on the data directory that `init` creates; its path is appended
    /// to the arguments.
    fn start_from(init: &mut Command, more_settings: &[&str]) -> Self {
        let dir = temporary_dir();
        run(init.arg(dir.path().join("data")));
        let mut settings = vec![
            "listen_addresses=127.0.0.1".into(),
            "max_connections=300".into(),
            format!("unix_socket_directories={}", dir.path().display()),
        ];
        settings.extend(more_settings.iter().map(|setting| setting.to_string()));
        let port = free_address().port();
        settings.push(format!("port={port}"));
        let mut cluster = Self {
            port,
            server: Mutex::new(spawn(dir.path(), &settings)),
            dir,
            settings,
            databases: AtomicU32::new(0),
        };
        while !cluster.becomes_ready() {
            // Another process took the port in the meantime.
            cluster.port = free_address().port();
            cluster.settings.pop();
            cluster.settings.push(format!("port={}", cluster.port));
            *cluster.server.lock().unwrap() = spawn(cluster.dir.path(), &cluster.settings);
        }
        cluster
    }

    /// Crashes the server, as `pg_ctl stop -m immediate` does: it recovers from the WAL
    /// when it restarts.
    pub fn crash(&self) {
        let mut server = self.server.lock().unwrap();
        if server.try_wait().unwrap().is_none() {
            let server = Pid::from_child(&server);
            kill_process(server, Signal::QUIT).unwrap();
        }
        server.wait().unwrap();
    }

    /// Restarts the server; call it on the thread that started it.
    pub fn restart(&self) {
        *self.server.lock().unwrap() = spawn(self.dir.path(), &self.settings);
        // A client may have the port for a moment.
        while !self.becomes_ready() {
            *self.server.lock().unwrap() = spawn(self.dir.path(), &self.settings);
        }
    }

    /// Waits until the server accepts connections. False if it ended because its port is
    /// in use.
    fn becomes_ready(&self) -> bool {
        wait_for("PostgreSQL to start", || {
            let ready = Command::new(program("pg_isready"))
                .args(["--quiet", "--username=petstore", "--host"])
                .arg(self.dir.path())
                .arg(format!("--port={}", self.port))
                .status();
            if ready.unwrap().success() {
                return Some(true);
            }
            self.server.lock().unwrap().try_wait().unwrap()?;
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap();
            assert!(
                log.contains("Address already in use"),
                "PostgreSQL did not start:\n{log}"
            );
            Some(false)
        })
    }

    /// Creates an empty database and returns its name.
    pub fn create_database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://petstore@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL statements and returns what `psql` prints.
    pub fn psql(&self, database: &str, sql: &str) -> String {
        let output = self.psql_command(database).arg(sql).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().into()
    }

    /// Changes a setting of the running server and reloads its configuration.
    pub fn set(&self, setting: &str) {
        self.psql("postgres", &format!("ALTER SYSTEM SET {setting}"));
        self.psql("postgres", "SELECT pg_reload_conf()");
    }

    /// A `psql` command that still needs the statement as its last argument.
    pub fn psql_command(&self, database: &str) -> Command {
        let mut psql = Command::new(program("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set=ON_ERROR_STOP=1", "--dbname", &self.url(database)])
            .arg("--command");
        psql
    }
}

// A server that is killed leaves processes that continue writing to the directory, which
// then cannot be deleted.
impl Drop for Cluster {
    fn drop(&mut self) {
        self.crash();
    }
}

/// The command that makes a data directory: it copies one, which takes a tenth of the
/// time of `initdb`. The first test makes that one, and later runs use it again.
fn copy_data() -> Command {
    static INITIALIZING: Mutex<()> = Mutex::new(());
    let printed = Command::new(program("postgres")).arg("--version").output();
    let version = String::from_utf8(printed.unwrap().stdout).unwrap();
    let dir_name = version.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let _only_once = INITIALIZING.lock().unwrap();
    let initialized = target_dir().join(dir_name);
    if !initialized.exists() {
        // Not every user that PostgreSQL runs as may enter the target directory.
        let dir = temporary_dir();
        let data = dir.path().join("data");
        let mut initdb = as_owner("initdb");
        initdb
            .args(["--username=petstore", "--auth=trust", "--no-sync"])
            .args(["--encoding=UTF8", "--locale=C", "--pgdata"]);
        run(initdb.arg(&data));
        let copied = initialized.with_extension(std::process::id().to_string());
        run(copy().arg(&data).arg(&copied));
        // If another test process was faster, its directory stays.
        if fs::rename(&copied, &initialized).is_err() {
            fs::remove_dir_all(&copied).unwrap();
        }
    }
    let mut copy = copy();
    copy.arg(initialized);
    copy
}

/// A directory in the target directory, which has the test program in `debug/deps`.
fn target_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let dir = program.ancestors().nth(3).unwrap().join("tmp");
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn copy() -> Command {
    let mut copy = Command::new("cp");
    copy.arg("--archive");
    copy
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

/// A directory that belongs to the user that PostgreSQL runs as.
fn temporary_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    if let Some((user, group)) = owner() {
        chown(dir.path(), Some(user), Some(group)).unwrap();
    }
    dir
}

fn spawn(dir: &Path, settings: &[String]) -> Child {
    let log = fs::File::create(dir.join("log")).unwrap();
    let mut server = as_owner("postgres");
    server.arg("-D").arg(dir.join("data"));
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

/// A command for a PostgreSQL program that refuses to run as root. `setpriv` drops
/// privileges and has the kernel kill it when the tests exit.
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

/// The user and group to run PostgreSQL as, if the tests run as root.
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

/// The path of a PostgreSQL program: in the folder that `POSTGRES_BIN` names, Debian's newest
/// installation, or on `PATH`, to which `/usr/sbin` is added because ordinary users may not have
/// it.
pub fn program(name: &str) -> PathBuf {
    let chosen = std::env::var_os("POSTGRES_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut debian: Vec<_> = debian
        .map(|entry| entry.unwrap().path().join("bin"))
        .collect();
    debian.sort();
    let path = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut dirs = chosen
        .into_iter()
        .chain(debian.into_iter().rev())
        .chain(path);
    let found = dirs.find_map(|dir| Some(dir.join(name)).filter(|file| file.exists()));
    found.unwrap_or_else(|| panic!("{name} is not installed; `make tools` installs it"))
}
