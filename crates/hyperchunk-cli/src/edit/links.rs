//! `hyperchunk mv`, `rm`, `mkdir` and `ln`.

use super::{EditOptions, edit, existing};
use crate::Outcome;
use clap::Args;
use hyperchunk::ErrorKind;
use hyperchunk::write::NewLink;
use hyperchunk_live::edit::InputsBefore;
use hyperchunk_udf::escape::escape;

#[derive(Args, Debug)]
#[command(after_help = MOVE_HELP)]
pub(crate) struct Move {
    /// The HDF5 file.
    file: String,
    /// Path of the object or link.
    old: String,
    /// Its new path; with a slash at the end, the group that it goes to.
    new: String,
    /// Make missing groups of the new path.
    #[arg(short, long)]
    parents: bool,
    /// Replace an existing object or link at the new path.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    edit: EditOptions,
}

const MOVE_HELP: &str = "\
The object stays what it is: references and hard links to it stay valid. Soft links, virtual datasets and live
datasets that name the old path do not follow. The file is changed in one commit, or not at all.

Examples:
  hyperchunk mv run.h5 /tmp/result /result
  hyperchunk mv run.h5 /result /archive/2026/ -p";

#[derive(Args, Debug)]
#[command(after_help = REMOVE_HELP)]
pub(crate) struct Remove {
    /// The HDF5 file.
    file: String,
    /// Paths to remove.
    #[arg(required = true)]
    paths: Vec<String>,
    /// Remove groups, with everything in them.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    edit: EditOptions,
}

const REMOVE_HELP: &str = "\
Removes links. An object is deleted with its last hard link; its space is used by later edits of the same session, and
`hyperchunk pack --in-place` gives it back to the system. The paths are removed in one commit: all of them, or none.

Examples:
  hyperchunk rm run.h5 /scratch/a /scratch/b
  hyperchunk rm -r run.h5 /scratch";

#[derive(Args, Debug)]
#[command(after_help = GROUP_HELP)]
pub(crate) struct MakeGroup {
    /// The HDF5 file.
    file: String,
    /// Paths of the new groups.
    #[arg(required = true)]
    paths: Vec<String>,
    /// Make missing groups of the paths; groups that exist are no error.
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    edit: EditOptions,
}

const GROUP_HELP: &str = "\
Examples:
  hyperchunk mkdir run.h5 /quality
  hyperchunk mkdir -p run.h5 /archive/2026/november";

#[derive(Args, Debug)]
#[command(after_help = LINK_HELP)]
pub(crate) struct MakeLink {
    /// The HDF5 file.
    file: String,
    /// Path of the object that the link leads to; with --external, OTHER-FILE:/PATH.
    target: String,
    /// Path of the new link; with a slash at the end, the group that it goes to.
    link: String,
    /// Make a soft link: it leads to the object that has the target's path when the link is followed.
    #[arg(short, long, conflicts_with = "external")]
    soft: bool,
    /// Make a link to an object of another file.
    #[arg(short, long)]
    external: bool,
    /// Make missing groups of the link's path.
    #[arg(short, long)]
    parents: bool,
    /// Replace an existing object or link at the link's path.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    edit: EditOptions,
}

const LINK_HELP: &str = "\
Without an option, the link is a hard one: another name of the object. The other file of an external link is named
as readers will find it: by its absolute path, or relative to FILE's folder.

Examples:
  hyperchunk ln run.h5 /detector/frames /frames
  hyperchunk ln -s run.h5 /frames /latest
  hyperchunk ln -e run.h5 calibration.h5:/gain /gain";

/// Returns a path for an object: one that ends with a slash is a group's, and gets the name of `from`.
pub(super) fn target(path: &str, from: &str) -> Result<String, String> {
    if !path.ends_with('/') {
        return Ok(path.to_owned());
    }
    let name = from.split('/').rfind(|name| !matches!(*name, "" | "."));
    let name = name.ok_or("cannot name the new link after `/`: give its whole path")?;
    Ok(format!("{path}{name}"))
}

/// Returns a path from the root for printing.
pub(super) fn shown(path: &str) -> String {
    escape(&format!("/{}", path.trim_matches('/')), 2000)
}

/// Prints notes about live datasets whose inputs have changed.
fn print_notes(notes: &[String]) {
    for note in notes {
        crate::print_message(&format!("note: {note}"));
    }
}

pub(crate) fn rename(arguments: &Move) -> Outcome {
    let new = target(&arguments.new, &arguments.old)?;
    let notes = edit(&arguments.file, &arguments.edit, |file| {
        let before = InputsBefore::find(file);
        let place = file.place(new.as_bytes(), arguments.parents).map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.advise("-p makes missing groups of the new path"),
            _ => error,
        })?;
        file.rename(arguments.old.as_bytes(), &place, existing(arguments.overwrite))?;
        Ok(before.notes(file))
    })?;
    print_notes(&notes);
    say!("{} is now {}", shown(&arguments.old), shown(&new));
    Ok(())
}

pub(crate) fn remove(arguments: &Remove) -> Outcome {
    let notes = edit(&arguments.file, &arguments.edit, |file| {
        let before = InputsBefore::find(file);
        for path in &arguments.paths {
            file.remove(path.as_bytes(), arguments.recursive)?;
        }
        Ok(before.notes(file))
    })?;
    print_notes(&notes);
    for path in &arguments.paths {
        say!("removed {}", shown(path));
    }
    Ok(())
}

pub(crate) fn make_group(arguments: &MakeGroup) -> Outcome {
    let is_root = |path: &&String| path.split('/').all(|name| matches!(name, "" | "."));
    if let Some(path) = arguments.paths.iter().find(is_root) {
        return Err(format!(
            "cannot make the group `{}`: expected the path of a new group, got that of the root group, which exists",
            escape(path, 300)
        )
        .into());
    }
    edit(&arguments.file, &arguments.edit, |file| {
        for path in &arguments.paths {
            file.make_group(path.as_bytes(), arguments.parents).map_err(|error| {
                match error.kind() == ErrorKind::NotFound && !arguments.parents {
                    true => error.advise("-p makes missing groups"),
                    false => error,
                }
            })?;
        }
        Ok(())
    })?;
    for path in &arguments.paths {
        say!("made {}", shown(path));
    }
    Ok(())
}

pub(crate) fn make_link(arguments: &MakeLink) -> Outcome {
    let MakeLink { target: to, .. } = arguments;
    let (other, inside) = match to.rsplit_once(":/").filter(|_| arguments.external) {
        Some((other, inside)) if !other.is_empty() => (other, format!("/{}", inside.trim_matches('/'))),
        _ if arguments.external => {
            return Err(format!(
                "cannot make an external link: expected OTHER-FILE:/PATH, got `{}`",
                escape(to, 300)
            )
            .into());
        }
        _ => ("", to.clone()),
    };
    let link = target(&arguments.link, &inside)?;
    let (dangles, notes) = edit(&arguments.file, &arguments.edit, |file| {
        let before = if arguments.overwrite { InputsBefore::find(file) } else { InputsBefore::default() };
        let here = if arguments.external { None } else { Some(file.object(to.as_bytes())) };
        let target = match (&here, arguments.soft) {
            (None, _) => NewLink::External { file: other.into(), path: inside.as_str().into() },
            (Some(_), true) => NewLink::Soft(to.as_str().into()),
            (Some(Ok(object)), false) => NewLink::Hard(*object),
            (Some(Err(error)), false) => return Err(error.clone().into()),
        };
        let place = file.place(link.as_bytes(), arguments.parents)?;
        file.make_room(&place, existing(arguments.overwrite))?;
        file.link(place.group, place.name.as_bytes(), target)?;
        // A soft link may be relative to its group.
        Ok((arguments.soft && file.object(link.as_bytes()).is_err(), before.notes(file)))
    })?;
    print_notes(&notes);
    if dangles {
        crate::print_message(&format!("note: nothing is at {} yet", escape(to, 300)));
    }
    say!("{} leads to {}", shown(&link), escape(to, 2000));
    Ok(())
}
