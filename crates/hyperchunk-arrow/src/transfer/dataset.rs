//! A dataset as a table, in batches.

use super::layout;
use crate::types::metadata::{DTYPE, TYPE, encode_datatype};
use crate::types::{self, Compounds};
use crate::values::arrow;
use crate::{ColumnType, ConversionOptions, Error, Result, split_members};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::{Schema, SchemaRef};
use hyperchunk::Dataset;
use hyperchunk::model::{Class, Dataspace};
use hyperchunk::select::{Axis, Selection};
use std::ops::Range;
use std::sync::Arc;

/// Target size of a batch, in stored bytes.
const BATCH_BYTES: u64 = 8 << 20;
/// Chunks of more bytes than this are read in parts.
const MAX_CHUNK_BYTES: u64 = 256 << 20;
/// Allocations of more bytes than this are first tried in a way that can fail.
const TRIED_ALLOCATION_BYTES: usize = 64 << 20;
/// Maximum size of a row, in bytes.
const MAX_ROW_BYTES: usize = 4 << 30;

/// A dataset as a table. A scalar is one row, a null dataspace none.
#[derive(Debug)]
pub struct DatasetTable {
    dataset: Dataset,
    schema: SchemaRef,
    columns: Columns,
    rows: u64,
    row_size: usize,
}

#[derive(Debug)]
enum Columns {
    One(Box<ColumnType>),
    /// Members, each with its offset in an element.
    Members(Vec<(usize, ColumnType)>),
}

impl DatasetTable {
    /// Makes the table of a dataset.
    ///
    /// # Errors
    /// As [`ColumnType::new`]; errors of reading attributes.
    pub fn new(dataset: &Dataset, conversion: &ConversionOptions) -> Result<Self> {
        let named = |error: Error| {
            let object = dataset.object();
            let error = object.path().map_or_else(|| error.clone(), |path| error.clone().object(path));
            object.file().path().map_or_else(|| error.clone(), |file| error.clone().file(file.display()))
        };
        Self::of(dataset, conversion).map_err(named)
    }

    fn of(dataset: &Dataset, conversion: &ConversionOptions) -> Result<Self> {
        let dims = dataset.dims();
        let rows = match dataset.dataspace() {
            Dataspace::Null => 0,
            Dataspace::Scalar => 1,
            Dataspace::Simple { .. } => dims.first().copied().unwrap_or(1),
        };
        let cell = dims.get(1..).unwrap_or_default();
        let datatype = dataset.datatype();
        let metadata = layout::describe(dataset)?;
        let name = dataset.object().path().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let name = if name.is_empty() { "values" } else { name };
        let row_size =
            usize::try_from(datatype.size).map_err(|_| Error::limit("elements larger than memory"))?;
        let members = match &datatype.class {
            Class::Compound { members } if cell.is_empty() && conversion.compounds == Compounds::Columns => {
                Some(members).filter(|_| types::complex_base(datatype).is_none())
            }
            _ => None,
        };
        let (schema, columns, row_size) = match members {
            Some(members) => {
                let mut columns = Vec::with_capacity(members.len());
                for member in members {
                    let offset = usize::try_from(member.offset)
                        .map_err(|_| Error::limit("elements larger than memory"))?;
                    let column =
                        ColumnType::new(types::text(&member.name)?, &member.datatype, &[], conversion)?;
                    columns.push((offset, column));
                }
                let fields: Vec<_> = columns.iter().map(|(_, column)| Arc::clone(column.field())).collect();
                let mut metadata = metadata;
                metadata.insert(DTYPE.to_owned(), encode_datatype(&types::portable(datatype)?)?);
                metadata.insert(TYPE.to_owned(), types::describe(datatype));
                (Schema::new_with_metadata(fields, metadata), Columns::Members(columns), row_size)
            }
            None => {
                let column = ColumnType::new(name, datatype, cell, conversion)?.with_metadata(metadata);
                let row_size = column.row_size();
                (Schema::new(vec![Arc::clone(column.field())]), Columns::One(Box::new(column)), row_size)
            }
        };
        if row_size > MAX_ROW_BYTES {
            return Err(Error::limit(format!("rows of {row_size} bytes")));
        }
        if row_size == 0 && rows > i32::MAX.unsigned_abs().into() {
            return Err(Error::limit(format!("{rows} rows of 0 bytes")));
        }
        Ok(Self { dataset: dataset.clone(), schema: Arc::new(schema), columns, rows, row_size })
    }

    /// Returns its schema.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns its number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the size of its rows in the dataset, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.rows.saturating_mul(self.row_size as u64)
    }

    /// Returns the row ranges of batches: some megabytes each, in whole chunks where these are not too large.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let row = (self.row_size as u64).max(1);
        let mut step = if self.row_size == 0 { self.rows } else { BATCH_BYTES / row }.max(1);
        if let Some(tall) = self.dataset.chunked().and_then(|chunked| chunked.dims.first().copied()) {
            if tall <= step {
                step -= step % tall.max(1);
            } else if tall.saturating_mul(row) <= MAX_CHUNK_BYTES {
                step = tall;
            }
        }
        let rows = self.rows;
        let mut next = 0_u64;
        std::iter::from_fn(move || {
            let start = next;
            next = rows.min(start.saturating_add(step));
            (start < rows).then_some(start..next)
        })
    }

    /// Reads rows as a batch.
    ///
    /// # Errors
    /// Errors of reading; as [`ColumnType::array`].
    pub fn batch(&self, rows: Range<u64>) -> Result<RecordBatch> {
        let count = rows.end.saturating_sub(rows.start);
        let count = usize::try_from(count).map_err(|_| Error::limit("more rows than memory"))?;
        let length = count.checked_mul(self.row_size).ok_or_else(|| Error::limit("more rows than memory"))?;
        let mut stored = zeroed(length)?;
        let selection = match self.dataset.dims() {
            [] => Selection::All,
            [_, cell @ ..] => {
                let cell = cell.iter().map(|dim| Axis::range(0..*dim));
                Selection::Axes(std::iter::once(Axis::range(rows)).chain(cell).collect())
            }
        };
        if length > 0 {
            self.dataset.read(&selection, stored.as_slice_mut())?;
        }
        self.batch_from_stored(stored.into(), count).map_err(|error| {
            let object = self.dataset.object();
            object.path().map_or_else(|| error.clone(), |path| error.clone().object(path))
        })
    }

    fn batch_from_stored(&self, stored: Buffer, rows: usize) -> Result<RecordBatch> {
        let file = Some(self.dataset.object().file());
        let arrays: Vec<ArrayRef> = match &self.columns {
            Columns::One(column) => vec![column.array(stored, rows, file)?],
            Columns::Members(columns) => split_members(columns, &stored, self.row_size, rows, file)?,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map_err(arrow)
    }
}

/// Allocates a buffer of zeros.
///
/// # Errors
/// Limit if there is no memory.
pub(super) fn zeroed(length: usize) -> Result<MutableBuffer> {
    if length > TRIED_ALLOCATION_BYTES {
        // Without this check, a failed allocation of the buffer would abort the process.
        let room = Vec::<u8>::new().try_reserve_exact(length);
        room.map_err(|_| Error::limit(format!("no memory for {length} bytes")))?;
    }
    Ok(MutableBuffer::from_len_zeroed(length))
}
