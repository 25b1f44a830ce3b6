//! `petstore photos`, and `petstore export --photos`.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Command,
};

use http::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use support::{Cluster, CommandResult, noise, signal};

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
    import_export::run,
};

const CHIP: &str = "756097200000001";
const PHOTO_MEMBERS: [&str; 4] = ["digest", "height", "id", "width"];

/// A store that is served.
struct Shop {
    home: Home,
    service: Service,
    key: String,
}

impl Shop {
    fn start(home: Home) -> Self {
        let service = home.serve();
        let key = home.new_key();
        Self { home, service, key }
    }

    fn restart(self, options: &[&str]) -> Self {
        let Self { home, service, key } = self;
        service.stop();
        let service = Service::start(home.serve_command().args(options));
        Self { home, service, key }
    }

    fn client(&self) -> Client {
        Client::new(&self.service, &self.key)
    }

    /// Creates animals with these members, beside their names.
    async fn add_animals(&self, animals: &[Value]) {
        let client = self.client();
        for animal in animals {
            let mut pet = json!({"name": "Rex", "categoryId": 1});
            let members = pet.as_object_mut().unwrap();
            members.extend(animal.as_object().unwrap().clone());
            let created = client.send_json(Method::POST, "/v1/pets", &pet, None);
            assert_eq!(created.await.unwrap().status, 201);
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(PETSTORE);
        command
            .arg("photos")
            .args(arguments)
            .env("PETSTORE_URL", self.service.url(""))
            .env("PETSTORE_KEY", &self.key);
        command
    }

    fn photos(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(&mut self.command(arguments))
    }

    /// The photos of an animal, as the API sends them.
    fn list(&self, id: &str) -> Vec<Value> {
        lines(&self.photos(&["list", id]).success().stdout)
    }

    /// The sizes of the photos of an animal, in their order.
    fn sizes(&self, id: &str) -> Vec<[u64; 2]> {
        let photos = self.list(id);
        let size = |photo: &Value| ["width", "height"].map(|side| photo[side].as_u64().unwrap());
        photos.iter().map(size).collect()
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.home.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn lines(json: &str) -> Vec<Value> {
    let lines = json.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries.map(|it| name(it).into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn photos_are_added_listed_and_deleted() {
    let shop = Shop::start(Home::new());
    shop.add_animals(&[json!({})]).await;
    assert!(shop.list("1").is_empty());
    shop.write("a.png", &noise(40, 30, 1));
    shop.write("b.png", &noise(20, 50, 2));
    let added = shop.photos(&["add", "1", "a.png", "b.png"]).success();
    assert_eq!(added.stderr, "");
    let photos = lines(&added.stdout);
    let members: Vec<_> = photos[0].as_object().unwrap().keys().collect();
    assert_eq!(members, PHOTO_MEMBERS);
    assert_eq!(shop.list("1"), photos);
    assert_eq!(shop.sizes("1"), [[40, 30], [20, 50]]);
    // On purpose.
    shop.photos(&["add", "1", "a.png"]).success();
    assert_eq!(shop.list("1").len(), 3);

    let first = photos[0]["id"].to_string();
    let deleted = shop.photos(&["delete", "1", &first]).success();
    assert_eq!(deleted.stdout, "");
    assert_eq!(
        deleted.stderr,
        format!("Deleted photo {first} of animal 1.\n")
    );
    assert_eq!(shop.sizes("1"), [[20, 50], [40, 30]]);
    let again = shop.photos(&["delete", "1", &first]);
    again.assert_fails(1, "photo");
    for arguments in [&["add", "2", "a.png"][..], &["list", "2"]] {
        let missing = shop.photos(arguments);
        missing.assert_fails(1, "petstore: no animal has the id 2\n");
    }
    shop.photos(&["add", "x", "a.png"])
        .assert_fails(2, "the id of an animal");
}

/// The others are added.
#[tokio::test(flavor = "multi_thread")]
async fn refused_files_are_listed() {
    let shop = Shop::start(Home::new());
    shop.add_animals(&[json!({})]).await;
    let good = noise(40, 30, 1);
    shop.write("damaged.png", &good[..good.len() - 20]);
    shop.write("notes.txt", b"Rex");
    shop.write("large.png", &vec![0; (10 << 20) + 1]);
    shop.write("good.png", &good);
    let files = [
        "damaged.png",
        "notes.txt",
        "large.png",
        "no.png",
        ".",
        "good.png",
    ];
    let added = shop.photos(&[&["add", "1"], &files[..]].concat());
    added.assert_fails(1, "petstore: added 1 photo; 5 files were left out\n");
    let listed: Vec<_> = added.stderr.lines().collect();
    for ((line, file), reason) in listed.iter().zip(files).zip([
        "damaged",
        "JPEG",
        "is larger than 10 MiB",
        "cannot be read: ",
        "is not a file",
    ]) {
        let report = line.strip_prefix(&format!("{file}: ")).expect(line);
        assert!(report.contains(reason), "{line}");
        assert!(!report.contains("os error"), "{line}");
    }
    assert_eq!(lines(&added.stdout), shop.list("1"));
    assert_eq!(shop.sizes("1"), [[40, 30]]);
}

/// Photos are exported and imported into another store, where they are the same.
async fn photos_move(home: Home, other: Home) {
    let shop = Shop::start(home);
    shop.add_animals(&[json!({}), json!({}), json!({})]).await;
    shop.write("a.png", &noise(40, 30, 1));
    // More than one part.
    shop.write("b.png", &noise(600, 500, 7));
    shop.photos(&["add", "1", "a.png", "b.png", "a.png"])
        .success();
    shop.photos(&["add", "3", "a.png"]).success();
    let removed = lines(&shop.photos(&["add", "2", "a.png"]).success().stdout);
    shop.photos(&["delete", "2", &removed[0]["id"].to_string()])
        .success();

    let export = ["export", "animals.jsonl", "--photos", "pictures/of/all"];
    let exported = run(&shop.home, &export).success();
    assert!(
        exported
            .stderr
            .starts_with("Exported 3 animals and 4 photos from "),
        "{exported:?}"
    );
    let folder = shop.home.path("pictures/of/all");
    let names = ["1-1.jpg", "1-2.jpg", "1-3.jpg", "3-1.jpg"];
    assert_eq!(file_names(&folder), names);
    for name in names {
        assert!(
            fs::read(folder.join(name))
                .unwrap()
                .starts_with(b"\xff\xd8")
        );
    }
    let repeated = ["export", "again.jsonl", "--photos", "pictures/of/all"];
    run(&shop.home, &repeated).assert_fails(1, "not empty");
    assert!(!shop.home.path("again.jsonl").exists());
    run(&shop.home, &["export", "--orders", "--photos", "x"]).assert_fails(2, "--orders");

    let there = Shop::start(other);
    fs::copy(
        shop.home.path("animals.jsonl"),
        there.home.path("animals.jsonl"),
    )
    .unwrap();
    run(&there.home, &["import", "animals.jsonl"]).success();
    let folder = folder.to_str().unwrap();
    let imported = there.photos(&["import", folder]).success();
    assert_eq!(imported.stderr, "Added 4 photos to 2 animals.\n");
    for id in ["1", "2", "3"] {
        assert_eq!(there.sizes(id), shop.sizes(id), "{id}");
    }
    assert_eq!(there.sizes("1"), [[40, 30], [600, 500], [40, 30]]);
    let before = there.list("1");
    let repeated = there.photos(&["import", folder]).success();
    assert_eq!(
        repeated.stderr,
        "Added 0 photos to 0 animals; 4 were there already.\n"
    );
    assert_eq!(there.list("1"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn photos_move_to_another_store() {
    photos_move(Home::new(), Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn photos_move_between_databases() {
    let cluster = Cluster::start();
    let on_server = || Home::with_database(cluster.url(&cluster.create_database()));
    photos_move(on_server(), Home::new()).await;
    photos_move(Home::new(), on_server()).await;
}

/// The animals and the other photos are exported.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_leaves_out_damaged_photos() {
    let shop = Shop::start(Home::new());
    shop.add_animals(&[json!({}), json!({})]).await;
    shop.write("a.png", &noise(40, 30, 1));
    shop.photos(&["add", "1", "a.png", "a.png"]).success();
    shop.photos(&["add", "2", "a.png"]).success();
    let db = Connection::open(shop.home.database()).unwrap();
    db.execute(
        "DELETE FROM photo_parts WHERE photo_id = 2 AND kind = 'full'",
        [],
    )
    .unwrap();
    let export = ["export", "animals.jsonl", "--photos", "pictures"];
    let exported = run(&shop.home, &export);
    exported.assert_fails(1, "petstore: 1 photo was left out\n");
    let reason = "Photo 2 of animal 1 is damaged or was purged; run `petstore check`.\n";
    assert!(exported.stderr.starts_with(reason), "{exported:?}");
    assert!(
        exported
            .stderr
            .contains("Exported 2 animals and 2 photos from ")
    );
    assert_eq!(
        file_names(&shop.home.path("pictures")),
        ["1-1.jpg", "2-1.jpg"]
    );
    let animals = fs::read_to_string(shop.home.path("animals.jsonl")).unwrap();
    assert_eq!(animals.lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_matched_by_id_and_microchip() {
    let shop = Shop::start(Home::new());
    shop.add_animals(&[
        json!({}),
        json!({"microchip": CHIP, "status": "sold"}),
        json!({"microchip": CHIP}),
        json!({"microchip": "900000001", "status": "sold"}),
        json!({"microchip": "900000001", "status": "sold"}),
        json!({"microchip": "900000002", "status": "sold"}),
    ])
    .await;
    let file = |name: &str, side| shop.write(&format!("in/{name}"), &noise(side, side, 1));
    // Of animal 1, in the order of the numbers and not of the names.
    file("1-10.png", 13);
    file("1-9.PNG", 12);
    file("1.png", 11);
    file("01-11.jpeg", 14);
    file(&format!("{CHIP}-2.png"), 32);
    file("3.png", 31);
    file("900000002.webp", 61);
    for name in ["900000001.png", "900000009.png", "99.png", "Rex.png"] {
        file(name, 10);
    }
    shop.write("in/animals.csv", b"name\n");
    shop.write("in/.DS_Store", b"");
    shop.write("in/4.png", b"not a picture");
    fs::create_dir(shop.home.path("in/5.png")).unwrap();

    let matched = shop.photos(&["import", "--dry-run", "in"]);
    matched.assert_fails(
        1,
        "petstore: 8 files match 4 animals; nothing was added; 6 files were left out\n",
    );
    assert!(shop.list("1").is_empty());
    let imported = shop.photos(&["import", "in"]);
    imported.assert_fails(
        1,
        "petstore: added 7 photos to 3 animals; 7 files were left out\n",
    );
    for line in [
        "in/900000001.png: has the microchip of several sold animals: 5, 4; use an id",
        "in/900000009.png: no animal has the id or microchip 900000009",
        "in/99.png: no animal has the id 99",
        "in/Rex.png: is not named by the id or the microchip of an animal, such as 17.jpg or 17-2.jpg",
        "in/animals.csv: is not a .jpg, .jpeg, .png or .webp file",
        "in/5.png: is not a file",
        "in/4.png: ",
    ] {
        let lines = imported.stderr.lines();
        let found = lines.filter(|it| it.starts_with(line)).count();
        assert_eq!(found, 1, "{line}: {imported:?}");
    }
    assert_eq!(shop.sizes("1"), [11, 12, 13, 14].map(|side| [side, side]));
    assert_eq!(shop.sizes("3"), [31, 32].map(|side| [side, side]));
    assert_eq!(shop.sizes("6"), [[61, 61]]);
    for id in ["2", "4", "5"] {
        assert!(shop.list(id).is_empty(), "{id}");
    }
}

/// A number that is the id of an animal and the microchip of another is the microchip.
#[tokio::test(flavor = "multi_thread")]
async fn a_microchip_precedes_an_id() {
    let home = Home::new();
    home.create_store();
    let db = Connection::open(home.database()).unwrap();
    let sequence = "INSERT INTO sqlite_sequence (name, seq) VALUES ('pets', 900000000)";
    assert_eq!(db.execute(sequence, []).unwrap(), 1);
    db.close().unwrap();
    let shop = Shop::start(home);
    shop.add_animals(&[json!({}), json!({"microchip": "900000001"})])
        .await;
    shop.write("in/900000001.png", &noise(11, 11, 1));
    shop.write("in/900000002.png", &noise(12, 12, 1));
    shop.photos(&["import", "in"]).success();
    assert!(shop.list("900000001").is_empty());
    assert_eq!(shop.sizes("900000002"), [[11, 11], [12, 12]]);
}

/// A photo that was deleted does not come back unnoticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_photo_is_reported() {
    let shop = Shop::start(Home::new());
    shop.add_animals(&[json!({})]).await;
    shop.write("in/1.png", &noise(11, 11, 1));
    shop.photos(&["import", "in"]).success();
    let id = shop.list("1")[0]["id"].to_string();
    shop.photos(&["delete", "1", &id]).success();
    let repeated = shop.photos(&["import", "in"]);
    repeated.assert_fails(
        1,
        "in/1.png: was added in the last 24 hours and deleted since",
    );
    assert!(shop.list("1").is_empty());
}

/// A command that waits for the service says how far it came, and another one adds the rest.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_import_is_continued() {
    let shop = Shop::start(Home::new());
    shop.add_animals(&[json!({})]).await;
    for n in 1..=5 {
        shop.write(&format!("in/1-{n}.png"), &noise(10 + n, 10, 1));
    }
    // One request finds the animal, and three add photos.
    let shop = shop.restart(&["--rate-limit", "4/24h"]);
    let mut import = shop.command(&["import", "in"]).spawn().unwrap();
    let mut stderr = BufReader::new(import.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.ends_with("; retrying\n"), "{line}");
    signal(import.id(), "INT");
    line.clear();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(
        line,
        "petstore: interrupted; 3 of 5 photos were added, and perhaps one more; run the same \
         command again within 24 hours to add the rest\n"
    );
    assert_eq!(import.wait().unwrap().code(), Some(130));

    let shop = shop.restart(&[]);
    let continued = shop.photos(&["import", "in"]).success();
    assert_eq!(
        continued.stderr,
        "Added 2 photos to 1 animal; 3 were there already.\n"
    );
    assert_eq!(
        shop.sizes("1"),
        [11, 12, 13, 14, 15].map(|width| [width, 10])
    );
}
