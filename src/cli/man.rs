//! `petstore man`: writes the manual pages.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory};

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
    for subcommand in command.get_subcommands() {
        write_pages(subcommand, directory)?;
    }
    // No date, so that builds are reproducible. The blank keeps the date's
    // position among the arguments of .TH.
    clap_mangen::Man::new(command.clone())
        .date(" ")
        .source(concat!("petstore ", env!("CARGO_PKG_VERSION")))
        .generate_to(directory)?;
    Ok(())
}
