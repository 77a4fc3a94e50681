//! Typed reads: elements as numbers and strings of Rust.

use crate::dataset::Dataset;
use crate::file::File;
use crate::object::Object;
use crate::{Error, Result};
use hyperchunk_format::convert::Conversion;
use hyperchunk_format::model::{Attribute, ByteOrder, Class, Dataspace, Datatype, StringPadding};
use hyperchunk_format::select::Selection;

const ORDER: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

mod sealed {
    pub trait Sealed {}
}

/// Rust number type that elements can be read as: integers of 8 to 64 bits, `f32` and `f64`.
pub trait Number: sealed::Sealed + Copy {
    /// Returns the corresponding HDF5 datatype.
    fn datatype() -> Datatype;
    /// Converts bytes in native byte order to numbers.
    #[doc(hidden)]
    fn from_memory(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! numbers {
    ($($number:ty: $datatype:expr;)*) => { $(
        impl sealed::Sealed for $number {}

        impl Number for $number {
            fn datatype() -> Datatype {
                $datatype
            }

            fn from_memory(bytes: &[u8]) -> Vec<Self> {
                let (elements, _) = bytes.as_chunks();
                elements.iter().map(|element| Self::from_ne_bytes(*element)).collect()
            }
        }
    )* };
}

numbers! {
    i8: Datatype::integer(1, true, ORDER);
    i16: Datatype::integer(2, true, ORDER);
    i32: Datatype::integer(4, true, ORDER);
    i64: Datatype::integer(8, true, ORDER);
    u8: Datatype::integer(1, false, ORDER);
    u16: Datatype::integer(2, false, ORDER);
    u32: Datatype::integer(4, false, ORDER);
    u64: Datatype::integer(8, false, ORDER);
    f32: Datatype::ieee(4, ORDER);
    f64: Datatype::ieee(8, ORDER);
}

impl Dataset {
    /// Reads numbers, in the order of the selection, converted as in HDF5: values outside the type's range
    /// are replaced by its nearest value.
    ///
    /// # Errors
    /// As [`Dataset::read_as`]; Limit if there is not enough memory.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// let row: Vec<f64> = temperature.read_values(&Selection::ranges([1..2, 0..4]))?;
    /// assert_eq!(row, [6.0, 7.0, 8.0, 9.0]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn read_values<T: Number>(&self, selection: &Selection) -> Result<Vec<T>> {
        let mut bytes = self.buffer(selection, size_of::<T>())?;
        self.read_as(selection, &T::datatype(), &mut bytes)?;
        Ok(T::from_memory(&bytes))
    }

    /// Reads strings, of fixed or variable length, without their padding. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// As [`Dataset::read`]; Invalid if the elements are not strings.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let stations = file.root()?.group()?.get("stations")?.dataset()?;
    /// assert_eq!(stations.read_strings(&Selection::All)?, ["Bern", "Zürich"]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn read_strings(&self, selection: &Selection) -> Result<Vec<String>> {
        let strings = self.read_byte_strings(selection)?;
        Ok(strings.into_iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect())
    }

    /// Reads strings as [`Dataset::read_strings`], as bytes.
    ///
    /// # Errors
    /// As [`Dataset::read_strings`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let stations = file.root()?.group()?.get("stations")?.dataset()?;
    /// assert_eq!(stations.read_byte_strings(&Selection::All)?[0], b"Bern");
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn read_byte_strings(&self, selection: &Selection) -> Result<Vec<Vec<u8>>> {
        let mut bytes = self.buffer(selection, self.element_size()?)?;
        self.read(selection, &mut bytes)?;
        strings(self.object().file(), self.datatype(), &bytes).map_err(|error| self.with_context(error))
    }

    /// Returns a buffer for elements of `size` bytes.
    fn buffer(&self, selection: &Selection, size: usize) -> Result<Vec<u8>> {
        let count = match self.dataspace() {
            Dataspace::Null => 0,
            _ => selection.count(self.dims()).map_err(|error| self.with_context(error))?,
        };
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size));
        bytes.and_then(|bytes| crate::room::zeros(bytes).ok()).ok_or_else(|| {
            self.with_context(Error::limit(format!("not enough memory for {count} elements of {size} bytes")))
        })
    }
}

impl Object {
    /// Reads an attribute as numbers, converted as [`Dataset::read_values`] does; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read; Conversion if its elements are not numbers.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?;
    /// assert_eq!(temperature.attribute_values::<f32>("range")?, Some(vec![0.0, 23.0]));
    /// assert_eq!(temperature.attribute_values::<f32>("offset")?, None);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn attribute_values<T: Number>(&self, name: impl AsRef<[u8]>) -> Result<Option<Vec<T>>> {
        let Some(found) = self.attribute(name.as_ref())? else { return Ok(None) };
        read_numbers(&found).map(Some).map_err(|error| self.with_context(error))
    }

    /// Reads an attribute as strings; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read; Invalid if its elements are not strings.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?;
    /// assert_eq!(temperature.attribute_strings("units")?, Some(vec!["K".to_owned()]));
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn attribute_strings(&self, name: impl AsRef<[u8]>) -> Result<Option<Vec<String>>> {
        let Some(found) = self.attribute(name.as_ref())? else { return Ok(None) };
        let strings =
            strings(self.file(), &found.datatype, &found.data).map_err(|error| self.with_context(error))?;
        Ok(Some(strings.into_iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()))
    }
}

fn read_numbers<T: Number>(attribute: &Attribute) -> Result<Vec<T>> {
    let too_many = || Error::limit("the attribute is larger than the address space");
    let count = attribute.dataspace.elements().and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(too_many)?;
    let mut bytes = crate::room::zeros(count.checked_mul(size_of::<T>()).ok_or_else(too_many)?)?;
    Conversion::new(&attribute.datatype, &T::datatype())?.run(&attribute.data, &mut bytes, count)?;
    Ok(T::from_memory(&bytes))
}

/// Returns the strings that stored elements contain, without their padding. A NUL ends a string.
///
/// # Errors
/// Invalid if they are not strings; as [`crate::Sequences::get`].
#[doc(hidden)]
pub fn strings(file: &File, datatype: &Datatype, elements: &[u8]) -> Result<Vec<Vec<u8>>> {
    let size = usize::try_from(datatype.size).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Error::limit("the element size is 0 or exceeds the address space"))?;
    match &datatype.class {
        Class::String { padding, .. } => elements
            .chunks_exact(size)
            .map(|element| crate::room::copy(unpadded(element, *padding)))
            .collect(),
        Class::VlenString { .. } => {
            let mut sequences = file.sequences();
            let all = elements.chunks_exact(size);
            all.map(|element| sequences.string(element).map(<[u8]>::to_vec)).collect()
        }
        _ => Err(Error::invalid("cannot read strings: the elements are not strings")),
    }
}

/// Returns a fixed-length string without its padding.
fn unpadded(bytes: &[u8], padding: StringPadding) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = bytes.get(..end).unwrap_or_default();
    let is_padding = |byte: &u8| padding == StringPadding::SpacePadded && *byte == b' ';
    let end = text.iter().rposition(|byte| !is_padding(byte)).map_or(0, |at| at + 1);
    text.get(..end).unwrap_or_default()
}
