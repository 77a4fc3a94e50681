//! Columns of dual files: their types, and their layout in a row group.

use super::batch::{self, END_OF_STREAM};
use super::footer::MAGIC;
use super::metadata::GROUP;
use super::writer::DualOptions;
use crate::types::{ColumnType, ConversionOptions, Strings, datatype_from_field};
use crate::{Error, ErrorKind, Result, attributes_to_metadata};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_schema::{DataType, Field, Metadata, Schema, SchemaRef};
use hyperchunk::Object;
use hyperchunk::write::DatasetWriter;
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) column: ColumnType,
    /// The Arrow type whose values are stored unchanged in the dataset.
    pub(super) data_type: DataType,
    pub(super) dataset: Option<DatasetWriter>,
}

/// Alignment of a column's values in a row group, in bytes.
pub(super) const ALIGNMENT_BYTES: u64 = 64;
/// Alignment in bytes of values of at least [`PAGE_ALIGNED_BYTES`] bytes.
pub(super) const PAGE_BYTES: u64 = 4096;
pub(super) const PAGE_ALIGNED_BYTES: u64 = 1 << 20;

/// State that is determined before the file is created.
pub(super) struct NewFile {
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<Column>,
    pub(super) user_block: u64,
    /// The names of the groups on the path to the columns.
    pub(super) names: Vec<String>,
    pub(super) message: Vec<u8>,
}

impl NewFile {
    pub(super) fn new(schema: &Schema, options: &DualOptions) -> Result<Self> {
        let columns = schema.fields().iter().map(|field| Column::new(field)).collect::<Result<_>>()?;
        Self::from_columns(columns, schema.metadata().clone(), options)
    }

    pub(super) fn from_columns(
        columns: Vec<Column>,
        metadata: Metadata,
        options: &DualOptions,
    ) -> Result<Self> {
        let names: Vec<String> =
            options.group.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.iter().any(|name| name == "." || name == "..") {
            return Err(Error::invalid(format!("{:?} cannot be the path of a group", options.group)));
        }
        if columns.is_empty() {
            return Err(Error::invalid("a table needs at least one column"));
        }
        let mut known = HashSet::new();
        if let Some(twice) = columns.iter().find(|column| !known.insert(&*column.name)) {
            return Err(Error::invalid(format!("two columns are named {:?}", twice.name)));
        }
        let fields: Vec<Field> = columns.iter().map(Column::field).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let named = [(GROUP.to_owned(), format!("/{}", names.join("/")))];
        let more = schema.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).chain(named);
        let front = Schema::new_with_metadata(schema.fields().clone(), more.collect::<Metadata>());
        let message = schema_message(&front)?;
        let needed = (MAGIC.len() + message.len() + END_OF_STREAM.len()) as u64;
        let user_block = options.user_block.unwrap_or(0).max(needed).max(PAGE_BYTES).next_power_of_two();
        Ok(Self { schema, columns, user_block, names, message })
    }
}

impl Column {
    fn new(field: &Field) -> Result<Self> {
        let name = field.name();
        let made = datatype_from_field(field)
            .and_then(|(datatype, cell)| ColumnType::new(name, &datatype, &cell, &conversion()));
        let mut made = Self::checked(name, made, field.data_type().clone())?;
        let own = made.column.field().metadata();
        let more: Vec<_> = field.metadata().iter().filter(|(key, _)| !own.contains_key(key)).collect();
        let more: Vec<_> = more.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        made.column = made.column.with_metadata(more);
        Ok(made)
    }

    pub(super) fn checked(name: &str, made: Result<ColumnType>, data_type: DataType) -> Result<Self> {
        let named = |error: Error| {
            let message =
                format!("column {name:?} cannot be in a file that is HDF5 and Arrow: {}", error.message());
            Error::new(error.kind(), message)
        };
        let column = made.map_err(named)?;
        if let Some(what) = lost(&data_type) {
            let message = format!(
                "HDF5 has no place for {what} of the Arrow type {data_type}; convert the column, or write it to an HDF5 dataset \
                 of its own"
            );
            return Err(named(Error::unsupported(message)));
        }
        if column.row_size() == 0 {
            let message = format!("rows of the Arrow type {data_type} have no bytes; leave the column out");
            return Err(named(Error::unsupported(message)));
        }
        if column.zero_copy().is_none() || !same_bytes(&data_type, column.field().data_type()) {
            let message = format!(
                "values of the Arrow type {data_type} are not stored as HDF5 stores them; convert the column to numbers, \
                 bytes of fixed size or lists of fixed size, or write it to an HDF5 dataset of its own"
            );
            return Err(named(Error::unsupported(message)));
        }
        Ok(Self { name: name.to_owned(), column, data_type, dataset: None })
    }

    pub(super) fn field(&self) -> Field {
        (**self.column.field()).clone()
    }

    pub(super) fn row_size(&self) -> u64 {
        self.column.row_size() as u64
    }
}

/// Returns the conversion options for dual files: values are taken as stored wherever possible.
pub(super) fn conversion() -> ConversionOptions {
    ConversionOptions { strings: Strings::Stored, ..ConversionOptions::default() }
}

/// Returns what would be lost of a type whose values are stored as they are.
pub(crate) fn lost(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Time32(_) | DataType::Time64(_) => Some("the unit of the times"),
        DataType::Date64 => Some("dates of milliseconds"),
        DataType::Timestamp(_, Some(_)) => Some("the time zone"),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Some("the scale"),
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            lost(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().find_map(|field| lost(field.data_type())),
        _ => None,
    }
}

/// Returns whether values of both types have the same width, and their rows the same number of values, nested
/// lists included.
fn same_bytes(left: &DataType, right: &DataType) -> bool {
    let mut flat = [left, right].map(|data_type| {
        let (mut inner, mut count) = (data_type, 1_i64);
        while let DataType::FixedSizeList(item, size) = inner {
            (inner, count) = (item.data_type(), count.saturating_mul((*size).into()));
        }
        (inner.clone(), count)
    });
    let same_width = |left: &DataType, right: &DataType| match (batch::width(left), batch::width(right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    };
    let [left, right] = &mut flat;
    left.1 == right.1 && same_width(&left.0, &right.0)
}

/// Returns the start of each column's values in a row group of `rows` rows, laid out from offset `at`, and the end of
/// the last, rounded up to [`ALIGNMENT_BYTES`].
pub(super) fn layout_row_group(sizes: &[u64], rows: u64, mut at: u64) -> Result<(Vec<u64>, u64)> {
    let too_large = || Error::limit("a row group of 2^62 bytes");
    let mut starts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let size = size.checked_mul(rows).filter(|size| *size < 1 << 62).ok_or_else(too_large)?;
        at = at.next_multiple_of(if size >= PAGE_ALIGNED_BYTES { PAGE_BYTES } else { ALIGNMENT_BYTES });
        starts.push(at);
        at = at.checked_add(size).ok_or_else(too_large)?;
    }
    Ok((starts, at.next_multiple_of(ALIGNMENT_BYTES)))
}

/// Encodes the schema message that starts a stream.
pub(super) fn schema_message(schema: &Schema) -> Result<Vec<u8>> {
    let mut tracker = DictionaryTracker::new(false);
    let options = IpcWriteOptions::default();
    let encoded =
        IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options);
    batch::frame_message(&encoded.ipc_message, 0)
}

/// Returns the attributes of an object, sorted by key; empty if one of them has no Arrow equivalent.
pub(super) fn attributes(object: &Object) -> Result<Vec<(String, String)>> {
    let mut told: Vec<(String, String)> = match attributes_to_metadata(object) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Vec::new(),
        told => told?.into_iter().collect(),
    };
    told.sort();
    Ok(told)
}
