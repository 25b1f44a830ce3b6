//! Giving up root: a process that root has started continues as the owner of its SQLite store.
//!
//! The owner of a folder can replace each file in it at any moment, by a link for example. An
//! operation of root on a file name there may therefore affect a file elsewhere. So root uses
//! only folders that no other user can change.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use rustix::process::geteuid;

use super::error::OpenError;
use system::{
    atomic_file::{folder_of, resolve_folder},
    privileges::give_up_root_for,
};

/// The id of the user and the group that own nothing, by convention. Linux also shows it for
/// an owner that the user namespace of this process does not have.
const NOBODY: u32 = 65534;

/// Continues as the owner of the store at this path, for good, if this process runs as root and
/// the store is not root's own. Must be called before any thread is started.
pub fn give_up_root(store: &Path) -> Result<(), OpenError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let failed = OpenError::file(store);
    let path = resolve_folder(store).map_err(failed)?;
    let Err(shared) = reject_shared_folder(&path) else {
        return Ok(());
    };
    let folder = fs::metadata(folder_of(&path)).map_err(failed)?;
    let owner = match folder.uid() {
        // Uses the owner of a link, not of the file that it leads to.
        0 => fs::symlink_metadata(&path).map_or(0, |file| file.uid()),
        owner => owner,
    };
    if owner == 0 {
        return Err(shared);
    }
    // Files of root are often open to its group.
    let group = match folder.gid() {
        0 => NOBODY,
        group => group,
    };
    give_up_root_for(owner, group).map_err(|cause| OpenError::Root { path, owner, cause })
}

/// Fails if this process runs as root, and others can change the contents of a file's folder,
/// or where its path leads. All links in the folder must be resolved.
pub(super) fn reject_shared_folder(file: &Path) -> Result<(), OpenError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let folder = folder_of(file);
    for ancestor in folder.ancestors() {
        let found = fs::metadata(ancestor).map_err(OpenError::file(ancestor))?;
        let is_folder = ancestor == folder;
        // In a sticky folder such as /tmp, others can add names, but not replace those of root.
        let is_sticky = found.mode() & 0o1000 != 0;
        // The group of root is root's, too.
        let others = if found.gid() == 0 { 0o002 } else { 0o022 };
        let is_shared = found.mode() & others != 0 && (is_folder || !is_sticky);
        let is_roots = found.uid() == 0 || (!is_folder && found.uid() == NOBODY);
        if is_shared || !is_roots {
            return Err(OpenError::SharedFolder(ancestor.into()));
        }
    }
    Ok(())
}
