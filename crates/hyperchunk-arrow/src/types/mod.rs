//! The map of types: HDF5 datatypes as Arrow fields, and back.
//!
//! - The Arrow type is what other tools read naturally.
//! - What Arrow cannot say goes into the field's metadata; the encoded HDF5 datatype there ([`metadata::DTYPE`]) counts.
//! - Bytes are changed only where Arrow has to have them another way: it is little-endian, and knows no odd precisions.
//! - Columns are never null, but for strings of any length that HDF5 stores as null pointers.

mod describe;
mod field;
mod form;
pub mod metadata;
mod portable;
mod way_back;

use crate::Result;
use arrow_schema::FieldRef;
pub(crate) use describe::describe;
pub(crate) use field::{numpy_time, text};
pub(crate) use form::{DEPTH, Element, Form, Names, Part, complex_base, is_reference};
use hyperchunk::model::Datatype;
pub(crate) use portable::portable;
use std::sync::Arc;
pub use way_back::datatype_of;
pub(crate) use way_back::{boolean, fits};

/// How HDF5 data look as Arrow, where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Look {
    /// Rows of datasets of several dimensions.
    pub cells: Cells,
    /// Strings.
    pub strings: Strings,
    /// Floating-point numbers of 2 bytes.
    pub half: Half,
    /// Enumerations.
    pub enums: Enums,
    /// Datasets of compounds.
    pub compounds: Compounds,
}

/// How rows of datasets of several dimensions look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cells {
    /// As tensors (`arrow.fixed_shape_tensor`), where elements are numbers; else as lists.
    #[default]
    Tensor,
    /// As lists of fixed size, in each other.
    List,
}

/// How strings look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strings {
    /// As text, without what fills them up. Text that is not UTF-8 is an error.
    #[default]
    Text,
    /// As the bytes that are stored.
    Stored,
}

/// How floating-point numbers of 2 bytes look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Half {
    /// As they are.
    #[default]
    Float16,
    /// As numbers of 4 bytes, for tools that have no others.
    Float32,
}

/// How enumerations look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enums {
    /// As their integers, with the names in the metadata. `{FALSE: 0, TRUE: 1}` of a byte is `arrow.bool8`.
    #[default]
    Values,
    /// As dictionaries of names. A value without a name is an error.
    Dictionary,
}

/// How datasets of compounds look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compounds {
    /// As tables: a column for each member.
    #[default]
    Columns,
    /// As one column of structs.
    Struct,
}

/// A datatype as Arrow has it: a field, and how its values come from stored bytes.
#[derive(Debug, Clone)]
pub struct ColumnType {
    field: FieldRef,
    datatype: Datatype,
    cell: Vec<u64>,
    pub(crate) element: Arc<Element>,
}

impl ColumnType {
    /// How elements of a datatype look, or rows of `cell` elements: the extent of a dataset without its first dimension.
    ///
    /// # Errors
    /// Unsupported if Arrow has nothing for it; Limit if a row is too large.
    pub fn new(name: &str, datatype: &Datatype, cell: &[u64], look: &Look) -> Result<Self> {
        let made = Element::new(datatype, look, 0)
            .and_then(|element| element.in_cells(cell, look))
            .and_then(|element| Ok((field::field(name, datatype, cell, &element)?, element)));
        let (field, element) = made.map_err(|error| error.within("datatype"))?;
        Ok(Self {
            field: Arc::new(field),
            datatype: datatype.clone(),
            cell: cell.to_vec(),
            element: Arc::new(element),
        })
    }

    /// The field: its type, and in its metadata what Arrow's types cannot say.
    #[must_use]
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The type of the stored elements.
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// The extent of a row.
    #[must_use]
    pub fn cell(&self) -> &[u64] {
        &self.cell
    }

    /// How many stored bytes a row has.
    #[must_use]
    pub fn row_size(&self) -> usize {
        self.element.size
    }

    /// Whether stored bytes are values as they are, if they lie at a multiple of this: then a mapping of the file is an
    /// Arrow buffer.
    #[must_use]
    pub fn zero_copy(&self) -> Option<usize> {
        self.element.alignment()
    }

    /// The same with more metadata: what `more` says.
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
