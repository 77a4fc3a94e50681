//! Tables, and their selection of columns and rows.

use super::batches::Batches;
use super::find;
use super::map::Maps;
use crate::types::{ColumnType, ConversionOptions};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Metadata, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use hyperchunk::model::Dataspace;
use hyperchunk::{Dataset, File, Object, OpenOptions};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Options of a table.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableOptions {
    /// The columns, in this order: names of members, or paths of datasets relative to the group. `None` for
    /// all.
    pub columns: Option<Vec<String>>,
    /// The rows; `None` for all.
    pub rows: Option<Range<u64>>,
    /// Conversion options.
    pub conversion: ConversionOptions,
    /// Allow mapping of local files. A mapping shows the present contents of the file, and access kills the
    /// process (SIGBUS) if another one truncates the file meanwhile.
    pub mapped: bool,
    /// Maximum number of rows in a batch. `None` for a default that gives neither large nor many batches.
    pub batch_rows: Option<u64>,
    /// Number of bytes to read at once if nothing is mapped; `None` for the fastest.
    pub read_bytes: Option<u64>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            columns: None,
            rows: None,
            conversion: ConversionOptions::default(),
            mapped: true,
            batch_rows: None,
            read_bytes: None,
        }
    }
}

/// A table over data of a file. Cheap to clone; it may be used from several threads at once.
#[derive(Clone)]
pub struct Table(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    /// The datasets of the columns. Some may be unused.
    pub(super) stored: Arc<Vec<StoredDataset>>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Range<u64>,
    pub(super) schema: SchemaRef,
    pub(super) mapped: bool,
    pub(super) batch_rows: Option<u64>,
    pub(super) read_bytes: Option<u64>,
    pub(super) maps: Arc<Maps>,
}

/// A dataset that contains columns.
#[derive(Debug)]
pub(super) struct StoredDataset {
    pub(super) dataset: Dataset,
    /// The stored size of a row.
    pub(super) row: usize,
}

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// The index of its dataset.
    pub(super) stored: usize,
    /// The offset of its bytes in a stored row.
    pub(super) offset: usize,
    pub(super) kind: ColumnType,
    /// The index of the dataset that marks its rows which are not null.
    pub(super) valid: Option<usize>,
}

impl Column {
    /// Returns whether it needs the dataset with this index.
    pub(super) fn uses(&self, stored: usize) -> bool {
        self.stored == stored || self.valid == Some(stored)
    }
}

/// Statistics on how the rows of a column are accessed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Storage {
    /// Its name.
    pub column: String,
    /// Number of rows used directly in a mapped file.
    pub zero_copy: u64,
    /// Number of rows that are read or copied.
    pub copied: u64,
}

/// The datasets and the columns of a table.
pub(super) struct TableParts {
    pub(super) stored: Vec<StoredDataset>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: u64,
    pub(super) metadata: HashMap<String, String>,
}

/// Joins batches of one schema.
///
/// # Errors
/// Limit if one of the columns is too large for one array.
pub fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    match batches {
        [one] => Ok(one.clone()),
        all => concat_batches(schema, all)
            .map_err(|error| Error::limit(format!("cannot join the batches of a table: {error}"))),
    }
}

impl Table {
    /// Makes a table over a dataset or a group.
    ///
    /// # Errors
    /// Invalid if the object is not a table, or lacks the requested rows; NotFound if it lacks a requested
    /// column; Unsupported if Arrow has no type for a column; errors of reading.
    pub fn from_object(object: &Object, options: &TableOptions) -> Result<Self> {
        let found = find::table(object, options).map_err(|error| named(error, object))?;
        let rows = options.rows.clone().unwrap_or(0..found.rows);
        check_rows(&rows, found.rows).map_err(|error| named(error, object))?;
        let schema = schema(&found.columns, found.metadata.into());
        Ok(Self(Arc::new(Inner {
            stored: Arc::new(found.stored),
            columns: found.columns,
            rows,
            schema,
            mapped: options.mapped,
            batch_rows: options.batch_rows.map(|rows| rows.max(1)),
            read_bytes: options.read_bytes.map(|bytes| bytes.max(1)),
            maps: Arc::default(),
        })))
    }

    /// Makes a table over an object of a file, which is opened by its path or URL.
    ///
    /// # Errors
    /// As [`File::open_url`] and [`Table::from_object`].
    pub fn open(path_or_url: &str, object: &str, options: &TableOptions) -> Result<Self> {
        hyperchunk_store::register();
        let file = File::open_url(path_or_url, &OpenOptions::default())?;
        let root = file.root()?.named("/");
        let object =
            if object.trim_matches('/').is_empty() { root } else { root.group()?.get(object.as_bytes())? };
        Self::from_object(&object, options)
    }

    /// Returns its schema.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    /// Returns its number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows.end - self.0.rows.start
    }

    /// Selects columns, in this order.
    ///
    /// # Errors
    /// NotFound if a column does not exist.
    pub fn select(&self, columns: &[&str]) -> Result<Self> {
        let fields = self.0.schema.fields();
        let selected = columns.iter().map(|name| {
            let place = fields.iter().position(|field| field.name() == name);
            let column = place.and_then(|place| self.0.columns.get(place));
            column.cloned().ok_or_else(|| no_column(name, fields))
        });
        Ok(self.with_columns(selected.collect::<Result<_>>()?))
    }

    /// Selects a range of rows.
    ///
    /// # Errors
    /// Invalid if the range is outside the table.
    pub fn slice(&self, rows: Range<u64>) -> Result<Self> {
        check_rows(&rows, self.rows())?;
        let first = self.0.rows.start;
        Ok(self.with(|inner| inner.rows = first + rows.start..first + rows.end))
    }

    /// Returns the table with another maximum number of rows in a batch.
    #[must_use]
    pub fn with_batch_rows(&self, rows: Option<u64>) -> Self {
        self.with(|inner| inner.batch_rows = rows.map(|rows| rows.max(1)))
    }

    /// Returns the size of the elements of its columns in bytes, as stored without filters.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.dataset_bytes(1).saturating_mul(self.rows())
    }

    /// Returns a reader of its rows in batches.
    ///
    /// # Errors
    /// If the locations of a dataset's data cannot be read.
    pub fn batches(&self) -> Result<Batches> {
        Batches::new(&self.0)
    }

    /// Returns how each column is accessed, without reading any value.
    ///
    /// # Errors
    /// As [`Table::batches`].
    pub fn storage(&self) -> Result<Vec<Storage>> {
        self.batches().map(|batches| batches.storage())
    }

    /// Reads all its rows at once.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(&self) -> Result<RecordBatch> {
        let mut batches = self.with_batch_rows(Some(u64::MAX)).batches()?;
        let mut all = Vec::new();
        while let Some(batch) = batches.next_batch()? {
            all.push(batch);
        }
        joined(&self.0.schema, &all)
    }

    /// Returns the address ranges of its mapped files.
    #[must_use]
    pub fn mapped_memory(&self) -> Vec<Range<usize>> {
        self.0.maps.ranges()
    }

    pub(super) fn with_columns(&self, columns: Vec<Column>) -> Self {
        let schema = schema(&columns, self.0.schema.metadata().clone());
        self.with(|inner| (inner.columns, inner.schema) = (columns, schema))
    }

    fn with(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let inner = &*self.0;
        let mut changed = Inner {
            stored: Arc::clone(&inner.stored),
            columns: inner.columns.clone(),
            rows: inner.rows.clone(),
            schema: Arc::clone(&inner.schema),
            mapped: inner.mapped,
            batch_rows: inner.batch_rows,
            read_bytes: inner.read_bytes,
            maps: Arc::clone(&inner.maps),
        };
        change(&mut changed);
        Self(Arc::new(changed))
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.0.schema.fields().iter().map(|field| field.name()).collect();
        f.debug_struct("Table").field("rows", &self.0.rows).field("columns", &names).finish_non_exhaustive()
    }
}

impl Inner {
    /// Returns the size in bytes of `rows` rows of the datasets of its columns.
    pub(super) fn dataset_bytes(&self, rows: usize) -> u64 {
        let used = self.stored.iter().enumerate();
        let used = used.filter(|(number, _)| self.columns.iter().any(|column| column.uses(*number)));
        let row = used.fold(0_u64, |sum, (_, stored)| sum.saturating_add(stored.row as u64));
        row.saturating_mul(rows as u64)
    }
}

impl StoredDataset {
    /// Makes a dataset's entry, and returns its number of rows.
    pub(super) fn new(dataset: Dataset) -> Result<(Self, u64)> {
        let size = dataset
            .dims()
            .get(1..)
            .unwrap_or_default()
            .iter()
            .try_fold(dataset.datatype().size, |size, dim| size.checked_mul(*dim));
        let row = size.and_then(|size| usize::try_from(size).ok());
        let row =
            row.ok_or_else(|| named(Error::limit("a row larger than the address space"), dataset.object()))?;
        let rows = match dataset.dataspace() {
            Dataspace::Null => 0,
            _ if super::table_conventions::is_empty_placeholder(&dataset)? => 0,
            _ => dataset.dims().first().copied().unwrap_or(1),
        };
        Ok((Self { dataset, row }, rows))
    }

    /// Returns the extent of a row.
    pub(super) fn cell(&self) -> &[u64] {
        self.dataset.dims().get(1..).unwrap_or_default()
    }
}

/// Adds the names of an object and its file to an error.
pub(super) fn named(error: Error, object: &Object) -> Error {
    let error = match object.path() {
        Some(path) => error.object(path),
        None => error,
    };
    match object.file().path() {
        Some(path) => error.file(path.display()),
        None => error,
    }
}

fn schema(columns: &[Column], metadata: Metadata) -> SchemaRef {
    let fields: Vec<FieldRef> = columns.iter().map(|column| Arc::clone(column.kind.field())).collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn check_rows(rows: &Range<u64>, count: u64) -> Result<()> {
    if rows.start > rows.end || rows.end > count {
        let message =
            format!("cannot select rows {} to {} of a table that has {count}", rows.start, rows.end);
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Returns the error for a missing column: it lists the first ones.
pub(crate) fn no_column(name: &str, fields: &arrow_schema::Fields) -> Error {
    const MAX_LISTED_NAMES: usize = 20;
    let mut names: Vec<&str> =
        fields.iter().take(MAX_LISTED_NAMES).map(|field| field.name().as_str()).collect();
    if fields.len() > MAX_LISTED_NAMES {
        names.push("…");
    }
    let message = format!("no column of the name `{name}`; there are: {}", names.join(", "));
    Error::new(crate::ErrorKind::NotFound, message)
}
