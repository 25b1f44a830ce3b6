//! `petstore man`: writes the manual pages.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory};
use rustix::fs::OFlags;

use super::{CommandLine, CommandResult};

#[derive(Args)]
pub struct Man {
    /// Directory to write to, created if it doesn't exist.
    directory: PathBuf,
}

impl Man {
    pub fn run(self) -> CommandResult {
        let mut command = CommandLine::command().disable_help_subcommand(true);
        command.build();
        fs::create_dir_all(&self.directory)
            .and_then(|()| write_pages(&command, &self.directory))
            .map_err(|cause| {
                format!("cannot write to {}: {cause}", self.directory.display()).into()
            })
    }
}

/// Writes the pages of a command and of all its subcommands.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(subcommand, directory)?;
    }
    // There is no date, so that builds are reproducible. The blank keeps the date's position
    // among the arguments of .TH.
    let page = clap_mangen::Man::new(command.clone())
        .date(" ")
        .source(concat!("petstore ", env!("CARGO_PKG_VERSION")));
    // The file is not opened through a link: another user may have put it there for root to
    // follow.
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(directory.join(page.get_filename()))?;
    let mut text = Vec::new();
    page.render(&mut text)?;
    file.write_all(&text)
}
