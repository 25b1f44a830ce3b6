//! Backups in a bucket, and restoring them from there.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use rusqlite::Connection;
use serde_json::Value;
use support::{
    CommandResult, ObjectStore,
    object_store::{ACCESS_KEY, SECRET},
    wait_for,
};

use crate::harness::{Home, PETSTORE, Service};

/// A store in a temporary directory, and its bucket.
struct Shop<'a> {
    home: Home,
    objects: &'a ObjectStore,
    bucket: &'static str,
}

impl<'a> Shop<'a> {
    fn new(objects: &'a ObjectStore, bucket: &'static str) -> Self {
        objects.request("PUT", &format!("/{bucket}"), &[]);
        let home = Home::new();
        home.new_key();
        Self {
            home,
            objects,
            bucket,
        }
    }

    fn url(&self) -> String {
        format!("s3://{}/of the shop", self.bucket)
    }

    fn with_credentials(&self, mut command: Command) -> Command {
        command.envs(self.objects.variables());
        command
    }

    fn serve_command(&self, options: &[&str]) -> Command {
        let mut command = self.with_credentials(self.home.serve_command());
        command.args(["--backup-to", &self.url()]).args(options);
        command
    }

    fn serve(&self, options: &[&str]) -> Service {
        Service::start(&mut self.serve_command(options))
    }

    fn petstore(&self, arguments: &[&str]) -> CommandResult {
        let mut command = self.with_credentials(self.home.command(PETSTORE));
        CommandResult::of(command.args(arguments))
    }

    fn restore(&self, backup: &str) -> CommandResult {
        self.petstore(&["restore", backup, "--database", &self.home.url()])
    }

    /// The backups in the bucket, the newest first.
    fn list(&self) -> Vec<String> {
        let listed = self.petstore(&["restore", "--list", &self.url()]).success();
        let lines = listed.stdout.lines().skip(1);
        lines
            .map(|line| line.split_whitespace().last().unwrap().to_string())
            .collect()
    }

    /// Puts content in place of an object, with another client.
    fn put(&self, name: &str, content: &[u8]) {
        fs::write(self.home.path("object"), content).unwrap();
        let file = self.home.path("object").display().to_string();
        let path = format!("/{}/of%20the%20shop/{name}", self.bucket);
        self.objects
            .request("PUT", &path, &["--upload-file", &file]);
    }

    fn get(&self, name: &str) -> Vec<u8> {
        let file = self.home.path("object").display().to_string();
        let path = format!("/{}/of%20the%20shop/{name}", self.bucket);
        self.objects.request("GET", &path, &["--output", &file]);
        fs::read(file).unwrap()
    }

    fn import(&self, names: &[&str]) {
        let lines = names.iter().map(|name| format!("{name},1\n"));
        let csv = "name,categoryId\n".to_string() + &lines.collect::<String>();
        fs::write(self.home.path("new.csv"), csv).unwrap();
        let url = self.home.url();
        self.petstore(&["import", "new.csv", "--database", &url])
            .success();
    }

    /// Makes the file of the store larger than one part of an upload.
    fn grow(&self) {
        let db = Connection::open(self.home.database()).unwrap();
        db.execute_batch(
            "CREATE TABLE filler AS SELECT randomblob(10 << 20) AS bytes; DROP TABLE filler",
        )
        .unwrap();
    }

    fn pets(&self) -> usize {
        let exported = self.petstore(&["export", "--database", &self.home.url()]);
        exported.success().stdout.lines().count()
    }
}

/// The event about a complete backup in the bucket.
fn uploaded(service: &Service) -> String {
    wait_for("the upload", || {
        let mut events = service.events().into_iter();
        let complete =
            |event: &Value| event["message"] == "backup complete" && event["destination"] == "s3";
        Some(events.find(complete)?["file"].as_str().unwrap().to_string())
    })
}

#[test]
#[ignore = "needs SeaweedFS; make test installs it and runs this"]
fn backups_are_kept_in_a_bucket_and_restored_from_it() {
    let objects = ObjectStore::start();
    backups_are_listed_verified_and_restored(&Shop::new(&objects, "small"));
    large_backups_are_uploaded_in_parts(&Shop::new(&objects, "large"));
    old_backups_are_deleted(&Shop::new(&objects, "old"));
    failures_name_no_secret(&Shop::new(&objects, "denied"));
    an_upload_counts_once_it_was_read_back(&Shop::new(&objects, "unread"));
    a_damaged_object_is_replaced(&Shop::new(&objects, "replaced"));
    the_store_is_uploaded_when_the_folder_is_gone(&Shop::new(&objects, "gone"));
}

fn backups_are_listed_verified_and_restored(shop: &Shop) {
    shop.import(&["Rex", "Bella"]);
    let service = shop.serve(&[]);
    let name = uploaded(&service);
    service.stop();
    // Without a folder, the copy was beside the store.
    let left = shop.home.files();
    assert!(
        !left.iter().any(|file| file.starts_with("petstore-")),
        "{left:?}"
    );
    assert_eq!(shop.list(), [&*name]);
    shop.import(&["Max"]);
    let restored = shop.restore(&shop.url()).success();
    assert!(restored.stderr.contains("with 2 animals"), "{restored:?}");
    assert_eq!(shop.pets(), 2);
    let named = format!("{}/{name}", shop.url());
    shop.import(&["Max"]);
    shop.restore(&named).success();
    assert_eq!(shop.pets(), 2);
    let unknown = named.replace("-2-", "-3-");
    shop.restore(&unknown)
        .assert_fails(1, "there is no petstore-2");

    // One bit is wrong, or the end is missing.
    let content = shop.get(&name);
    let mut damaged = content.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    for bytes in [&damaged[..], &content[..4096]] {
        shop.put(&name, bytes);
        shop.restore(&named).assert_fails(1, "is damaged");
        assert_eq!(shop.pets(), 2);
    }
    // Whole, but without an animal that is counted.
    let file = shop.home.path("wrong.db");
    fs::write(&file, &content).unwrap();
    let db = Connection::open(&file).unwrap();
    db.execute_batch("UPDATE counts SET pets = 9").unwrap();
    db.close().unwrap();
    shop.put(&name, &fs::read(&file).unwrap());
    shop.restore(&named).assert_fails(1, "is damaged");
    let left = shop.home.files();
    assert!(
        !left.iter().any(|file| file.contains("partial")),
        "{left:?}"
    );
}

fn large_backups_are_uploaded_in_parts(shop: &Shop) {
    shop.import(&["Rex"]);
    shop.grow();
    // What a killed service has left: the name counts, not the content.
    let service = shop.serve(&["--backup-dir", "backups"]);
    let name = uploaded(&service);
    service.stop();
    let path = format!("/{}/of%20the%20shop/{name}?uploads=", shop.bucket);
    shop.objects.request("POST", &path, &[]);
    let uploads = || {
        let path = format!("/{}?uploads=", shop.bucket);
        shop.objects.request("GET", &path, &[])
    };
    assert!(uploads().contains("<UploadId>"), "{}", uploads());
    let local = fs::read(shop.home.path("backups").join(&name)).unwrap();
    assert!(local.len() > 10 << 20);
    assert!(shop.get(&name) == local, "the object differs");
    // It replaces the object that is gone, with the backup that the folder has.
    let path = format!("/{}/of%20the%20shop/{name}", shop.bucket);
    shop.objects.request("DELETE", &path, &[]);
    let service = shop.serve(&["--backup-dir", "backups"]);
    assert_eq!(uploaded(&service), name);
    assert!(!uploads().contains("<UploadId>"), "{}", uploads());
    service.stop();
    shop.import(&["Max"]);
    shop.restore(&shop.url()).success();
    assert_eq!(shop.pets(), 1);
}

fn old_backups_are_deleted(shop: &Shop) {
    let service = shop.serve(&[]);
    let name = uploaded(&service);
    service.stop();
    let content = shop.get(&name);
    let with_time = |time| format!("petstore-{time}{}", &name[25..]);
    let times = ["20200101T000000Z", "20200102T000000Z", "20200103T000000Z"];
    let [first, second, third] = times.map(with_time);
    for old in [&first, &second, &third] {
        shop.put(old, &content);
    }
    let other = first.replace(first.split('-').nth(3).unwrap(), "00000000000000aa");
    shop.put(&other, b"mine");
    shop.put("notes.txt", b"mine");
    let path = format!("/{}/of%20the%20shop/{name}", shop.bucket);
    shop.objects.request("DELETE", &path, &[]);
    let service = shop.serve(&["--backup-keep", "2", "--metrics-listen", "127.0.0.1:0"]);
    let made = uploaded(&service);
    assert_eq!(shop.list(), [&*made, &third, &*other]);
    assert_eq!(shop.get("notes.txt"), b"mine");
    let mut command = shop.with_credentials(shop.home.command(PETSTORE));
    command.args(["doctor", "--database", &shop.home.url()]);
    command.args(["--listen", &service.address.to_string()]);
    command.args(["--packaged-settings", "none", "--backup-to", &shop.url()]);
    let report = CommandResult::of(&mut command);
    let found = format!("2 backups in {}; the newest is ", shop.url());
    assert!(report.stdout.contains(&found), "{report:?}");
    service.stop();
}

fn failures_name_no_secret(shop: &Shop) {
    let wrong = "not-the-right-one";
    let mut command = shop.serve_command(&["--metrics-listen", "127.0.0.1:0"]);
    let service = Service::start(command.env("AWS_SECRET_ACCESS_KEY", wrong));
    let event = service.event("off-site backup failed");
    let error = event["error"].as_str().unwrap();
    assert!(
        error.contains("SignatureDoesNotMatch (403); check AWS_"),
        "{error}"
    );
    let output = service.output();
    for secret in [wrong, SECRET, ACCESS_KEY] {
        assert!(!output.contains(secret), "{output}");
    }
    service.stop();
    let mut command = shop.with_credentials(shop.home.command(PETSTORE));
    command.args(["restore", "--list", &shop.url()]);
    let denied = CommandResult::of(command.env("AWS_SECRET_ACCESS_KEY", wrong));
    denied.assert_fails(1, "SignatureDoesNotMatch");
    let mut command = shop.serve_command(&[]);
    let missing = CommandResult::of(command.env_remove("AWS_SECRET_ACCESS_KEY"));
    missing.assert_fails(1, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    let absent = shop.petstore(&["restore", "--list", "s3://absent-bucket/x"]);
    absent.assert_fails(1, "s3://absent-bucket/x: ");
    absent.assert_fails(1, "NoSuchBucket");
}

/// Credentials may allow to write objects, but not to read them.
fn an_upload_counts_once_it_was_read_back(shop: &Shop) {
    let denies = Arc::new(AtomicBool::new(true));
    let reads = |head: &str| head.starts_with("GET ") && head.contains("/petstore-2");
    let endpoint = deny(shop.objects.address(), denies.clone(), reads);
    let serve = || {
        let mut command = shop.serve_command(&["--metrics-listen", "127.0.0.1:0"]);
        Service::start(command.env("AWS_ENDPOINT_URL_S3", &endpoint))
    };
    // Neither the attempt that has uploaded it counts it, nor the next one, after a restart.
    for _ in 0..2 {
        let service = serve();
        let failed = service.event("off-site backup failed");
        let error = failed["error"].as_str().unwrap();
        assert!(error.contains("AccessDenied"), "{error}");
        let metrics = metrics(&service);
        assert!(!metrics.contains("petstore_backup_newest_timestamp_seconds{"));
        assert_eq!(shop.list().len(), 1);
        service.stop();
    }
    denies.store(false, Relaxed);
    let service = serve();
    wait_for("the object to count", || {
        let metrics = metrics(&service);
        let counts = metrics.contains("petstore_backup_newest_timestamp_seconds{");
        counts.then_some(())
    });
    assert_eq!(shop.list().len(), 1);
    service.stop();
}

fn metrics(service: &Service) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(service.metrics()).text()
}

/// The folder has the backup that the bucket had.
fn a_damaged_object_is_replaced(shop: &Shop) {
    let service = shop.serve(&["--backup-dir", "backups"]);
    let name = uploaded(&service);
    service.stop();
    let content = shop.get(&name);
    shop.put(&name, &content[1..]);
    let service = shop.serve(&["--backup-dir", "backups", "--backup-keep", "1"]);
    service.event("backup is damaged; it does not count");
    assert_eq!(uploaded(&service), name);
    service.stop();
    assert!(shop.get(&name) == content, "the object differs");
}

fn the_store_is_uploaded_when_the_folder_is_gone(shop: &Shop) {
    let denies = Arc::new(AtomicBool::new(true));
    let endpoint = deny(shop.objects.address(), denies.clone(), |_| true);
    let mut command = shop.serve_command(&["--backup-dir", "backups", "--backup-every", "2s"]);
    let service = Service::start(command.env("AWS_ENDPOINT_URL_S3", &endpoint));
    service.event("backup complete");
    service.event("off-site backup failed");
    fs::rename(shop.home.path("backups"), shop.home.path("gone")).unwrap();
    service.event("backup failed");
    denies.store(false, Relaxed);
    uploaded(&service);
    assert_ne!(shop.list(), [""; 0]);
    service.stop();
}

/// Starts a proxy to a service that rejects those requests. Returns its address.
fn deny(service: SocketAddr, denies: Arc<AtomicBool>, which: fn(&str) -> bool) -> String {
    const DENIED: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 40\r\n\r\n\
                            <Error><Code>AccessDenied</Code></Error>";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let forward = move |mut client: TcpStream| {
        let mut server = TcpStream::connect(service).unwrap();
        let mut responses = server.try_clone().unwrap();
        let mut back = client.try_clone().unwrap();
        thread::spawn(move || io::copy(&mut responses, &mut back));
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            let request = &buffer[..length];
            // A head arrives at once.
            let head = String::from_utf8_lossy(request);
            if denies.load(Relaxed) && which(&head) {
                let _ = client.write_all(DENIED);
                let _ = client.shutdown(Shutdown::Both);
            } else if server.write_all(request).is_err() {
                break;
            }
        }
    };
    thread::spawn(move || {
        for client in listener.incoming() {
            let forward = forward.clone();
            thread::spawn(move || forward(client.unwrap()));
        }
    });
    format!("http://{address}")
}

/// The upload is interrupted by the service that is stopped, which does not wait for it.
#[test]
#[ignore = "needs SeaweedFS; make test installs it and runs this"]
fn a_service_that_is_stopped_waits_for_no_upload() {
    let objects = ObjectStore::start();
    let shop = Shop::new(&objects, "stopped");
    shop.grow();
    // It accepts connections, and then nothing.
    let stuck = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", stuck.local_addr().unwrap());
    let mut command = shop.serve_command(&["--backup-dir", "backups"]);
    let service = Service::start(command.env("AWS_ENDPOINT_URL_S3", endpoint));
    let (_connection, _) = stuck.accept().unwrap();
    service.stop();
}
