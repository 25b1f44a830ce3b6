//! `petstore man`: the manual pages.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory};

use super::{CommandLine, Outcome};

#[derive(Args)]
pub struct Man {
    /// The folder, which is made if it is not there.
    folder: PathBuf,
}

impl Man {
    pub fn run(self) -> Outcome {
        let mut command = CommandLine::command().disable_help_subcommand(true);
        command.build();
        fs::create_dir_all(&self.folder)
            .and_then(|()| write(&command, &self.folder))
            .map_err(|cause| format!("cannot write to {}: {cause}", self.folder.display()).into())
    }
}

/// Writes the page of a command and those of the commands below it.
fn write(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        write(below, folder)?;
    }
    // The same source makes the same pages, so they have no date. The blank
    // keeps its place in the line of the title.
    clap_mangen::Man::new(command.clone())
        .date(" ")
        .source(concat!("petstore ", env!("CARGO_PKG_VERSION")))
        .generate_to(folder)?;
    Ok(())
}
