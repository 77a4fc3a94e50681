//! Datatypes, passed to Python as nested tuples, and conversions between them.

use crate::errors::to_python;
use crate::memory::{fill, look};
use hyperchunk::convert;
use hyperchunk::model::{
    self, ByteOrder, CharacterSet, Class, EnumMember, Float, Member, Name, Normalization, ReferenceKind,
    StringPadding,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// A datatype: the size of an element and the meaning of its bytes.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug, Clone)]
pub(crate) struct Datatype(pub(crate) model::Datatype);

#[pymethods]
impl Datatype {
    #[new]
    fn new(description: &Bound<'_, PyTuple>) -> PyResult<Self> {
        parse(description, 0).map(Self)
    }

    /// Class, size, and the properties of the class.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        describe(py, &self.0)
    }

    /// Size of an element in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Conversion of elements from one datatype to another.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Conversion {
    pub(crate) steps: convert::Conversion,
    /// Size of an element before the conversion, in bytes; `to` is the size after it.
    from: usize,
    pub(crate) to: usize,
}

#[pymethods]
impl Conversion {
    #[new]
    fn new(py: Python<'_>, from: &Datatype, to: &Datatype) -> PyResult<Self> {
        let steps = convert::Conversion::new(&from.0, &to.0).map_err(|e| to_python(py, &e))?;
        let size = |datatype: &Datatype| usize::try_from(datatype.0.size);
        let (from, to) = (size(from)?, size(to)?);
        Ok(Self { steps, from, to })
    }

    /// True if the conversion leaves the bytes unchanged.
    #[getter]
    fn is_copy(&self) -> bool {
        self.steps.is_copy()
    }

    /// Converts all elements of `stored` into `out`.
    fn run(&self, py: Python<'_>, stored: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        look(stored, |stored| {
            fill(out, |out| {
                let count = stored.len().checked_div(self.from).unwrap_or(0);
                if out.len() != count.saturating_mul(self.to)
                    || stored.len() != count.saturating_mul(self.from)
                {
                    let message = format!(
                        "cannot convert {} bytes of elements of {} bytes into a buffer of {} bytes",
                        stored.len(),
                        self.from,
                        out.len()
                    );
                    return Err(PyValueError::new_err(message));
                }
                py.detach(|| self.steps.run(stored, out, count)).map_err(|e| to_python(py, &e))
            })
        })
    }
}

fn order_name(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "<",
        ByteOrder::Big => ">",
        ByteOrder::Vax => "vax",
    }
}

fn parse_byte_order(name: &str) -> PyResult<ByteOrder> {
    match name {
        "<" => Ok(ByteOrder::Little),
        ">" => Ok(ByteOrder::Big),
        "vax" => Ok(ByteOrder::Vax),
        _ => Err(unknown("byte order", name)),
    }
}

fn charset_name(charset: CharacterSet) -> &'static str {
    match charset {
        CharacterSet::Ascii => "ascii",
        CharacterSet::Utf8 => "utf-8",
    }
}

fn parse_character_set(name: &str) -> PyResult<CharacterSet> {
    match name {
        "ascii" => Ok(CharacterSet::Ascii),
        "utf-8" => Ok(CharacterSet::Utf8),
        _ => Err(unknown("character set", name)),
    }
}

fn padding_name(padding: StringPadding) -> &'static str {
    match padding {
        StringPadding::NullTerminated => "null-terminated",
        StringPadding::NullPadded => "null-padded",
        StringPadding::SpacePadded => "space-padded",
    }
}

fn parse_padding(name: &str) -> PyResult<StringPadding> {
    match name {
        "null-terminated" => Ok(StringPadding::NullTerminated),
        "null-padded" => Ok(StringPadding::NullPadded),
        "space-padded" => Ok(StringPadding::SpacePadded),
        _ => Err(unknown("string padding", name)),
    }
}

fn normalization_name(normalization: Normalization) -> &'static str {
    match normalization {
        Normalization::None => "none",
        Normalization::Set => "set",
        Normalization::Implied => "implied",
    }
}

fn parse_normalization(name: &str) -> PyResult<Normalization> {
    match name {
        "none" => Ok(Normalization::None),
        "set" => Ok(Normalization::Set),
        "implied" => Ok(Normalization::Implied),
        _ => Err(unknown("normalization", name)),
    }
}

/// Reference kinds, indexed by their numbers in Python.
const REFERENCES: [ReferenceKind; 5] = [
    ReferenceKind::Object1,
    ReferenceKind::Region1,
    ReferenceKind::Object2,
    ReferenceKind::Region2,
    ReferenceKind::Attribute,
];

pub(crate) fn reference_kind(number: usize) -> PyResult<ReferenceKind> {
    REFERENCES.get(number).copied().ok_or_else(|| unknown("kind of reference", &number.to_string()))
}

fn unknown(what: &str, name: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {what}: {name}"))
}

fn tuple<'py>(
    py: Python<'py>,
    items: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Bound<'py, PyTuple>> {
    items.into_pyobject(py)
}

fn describe<'py>(py: Python<'py>, datatype: &model::Datatype) -> PyResult<Bound<'py, PyTuple>> {
    let size = datatype.size;
    match &datatype.class {
        Class::Integer { order, signed, offset, precision } => {
            tuple(py, ("integer", size, order_name(*order), *signed, *offset, *precision))
        }
        Class::Float(float) => describe_float(py, size, float),
        Class::Time { order, precision } => tuple(py, ("time", size, order_name(*order), *precision)),
        Class::String { padding, charset } => {
            tuple(py, ("string", size, padding_name(*padding), charset_name(*charset)))
        }
        Class::Bitfield { order, offset, precision } => {
            tuple(py, ("bitfield", size, order_name(*order), *offset, *precision))
        }
        Class::Opaque { tag } => tuple(py, ("opaque", size, PyBytes::new(py, tag.as_bytes()))),
        Class::Compound { members } => {
            let members = members.iter().map(|member| {
                let name = PyBytes::new(py, member.name.as_bytes());
                tuple(py, (name, member.offset, describe(py, &member.datatype)?))
            });
            let members = PyTuple::new(py, members.collect::<PyResult<Vec<_>>>()?)?;
            tuple(py, ("compound", size, members))
        }
        Class::Reference(kind) => {
            let number = REFERENCES.iter().position(|known| known == kind).unwrap_or(0);
            tuple(py, ("reference", size, number))
        }
        Class::Enum { base, members } => {
            let values = members.iter().map(|member| {
                let name = PyBytes::new(py, member.name.as_bytes());
                tuple(py, (name, integer(base, &member.value)))
            });
            let members = PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?;
            tuple(py, ("enum", size, describe(py, base)?, members))
        }
        Class::Vlen { base } => tuple(py, ("vlen", size, describe(py, base)?)),
        Class::VlenString { padding, charset } => {
            tuple(py, ("vlen-string", size, padding_name(*padding), charset_name(*charset)))
        }
        Class::Array { dims, base } => {
            tuple(py, ("array", size, PyTuple::new(py, dims)?, describe(py, base)?))
        }
        Class::Complex { base } => tuple(py, ("complex", size, describe(py, base)?)),
    }
}

fn describe_float<'py>(py: Python<'py>, size: u64, float: &Float) -> PyResult<Bound<'py, PyTuple>> {
    let items = (
        "float",
        size,
        order_name(float.order),
        float.offset,
        float.precision,
        float.sign,
        float.exponent_at,
        float.exponent_bits,
        float.exponent_bias,
        float.mantissa_at,
        float.mantissa_bits,
        normalization_name(float.normalization),
    );
    tuple(py, items)
}

/// Decodes the value of an enumeration's member: an integer of up to 16 bytes.
fn integer(base: &model::Datatype, bytes: &[u8]) -> i128 {
    let Class::Integer { order, signed, offset, precision } = &base.class else { return 0 };
    let mut value: u128 = 0;
    let add = |value: &mut u128, byte: &u8| *value = (*value << 8) | u128::from(*byte);
    match order {
        ByteOrder::Big => bytes.iter().for_each(|byte| add(&mut value, byte)),
        _ => bytes.iter().rev().for_each(|byte| add(&mut value, byte)),
    }
    let unused = 128_u32.saturating_sub((*precision).into());
    let value = value.checked_shr((*offset).into()).and_then(|value| value.checked_shl(unused)).unwrap_or(0);
    let sign_extended = value.cast_signed().checked_shr(unused).unwrap_or(0);
    let plain = value.checked_shr(unused).unwrap_or(0).cast_signed();
    if *signed { sign_extended } else { plain }
}

/// Maximum nesting depth of a datatype.
const DEPTH: usize = 64;

fn parse(description: &Bound<'_, PyTuple>, depth: usize) -> PyResult<model::Datatype> {
    if depth > DEPTH {
        return Err(PyValueError::new_err("the datatype is nested too deeply"));
    }
    let item = |index: usize| description.get_item(index);
    let number = |index: usize| item(index)?.extract::<u16>();
    let name = |index: usize| item(index)?.extract::<String>();
    let base = |index: usize| parse(item(index)?.cast::<PyTuple>()?, depth + 1).map(Box::new);
    let kind = name(0)?;
    let size = item(1)?.extract::<u64>()?;
    let class = match kind.as_str() {
        "integer" => Class::Integer {
            order: parse_byte_order(&name(2)?)?,
            signed: item(3)?.extract()?,
            offset: number(4)?,
            precision: number(5)?,
        },
        "float" => Class::Float(Float {
            order: parse_byte_order(&name(2)?)?,
            offset: number(3)?,
            precision: number(4)?,
            sign: number(5)?,
            exponent_at: number(6)?,
            exponent_bits: number(7)?,
            exponent_bias: item(8)?.extract()?,
            mantissa_at: number(9)?,
            mantissa_bits: number(10)?,
            normalization: parse_normalization(&name(11)?)?,
        }),
        "time" => Class::Time { order: parse_byte_order(&name(2)?)?, precision: number(3)? },
        "string" => {
            Class::String { padding: parse_padding(&name(2)?)?, charset: parse_character_set(&name(3)?)? }
        }
        "bitfield" => {
            Class::Bitfield { order: parse_byte_order(&name(2)?)?, offset: number(3)?, precision: number(4)? }
        }
        "opaque" => Class::Opaque { tag: Name::from(item(2)?.cast::<PyBytes>()?.as_bytes()) },
        "compound" => {
            let mut members = Vec::new();
            for member in item(2)?.try_iter()? {
                let (name, offset, inner) = member?.extract::<(Vec<u8>, u64, Bound<'_, PyTuple>)>()?;
                members.push(Member {
                    name: Name::from(&name[..]),
                    offset,
                    datatype: parse(&inner, depth + 1)?,
                });
            }
            Class::Compound { members }
        }
        "reference" => Class::Reference(reference_kind(item(2)?.extract()?)?),
        "enum" => {
            let base = base(2)?;
            let mut members = Vec::new();
            for member in item(3)?.try_iter()? {
                let (name, value) = member?.extract::<(Vec<u8>, i128)>()?;
                members.push(EnumMember { name: Name::from(&name[..]), value: member_bytes(&base, value) });
            }
            Class::Enum { base, members }
        }
        "vlen" => Class::Vlen { base: base(2)? },
        "vlen-string" => {
            Class::VlenString { padding: parse_padding(&name(2)?)?, charset: parse_character_set(&name(3)?)? }
        }
        "array" => Class::Array { dims: item(2)?.extract()?, base: base(3)? },
        "complex" => Class::Complex { base: base(2)? },
        _ => return Err(PyTypeError::new_err(format!("unknown class of datatypes: {kind}"))),
    };
    Ok(model::Datatype { size, class })
}

/// Encodes the value of an enumeration's member.
fn member_bytes(base: &model::Datatype, value: i128) -> Vec<u8> {
    let Class::Integer { order, offset, .. } = &base.class else { return Vec::new() };
    let value = value.checked_shl((*offset).into()).unwrap_or(0);
    let size = usize::try_from(base.size).unwrap_or(0).min(16);
    let mut bytes = value.to_le_bytes().get(..size).unwrap_or_default().to_vec();
    if *order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}
