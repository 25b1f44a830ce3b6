//! Opening the files of a store. A user who can write to the folder can put a link, or
//! anything else, in place of each of them, so each file is checked by its descriptor after it
//! was opened.

use std::{
    fs::{self, File, FileType, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

/// Opens a regular file. Neither follows a link nor waits for the other end of a pipe.
pub(super) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|cause| match Errno::from_io_error(&cause) {
        // A link, a folder, or a socket, a pipe or a device without its other end.
        Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
            reject_irregular(path).err().unwrap_or(cause)
        }
        _ => cause,
    })?;
    require_regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Fails if something other than a regular file has this name. A missing file is not an error.
pub(super) fn reject_irregular(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) => require_regular(found.file_type()),
        Err(_) => Ok(()),
    }
}

fn require_regular(found: FileType) -> io::Result<()> {
    let kind = match found {
        _ if found.is_file() => return Ok(()),
        _ if found.is_symlink() => {
            let message = "it is a symbolic link, which is not followed; specify the file that it \
                           leads to, or move the link away";
            return Err(io::Error::other(message));
        }
        _ if found.is_dir() => "a folder",
        _ if found.is_fifo() => "a named pipe",
        _ if found.is_socket() => "a socket",
        _ => "a device",
    };
    let message = format!(
        "it is {kind}; specify a file, or move the {} away",
        &kind[2..]
    );
    Err(io::Error::other(message))
}
