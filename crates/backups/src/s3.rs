//! Backups in a bucket of an S3-compatible service.

mod connection;
mod settings;
mod signature;
mod url;

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use super::{
    folder::BackupFile,
    name::{BackupName, StoreId},
};
use connection::{Connection, Reply, Request};

pub use connection::S3Error;
pub use settings::S3Settings;
pub use url::S3Url;

/// The size of a part: of an upload in several, and of each request that reads an object. Memory
/// holds one at a time.
const PART: u64 = 8 << 20;

/// The maximum number of parts of an upload that S3 accepts.
const MAX_PARTS: u64 = 10_000;

/// A bucket, with the objects below one prefix.
pub struct Bucket {
    url: S3Url,
    connection: Connection,
}

impl Bucket {
    pub fn new(url: S3Url, settings: Arc<S3Settings>) -> Self {
        Self {
            connection: Connection::new(settings),
            url,
        }
    }

    pub fn url(&self) -> &S3Url {
        &self.url
    }

    /// Returns the backups below the prefix, the oldest first.
    pub async fn list(&mut self) -> Result<Vec<BackupFile>, S3Error> {
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let prefix = self.url.prefix().to_string();
            let mut query = vec![
                ("delimiter", "/".to_string()),
                ("list-type", "2".into()),
                ("prefix", prefix),
            ];
            query.extend(next.take().map(|token| ("continuation-token", token)));
            let reply = self.request(Method::GET, None, query, Bytes::new()).await?;
            let page = text(&reply.body)?;
            for object in elements(page, "Contents") {
                let key = element(object, "Key").unwrap_or_default();
                let bytes = element(object, "Size").and_then(|size| size.parse().ok());
                if let (Some(name), Some(bytes)) = (backup_name(key), bytes) {
                    found.push(BackupFile { name, bytes });
                }
            }
            next = element(page, "NextContinuationToken").map(unescape);
            if element(page, "IsTruncated") != Some("true") || next.is_none() {
                found.sort();
                return Ok(found);
            }
        }
    }

    /// Uploads a backup, reads it back and compares it. An object that differs is deleted.
    pub async fn put(&mut self, backup: &BackupFile, file: Arc<File>) -> Result<(), S3Error> {
        let uploaded = if backup.bytes > PART {
            self.put_parts(backup, &file).await
        } else {
            self.put_whole(backup, &file).await
        };
        // The object may be stored nevertheless. Then the next attempt finds it and reads it.
        uploaded?;
        let read = self.read(backup, |_, _| Ok(())).await;
        if let Err(S3Error::Damaged(_)) = read {
            let _ = self.delete(&backup.name).await;
        }
        read
    }

    async fn put_whole(&mut self, backup: &BackupFile, file: &Arc<File>) -> Result<(), S3Error> {
        let mut hash = Sha256::new();
        let body = read_part(file, 0, backup.bytes, &mut hash).await?;
        require_match(&backup.name, hash)?;
        let name = Some(&backup.name);
        self.request(Method::PUT, name, Vec::new(), body).await?;
        Ok(())
    }

    async fn put_parts(&mut self, backup: &BackupFile, file: &Arc<File>) -> Result<(), S3Error> {
        self.abort_uploads(backup.name.store).await?;
        let name = Some(&backup.name);
        let query = vec![("uploads", String::new())];
        let started = self
            .request(Method::POST, name, query, Bytes::new())
            .await?;
        let upload = element(text(&started.body)?, "UploadId").map(unescape);
        let upload = upload.ok_or(S3Error::Unexpected)?;
        let completed = self.put_parts_of(backup, file, &upload).await;
        if completed.is_err() {
            // Otherwise the next upload does it.
            let _ = self.abort(&backup.name, upload).await;
        }
        completed
    }

    async fn put_parts_of(
        &mut self,
        backup: &BackupFile,
        file: &Arc<File>,
        upload: &str,
    ) -> Result<(), S3Error> {
        let name = Some(&backup.name);
        let size = PART.max(backup.bytes.div_ceil(MAX_PARTS));
        let mut hash = Sha256::new();
        let mut parts = String::new();
        for (number, start) in (1..).zip((0..backup.bytes).step_by(size as usize)) {
            let length = size.min(backup.bytes - start);
            let body = read_part(file, start, length, &mut hash).await?;
            let query = vec![
                ("partNumber", number.to_string()),
                ("uploadId", upload.into()),
            ];
            let reply = self.request(Method::PUT, name, query, body).await?;
            let tag = reply.entity_tag.ok_or(S3Error::Unexpected)?;
            parts += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        }
        require_match(&backup.name, hash)?;
        let query = vec![("uploadId", upload.into())];
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let reply = self.request(Method::POST, name, query, body.into()).await?;
        // Completing takes long, so S3 sends the status before the outcome is known.
        if element(text(&reply.body)?, "ETag").is_none() {
            return Err(reply.rejection());
        }
        Ok(())
    }

    /// Discards what interrupted uploads of this store have left.
    async fn abort_uploads(&mut self, store: StoreId) -> Result<(), S3Error> {
        let query = vec![
            ("prefix", self.url.prefix().to_string()),
            ("uploads", String::new()),
        ];
        let reply = self.request(Method::GET, None, query, Bytes::new()).await?;
        for upload in elements(text(&reply.body)?, "Upload") {
            // Uploads deeper in the bucket are those of others.
            let key = element(upload, "Key").map(unescape).unwrap_or_default();
            let name = key.strip_prefix(self.url.prefix());
            let name = name.and_then(|name| name.parse::<BackupName>().ok());
            let id = element(upload, "UploadId").map(unescape);
            if let (Some(name), Some(id)) = (name, id)
                && name.store == store
            {
                self.abort(&name, id).await?;
            }
        }
        Ok(())
    }

    async fn abort(&mut self, name: &BackupName, upload: String) -> Result<(), S3Error> {
        let query = vec![("uploadId", upload)];
        let request = self.request(Method::DELETE, Some(name), query, Bytes::new());
        request.await.map(drop)
    }

    /// Reads a backup, and compares its size and its checksum. Calls `write` with each part and its
    /// position.
    pub async fn read(
        &mut self,
        backup: &BackupFile,
        mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> Result<(), S3Error> {
        let mut hash = Sha256::new();
        let mut position = 0;
        while position < backup.bytes {
            let end = backup.bytes.min(position + PART);
            let request = Request {
                method: Method::GET,
                path: self.url.path(Some(&backup.name)),
                query: Vec::new(),
                range: Some((position, end - 1)),
                body: Bytes::new(),
            };
            let part = self.connection.send(request, PART as usize).await?;
            let is_whole = part.body.len() as u64 == end - position
                && part.status == StatusCode::PARTIAL_CONTENT
                && part.total == Some(backup.bytes);
            if !is_whole {
                return Err(S3Error::Damaged(backup.name.to_string()));
            }
            write(&part.body, position)?;
            hash = hash_more(hash, part.body).await?;
            position = end;
        }
        if !backup.name.matches(hash) {
            return Err(S3Error::Damaged(backup.name.to_string()));
        }
        Ok(())
    }

    pub async fn delete(&mut self, name: &BackupName) -> Result<(), S3Error> {
        let request = self.request(Method::DELETE, Some(name), Vec::new(), Bytes::new());
        request.await.map(drop)
    }

    async fn request(
        &mut self,
        method: Method,
        name: Option<&BackupName>,
        query: Vec<(&'static str, String)>,
        body: Bytes,
    ) -> Result<Reply, S3Error> {
        let request = Request {
            method,
            path: self.url.path(name),
            query,
            range: None,
            body,
        };
        self.connection.send(request, MAX_DOCUMENT).await
    }
}

/// The maximum size of a response in XML. A page of 1,000 keys takes less than half of it.
const MAX_DOCUMENT: usize = 4 << 20;

/// The name in the key of an object. A key that is escaped is not one of a backup.
fn backup_name(key: &str) -> Option<BackupName> {
    key.rsplit('/').next()?.parse().ok()
}

/// Fails if the file is not what it was when it was named.
fn require_match(name: &BackupName, hash: Sha256) -> Result<(), S3Error> {
    if name.matches(hash) {
        return Ok(());
    }
    Err(S3Error::FileChanged)
}

/// Adds bytes to a hash. A part takes longer than a thread of the runtime may be held.
async fn hash_more(mut hash: Sha256, bytes: Vec<u8>) -> io::Result<Sha256> {
    let update = move || {
        hash.update(bytes);
        hash
    };
    let hash = tokio::task::spawn_blocking(update).await;
    hash.map_err(io::Error::other)
}

/// Reads a part of a file, and adds it to the hash.
async fn read_part(
    file: &Arc<File>,
    start: u64,
    length: u64,
    hash: &mut Sha256,
) -> Result<Bytes, S3Error> {
    let file = file.clone();
    let mut state = hash.clone();
    let read = move || {
        let mut part = vec![0; length as usize];
        file.read_exact_at(&mut part, start)?;
        state.update(&part);
        Ok::<_, io::Error>((part, state))
    };
    let read = tokio::task::spawn_blocking(read).await;
    let (part, state) = read.map_err(io::Error::other)??;
    *hash = state;
    Ok(part.into())
}

fn text(body: &[u8]) -> Result<&str, S3Error> {
    str::from_utf8(body).map_err(|_| S3Error::Unexpected)
}

/// Returns the content of the first element with this name. The documents of S3 have elements
/// without attributes, apart from the root.
fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    elements(document, name).next()
}

/// Returns the contents of the elements with this name. None contains one of the same name.
fn elements<'a>(document: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!("<{name}>");
    let end = format!("</{name}>");
    let mut rest = document;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&start)?;
        let (content, after) = after.split_once(&end)?;
        rest = after;
        Some(content)
    })
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read() {
        let page = "<?xml?><List xmlns=\"x\"><Contents><Key>a/b</Key><Size>3</Size></Contents>\
                    <Contents><Key>c&amp;d</Key></Contents><Next/></List>";
        let keys = elements(page, "Contents").filter_map(|it| element(it, "Key"));
        assert_eq!(keys.map(unescape).collect::<Vec<_>>(), ["a/b", "c&d"]);
        assert_eq!(element(page, "Next"), None);
        assert_eq!(element("<A>1", "A"), None);
    }
}
