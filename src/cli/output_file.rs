//! The file that a command writes records to: a new one, which appears when it is complete, or
//! standard output.

use std::{cell::Cell, error::Error, io, path::Path};

use super::{
    Interrupt, escape_path,
    record_writer::{ExportFormat, RecordWriter},
    stdout,
};
use store::explain;
use system::atomic_file::AtomicFile;

pub struct OutputFile<'a> {
    pub interrupt: Interrupt,
    /// `None` for standard output.
    file: Option<(&'a Path, AtomicFile)>,
}

impl<'a> OutputFile<'a> {
    /// Creates a file, or uses standard output if there is no path. `interrupted` is what a signal
    /// prints before the file is complete.
    pub fn open(path: Option<&'a Path>, interrupted: &str) -> Result<Self, Box<dyn Error>> {
        let Some(path) = path else {
            let interrupt = Interrupt::listen("interrupted; the output is not complete")?;
            if stdout::is_closed() {
                return Err("standard output is closed; open it, or name a file".into());
            }
            let file = None;
            return Ok(Self { interrupt, file });
        };
        let interrupt = Interrupt::listen(interrupted)?;
        let file = AtomicFile::create(path).map_err(|cause| not_created(path, &cause))?;
        let file = Some((path, file));
        Ok(Self { interrupt, file })
    }

    /// Completes the file with what `write` writes. `write` also gets a function that describes why
    /// something could not be written. Returns `None` if the reader closed the pipe, as `head` does
    /// when it has read enough.
    pub fn write<T>(
        self,
        format: ExportFormat,
        records: &str,
        write: impl FnOnce(
            &mut RecordWriter<Box<dyn io::Write + '_>>,
            &dyn Fn(io::Error) -> String,
        ) -> Result<T, Box<dyn Error>>,
    ) -> Result<Option<T>, Box<dyn Error>> {
        let pipe_closed = Cell::new(false);
        let not_written = |cause: io::Error| {
            pipe_closed.set(cause.kind() == io::ErrorKind::BrokenPipe);
            format!("cannot write the {records}: {cause}")
        };
        let mut writer = RecordWriter::new(
            format,
            match &self.file {
                Some((_, file)) => Box::new(file.file()) as Box<dyn io::Write>,
                None => Box::new(io::stdout().lock()),
            },
        );
        let written = write(&mut writer, &not_written).and_then(|written| {
            writer.finish().map_err(not_written)?;
            Ok(written)
        });
        if pipe_closed.get() {
            return Ok(None);
        }
        let written = written?;
        if let Some((path, file)) = self.file {
            file.persist().map_err(|cause| not_created(path, &cause))?;
        }
        Ok(Some(written))
    }
}

fn not_created(path: &Path, cause: &io::Error) -> String {
    let file = escape_path(path);
    match cause.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{file} already exists; name another file, or delete this one first")
        }
        _ => format!("cannot create {file}: {}", explain(path, cause)),
    }
}
