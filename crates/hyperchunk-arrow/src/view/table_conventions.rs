//! Conventions of other programs for tables in groups: pandas (fixed and table format), vaex, AnnData, NeXus.
//! A dataset of PyTables is an ordinary compound.

use super::table::{Column, StoredDataset, named};
use super::text_attributes::{text, texts, unpadded};
use crate::types::{ColumnType, ConversionOptions, boolean};
use crate::{Error, ErrorKind, Result};
use hyperchunk::model::{ByteOrder, Class, Datatype, ObjectKind};
use hyperchunk::select::Selection;
use hyperchunk::{Dataset, Group, Object};
use std::collections::HashMap;

/// Maximum size of the column names that are read, in bytes.
const MAX_NAMES_BYTES: u64 = 64 << 20;
/// Maximum number of blocks in a frame.
const MAX_BLOCKS: usize = 10_000;

/// A requested column.
#[derive(Debug, Clone)]
pub(super) struct RequestedColumn {
    pub(super) name: String,
    /// The path of the dataset, relative to the group.
    pub(super) path: String,
    /// The number of the column in a two-dimensional dataset; `None` if the whole dataset is the column.
    part: Option<usize>,
    /// True if pandas' attributes determine the type of its values.
    pandas: bool,
    /// The reason why it cannot be read, if there is one.
    unsupported_reason: Option<&'static str>,
}

/// The convention of a group.
pub(super) enum TableConvention {
    /// These datasets are the columns.
    Columns(Vec<RequestedColumn>),
    /// The table is an object below the group.
    Below(&'static str),
}

impl RequestedColumn {
    /// Makes a column of a dataset by its path.
    pub(super) fn path(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: name.to_owned(),
            part: None,
            pandas: false,
            unsupported_reason: None,
        }
    }

    fn at(name: &str, path: String) -> Self {
        Self { path, ..Self::path(name) }
    }

    /// Returns an error if it cannot be a column.
    pub(super) fn check(&self) -> Result<()> {
        match self.unsupported_reason {
            Some(why) => Err(Error::unsupported(format!("the column `{}`: {why}", self.name))),
            None => Ok(()),
        }
    }
}

/// Recognises the convention of a group.
pub(super) fn recognize(group: &Group) -> Result<Option<TableConvention>> {
    let object = group.object();
    if let Some(kind) = text(object, "pandas_type")? {
        return match kind.as_str() {
            "frame_table"
            | "appendable_frame"
            | "appendable_multiframe"
            | "series_table"
            | "appendable_series" => Ok(Some(TableConvention::Below("table"))),
            "frame" => frame(group).map(TableConvention::Columns).map(Some),
            "series" => series(group).map(TableConvention::Columns).map(Some),
            _ => Ok(None),
        };
    }
    if text(object, "encoding-type")?.as_deref() == Some("dataframe") {
        return anndata(group).map(TableConvention::Columns).map(Some);
    }
    if text(object, "NX_class")?.as_deref() == Some("NXdata") {
        return Ok(nexus(group)?.map(TableConvention::Columns));
    }
    vaex(group).map(|found| found.map(TableConvention::Columns))
}

/// Makes a column of a dataset or of a part of it; `whole` makes the column of a whole dataset.
pub(super) fn column(
    number: usize,
    wanted: &RequestedColumn,
    stored: &StoredDataset,
    conversion: &ConversionOptions,
    whole: impl FnOnce() -> Result<Column>,
) -> Result<Column> {
    let object = stored.dataset.object();
    let meant = if wanted.pandas { pandas_type(&stored.dataset)? } else { None };
    let Some(part) = wanted.part else {
        let mut column = whole()?;
        if let Some(meant) = meant {
            column.kind = ColumnType::new(&wanted.name, &meant, stored.cell(), conversion)
                .map_err(|error| named(error, object))?;
        }
        return Ok(column);
    };
    let datatype = meant.as_ref().unwrap_or_else(|| stored.dataset.datatype());
    let kind =
        ColumnType::new(&wanted.name, datatype, &[], conversion).map_err(|error| named(error, object))?;
    if is_empty_placeholder(&stored.dataset)? {
        return Ok(Column { stored: number, offset: 0, kind, valid: None });
    }
    let offset = part.checked_mul(kind.row_size()).filter(|offset| offset + kind.row_size() <= stored.row);
    let offset = offset.filter(|_| stored.dataset.dims().len() == 2).ok_or_else(|| {
        named(
            Error::corrupt(format!("no column {part} in a block of extent {:?}", stored.dataset.dims())),
            object,
        )
    })?;
    Ok(Column { stored: number, offset, kind, valid: None })
}

/// Returns whether a dataset is PyTables' placeholder for an empty pandas array. This is a single meaningless element
/// with attributes that describe the array; or, for an array of times, a dataset without elements, whose extent is
/// transposed.
pub(super) fn is_empty_placeholder(dataset: &Dataset) -> Result<bool> {
    let dims = dataset.dims();
    let has = |name: &[u8]| dataset.object().attribute(name).map(|found| found.is_some());
    if dims.contains(&0) {
        return has(b"value_type");
    }
    if dims.is_empty() || dims.iter().any(|dim| *dim != 1) {
        return Ok(false);
    }
    Ok(has(b"value_type")? && has(b"shape")?)
}

/// Returns the type of a pandas array whose values PyTables stores as something else: times and durations as
/// integers, truth values as bits, and empty arrays as one number. Times with a zone stay integers, since the
/// column would lose the zone.
fn pandas_type(dataset: &Dataset) -> Result<Option<Datatype>> {
    let object = dataset.object();
    let said = text(object, "value_type")?.unwrap_or_default();
    // An index has it in `kind`; its `value_type` is the stored type.
    let kind = text(object, "kind")?.unwrap_or_default();
    let stored = dataset.datatype();
    let is_count = stored.size == 8
        && matches!(&stored.class, Class::Integer { order: ByteOrder::Little, signed: true, .. });
    let is_empty = is_empty_placeholder(dataset)?;
    if is_count || is_empty {
        let unit = |text: &str| if text.is_empty() { "[ns]".to_owned() } else { text.to_owned() };
        let time = |said: &str| {
            let date = said.strip_prefix("datetime64").map(|text| format!("NUMPY:<M8{}", unit(text)));
            date.or_else(|| said.strip_prefix("timedelta64").map(|text| format!("NUMPY:<m8{}", unit(text))))
        };
        let time = time(&said).or_else(|| time(&kind));
        if let Some(tag) = time {
            let has_zone = object.attribute(b"tz")?.is_some();
            return Ok(
                (!has_zone).then(|| Datatype { size: 8, class: Class::Opaque { tag: tag.as_str().into() } })
            );
        }
    }
    if matches!(stored.class, Class::Bitfield { .. }) && stored.size == 1 {
        return Ok(Some(boolean()));
    }
    Ok(if is_empty { numpy_type(&said) } else { None })
}

/// Returns the numeric datatype with a NumPy name.
fn numpy_type(name: &str) -> Option<Datatype> {
    if name == "bool" {
        return Some(boolean());
    }
    let bits = |name: &str| name.parse::<u16>().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64));
    let (class, bits) =
        match (name.strip_prefix("int"), name.strip_prefix("uint"), name.strip_prefix("float")) {
            (Some(text), ..) => ('i', bits(text)?),
            (_, Some(text), _) => ('u', bits(text)?),
            (.., Some(text)) => ('f', bits(text).filter(|bits| *bits > 8)?),
            _ => return None,
        };
    Some(match class {
        'f' => Datatype::ieee(bits / 8, ByteOrder::Little),
        class => Datatype::integer(bits / 8, class == 'i', ByteOrder::Little),
    })
}

/// Returns the object with a name, if it exists.
fn child(group: &Group, path: &str) -> Result<Option<Object>> {
    match group.get(path.as_bytes()) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => Ok(None),
        Err(error) => Err(error),
    }
}

fn child_group(group: &Group, path: &str) -> Result<Option<Group>> {
    let found = child(group, path)?.filter(|object| object.kind() == ObjectKind::Group);
    found.map(|object| object.group()).transpose()
}

/// Returns the link names of a group that are text, in the file's order.
fn names(group: &Group) -> Result<Vec<String>> {
    let mut links = group.links()?;
    if group.tracks_order()? {
        links.sort_by_key(|link| link.creation_order);
    } else {
        links.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(links.iter().filter_map(|link| link.name.as_str().map(str::to_owned)).collect())
}

/// Returns the columns of a pandas frame in fixed format. It stores one two-dimensional dataset (*block*) for each
/// element type, with all columns of that type.
fn frame(group: &Group) -> Result<Vec<RequestedColumn>> {
    let damaged =
        |what: &str| named(Error::corrupt(format!("the pandas frame has no {what}")), group.object());
    let multiple = "the frame has an index of several levels, which only pandas reads";
    let refuse = |why: &str| Err(named(Error::unsupported(why), group.object()));
    for axis in ["axis0_variety", "axis1_variety"] {
        if text(group.object(), axis)?.as_deref() == Some("multi") {
            return refuse(multiple);
        }
    }
    let order = labels(&child(group, "axis0")?.ok_or_else(|| damaged("`axis0`"))?.dataset()?)?;
    let mut found: HashMap<String, RequestedColumn> = HashMap::new();
    for block in 0..MAX_BLOCKS {
        let (items, values) = (format!("block{block}_items"), format!("block{block}_values"));
        let Some(items) = child(group, &items)? else { break };
        let object = child(group, &values)?.ok_or_else(|| damaged(&values))?.dataset()?;
        let pickled = pickled(&object);
        for (part, name) in labels(&items.dataset()?)?.into_iter().enumerate() {
            let wanted = RequestedColumn {
                name,
                path: values.clone(),
                part: Some(part),
                pandas: true,
                unsupported_reason: pickled,
            };
            found.insert(wanted.name.clone(), wanted);
        }
    }
    let index = if order.iter().any(|name| name == "index") { "axis1" } else { "index" };
    let labels = child(group, "axis1")?.ok_or_else(|| damaged("`axis1`"))?.dataset()?;
    let index = RequestedColumn {
        pandas: true,
        unsupported_reason: pickled(&labels),
        ..RequestedColumn::at(index, "axis1".into())
    };
    let mut columns = vec![index];
    for name in order {
        columns.push(found.remove(&name).ok_or_else(|| damaged(&format!("the column `{name}`")))?);
    }
    Ok(columns)
}

/// Returns the reason for which a pandas array cannot be a column.
fn pickled(dataset: &Dataset) -> Option<&'static str> {
    matches!(dataset.datatype().class, Class::Vlen { .. } | Class::VlenString { .. })
        .then_some("its values are pickled objects, which only pandas reads")
}

/// Lists the columns of a fixed pandas series: its index and its values.
fn series(group: &Group) -> Result<Vec<RequestedColumn>> {
    if text(group.object(), "index_variety")?.as_deref() == Some("multi") {
        let why = "the series has an index of several levels, which only pandas reads";
        return Err(named(Error::unsupported(why), group.object()));
    }
    let mut found = Vec::new();
    for name in ["index", "values"] {
        let message = || Error::corrupt(format!("the pandas series has no `{name}`"));
        let dataset = child(group, name)?.ok_or_else(|| named(message(), group.object()))?.dataset()?;
        found.push(RequestedColumn {
            pandas: true,
            unsupported_reason: pickled(&dataset),
            ..RequestedColumn::path(name)
        });
    }
    Ok(found)
}

/// Reads a dataset of names: strings of fixed length, or integers.
fn labels(dataset: &Dataset) -> Result<Vec<String>> {
    if is_empty_placeholder(dataset)? {
        return Ok(Vec::new());
    }
    let named = |error| named(error, dataset.object());
    let size = dataset.datatype().size.max(1);
    let bytes = dataset.elements()?.checked_mul(size).filter(|bytes| *bytes <= MAX_NAMES_BYTES);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let mut stored = vec![0; bytes.ok_or_else(|| named(Error::limit("names of more than 64 MiB")))?];
    dataset.read(&Selection::All, &mut stored)?;
    let elements = stored.chunks_exact(usize::try_from(size).unwrap_or(1));
    match &dataset.datatype().class {
        Class::String { padding, .. } => elements
            .map(|bytes| {
                let name = std::str::from_utf8(unpadded(bytes, *padding));
                name.map(str::to_owned).map_err(|_| named(Error::corrupt("a name that is not UTF-8")))
            })
            .collect(),
        Class::Integer { order: ByteOrder::Little, signed: true, .. } if size == 8 => Ok(elements
            .filter_map(|bytes| bytes.first_chunk::<8>())
            .map(|bytes| i64::from_le_bytes(*bytes).to_string())
            .collect()),
        _ => Err(named(Error::unsupported("the column names are neither strings nor integers of 64 bits"))),
    }
}

/// Returns the columns of an AnnData data frame: the index and the columns by name.
fn anndata(group: &Group) -> Result<Vec<RequestedColumn>> {
    let object = group.object();
    let order = texts(object, "column-order")?.unwrap_or_default();
    let index = text(object, "_index")?;
    let mut found = Vec::new();
    for name in index.into_iter().chain(order) {
        let mut wanted = RequestedColumn::path(&name);
        if child_group(group, &name)?.is_some() {
            wanted.unsupported_reason =
                Some("it is a group (a categorical or one with missing values), which anndata reads");
        }
        found.push(wanted);
    }
    Ok(found)
}

/// Returns the columns of a NeXus plot: its first axis, and its signals.
fn nexus(group: &Group) -> Result<Option<Vec<RequestedColumn>>> {
    let object = group.object();
    let Some(signal) = text(object, "signal")? else { return Ok(None) };
    let dataset = child(group, &signal)?.filter(|object| object.kind() == ObjectKind::Dataset);
    let Some(rows) =
        dataset.map(|object| object.dataset()).transpose()?.and_then(|data| data.dims().first().copied())
    else {
        return Ok(None);
    };
    let axes = texts(object, "axes")?.unwrap_or_default();
    // Older files have one string, in which colons separate the axes.
    let first =
        axes.first().and_then(|axes| axes.split(':').next()).filter(|name| !name.is_empty() && *name != ".");
    let mut found = Vec::new();
    let auxiliary = texts(object, "auxiliary_signals")?.unwrap_or_default();
    for name in first.into_iter().chain([signal.as_str()]).chain(auxiliary.iter().map(String::as_str)) {
        let Some(child) = child(group, name)?.filter(|object| object.kind() == ObjectKind::Dataset) else {
            continue;
        };
        // A histogram has one more bin edge than values.
        let fits = child.dataset()?.dims().first() == Some(&rows);
        if fits && !found.iter().any(|wanted: &RequestedColumn| wanted.name == name) {
            found.push(RequestedColumn::path(name));
        }
    }
    Ok(Some(found))
}

/// Returns the columns of a vaex table: a group of columns, each a group with its data.
fn vaex(group: &Group) -> Result<Option<Vec<RequestedColumn>>> {
    let is_columns = group.object().path().is_some_and(|path| path.ends_with("/table/columns"));
    let places: &[&str] = if is_columns { &["."] } else { &["columns", "table/columns"] };
    for place in places {
        let Some(columns) = child_group(group, place)? else { continue };
        let mut found = Vec::new();
        for name in names(&columns)? {
            let Some(column) = child_group(&columns, &name)? else { break };
            if child(&column, "data")?.is_none() {
                break;
            }
            let mut wanted = RequestedColumn::at(&name, format!("{place}/{name}/data"));
            if child(&column, "indices")?.is_some() {
                wanted.unsupported_reason = Some("it has strings of vaex, which only vaex reads");
            } else if child(&column, "mask")?.is_some() || child(&column, "null_bitmap")?.is_some() {
                wanted.unsupported_reason = Some("it has missing values, which vaex reads");
            }
            found.push(wanted);
        }
        if !found.is_empty() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
