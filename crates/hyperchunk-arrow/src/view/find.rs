//! Finding the datasets that are the columns of a table.

use super::schemes::{self, Scheme, Wanted};
use super::table::{Column, Found, Stored, TableOptions, named};
use super::{describe, texts};
use crate::types::{ColumnType, Compounds, Look};
use crate::{Error, ErrorKind, Result};
use arrow_schema::DataType;
use hyperchunk::model::{Class, Member, ObjectKind};
use hyperchunk::{Dataset, Group, Object};
use std::collections::HashMap;

/// The attribute of a group that names the datasets of its table.
const ATTRIBUTE: &str = "h5.table";
/// Number of links of a group that are followed at once.
const AT_ONCE: usize = 1024;
/// Maximum number of names listed in a message.
const FEW: usize = 12;

/// Finds the table of an object.
pub(super) fn table(object: &Object, options: &TableOptions) -> Result<Found> {
    match object.kind() {
        ObjectKind::Dataset => of_dataset(object.dataset()?, options),
        ObjectKind::Group => of_group(object, options),
        ObjectKind::Datatype => Err(Error::invalid("a datatype is no table")),
    }
}

fn of_dataset(dataset: Dataset, options: &TableOptions) -> Result<Found> {
    let metadata = describe::dataset(&dataset)?;
    let (stored, rows) = Stored::new(dataset)?;
    let look = &options.look;
    let name = last_name(stored.dataset.object());
    if let Some(members) = as_table(&stored, look) {
        let columns = columns_of(members, options.columns.as_deref(), look)?;
        return Ok(Found { stored: vec![stored], columns, rows, metadata });
    }
    if let Some(wanted) = &options.columns
        && *wanted != [name.clone()]
    {
        let message = format!("the columns {} of a dataset that is one, `{name}`", listed(wanted));
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let column = whole(0, &name, &stored, look, metadata)?;
    Ok(Found { stored: vec![stored], columns: vec![column], rows, metadata: HashMap::new() })
}

/// Returns the members of a dataset's compounds, if they become columns.
fn as_table<'a>(stored: &'a Stored, look: &Look) -> Option<&'a [Member]> {
    let Class::Compound { members } = &stored.dataset.datatype().class else { return None };
    if look.compounds == Compounds::Struct || stored.dataset.dims().len() > 1 {
        return None;
    }
    // Some compounds are conventionally numbers.
    match ColumnType::new("", stored.dataset.datatype(), &[], look) {
        Ok(kind) if !matches!(kind.field().data_type(), DataType::Struct(_)) => None,
        _ => Some(members),
    }
}

/// Returns the columns of all members, or of the wanted ones.
fn columns_of(members: &[Member], wanted: Option<&[String]>, look: &Look) -> Result<Vec<Column>> {
    let column = |member: &Member| {
        let name = member.name.as_str().ok_or_else(|| {
            Error::unsupported(format!(
                "the name of the member {:?} is not UTF-8, as names in Arrow are",
                member.name
            ))
        })?;
        let offset = usize::try_from(member.offset)
            .map_err(|_| Error::limit("a compound larger than the address space"))?;
        let kind = ColumnType::new(name, &member.datatype, &[], look);
        Ok(Column { stored: 0, offset, kind: kind.map_err(|error| of_column(&error, name))? })
    };
    let Some(wanted) = wanted else { return members.iter().map(column).collect() };
    let chosen = wanted.iter().map(|name| {
        let found = members.iter().find(|member| member.name.as_bytes() == name.as_bytes());
        let names = || members.iter().map(|member| member.name.to_string()).collect::<Vec<_>>();
        column(found.ok_or_else(|| {
            let message = format!("no member of the name `{name}`; there are: {}", listed(&names()));
            Error::new(ErrorKind::NotFound, message)
        })?)
    });
    chosen.collect()
}

/// Returns the column of a whole dataset.
fn whole(
    number: usize,
    name: &str,
    stored: &Stored,
    look: &Look,
    more: HashMap<String, String>,
) -> Result<Column> {
    let kind = ColumnType::new(name, stored.dataset.datatype(), stored.cell(), look);
    let kind = kind.map_err(|error| named(of_column(&error, name), stored.dataset.object()))?;
    Ok(Column { stored: number, offset: 0, kind: kind.with_metadata(more) })
}

/// Adds the name of a column to an error.
fn of_column(error: &Error, name: &str) -> Error {
    Error::new(error.kind(), format!("the column `{name}`: {error}"))
}

fn of_group(object: &Object, options: &TableOptions) -> Result<Found> {
    let group = object.group()?;
    let named =
        texts::texts(object, ATTRIBUTE)?.map(|names| names.iter().map(|name| Wanted::path(name)).collect());
    let scheme = match named {
        Some(columns) => Some(Scheme::Columns(columns)),
        None => schemes::of(&group)?,
    };
    let known = match scheme {
        Some(Scheme::Below(path)) => return table(&group.get(path.as_bytes())?, options),
        Some(Scheme::Columns(columns)) => Some(columns),
        None => None,
    };
    let wanted = match (&options.columns, known) {
        (None, None) => return of_children(&group, &options.look),
        (None, Some(known)) => known,
        (Some(names), known) => {
            let known = known.unwrap_or_default();
            let one = |name: &String| {
                known
                    .iter()
                    .find(|wanted| wanted.name == *name)
                    .cloned()
                    .unwrap_or_else(|| Wanted::path(name))
            };
            names.iter().map(one).collect()
        }
    };
    of_paths(object, wanted, &options.look)
}

/// Makes the table of named datasets.
fn of_paths(object: &Object, wanted: Vec<Wanted>, look: &Look) -> Result<Found> {
    wanted.iter().try_for_each(Wanted::check)?;
    let paths: Vec<&[u8]> = wanted.iter().map(|wanted| wanted.path.as_bytes()).collect();
    let opened = object.file().open_many(object, &paths, 0)?;
    let mut found = Vec::with_capacity(wanted.len());
    for (wanted, object) in wanted.into_iter().zip(opened) {
        found.push((wanted, object?.dataset()?));
    }
    of_datasets(object, found, look)
}

/// Makes the table of all datasets of a group that have dimensions.
fn of_children(group: &Group, look: &Look) -> Result<Found> {
    let object = group.object();
    let mut links = group.links()?;
    if group.tracks_order()? {
        links.sort_by_key(|link| link.creation_order);
    } else {
        links.sort_by(|a, b| a.name.cmp(&b.name));
    }
    // The attributes of all of them are needed, too.
    object.file().prefetch(object, true, Some(1))?;
    let names: Vec<&[u8]> = links.iter().map(|link| link.name.as_bytes()).collect();
    let mut found = Vec::new();
    // In parts, so that not all of many expensive dangling links are followed before the first error.
    let opened = names.chunks(AT_ONCE).flat_map(|names| match object.file().open_many(object, names, 0) {
        Ok(opened) => opened,
        Err(error) => vec![Err(error)],
    });
    for (link, child) in links.iter().zip(opened) {
        let dataset = match child {
            Ok(child) if child.kind() == ObjectKind::Dataset => child.dataset()?,
            Ok(_) => continue,
            // A dangling link is not a column.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if dataset.dims().is_empty() {
            continue;
        }
        let name = link.name.as_str().ok_or_else(|| {
            Error::unsupported(format!(
                "the name of the dataset {:?} is not UTF-8, as names in Arrow are",
                link.name
            ))
        })?;
        found.push((Wanted::path(name), dataset));
    }
    if found.is_empty() {
        let message = "the group is no table: none of its members is a dataset with dimensions (it may have tables below it)";
        return Err(Error::invalid(message));
    }
    of_datasets(object, found, look)
}

fn of_datasets(object: &Object, found: Vec<(Wanted, Dataset)>, look: &Look) -> Result<Found> {
    let mut all: Vec<Stored> = Vec::new();
    let mut columns = Vec::with_capacity(found.len());
    let mut lengths: Vec<(u64, Vec<String>)> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (wanted, dataset) in found {
        let address = dataset.object().address();
        let same = places.get(&address).copied().filter(|place| {
            all.get(*place).is_some_and(|stored| stored.dataset.object().file().same(dataset.object().file()))
        });
        let (stored, rows) = Stored::new(dataset)?;
        match lengths.iter_mut().find(|(length, _)| *length == rows) {
            Some((_, names)) => names.push(wanted.name.clone()),
            None => lengths.push((rows, vec![wanted.name.clone()])),
        }
        let number = same.unwrap_or(all.len());
        columns.push(schemes::column(number, &wanted, &stored, look, || {
            whole(number, &wanted.name, &stored, look, describe::dataset(&stored.dataset)?)
        })?);
        if same.is_none() {
            places.insert(address, number);
            all.push(stored);
        }
    }
    if lengths.len() > 1 {
        let parts: Vec<String> =
            lengths.iter().map(|(length, names)| format!("{length} rows: {}", listed(names))).collect();
        let message = format!(
            "the datasets are no table, they have not equally many rows ({}); say which, with `columns` or the attribute \
             `{ATTRIBUTE}`",
            parts.join("; ")
        );
        return Err(Error::invalid(message));
    }
    let rows = lengths.first().map_or(0, |(rows, _)| *rows);
    Ok(Found { stored: all, columns, rows, metadata: describe::object(object)? })
}

/// Returns the last component of the path by which an object was opened.
fn last_name(object: &Object) -> String {
    let name = object.asked_path().and_then(|path| path.trim_end_matches('/').rsplit('/').next());
    name.filter(|name| !name.is_empty()).unwrap_or("values").to_owned()
}

/// Lists some names, for messages.
fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(FEW).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > FEW {
        text.push_str(", …");
    }
    text
}
