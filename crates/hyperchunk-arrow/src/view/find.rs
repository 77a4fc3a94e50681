//! Finding the datasets that are the columns of a table.

use super::table::{Column, StoredDataset, TableOptions, TableParts, named};
use super::table_conventions::{self, RequestedColumn, TableConvention};
use super::{describe, imported_columns, text_attributes};
use crate::types::{ColumnType, Compounds, ConversionOptions};
use crate::{Error, ErrorKind, Result};
use arrow_schema::DataType;
use hyperchunk::model::{Class, LinkTarget, Member, ObjectKind};
use hyperchunk::{Dataset, Group, Object};
use std::collections::HashMap;

/// The attribute of a group that names the datasets of its table.
const TABLE_ATTRIBUTE: &str = "h5.table";
/// Number of links of a group that are followed at once.
const OPEN_BATCH_LINKS: usize = 1024;
/// Maximum number of names listed in a message.
const MAX_LISTED_NAMES: usize = 12;

/// Finds the table of an object.
pub(super) fn table(object: &Object, options: &TableOptions) -> Result<TableParts> {
    match object.kind() {
        ObjectKind::Dataset => from_dataset(object.dataset()?, options),
        ObjectKind::Group => from_group(object, options),
        ObjectKind::Datatype => Err(Error::invalid("a datatype is not a table")),
    }
}

fn from_dataset(dataset: Dataset, options: &TableOptions) -> Result<TableParts> {
    let metadata = describe::dataset(&dataset)?;
    let (stored, rows) = StoredDataset::new(dataset)?;
    let conversion = &options.conversion;
    let name = last_name(stored.dataset.object());
    if let Some(members) = as_table(&stored, conversion) {
        let mut columns = member_columns(members, options.columns.as_deref(), conversion)?;
        imported_columns::restore_members(&mut columns, stored.dataset.object())?;
        return Ok(TableParts { stored: vec![stored], columns, rows, metadata });
    }
    if let Some(wanted) = &options.columns
        && *wanted != [name.clone()]
    {
        let message =
            format!("cannot select the columns {}: the dataset is one column, `{name}`", listed(wanted));
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let mut column = whole_column(0, &name, &stored, conversion, metadata)?;
    let mut all = vec![stored];
    imported_columns::restore(&mut column, None, rows, &mut all)?;
    Ok(TableParts { stored: all, columns: vec![column], rows, metadata: HashMap::new() })
}

/// Returns the members of a dataset's compounds, if they become columns.
fn as_table<'a>(stored: &'a StoredDataset, conversion: &ConversionOptions) -> Option<&'a [Member]> {
    let Class::Compound { members } = &stored.dataset.datatype().class else { return None };
    if conversion.compounds == Compounds::Struct || stored.dataset.dims().len() > 1 {
        return None;
    }
    // Some compounds are numbers by convention, such as complex numbers.
    match ColumnType::new("", stored.dataset.datatype(), &[], conversion) {
        Ok(kind) if !matches!(kind.field().data_type(), DataType::Struct(_)) => None,
        _ => Some(members),
    }
}

/// Returns the columns of all members, or of the wanted ones.
fn member_columns(
    members: &[Member],
    wanted: Option<&[String]>,
    conversion: &ConversionOptions,
) -> Result<Vec<Column>> {
    let column = |member: &Member| {
        let name = member.name.as_str().ok_or_else(|| {
            Error::unsupported(format!(
                "the name of the member {:?} is not UTF-8, which Arrow requires",
                member.name
            ))
        })?;
        let offset = usize::try_from(member.offset)
            .map_err(|_| Error::limit("a compound larger than the address space"))?;
        let kind = ColumnType::new(name, &member.datatype, &[], conversion);
        Ok(Column { stored: 0, offset, kind: kind.map_err(|error| name_column(&error, name))?, valid: None })
    };
    let Some(wanted) = wanted else { return members.iter().map(column).collect() };
    let selected = wanted.iter().map(|name| {
        let found = members.iter().find(|member| member.name.as_bytes() == name.as_bytes());
        let names = || members.iter().map(|member| member.name.to_string()).collect::<Vec<_>>();
        column(found.ok_or_else(|| {
            let message = format!("no member of the name `{name}`; there are: {}", listed(&names()));
            Error::new(ErrorKind::NotFound, message)
        })?)
    });
    selected.collect()
}

/// Returns the column of a whole dataset.
fn whole_column(
    number: usize,
    name: &str,
    stored: &StoredDataset,
    conversion: &ConversionOptions,
    more: HashMap<String, String>,
) -> Result<Column> {
    let kind = ColumnType::new(name, stored.dataset.datatype(), stored.cell(), conversion);
    let kind = kind.map_err(|error| named(name_column(&error, name), stored.dataset.object()))?;
    Ok(Column { stored: number, offset: 0, kind: kind.with_metadata(more), valid: None })
}

/// Adds the name of a column to an error.
fn name_column(error: &Error, name: &str) -> Error {
    Error::new(error.kind(), format!("the column `{name}`: {error}"))
}

fn from_group(object: &Object, options: &TableOptions) -> Result<TableParts> {
    let group = object.group()?;
    let named = text_attributes::texts(object, TABLE_ATTRIBUTE)?
        .map(|names| names.iter().map(|name| RequestedColumn::path(name)).collect());
    let convention = match named {
        Some(columns) => Some(TableConvention::Columns(columns)),
        None => table_conventions::recognize(&group)?,
    };
    let known = match convention {
        Some(TableConvention::Below(path)) => return table(&group.get(path.as_bytes())?, options),
        Some(TableConvention::Columns(columns)) => Some(columns),
        None => None,
    };
    let wanted = match (&options.columns, known) {
        (None, None) => return from_children(&group, &options.conversion),
        (None, Some(known)) => known,
        (Some(names), known) => {
            let known = known.unwrap_or_default();
            let one = |name: &String| {
                known
                    .iter()
                    .find(|wanted| wanted.name == *name)
                    .cloned()
                    .unwrap_or_else(|| RequestedColumn::path(name))
            };
            names.iter().map(one).collect()
        }
    };
    from_paths(object, wanted, &options.conversion)
}

/// Makes the table of named datasets.
fn from_paths(
    object: &Object,
    wanted: Vec<RequestedColumn>,
    conversion: &ConversionOptions,
) -> Result<TableParts> {
    wanted.iter().try_for_each(RequestedColumn::check)?;
    let paths: Vec<&[u8]> = wanted.iter().map(|wanted| wanted.path.as_bytes()).collect();
    let opened = object.file().open_many(object, &paths, 0)?;
    let mut found = Vec::with_capacity(wanted.len());
    for (wanted, object) in wanted.into_iter().zip(opened) {
        found.push((wanted, object?.dataset()?));
    }
    from_datasets(object, found, conversion)
}

/// Makes the table of all datasets of a group that have dimensions.
fn from_children(group: &Group, conversion: &ConversionOptions) -> Result<TableParts> {
    let object = group.object();
    let mut links = group.links()?;
    if group.tracks_order()? {
        links.sort_by_key(|link| link.creation_order);
    } else {
        links.sort_by(|a, b| a.name.cmp(&b.name));
    }
    // The attributes of all children are needed, too.
    object.file().prefetch(object, true, Some(1))?;
    let names: Vec<&[u8]> = links.iter().map(|link| link.name.as_bytes()).collect();
    let mut found = Vec::new();
    // In batches: with many links, the first error is found before all of them are followed.
    let opened =
        names.chunks(OPEN_BATCH_LINKS).flat_map(|names| match object.file().open_many(object, names, 0) {
            Ok(opened) => opened,
            Err(error) => vec![Err(error)],
        });
    for (link, child) in links.iter().zip(opened) {
        let dataset = match child {
            Ok(child) if child.kind() == ObjectKind::Dataset => child.dataset()?,
            Ok(_) => continue,
            // A dangling soft link is not a column.
            Err(error)
                if error.kind() == ErrorKind::NotFound && matches!(link.target, LinkTarget::Soft(_)) =>
            {
                continue;
            }
            Err(error) => {
                let message = format!(
                    "the link {} of the group does not lead to an object ({}); name the columns to use with `columns` or \
                     the attribute `{TABLE_ATTRIBUTE}`",
                    link.name,
                    error.message()
                );
                return Err(Error::new(error.kind(), message));
            }
        };
        if dataset.dims().is_empty() {
            continue;
        }
        let name = link.name.as_str().ok_or_else(|| {
            Error::unsupported(format!(
                "the name of the dataset {:?} is not UTF-8, which Arrow requires",
                link.name
            ))
        })?;
        found.push((RequestedColumn::path(name), dataset));
    }
    if found.is_empty() {
        let message =
            "the group is not a table: it has no dataset with dimensions (it may have tables below it)";
        return Err(Error::invalid(message));
    }
    from_datasets(object, found, conversion)
}

fn from_datasets(
    object: &Object,
    found: Vec<(RequestedColumn, Dataset)>,
    conversion: &ConversionOptions,
) -> Result<TableParts> {
    let mut all: Vec<StoredDataset> = Vec::new();
    let mut columns = Vec::with_capacity(found.len());
    let mut lengths: Vec<(u64, Vec<String>)> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (wanted, dataset) in found {
        let address = dataset.object().address();
        let same = places.get(&address).copied().filter(|place| {
            all.get(*place).is_some_and(|stored| stored.dataset.object().file().same(dataset.object().file()))
        });
        let (stored, rows) = StoredDataset::new(dataset)?;
        match lengths.iter_mut().find(|(length, _)| *length == rows) {
            Some((_, names)) => names.push(wanted.name.clone()),
            None => lengths.push((rows, vec![wanted.name.clone()])),
        }
        let number = same.unwrap_or(all.len());
        columns.push(table_conventions::column(number, &wanted, &stored, conversion, || {
            whole_column(number, &wanted.name, &stored, conversion, describe::dataset(&stored.dataset)?)
        })?);
        if same.is_none() {
            places.insert(address, number);
            all.push(stored);
        }
        if let Some(column) = columns.last_mut() {
            imported_columns::restore(column, Some(object), rows, &mut all)?;
        }
    }
    if lengths.len() > 1 {
        let parts: Vec<String> =
            lengths.iter().map(|(length, names)| format!("{length} rows: {}", listed(names))).collect();
        let message = format!(
            "cannot form a table: the datasets have different numbers of rows ({}); name those to use with \
             `columns` or the attribute `{TABLE_ATTRIBUTE}`",
            parts.join("; ")
        );
        return Err(Error::invalid(message));
    }
    let rows = lengths.first().map_or(0, |(rows, _)| *rows);
    Ok(TableParts { stored: all, columns, rows, metadata: describe::object(object)? })
}

/// Returns the last component of the path by which an object was opened.
fn last_name(object: &Object) -> String {
    let name = object.asked_path().and_then(|path| path.trim_end_matches('/').rsplit('/').next());
    name.filter(|name| !name.is_empty()).unwrap_or("values").to_owned()
}

/// Lists some names, for messages.
fn listed(names: &[String]) -> String {
    let mut text =
        names.iter().take(MAX_LISTED_NAMES).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED_NAMES {
        text.push_str(", …");
    }
    text
}
