//! Prepares what the service serves: the contract as JSON, so that the binary needs no
//! YAML parser, and the files of the docs page, compressed and named by content hash.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::{Cursor, Read, Write as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, Crc, write::GzEncoder};

/// The files of the page: our own, and Swagger UI's.
const OURS: [&str; 3] = ["docs.js", "docs.css", "icon.svg"];
const SWAGGER_UI: [&str; 4] = [
    "dist/swagger-ui-bundle.js",
    "dist/swagger-ui.css",
    "LICENSE",
    "NOTICE",
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    contract(&out)?;
    docs_page(&out)
}

fn contract(out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed=openapi.yaml");
    let yaml = fs::read_to_string("openapi.yaml")?;
    let contract: serde_json::Value = serde_saphyr::from_str(&yaml)?;
    fs::write(out.join("openapi.json"), serde_json::to_string(&contract)?)?;
    Ok(())
}

fn docs_page(out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed=src/api/docs");
    let mut page = fs::read_to_string("src/api/docs/index.html")?;
    let mut table = String::from("[\n");
    for (name, bytes) in page_files()? {
        let mut checksum = Crc::new();
        checksum.update(&bytes);
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "txt"));
        let hashed = format!("{stem}.{:08x}.{extension}", checksum.sum());
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&bytes)?;
        fs::write(out.join(&hashed), &bytes)?;
        fs::write(out.join(format!("{hashed}.gz")), gzip.finish()?)?;
        page = page.replace(&format!("{{{name}}}"), &hashed);
        let media_type = match extension {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "txt" => "text/plain; charset=utf-8",
            _ => "image/svg+xml",
        };
        let here = "env!(\"OUT_DIR\"), \"/";
        writeln!(
            table,
            "Asset {{ name: {hashed:?}, media_type: {media_type:?}, \
             plain: include_bytes!(concat!({here}{hashed}\")), \
             gzip: include_bytes!(concat!({here}{hashed}.gz\")) }},"
        )?;
    }
    table.push(']');
    fs::write(out.join("docs_assets.rs"), table)?;
    fs::write(out.join("docs.html"), page)?;
    Ok(())
}

fn page_files() -> Result<Vec<(&'static str, Vec<u8>)>> {
    let mut files = Vec::new();
    for name in OURS {
        files.push((name, fs::read(Path::new("src/api/docs").join(name))?));
    }
    let archive = utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
    let mut archive = zip::ZipArchive::new(Cursor::new(archive))?;
    for path in SWAGGER_UI {
        let ending = format!("/{path}");
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut bytes = Vec::new();
        for at in 0..archive.len() {
            let mut file = archive.by_index(at)?;
            if bytes.is_empty() && file.name()?.ends_with(&ending) {
                file.read_to_end(&mut bytes)?;
            }
        }
        assert!(!bytes.is_empty(), "Swagger UI has no {name}");
        files.push((name, bytes));
    }
    Ok(files)
}
