//! `hyperchunk attr`.

use super::value::{self, ElementType};
use super::{EditOptions, Outcome as EditOutcome, edit};
use crate::dump::json;
use crate::json::Text;
use crate::ls::describe_attribute;
use crate::source::{SourceOptions, Target};
use crate::{Outcome, describe};
use clap::{Args, Subcommand};
use hyperchunk::Error;
use hyperchunk::model::{Attribute, CharacterSet, Class, Dataspace, Name};
use hyperchunk_udf::escape::{escape, escape_lines};
use std::fmt::Write as _;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Print the value of an attribute.
    Get(Get),
    /// List the attributes of an object with their types and values.
    Ls(List),
    /// Set an attribute.
    Set(Set),
    /// Remove attributes.
    Rm(Remove),
}

#[derive(Args, Debug)]
#[command(after_help = GET_HELP)]
pub(crate) struct Get {
    /// The file; it may be a URL.
    file: String,
    /// Path of the object; / is the root group.
    object: String,
    /// Name of the attribute.
    name: String,
    /// Print type, shape and value as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const GET_HELP: &str = "\
A single string is printed as it is, other values as JSON.

Examples:
  hyperchunk attr get run.h5 /frames units
  hyperchunk attr get run.h5 / history --json";

#[derive(Args, Debug)]
#[command(after_help = LIST_HELP)]
pub(crate) struct List {
    /// The file; it may be a URL.
    file: String,
    /// Path of the object.
    #[arg(default_value = "/")]
    object: String,
    /// Print all types, shapes and values as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const LIST_HELP: &str = "\
Examples:
  hyperchunk attr ls run.h5
  hyperchunk attr ls run.h5 /frames --json";

#[derive(Args, Debug)]
#[command(after_help = SET_HELP)]
pub(crate) struct Set {
    /// The HDF5 file.
    file: String,
    /// Path of the object; / is the root group.
    object: String,
    /// Name of the attribute.
    name: String,
    /// The value: a number, true or false, text, or a JSON array of these.
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Type of the elements: int8 to int64, uint8 to uint64, float16, float, double, bool, string, or string(N) of N
    /// bytes. Without it, numbers become int64 or double, and text becomes a string of any length.
    #[arg(long = "type", value_name = "TYPE", value_parser = value::parse_type)]
    element: Option<ElementType>,
    /// Replace an existing attribute.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    edit: EditOptions,
}

const SET_HELP: &str = "\
The file is changed in one commit, or not at all. Put a number that is meant as text into double quotes, or give
--type string.

Examples:
  hyperchunk attr set run.h5 /frames units counts
  hyperchunk attr set run.h5 /frames gain 2.5 --type float --overwrite
  hyperchunk attr set run.h5 / serial '\"0042\"'
  hyperchunk attr set run.h5 /frames offset '[0.5, 0.5, 2]'";

#[derive(Args, Debug)]
#[command(after_help = REMOVE_HELP)]
pub(crate) struct Remove {
    /// The HDF5 file.
    file: String,
    /// Path of the object; / is the root group.
    object: String,
    /// Names of the attributes.
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    edit: EditOptions,
}

const REMOVE_HELP: &str = "\
The attributes are removed in one commit: all of them, or none.

Example:
  hyperchunk attr rm run.h5 /frames old_units";

impl Command {
    /// Returns whether the command only reads.
    pub(crate) fn only_prints(&self) -> bool {
        matches!(self, Self::Get(_) | Self::Ls(_))
    }
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Get(arguments) => get(arguments),
        Command::Ls(arguments) => list(arguments),
        Command::Set(arguments) => set(arguments),
        Command::Rm(arguments) => remove(arguments),
    }
}

fn open(source: &SourceOptions, file: &str, object: &str) -> Result<Target, Error> {
    SourceOptions::find_object(&source.open(file)?, object)
}

fn get(arguments: &Get) -> Outcome {
    let Target { object, .. } = open(&arguments.source, &arguments.file, &arguments.object)?;
    let Some(attribute) = object.attribute(arguments.name.as_bytes())? else {
        let names = object.attribute_names()?;
        return Err(object
            .with_context(hyperchunk::write::missing_attribute(arguments.name.as_bytes(), &names))
            .into());
    };
    let mut text = String::new();
    if arguments.json {
        json::attribute(&object, &attribute, &mut text)?;
    } else {
        json::attribute_value(&object, &attribute, &mut text)?;
        let is_text = matches!(attribute.datatype.class, Class::String { .. } | Class::VlenString { .. });
        if is_text
            && attribute.dataspace == Dataspace::Scalar
            && let Ok(one) = serde_json::from_str::<String>(&text)
        {
            text = escape_lines(&one, usize::MAX);
        }
    }
    say!("{text}");
    Ok(())
}

fn list(arguments: &List) -> Outcome {
    let Target { object, .. } = open(&arguments.source, &arguments.file, &arguments.object)?;
    let all = object.attributes()?;
    if !arguments.json {
        for attribute in &all {
            say!("{}", describe_attribute(&object, attribute));
        }
        return Ok(());
    }
    let mut text = "{".to_owned();
    for (number, attribute) in all.iter().enumerate() {
        let _ = write!(text, "{}{}: ", if number == 0 { "" } else { ", " }, Text(attribute.name.as_bytes()));
        json::attribute(&object, attribute, &mut text)?;
    }
    say!("{text}}}");
    Ok(())
}

fn set(arguments: &Set) -> Outcome {
    let name = arguments.name.as_bytes();
    let value = value::parse(&arguments.value, arguments.element)
        .map_err(|why| format!("cannot set {}: {why}", escape(&arguments.name, 200)))?;
    let datatype = edit(&arguments.file, &arguments.edit, |file| -> EditOutcome<_> {
        let object = file.object(arguments.object.as_bytes())?;
        if !arguments.overwrite && file.attribute(object, name)?.is_some() {
            let (name, object) = (escape(&arguments.name, 200), escape(&arguments.object, 2000));
            return Err(format!("attribute {name} of {object} exists; --overwrite replaces it").into());
        }
        let (datatype, dataspace, data) =
            value.store(file).map_err(|why| format!("cannot set {}: {why}", escape(&arguments.name, 200)))?;
        let charset = if arguments.name.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
        let attribute = Attribute {
            name: Name::from(name),
            charset,
            datatype: datatype.clone(),
            committed: None,
            dataspace,
            data,
            creation_order: None,
        };
        file.set_attribute(object, attribute)?;
        Ok(datatype)
    })?;
    say!("set {} ({})", escape(&arguments.name, 200), describe::datatype(&datatype));
    Ok(())
}

fn remove(arguments: &Remove) -> Outcome {
    edit(&arguments.file, &arguments.edit, |file| {
        let object = file.object(arguments.object.as_bytes())?;
        for name in &arguments.names {
            if file.attribute(object, name.as_bytes())?.is_none() {
                return Err(file.missing_attribute(object, name.as_bytes()).into());
            }
            file.delete_attribute(object, name.as_bytes())?;
        }
        Ok(())
    })?;
    for name in &arguments.names {
        say!("removed {}", escape(name, 200));
    }
    Ok(())
}
