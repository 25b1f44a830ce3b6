//! Golden stores: small stores of released versions, with every kind of row, and what the API
//! returned for them. They are in `tests/golden`, in a folder for each version.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Command,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use crate::{Cluster, CommandResult, postgres::program};

/// The stores of one released version.
#[derive(Debug, Clone)]
pub struct Golden {
    dir: PathBuf,
}

impl Golden {
    /// The stores of all released versions.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir(folder()).unwrap();
        let dirs = entries.map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = dirs
            .filter(|dir| dir.is_dir())
            .map(|dir| Self { dir })
            .collect();
        all.sort_by_key(Self::version);
        assert!(!all.is_empty());
        all
    }

    /// The numbers in the version, such as 1 and 10: as text, that would be before 1.2.
    fn version(&self) -> Vec<u32> {
        let name = self.dir.file_name().unwrap().to_str().unwrap();
        name.split('.')
            .map(|number| number.parse().unwrap())
            .collect()
    }

    /// The stores of one version, which may have to be made.
    pub fn of(version: &str) -> Self {
        let dir = folder().join(version);
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    /// A text file of this version.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes the SQLite store to a file.
    pub fn restore_sqlite(&self, file: &Path) {
        let compressed = fs::File::open(self.path("sqlite.db.gz")).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
        fs::write(file, bytes).unwrap();
    }

    pub fn save_sqlite(&self, file: &Path) {
        let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
        compressed.write_all(&fs::read(file).unwrap()).unwrap();
        fs::write(self.path("sqlite.db.gz"), compressed.finish().unwrap()).unwrap();
    }

    /// Creates a database with the PostgreSQL store, and returns its name.
    pub fn restore_postgres(&self, cluster: &Cluster) -> String {
        let database = cluster.create_database();
        let mut psql = Command::new(program("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"])
            .args(["--dbname", &cluster.url(&database), "--file"])
            .arg(self.path("postgres.sql"));
        CommandResult::of(&mut psql).success();
        database
    }

    /// Writes the dump of a database, which any client can execute.
    pub fn save_postgres(&self, cluster: &Cluster, database: &str) {
        let mut dump = Command::new(program("pg_dump"));
        dump.args(["--inserts", "--no-owner", "--no-privileges", "--dbname"])
            .arg(cluster.url(database));
        let dump = CommandResult::of(&mut dump).success().stdout;
        // Meta-commands of psql that its older versions do not know, and versions.
        let lines = dump
            .lines()
            .filter(|line| !line.starts_with('\\') && !line.starts_with("--"));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        fs::write(self.path("postgres.sql"), text).unwrap();
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden")
}
