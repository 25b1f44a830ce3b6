//! Prepares the embedded files of the service: the contract as JSON, so that the binary needs no
//! YAML parser, and the files of the docs page and the console, compressed and named by content
//! hash.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::{Cursor, Read, Write as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, Crc, write::GzEncoder};

/// The files of the docs page: our own, and Swagger UI's.
const OURS: [&str; 5] = [
    "theme.css",
    "docs/docs.js",
    "docs/navigation.js",
    "docs/docs.css",
    "docs/icon.svg",
];
const SWAGGER_UI: [&str; 3] = ["dist/swagger-ui-bundle.js", "LICENSE", "NOTICE"];
/// The files of the console that are not in its own folder.
const SHARED: [(&str, &str); 3] = [
    ("theme.css", "src/theme.css"),
    ("icon.svg", "src/docs/icon.svg"),
    ("words.json", "../domain/src/import/words.json"),
];
/// The files in its folder that are not served as files.
const NOT_SERVED: [&str; 2] = ["index.html", "types.d.ts"];
/// The console's first screen. The other screens are loaded when they are opened.
const FIRST_SCREEN: [&str; 2] = ["js/main.js", "js/screens/animals.js"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    contract(&out)?;
    println!("cargo::rerun-if-changed=src/theme.css");
    docs_page(&out)?;
    console(&out)
}

fn contract(out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed=../../openapi.yaml");
    let yaml = fs::read_to_string("../../openapi.yaml")?;
    let contract: serde_json::Value = serde_saphyr::from_str(&yaml)?;
    fs::write(out.join("openapi.json"), serde_json::to_string(&contract)?)?;
    Ok(())
}

/// Writes the docs page. Each file has a hash in its name.
fn docs_page(out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed=src/docs");
    let mut page = fs::read_to_string("src/docs/index.html")?;
    let mut files = Vec::new();
    for (name, bytes) in docs_files()? {
        let mut checksum = Crc::new();
        checksum.update(&bytes);
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "txt"));
        let hashed = format!("{stem}.{:08x}.{extension}", checksum.sum());
        page = page.replace(&format!("{{{name}}}"), &hashed);
        files.push((hashed, bytes));
    }
    embed(out, "docs", &page, &files)
}

fn docs_files() -> Result<Vec<(&'static str, Vec<u8>)>> {
    let mut files = Vec::new();
    for path in OURS {
        let name = path.rsplit('/').next().unwrap_or(path);
        files.push((name, fs::read(Path::new("src").join(path))?));
    }
    let zipped = Cursor::new(utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED);
    let mut archive = zip::ZipArchive::new(zipped)?;
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

/// Writes the console. All files are in a folder that is named by one hash, so that modules can
/// import each other by relative paths.
fn console(out: &Path) -> Result<()> {
    let root = Path::new("src/console");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    for (name, path) in SHARED {
        println!("cargo::rerun-if-changed={path}");
        files.push((name.to_string(), fs::read(path)?));
    }
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(root)?.display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if !NOT_SERVED.contains(&&*name) {
                files.push((name, fs::read(path)?));
            }
        }
    }
    files.sort();
    let mut checksum = Crc::new();
    for (name, bytes) in &files {
        checksum.update(name.as_bytes());
        checksum.update(bytes);
    }
    let folder = format!("{:08x}", checksum.sum());
    let mut preloads = String::new();
    for name in first_screen(&files)? {
        let href = format!("console/assets/{folder}/{name}");
        writeln!(preloads, "<link rel=\"modulepreload\" href=\"{href}\">")?;
    }
    let page = fs::read_to_string(root.join("index.html"))?
        .replace("{hash}", &folder)
        .replace("{modules}\n", &preloads);
    for (name, _) in &mut files {
        *name = format!("{folder}/{name}");
    }
    embed(out, "console", &page, &files)
}

/// Returns the modules of the first screen and their transitive imports, so that the browser need
/// not find them one after another. Each import is one line.
fn first_screen(files: &[(String, Vec<u8>)]) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut queue = FIRST_SCREEN.map(String::from).to_vec();
    while let Some(name) = queue.pop() {
        if !found.insert(name.clone()) {
            continue;
        }
        let file = files.iter().find(|(file, _)| *file == name);
        let (_, text) = file.ok_or(format!("the console has no {name}"))?;
        let imports = str::from_utf8(text)?.lines();
        for line in imports.filter(|line| line.starts_with("import ")) {
            let path = line.split('"').nth(1).ok_or(format!("{name}: {line}"))?;
            let mut module = PathBuf::from(&name);
            module.pop();
            for part in path.split('/').filter(|part| *part != ".") {
                match part {
                    ".." => _ = module.pop(),
                    part => module.push(part),
                }
            }
            queue.push(module.display().to_string());
        }
    }
    Ok(found)
}

/// Writes a page, and a table of its files with their compressed form.
fn embed(out: &Path, page_name: &str, page: &str, files: &[(String, Vec<u8>)]) -> Result<()> {
    let mut table = String::from("[\n");
    for (at, (name, bytes)) in files.iter().enumerate() {
        let stored = format!("{page_name}.{at}");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(bytes)?;
        fs::write(out.join(&stored), bytes)?;
        fs::write(out.join(format!("{stored}.gz")), gzip.finish()?)?;
        let media_type = match name.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("webmanifest") => "application/manifest+json",
            Some("json") => "application/json",
            _ => "text/plain; charset=utf-8",
        };
        let here = "env!(\"OUT_DIR\"), \"/";
        writeln!(
            table,
            "Asset {{ name: {name:?}, media_type: {media_type:?}, \
             plain: include_bytes!(concat!({here}{stored}\")), \
             gzip: include_bytes!(concat!({here}{stored}.gz\")) }},"
        )?;
    }
    table.push(']');
    fs::write(out.join(format!("{page_name}_assets.rs")), table)?;
    fs::write(out.join(format!("{page_name}.html")), page)?;
    Ok(())
}
