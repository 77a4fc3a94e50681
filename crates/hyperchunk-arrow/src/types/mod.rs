//! The mapping of types: HDF5 datatypes to Arrow fields, and back.
//!
//! - The Arrow type is the one that other tools handle best.
//! - Properties that Arrow cannot represent are in the field's metadata; the encoded HDF5 datatype there
//!   ([`metadata::DTYPE`]) is authoritative.
//! - Bytes are changed only if Arrow requires it: it is little-endian, and has no unusual precisions.
//! - Values are never null, except strings of variable length that HDF5 stores as null pointers, NaT of
//!   NumPy's times, and nulls of imported tables, which a dataset beside the column marks.

mod describe;
mod field;
mod form;
mod from_arrow;
pub mod metadata;
mod portable;

use crate::Result;
use arrow_schema::{DataType, Field, FieldRef};
pub(crate) use describe::describe;
pub(crate) use field::{coarse_numpy_time, numpy_time, text};
pub(crate) use form::{Element, Form, MAX_DEPTH, MemberElement, Names, complex_base, is_reference};
pub use from_arrow::datatype_from_field;
pub(crate) use from_arrow::{boolean, fits};
use hyperchunk::model::Datatype;
pub(crate) use portable::portable;
use std::sync::Arc;

/// Options of the conversion to Arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConversionOptions {
    /// The form of rows of multidimensional datasets.
    pub cells: Cells,
    /// The form of strings.
    pub strings: Strings,
    /// The form of floating-point numbers of 2 bytes.
    pub half: Half,
    /// The form of enumerations.
    pub enums: Enums,
    /// The form of datasets of compounds.
    pub compounds: Compounds,
}

/// The form of rows of multidimensional datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cells {
    /// Tensors (`arrow.fixed_shape_tensor`) if elements are numbers; else lists.
    #[default]
    Tensor,
    /// Nested lists of fixed size.
    List,
}

/// The form of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strings {
    /// Text without padding. Text that is not UTF-8 is an error.
    #[default]
    Text,
    /// The stored bytes.
    Stored,
}

/// The form of floating-point numbers of 2 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Half {
    /// Numbers of 2 bytes.
    #[default]
    Float16,
    /// Numbers of 4 bytes, for tools without 16-bit floating-point numbers.
    Float32,
}

/// The form of enumerations. h5py's boolean type, `{FALSE: 0, TRUE: 1}` of a byte, is always `arrow.bool8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enums {
    /// Integers, with the names in the metadata.
    #[default]
    Values,
    /// Dictionaries of names. A value without a name is an error.
    Dictionary,
}

/// The form of datasets of compounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compounds {
    /// Tables with a column for each member.
    #[default]
    Columns,
    /// One column of structs.
    Struct,
}

/// A datatype in Arrow: a field, and the conversion of stored bytes to its values.
#[derive(Debug, Clone)]
pub struct ColumnType {
    field: FieldRef,
    datatype: Datatype,
    cell: Vec<u64>,
    pub(crate) element: Arc<Element>,
}

impl ColumnType {
    /// Converts a datatype, for single elements or rows of `cell` elements: the extent of a dataset without
    /// its first dimension.
    ///
    /// # Errors
    /// Unsupported if Arrow has no equivalent; Limit if a row is too large.
    pub fn new(
        name: &str,
        datatype: &Datatype,
        cell: &[u64],
        conversion: &ConversionOptions,
    ) -> Result<Self> {
        let made = Element::new(datatype, conversion, 0)
            .and_then(|element| element.into_rows(cell, conversion))
            .and_then(|element| Ok((field::field(name, datatype, cell, &element)?, element)));
        let (field, element) = made.map_err(|error| error.within("datatype"))?;
        Ok(Self {
            field: Arc::new(field),
            datatype: datatype.clone(),
            cell: cell.to_vec(),
            element: Arc::new(element),
        })
    }

    /// Returns the field: its type, and metadata for properties that Arrow's types cannot represent.
    #[must_use]
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Returns the type of the stored elements.
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// Returns the extent of a row.
    #[must_use]
    pub fn cell(&self) -> &[u64] {
        &self.cell
    }

    /// Returns the stored size of a row in bytes.
    #[must_use]
    pub fn row_size(&self) -> usize {
        self.element.size
    }

    /// Returns the alignment at which stored bytes are valid values without conversion, so that a mapping of
    /// the file is an Arrow buffer; `None` if they need a conversion.
    #[must_use]
    pub fn zero_copy(&self) -> Option<usize> {
        self.element.alignment()
    }

    /// Changes the Arrow type to one whose values are the same bytes.
    pub(crate) fn with_type(self, data_type: DataType) -> Self {
        let mut metadata = self.field.metadata().clone();
        // An extension of the stored type.
        metadata.remove(metadata::EXTENSION);
        metadata.remove(metadata::EXTENSION_METADATA);
        let field = Field::new(self.field.name(), data_type, self.field.is_nullable());
        Self { field: Arc::new(field.with_metadata(metadata)), ..self }
    }

    /// Allows nulls.
    pub(crate) fn with_nulls(self) -> Self {
        let field = (*self.field).clone().with_nullable(true);
        Self { field: Arc::new(field), ..self }
    }

    /// Adds metadata.
    #[must_use]
    pub fn with_metadata(self, more: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut field = (*self.field).clone();
        let mut metadata = field.metadata().clone();
        metadata.extend(more);
        field.set_metadata(metadata);
        Self { field: Arc::new(field), ..self }
    }
}

#[cfg(test)]
mod tests;
