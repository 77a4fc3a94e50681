//! `hyperchunk ls`.

use crate::Outcome;
use crate::describe;
use crate::dump::value::{Printer, Style};
use crate::dump::{DumpRequest, Values, json};
use crate::progress::{bytes, count};
use crate::source::{SourceOptions, Target};
use crate::terminal::{Colour, Ink, Terminal};
use clap::Args;
use hyperchunk::model::{Attribute, Dataspace, Link, LinkTarget, ObjectKind};
use hyperchunk::walk::{Next, Visit, VisitedItem};
use hyperchunk::{Error, Object};
use std::fmt::Write as _;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// FILE or FILE:/OBJECT; FILE may be a URL.
    target: String,
    /// List groups recursively.
    #[arg(short, long)]
    recursive: bool,
    /// Show also layout, filters, stored size, and attributes with their values.
    #[arg(short, long)]
    long: bool,
    /// Print everything that --long shows, as JSON.
    #[arg(long)]
    json: bool,
    /// Use colours in the output.
    #[arg(long = "color", alias = "colour", value_name = "WHEN", default_value = "auto")]
    colour: Colour,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Examples:
  hyperchunk ls scene.h5
  hyperchunk ls -rl scene.h5:/bands";

/// Maximum width of the column of names.
const NAME_COLUMNS: usize = 40;

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let source = arguments.source.listing(arguments.recursive || arguments.long);
    let Target { file, object, path } = source.open_object(&arguments.target)?;
    if arguments.json {
        let request = DumpRequest {
            target: &arguments.target,
            file: &file,
            object: &object,
            path: &path,
            values: Values::Attributes,
            part: None,
            recursive: arguments.recursive,
        };
        return fail_if_unreadable(json::print(&request)?);
    }
    let terminal = Terminal::new(arguments.colour);
    let mut failures = 0;
    if object.kind() != ObjectKind::Group {
        entry(terminal, arguments.long, &describe::name(&path), &object, &mut failures);
    } else {
        let top = path.clone();
        file.walk(&object, &path, &mut |visit: Visit<'_>| {
            if visit.path == top && visit.link.is_none() {
                if let VisitedItem::Broken(error) = visit.found {
                    return Err(error);
                }
                return Ok(Next::Enter);
            }
            let shown = visit.path.strip_prefix(top.as_slice()).unwrap_or(visit.path);
            let shown = shown.strip_prefix(b"/").unwrap_or(shown);
            let name = describe::name(shown);
            match visit.found {
                VisitedItem::Object(object) => entry(terminal, arguments.long, &name, object, &mut failures),
                VisitedItem::Again(first) => {
                    line(terminal, Ink::Link, &name, &format!("same as {}", describe::name(first)))
                }
                VisitedItem::Link => line(terminal, Ink::Link, &name, &link(visit.link)),
                VisitedItem::Broken(error) => {
                    failures += 1;
                    line(terminal, Ink::Error, &name, &format!("cannot be read: {}", text(&error)));
                }
            }
            Ok(if arguments.recursive { Next::Enter } else { Next::Skip })
        })?;
    }
    fail_if_unreadable(failures)
}

fn fail_if_unreadable(failures: usize) -> Outcome {
    match failures {
        0 => Ok(()),
        _ => Err(format!("{} could not be read", count(failures as u64, "object", "objects")).into()),
    }
}

fn text(error: &Error) -> String {
    hyperchunk_udf::escape::escape(&error.to_string(), 2000)
}

/// Prints a name and its description on one line.
fn line(terminal: Terminal, ink: Ink, name: &str, what: &str) {
    let used = name.chars().count().max(NAME_COLUMNS) + 1;
    let padding = " ".repeat(NAME_COLUMNS.saturating_sub(name.chars().count()));
    say!("{}{padding} {}", terminal.paint(ink, name), terminal.cut(what, used));
}

fn link(link: Option<&Link>) -> String {
    match link.map(|link| &link.target) {
        Some(LinkTarget::Soft(path)) => format!("-> {}", describe::name(path.as_bytes())),
        Some(LinkTarget::External { file, path }) => {
            format!("-> {}:{}", describe::name(file.as_bytes()), describe::name(path.as_bytes()))
        }
        Some(LinkTarget::User { class, data }) => {
            format!("user-defined link of class {class}, {} bytes", data.len())
        }
        Some(LinkTarget::Hard(_)) | None => String::new(),
    }
}

/// Prints an object; with `long`, also its details, on further lines.
fn entry(terminal: Terminal, long: bool, name: &str, object: &Object, failures: &mut usize) {
    let (ink, what) = match describe_object(object) {
        Ok(what) => what,
        Err(error) => {
            *failures += 1;
            (Ink::Error, format!("cannot be read: {}", text(&error)))
        }
    };
    match ink {
        Ink::Quiet => {
            say!("{name:<NAME_COLUMNS$} {}", terminal.cut(&what, name.chars().count().max(NAME_COLUMNS) + 1))
        }
        ink => line(terminal, ink, name, &what),
    }
    if !long {
        return;
    }
    for detail in details(object).unwrap_or_else(|error| {
        *failures += 1;
        vec![format!("cannot be read: {}", text(&error))]
    }) {
        say!("{}", terminal.paint(Ink::Quiet, &terminal.cut(&format!("    {detail}"), 0)));
    }
}

fn describe_object(object: &Object) -> Result<(Ink, String), Error> {
    Ok(match object.kind() {
        ObjectKind::Group => {
            let count = object.group()?.len()?;
            (Ink::Group, format!("group of {count}"))
        }
        ObjectKind::Datatype => {
            (Ink::Datatype, format!("datatype {}", describe::datatype(&object.datatype()?)))
        }
        ObjectKind::Dataset => {
            let dataset = object.dataset()?;
            let space = describe::dataspace(dataset.dataspace(), dataset.dims());
            (Ink::Quiet, format!("{space} {}", describe::datatype(dataset.datatype())))
        }
    })
}

/// Number of elements printed of a larger attribute.
const MAX_SHOWN_ELEMENTS: usize = 20;

/// Returns the value of an attribute, shortened.
fn value(object: &Object, attribute: &Attribute) -> String {
    if attribute.dataspace == Dataspace::Null {
        return String::new();
    }
    let size = usize::try_from(attribute.datatype.size).unwrap_or(usize::MAX).max(1);
    let first = attribute.data.get(..size.saturating_mul(MAX_SHOWN_ELEMENTS)).unwrap_or(&attribute.data);
    let printed = Printer::new(object.file(), &attribute.datatype, Style::Ddl)
        .and_then(|mut printer| printer.elements(first));
    let elements = match printed {
        Ok(elements) => elements,
        Err(error) => return format!(", cannot be read: {}", text(&error)),
    };
    let all = attribute.data.len() / size;
    let rest = if all > elements.len() { ", …" } else { "" };
    match (&attribute.dataspace, &elements[..]) {
        (Dataspace::Scalar, [one]) => format!(" = {one}"),
        _ => format!(" = [{}{rest}]", elements.join(", ")),
    }
}

fn details(object: &Object) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    if object.kind() == ObjectKind::Dataset {
        let dataset = object.dataset()?;
        let mut layout = describe::layout(&dataset);
        if let Some(marker) = dataset.store() {
            layout = match marker.epoch {
                0 => "in a sharded store that is not committed".into(),
                epoch => {
                    let pieces = dataset.pieces().unwrap_or(0);
                    format!("{layout}; {pieces} pieces in a sharded store, epoch {epoch}")
                }
            };
        } else if dataset.chunked().is_some() {
            let chunks = dataset.chunks()?;
            let stored: u64 = chunks.iter().map(|chunk| chunk.size).fold(0, u64::saturating_add);
            let whole = dataset.elements()?.saturating_mul(dataset.datatype().size);
            let _ = write!(
                layout,
                "; {}, {} of {}",
                count(chunks.len() as u64, "chunk", "chunks"),
                bytes(stored),
                bytes(whole)
            );
            if whole > 0 {
                let _ = write!(layout, " ({} %)", u128::from(stored) * 100 / u128::from(whole));
            }
        }
        lines.push(layout);
    }
    if let Some(comment) = object.comment()? {
        lines.push(format!("comment: {}", describe::name(comment.as_bytes())));
    }
    for attribute in object.attributes()? {
        lines.push(format!("@{}", describe_attribute(object, &attribute)));
    }
    Ok(lines)
}

/// Returns an attribute's name, extent, type and shortened value.
pub(crate) fn describe_attribute(object: &Object, attribute: &Attribute) -> String {
    let space = describe::dataspace(&attribute.dataspace, attribute.dataspace.dims());
    format!(
        "{}: {space} {}{}",
        describe::name(attribute.name.as_bytes()),
        describe::datatype(&attribute.datatype),
        value(object, attribute)
    )
}
