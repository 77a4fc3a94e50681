//! The conversion of elements to values: the Arrow type of a datatype, and the operation on its bytes.

use super::{Cells, ConversionOptions, Enums, Half, Strings};
use crate::{Error, Result};
use arrow_schema::{DataType, Field, Fields};
use hyperchunk::convert::Conversion;
use hyperchunk::model::{
    ByteOrder, Class, Datatype, EnumMember, Float, Member, Name, Normalization, ReferenceKind, StringPadding,
};
use std::sync::Arc;

/// Maximum nesting depth of types: readers of IPC files go no deeper.
pub(crate) const MAX_DEPTH: usize = 48;

/// The fields of a reference's struct.
pub(crate) const REFERENCE_FIELDS: [&str; 3] = ["path", "raw", "selection"];

/// The type of elements, as stored and in Arrow.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    /// The stored size of an element, in bytes.
    pub(crate) size: usize,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    /// The name of an extension type, and its metadata.
    pub(crate) extension: Option<(&'static str, String)>,
    pub(crate) form: Form,
}

/// The operation that turns an element's bytes into a value.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// None: the stored bytes are the value, with this alignment in Arrow.
    Plain { align: usize },
    /// A conversion, to values of `width` bytes.
    Converted { conversion: Box<Conversion>, width: usize },
    /// A string of fixed length, whose padding is removed.
    Text(StringPadding),
    /// A string of variable length.
    AnyText,
    /// The bytes of a string of variable length.
    AnyBytes,
    /// A sequence of variable length.
    Sequence(Arc<Element>, Box<Datatype>),
    /// Members of a compound.
    Struct(Vec<MemberElement>),
    /// A fixed number of consecutive elements.
    List(Arc<Element>, usize),
    /// Dictionary keys: the values in the order of the dictionary.
    Names(Arc<Names>),
    /// A reference.
    Reference(ReferenceKind),
    /// NumPy's times, whose unit is `factor` of Arrow's units.
    Multiples { factor: i64, order: ByteOrder },
}

/// A member.
#[derive(Debug, Clone)]
pub(crate) struct MemberElement {
    pub(crate) offset: usize,
    pub(crate) element: Arc<Element>,
}

/// The names of an enumeration, each value once.
#[derive(Debug)]
pub(crate) struct Names {
    /// The stored bytes of each value.
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) names: Vec<String>,
}

/// Converts a size in a file to a size in memory.
pub(crate) fn narrow(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::limit("elements larger than the address space"))
}

/// Converts a number of elements to the size of an Arrow list.
fn list_size(count: u64) -> Result<i32> {
    i32::try_from(count).map_err(|_| {
        Error::unsupported(format!("a row of {count} elements: lists of Arrow have at most 2147483647"))
    })
}

impl Element {
    pub(crate) fn new(datatype: &Datatype, conversion: &ConversionOptions, depth: usize) -> Result<Self> {
        if depth > MAX_DEPTH {
            return Err(Error::limit(format!("a datatype that nests deeper than {MAX_DEPTH}")));
        }
        let size = narrow(datatype.size)?;
        match &datatype.class {
            Class::Integer { signed, .. } => Self::integer(datatype, *signed),
            Class::Bitfield { .. } => {
                let integer = Self::integer(datatype, false)?;
                let plain = integer.extension.is_none();
                Ok(if plain { integer.with("h5.bitfield", String::new()) } else { integer })
            }
            Class::Float(float) => Self::float(datatype, float, conversion.half),
            Class::Time { .. } => Self::bytes(datatype, "h5.time"),
            Class::String { padding, .. } => match conversion.strings {
                Strings::Stored => Self::bytes(datatype, "h5.fstr"),
                Strings::Text => Ok(Self::plain(size, DataType::LargeUtf8, Form::Text(*padding))),
            },
            Class::Opaque { tag } => Self::opaque(datatype, tag),
            Class::Compound { members } => match complex_base(datatype) {
                Some(base) => Self::complex(base, size, conversion, depth),
                None => Self::compound(datatype, members, conversion, depth),
            },
            Class::Complex { base } => Self::complex(base, size, conversion, depth),
            Class::Reference(kind) => Ok(Self::reference(size, *kind)),
            Class::Enum { base, members } => Self::enumeration(datatype, base, members, conversion),
            Class::Vlen { base } => {
                let item = Self::new(base, conversion, depth + 1)?;
                let data_type = DataType::LargeList(Arc::new(item.field("item")));
                Ok(Self::plain(size, data_type, Form::Sequence(Arc::new(item), base.clone())))
            }
            Class::VlenString { .. } => Ok(Self {
                nullable: true,
                ..match conversion.strings {
                    Strings::Text => Self::plain(size, DataType::LargeUtf8, Form::AnyText),
                    Strings::Stored => Self::plain(size, DataType::LargeBinary, Form::AnyBytes)
                        .with("h5.vstr", String::new()),
                }
            }),
            Class::Array { dims, base } => {
                let item = Self::new(base, conversion, depth + 1)?;
                item.into_lists(dims)
            }
        }
    }

    fn plain(size: usize, data_type: DataType, form: Form) -> Self {
        Self { size, data_type, nullable: false, extension: None, form }
    }

    fn with(self, extension: &'static str, metadata: String) -> Self {
        Self { extension: Some((extension, metadata)), ..self }
    }

    /// Makes an element of plain bytes, without an Arrow number type.
    fn bytes(datatype: &Datatype, extension: &'static str) -> Result<Self> {
        let size = narrow(datatype.size)?;
        let width = list_size(datatype.size)?;
        let plain = Self::plain(size, DataType::FixedSizeBinary(width), Form::Plain { align: 1 });
        Ok(plain.with(extension, String::new()))
    }

    /// Makes an element of bytes for a type that only HDF5 has.
    fn foreign(datatype: &Datatype, type_name: &str) -> Result<Self> {
        let metadata = serde_json::json!({ "type_name": type_name, "vendor_name": "HDF5" });
        Ok(Self { extension: Some(("arrow.opaque", metadata.to_string())), ..Self::bytes(datatype, "")? })
    }

    /// Makes a number, converted to its memory type if necessary.
    fn number(stored: &Datatype, memory: &Datatype, data_type: DataType) -> Result<Self> {
        let (size, width) = (narrow(stored.size)?, narrow(memory.size)?);
        let conversion = Conversion::new(stored, memory)?;
        let form = if conversion.is_copy() {
            Form::Plain { align: width }
        } else {
            Form::Converted { conversion: Box::new(conversion), width }
        };
        Ok(Self::plain(size, data_type, form))
    }

    fn integer(datatype: &Datatype, signed: bool) -> Result<Self> {
        let Some(data_type) = super::from_arrow::integer_type(datatype.size, signed) else {
            return Self::foreign(datatype, &super::describe::describe(datatype));
        };
        let size = u16::try_from(datatype.size).unwrap_or(8);
        let memory = Datatype::integer(size, signed, ByteOrder::Little);
        // Bit fields are converted as integers.
        let stored = as_integer(datatype, signed);
        Self::number(&stored, &memory, data_type)
    }

    fn float(datatype: &Datatype, float: &Float, half: Half) -> Result<Self> {
        let ieee = |size| Datatype { size, ..Datatype::ieee(u16::try_from(size).unwrap_or(8), float.order) };
        let little = |size| Datatype::ieee(size, ByteOrder::Little);
        if matches!(datatype.size, 2 | 4 | 8)
            && float.order != ByteOrder::Vax
            && *datatype == ieee(datatype.size)
        {
            return match (datatype.size, half) {
                (2, Half::Float16) => Self::number(datatype, &little(2), DataType::Float16),
                (2, Half::Float32) => Self::number(datatype, &little(4), DataType::Float32),
                (4, _) => Self::number(datatype, &little(4), DataType::Float32),
                _ => Self::number(datatype, &little(8), DataType::Float64),
            };
        }
        match small_float(datatype, float) {
            Some((extension, data_type)) => {
                let size = u16::try_from(datatype.size).unwrap_or(8);
                let memory = Datatype::integer(size, false, ByteOrder::Little);
                let stored = Datatype::integer(size, false, float.order);
                Ok(Self::number(&stored, &memory, data_type)?.with(extension, String::new()))
            }
            None => Self::bytes(datatype, "h5.float"),
        }
    }

    fn opaque(datatype: &Datatype, tag: &Name) -> Result<Self> {
        let tag = tag.to_string();
        if datatype.size == 8
            && let Some((data_type, order)) = super::field::numpy_time(&tag)
        {
            let number = |order| Datatype::integer(8, true, order);
            let made = Self::number(&number(order), &number(ByteOrder::Little), data_type)?;
            // NaT, NumPy's value for a missing time, becomes a null.
            return Ok(Self { nullable: true, ..made });
        }
        if datatype.size == 8
            && let Some((data_type, factor, order)) = super::field::coarse_numpy_time(&tag)
        {
            let made = Self::plain(8, data_type, Form::Multiples { factor, order });
            return Ok(Self { nullable: true, ..made });
        }
        Self::foreign(datatype, &tag)
    }

    fn complex(base: &Datatype, size: usize, conversion: &ConversionOptions, depth: usize) -> Result<Self> {
        let item = Self::new(base, conversion, depth + 1)?;
        let data_type = DataType::FixedSizeList(Arc::new(item.field("item")), 2);
        Ok(Self::plain(size, data_type, Form::List(Arc::new(item), 2)).with("h5.complex", String::new()))
    }

    fn compound(
        datatype: &Datatype,
        members: &[Member],
        conversion: &ConversionOptions,
        depth: usize,
    ) -> Result<Self> {
        let mut parts = Vec::with_capacity(members.len());
        let mut fields = Vec::with_capacity(members.len());
        for member in members {
            let element = Self::new(&member.datatype, conversion, depth + 1).map_err(|error| {
                Error::new(error.kind(), format!("member {}: {}", member.name, error.message()))
            })?;
            fields.push(element.field(super::field::text(&member.name)?));
            parts.push(MemberElement { offset: narrow(member.offset)?, element: Arc::new(element) });
        }
        let data_type = DataType::Struct(Fields::from(fields));
        Ok(Self::plain(narrow(datatype.size)?, data_type, Form::Struct(parts)))
    }

    fn reference(size: usize, kind: ReferenceKind) -> Self {
        let [path, raw, selection] = REFERENCE_FIELDS;
        let item = Field::new("item", DataType::UInt64, false);
        let fields = vec![
            Field::new(path, DataType::Utf8, true),
            Field::new(raw, DataType::Binary, false),
            Field::new(selection, DataType::LargeList(Arc::new(item)), true),
        ];
        Self::plain(size, DataType::Struct(Fields::from(fields)), Form::Reference(kind))
            .with("h5.ref", super::describe::reference(kind).to_owned())
    }

    fn enumeration(
        datatype: &Datatype,
        base: &Datatype,
        members: &[EnumMember],
        conversion: &ConversionOptions,
    ) -> Result<Self> {
        let values = Self::new(base, conversion, MAX_DEPTH)?;
        if is_bool(base, members) {
            return Ok(values.with("arrow.bool8", String::new()));
        }
        let Some(names) = Some(members).filter(|_| conversion.enums == Enums::Dictionary) else {
            return Ok(values);
        };
        let mut unique = Names { values: Vec::new(), names: Vec::new() };
        for member in names {
            if !unique.values.contains(&member.value) {
                unique.values.push(member.value.clone());
                unique.names.push(super::field::text(&member.name)?.to_owned());
            }
        }
        let keys = Box::new(DataType::Int32);
        let data_type = DataType::Dictionary(keys, Box::new(DataType::Utf8));
        Ok(Self::plain(narrow(datatype.size)?, data_type, Form::Names(Arc::new(unique))))
    }

    /// Returns it as a field.
    pub(crate) fn field(&self, name: &str) -> Field {
        let field = Field::new(name, self.data_type.clone(), self.nullable);
        match &self.extension {
            None => field,
            Some((extension, metadata)) => {
                let metadata = [
                    (super::metadata::EXTENSION, (*extension).to_owned()),
                    (super::metadata::EXTENSION_METADATA, metadata.clone()),
                ];
                field.with_metadata(metadata.map(|(key, value)| (key.to_owned(), value)))
            }
        }
    }

    /// Returns a list of `count` consecutive elements.
    fn into_list(self, count: u64) -> Result<Self> {
        let data_type = DataType::FixedSizeList(Arc::new(self.field("item")), list_size(count)?);
        let size =
            (self.size as u64).checked_mul(count).ok_or_else(|| Error::limit("a row of 2^64 bytes"))?;
        Ok(Self::plain(narrow(size)?, data_type, Form::List(Arc::new(self), narrow(count)?)))
    }

    /// Returns nested lists.
    fn into_lists(self, dims: &[u64]) -> Result<Self> {
        dims.iter().rev().try_fold(self, |element, dim| element.into_list(*dim))
    }

    /// Returns rows of an extent.
    pub(crate) fn into_rows(self, cell: &[u64], conversion: &ConversionOptions) -> Result<Self> {
        if cell.is_empty() {
            return Ok(self);
        }
        if conversion.cells == Cells::List || !self.data_type.is_numeric() || self.extension.is_some() {
            return self.into_lists(cell);
        }
        let count = cell.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        let count = if cell.contains(&0) { Some(0) } else { count };
        let count = count.ok_or_else(|| Error::limit("a row of 2^64 elements"))?;
        let metadata = format!("{{\"shape\":{}}}", super::metadata::sizes(cell));
        Ok(self.into_list(count)?.with("arrow.fixed_shape_tensor", metadata))
    }

    /// Returns the alignment at which stored bytes can be used as values; `None` if they need a conversion.
    pub(crate) fn alignment(&self) -> Option<usize> {
        match &self.form {
            Form::Plain { align } => Some(*align),
            Form::List(item, _) => item.alignment(),
            _ => None,
        }
    }
}

/// Returns a bit field as an integer type.
fn as_integer(datatype: &Datatype, signed: bool) -> Datatype {
    match datatype.class {
        Class::Bitfield { order, offset, precision } => {
            Datatype { size: datatype.size, class: Class::Integer { order, signed, offset, precision } }
        }
        _ => datatype.clone(),
    }
}

/// Returns whether an enumeration is h5py's boolean type.
fn is_bool(base: &Datatype, members: &[EnumMember]) -> bool {
    let [one, other] = members else { return false };
    let is =
        |member: &EnumMember, name: &[u8], value| member.name.as_bytes() == name && member.value == [value];
    *base == Datatype { size: 1, ..Datatype::integer(1, true, order(base)) }
        && is(one, b"FALSE", 0)
        && is(other, b"TRUE", 1)
}

fn order(datatype: &Datatype) -> ByteOrder {
    match datatype.class {
        Class::Integer { order, .. } => order,
        _ => ByteOrder::Little,
    }
}

/// Returns whether a struct has the members of a reference.
pub(crate) fn is_reference(fields: &Fields) -> bool {
    fields.len() == REFERENCE_FIELDS.len()
        && fields.iter().zip(REFERENCE_FIELDS).all(|(field, name)| field.name() == name)
}

/// Returns the type of the parts of a complex number, either HDF5's type or h5py's compound.
pub(crate) fn complex_base(datatype: &Datatype) -> Option<&Datatype> {
    let members = match &datatype.class {
        Class::Complex { base } => return Some(base),
        Class::Compound { members } => members,
        _ => return None,
    };
    let [real, imaginary] = &members[..] else { return None };
    let fits = real.name.as_bytes() == b"r"
        && imaginary.name.as_bytes() == b"i"
        && real.datatype == imaginary.datatype
        && matches!(real.datatype.class, Class::Float(_))
        && real.offset == 0
        && imaginary.offset == real.datatype.size
        && datatype.size == real.datatype.size.checked_mul(2)?;
    fits.then_some(&real.datatype)
}

/// Returns our extension name for a small floating-point type that is not IEEE 754's, and the integer type of
/// its bits.
fn small_float(datatype: &Datatype, float: &Float) -> Option<(&'static str, DataType)> {
    if float.order == ByteOrder::Vax || float.normalization != Normalization::Implied {
        return None;
    }
    let bits = (float.precision, float.exponent_bits, float.mantissa_bits);
    Some(match (datatype.size, bits) {
        (2, (16, 8, 7)) => ("h5.bfloat16", DataType::UInt16),
        (1, (8, 4, 3)) => ("h5.f8e4m3", DataType::UInt8),
        (1, (8, 5, 2)) => ("h5.f8e5m2", DataType::UInt8),
        (1, (6, 2, 3)) => ("h5.f6e2m3", DataType::UInt8),
        (1, (6, 3, 2)) => ("h5.f6e3m2", DataType::UInt8),
        (1, (4, 2, 1)) => ("h5.f4e2m1", DataType::UInt8),
        _ => return None,
    })
}
