//! `hyperchunk cp`.

use super::links::{shown, target};
use super::{EditOptions, existing, finish, local};
use crate::Outcome;
use crate::source::{SourceOptions, is_url, split};
use clap::Args;
use hyperchunk::output::{self, same_file};
use hyperchunk::pack::{ObjectsReport, PackOptions, copy_object};
use hyperchunk::write::Writer;
use hyperchunk_live::edit::InputsBefore;
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::Path;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// FILE or FILE:/OBJECT to copy; FILE may be a URL. Without an object, the root group.
    #[arg(value_name = "FROM")]
    from: String,
    /// FILE or FILE:/PATH of the copy. With a slash at the end, the group that it goes to; without a path, it keeps
    /// its name, in the root group. A file that does not exist is made.
    #[arg(value_name = "TO")]
    to: String,
    /// Make missing groups of the copy's path.
    #[arg(short, long)]
    parents: bool,
    /// Store the data of other files: external raw data, and sources of virtual datasets.
    #[arg(long)]
    embed: bool,
    /// Replace an existing object at the copy's path.
    #[arg(long)]
    overwrite: bool,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    edit: EditOptions,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Copies an object with its attributes, and a group with everything in it. Stored chunks are copied without decoding;
live datasets stay live. The file is changed in one commit, or not at all.
References from copied objects to copied objects lead to the copies. References to other objects stay in a copy
within one file; in another file they become null, with a note. Live datasets name their inputs by their paths: a note
tells of each that has other inputs in the other file.

Examples:
  hyperchunk cp monday.h5:/frames week.h5:/monday/frames -p
  hyperchunk cp run.h5:/frames run.h5:/backup
  hyperchunk cp monday.h5 week.h5:/monday";

/// Splits `FILE:/PATH`; a file may have a name of that form.
fn parts(text: &str) -> (&str, Option<&str>) {
    if !is_url(text) && Path::new(text).exists() {
        return (text, None);
    }
    split(text).map_or((text, None), |(file, path)| (file, Some(path)))
}

/// Returns the path of the copy; `None` if it would be the root group.
fn copy_path(path: Option<&str>, object: &str) -> Option<String> {
    let group = path.filter(|path| !path.is_empty()).unwrap_or("/");
    target(group, object).ok().filter(|path| !path.trim_matches('/').is_empty())
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (from, object) = parts(&arguments.from);
    let (to, path) = parts(&arguments.to);
    let object = object.unwrap_or("");
    let path = copy_path(path, object).ok_or_else(|| {
        let to = escape(to, 300);
        format!(
            "cannot copy to the root group: expected a path of the copy, such as {to}:/copy, got none; to copy a whole \
             file, use `hyperchunk pack`"
        )
    })?;
    let file = &*local(to)?;
    // An edit of the file itself reads it through the edit.
    let is_own = !is_url(from) && same_file(&local(from)?, file);
    let exists = file.symlink_metadata().is_ok();
    let writer = if exists {
        Writer::edit(file, &arguments.edit.to_create())?
    } else {
        output::accept(file, &[output::Kind::Hdf5])?;
        let mut options = arguments.edit.to_create();
        (options.replace, options.journal) = (false, false);
        Writer::create(file, &options)?
    };
    let report = finish(&writer, |writer| {
        let before =
            if exists && arguments.overwrite { InputsBefore::find(writer) } else { InputsBefore::default() };
        let source = if is_own { writer.snapshot()? } else { arguments.source.listing(true).open(from)? };
        let found = SourceOptions::find_object(&source, object)?;
        let place = writer.place(path.as_bytes(), arguments.parents)?;
        if is_own {
            writer.check_not_replaced(object.as_bytes(), &place)?;
        }
        writer.make_room(&place, existing(arguments.overwrite))?;
        let mut options = PackOptions::default();
        options.embed = arguments.embed;
        // An external link leads out of the file.
        let is_own = is_own && found.object.file().same(&source);
        let mut report = copy_object(&found.object, writer, &place, &options, is_own)?;
        report.notes.extend(before.notes(writer));
        Ok(report)
    })?;
    print(arguments, to, &path, &report);
    Ok(())
}

fn print(arguments: &Arguments, to: &str, path: &str, report: &ObjectsReport) {
    if report.null_references > 0 {
        crate::print_message(&format!(
            "note: {} references to objects that are not copied are null in the copy",
            report.null_references
        ));
    }
    for note in &report.notes {
        crate::print_message(&format!("note: {note}"));
    }
    if arguments.json {
        let text = json!({
            "file": to,
            "path": format!("/{}", path.trim_matches('/')),
            "groups": report.groups,
            "datasets": report.datasets,
            "datatypes": report.datatypes,
            "attributes": report.attributes,
            "chunks_copied": report.chunks_copied,
            "pieces_rewritten": report.pieces_rewritten,
            "null_references": report.null_references,
            "notes": report.notes,
        });
        say!("{text}");
        return;
    }
    let many = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    say!(
        "{}:{}: {}, {}, {}",
        escape(to, 2000),
        shown(path),
        many(report.datasets as u64, "dataset"),
        many(report.groups as u64, "group"),
        many(report.attributes, "attribute")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_the_copy_of_a_root_group_needs_a_path() {
        for path in [None, Some(""), Some("/"), Some("//")] {
            for object in ["", "/"] {
                assert_eq!(copy_path(path, object), None, "{path:?} {object:?}");
            }
            assert_eq!(
                copy_path(path, "/a/b").map(|path| path.trim_matches('/').to_owned()),
                Some("b".into())
            );
        }
        assert_eq!(copy_path(Some("/copy"), "").as_deref(), Some("/copy"));
    }
}
