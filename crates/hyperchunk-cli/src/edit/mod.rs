//! Commands that edit files: attributes, links, groups and copies of objects. Each is one commit.

pub(crate) mod attr;
pub(crate) mod cp;
pub(crate) mod links;
mod value;

use clap::Args;
use hyperchunk::encode::LibVersion;
use hyperchunk::write::{CreateOptions, ExistingLink, Writer};
use std::path::PathBuf;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns what happens to a name that exists.
fn existing(overwrite: bool) -> ExistingLink {
    if overwrite { ExistingLink::Replace } else { ExistingLink::Refuse }
}

/// Returns the path of a local file, which may be a `file://` URL.
fn local(name: &str) -> Outcome<PathBuf> {
    let no_file = || {
        let name = hyperchunk_udf::escape::escape(name, 2000);
        format!("cannot edit {name}: expected a local file, got a URL; edit a copy, and send it back")
    };
    Ok(hyperchunk::io::local_path(name).ok_or_else(no_file)?)
}

/// Options of all commands that edit.
#[derive(Args, Debug)]
pub(crate) struct EditOptions {
    /// Make programs that use libhdf5 refuse the file while the commit is written to it, so that they never
    /// read a part
    /// of the commit. The command waits for the disk two more times.
    #[arg(long)]
    guard: bool,
}

impl EditOptions {
    /// Returns the options of the edit: a change that needs a newer format than the file's may use it.
    fn to_create(&self) -> CreateOptions {
        let mut options = CreateOptions::default();
        (options.newest, options.guard) = (LibVersion::V200, self.guard);
        options
    }
}

/// Edits a file in one commit: if `work` fails, the file stays as it was.
fn edit<T>(file: &str, options: &EditOptions, work: impl FnOnce(&Writer) -> Outcome<T>) -> Outcome<T> {
    let writer = Writer::edit(local(file)?, &options.to_create())?;
    finish(&writer, work)
}

fn finish<T>(writer: &Writer, work: impl FnOnce(&Writer) -> Outcome<T>) -> Outcome<T> {
    let done = work(writer).and_then(|done| {
        writer.close()?;
        Ok(done)
    });
    if done.is_err() {
        // A second error would hide the cause.
        drop(writer.discard());
    }
    for notice in writer.notices() {
        crate::print_message(&format!("note: {notice}"));
    }
    done
}
