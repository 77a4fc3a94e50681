//! NumPy's file format for arrays (`.npy`): the header, and the elements' datatype. Source: NumPy's
//! `numpy.lib.format` and its enhancement proposal 1.

use crate::{Error, Result};
use hyperchunk_format::model::{ByteOrder, Class, Datatype, Float, Member};
use std::fmt::Write as _;

/// Maximum nesting depth of compounds.
const MAX_DEPTH: u32 = 16;

/// Element type of an array file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The datatype that elements are converted to.
    pub datatype: Datatype,
    /// NumPy's description of the datatype, as Python source.
    descr: String,
    /// The shape of one element, appended to the array's; empty except for array datatypes.
    shape: Vec<u64>,
    /// True if floats of more than 64 bits become 64-bit ones.
    rounds: bool,
}

impl Element {
    /// Chooses the element type for a datatype. Numbers that NumPy lacks get its next larger type; floats
    /// larger than 64 bits become 64-bit ones.
    ///
    /// # Errors
    /// Unsupported for types that NumPy's plain arrays cannot hold, such as variable-length elements,
    /// references, times and integers of more than 64 bits.
    pub fn new(datatype: &Datatype) -> Result<Self> {
        let (base, shape) = match &datatype.class {
            Class::Array { dims, base } => (&**base, dims.clone()),
            _ => (datatype, Vec::new()),
        };
        let (memory, descr) = describe(base, 0)?;
        let rounds = has_wide_floats(base, 0);
        let datatype = match &datatype.class {
            Class::Array { dims, .. } => {
                let count = dims.iter().try_fold(memory.size, |size, dim| size.checked_mul(*dim));
                let size = count.ok_or_else(|| Error::limit("elements of more than 2^64 bytes"))?;
                Datatype { size, class: Class::Array { dims: dims.clone(), base: Box::new(memory) } }
            }
            _ => memory,
        };
        Ok(Self { datatype, descr, shape, rounds })
    }

    /// Returns whether values are rounded: floats of more than 64 bits become 64-bit ones.
    #[must_use]
    pub fn rounds(&self) -> bool {
        self.rounds
    }

    /// Returns NumPy's description, as Python source.
    #[must_use]
    pub fn descr(&self) -> &str {
        &self.descr
    }

    /// Returns the shape of one element, which is appended to the array's.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the header of a file with an array of this shape.
    #[must_use]
    pub fn header(&self, shape: &[u64]) -> Vec<u8> {
        const ALIGNMENT_BYTES: usize = 64;
        let dims: Vec<String> = shape.iter().chain(&self.shape).map(u64::to_string).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        let text = format!(
            "{{'descr': {}, 'fortran_order': False, 'shape': ({}{comma}), }}",
            self.descr,
            dims.join(", ")
        );
        // Version 3, whose text is UTF-8, is for names that are not ASCII.
        let version: u8 = match text.is_ascii() {
            false => 3,
            true if text.len() + ALIGNMENT_BYTES > usize::from(u16::MAX) => 2,
            true => 1,
        };
        let before = if version == 1 { 10 } else { 12 };
        let length = (before + text.len() + 1).next_multiple_of(ALIGNMENT_BYTES) - before;
        let mut header = b"\x93NUMPY".to_vec();
        header.extend_from_slice(&[version, 0]);
        match (version, u16::try_from(length)) {
            (1, Ok(length)) => header.extend_from_slice(&length.to_le_bytes()),
            _ => header.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()),
        }
        header.extend_from_slice(text.as_bytes());
        header.resize(before + length - 1, b' ');
        header.push(b'\n');
        header
    }
}

/// Returns the size of NumPy's smallest float of up to 64 bits that has all bits of a datatype.
fn float_bytes(float: &Float) -> Option<u16> {
    let sizes = [(2, 5, 10), (4, 8, 23), (8, 11, 52)];
    let fits = |(_, exponent, mantissa): &(u16, u16, u16)| {
        float.exponent_bits <= *exponent && float.mantissa_bits <= *mantissa
    };
    sizes.into_iter().find(fits).map(|(size, ..)| size)
}

/// Returns whether a datatype has floats of more than 64 bits.
fn has_wide_floats(datatype: &Datatype, depth: u32) -> bool {
    match &datatype.class {
        Class::Float(float) => float_bytes(float).is_none(),
        _ if depth > MAX_DEPTH => false,
        Class::Array { base, .. } | Class::Complex { base } => has_wide_floats(base, depth + 1),
        Class::Compound { members } => {
            members.iter().any(|member| has_wide_floats(&member.datatype, depth + 1))
        }
        _ => false,
    }
}

/// Returns a NumPy datatype and its description.
pub fn describe(datatype: &Datatype, depth: u32) -> Result<(Datatype, String)> {
    let size = datatype.size;
    let unsupported =
        |what: &str| Err(Error::unsupported(format!("NumPy's plain arrays cannot hold {what}")));
    match &datatype.class {
        Class::Integer { order, signed, .. } => number(size, *order, if *signed { 'i' } else { 'u' }),
        Class::Bitfield { order, .. } => number(size, *order, 'u'),
        Class::Float(float) => {
            let order = big_or_little(float.order);
            let memory = Datatype::ieee(float_bytes(float).unwrap_or(8), order);
            let descr = format!("'{}f{}'", sign(order), memory.size);
            Ok((memory, descr))
        }
        Class::Complex { base } => match describe(base, depth)? {
            (base, descr) if matches!(base.class, Class::Float(_)) && base.size >= 4 => {
                let size = base.size * 2;
                let order = if descr.contains('>') { '>' } else { '<' };
                Ok((
                    Datatype { size, class: Class::Complex { base: Box::new(base) } },
                    format!("'{order}c{size}'"),
                ))
            }
            _ => unsupported("complex numbers of this type"),
        },
        Class::String { .. } => Ok((datatype.clone(), format!("'|S{size}'"))),
        Class::Opaque { .. } => Ok((datatype.clone(), format!("'|V{size}'"))),
        Class::Enum { base, members } => {
            let truth = members.len() == 2
                && base.size == 1
                && members.iter().any(|member| member.name.as_bytes() == b"FALSE" && member.value == [0])
                && members.iter().any(|member| member.name.as_bytes() == b"TRUE" && member.value == [1]);
            match (truth, &base.class) {
                (true, _) => Ok((datatype.clone(), "'|b1'".into())),
                (false, Class::Integer { order, signed, precision, offset: 0 })
                    if u64::from(*precision) == size * 8 && *order != ByteOrder::Vax =>
                {
                    number(size, *order, if *signed { 'i' } else { 'u' })
                        .map(|(_, descr)| (datatype.clone(), descr))
                }
                _ => unsupported("enumerations of this type"),
            }
        }
        Class::Compound { members } if depth < MAX_DEPTH => compound(members, depth),
        Class::Compound { .. } => unsupported("compounds nested more than 16 deep"),
        Class::Array { .. } => unsupported("arrays of arrays"),
        Class::Time { .. } => unsupported("times"),
        Class::Reference(_) => unsupported("references"),
        Class::Vlen { .. } => unsupported("variable-length sequences"),
        Class::VlenString { .. } => unsupported("variable-length strings"),
    }
}

fn number(size: u64, order: ByteOrder, kind: char) -> Result<(Datatype, String)> {
    let size = [1_u16, 2, 4, 8].into_iter().find(|fits| u64::from(*fits) >= size);
    let size = size.ok_or_else(|| {
        Error::unsupported("NumPy's plain arrays cannot hold integers of more than 64 bits")
    })?;
    let order = big_or_little(order);
    let sign = if size == 1 { '|' } else { sign(order) };
    Ok((Datatype::integer(size, kind == 'i', order), format!("'{sign}{kind}{size}'")))
}

fn big_or_little(order: ByteOrder) -> ByteOrder {
    if order == ByteOrder::Big { ByteOrder::Big } else { ByteOrder::Little }
}

fn sign(order: ByteOrder) -> char {
    if order == ByteOrder::Big { '>' } else { '<' }
}

/// Returns a compound's NumPy datatype and description. The members are packed, without padding between them.
fn compound(members: &[Member], depth: u32) -> Result<(Datatype, String)> {
    let mut packed = Vec::with_capacity(members.len());
    let mut descr = String::from("[");
    let mut size = 0_u64;
    for (number, member) in members.iter().enumerate() {
        let Some(name) = member.name.as_str() else {
            return Err(Error::unsupported(
                "NumPy's plain arrays cannot hold members whose names are not UTF-8",
            ));
        };
        let element = match &member.datatype.class {
            Class::Array { .. } => Element::new(&member.datatype)?,
            _ => {
                let (datatype, descr) = describe(&member.datatype, depth + 1)?;
                Element { datatype, descr, shape: Vec::new(), rounds: false }
            }
        };
        let shape: Vec<String> = element.shape.iter().map(u64::to_string).collect();
        let shape = match shape.len() {
            0 => String::new(),
            1 => format!(", ({},)", shape.concat()),
            _ => format!(", ({})", shape.join(", ")),
        };
        let comma = if number == 0 { "" } else { ", " };
        let _ = write!(descr, "{comma}({}, {}{shape})", quoted(name), element.descr);
        let offset = size;
        size = size
            .checked_add(element.datatype.size)
            .ok_or_else(|| Error::limit("elements of more than 2^64 bytes"))?;
        packed.push(Member { name: member.name.clone(), offset, datatype: element.datatype });
    }
    descr.push(']');
    Ok((Datatype { size, class: Class::Compound { members: packed } }, descr))
}

/// Quotes a text as Python source.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\\' | '\'' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_format::model::{CharacterSet, StringPadding};

    fn check(datatype: &Datatype, shape: &[u64], text: &str) {
        let element = Element::new(datatype).unwrap();
        let header = element.header(shape);
        assert_eq!(header.len() % 64, 0);
        assert!(header.starts_with(b"\x93NUMPY") && header.ends_with(b"\n"));
        let start = if header[6] == 1 { 10 } else { 12 };
        assert_eq!(String::from_utf8_lossy(&header[start..]).trim_end(), text);
    }

    fn member(name: &str, datatype: Datatype) -> Member {
        Member { name: name.into(), offset: 0, datatype }
    }

    #[test]
    fn headers() {
        let int = Datatype::integer(4, true, ByteOrder::Little);
        check(&int, &[3, 4], "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }");
        check(&int, &[], "{'descr': '<i4', 'fortran_order': False, 'shape': (), }");
        check(
            &Datatype::ieee(8, ByteOrder::Big),
            &[5],
            "{'descr': '>f8', 'fortran_order': False, 'shape': (5,), }",
        );
        let odd = Class::Integer { order: ByteOrder::Vax, signed: false, offset: 1, precision: 10 };
        let odd = Datatype { size: 3, class: odd };
        check(&odd, &[0], "{'descr': '<u4', 'fortran_order': False, 'shape': (0,), }");
        let array =
            Class::Array { dims: vec![2, 3], base: Box::new(Datatype::integer(1, false, ByteOrder::Big)) };
        let array = Datatype { size: 6, class: array };
        check(&array, &[7], "{'descr': '|u1', 'fortran_order': False, 'shape': (7, 2, 3), }");
        let string = Class::String { padding: StringPadding::NullPadded, charset: CharacterSet::Utf8 };
        let string = Datatype { size: 9, class: string };
        let members = vec![member("a'", int), member("ü", array), member("s", string)];
        let compound = Datatype { size: 99, class: Class::Compound { members } };
        check(
            &compound,
            &[1],
            "{'descr': [('a\\'', '<i4'), ('ü', '|u1', (2, 3)), ('s', '|S9')], 'fortran_order': False, 'shape': (1,), }",
        );
        assert_eq!(Element::new(&compound).unwrap().datatype.size, 19);
        let string =
            Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 };
        let error = Element::new(&Datatype { size: 16, class: string }).unwrap_err();
        assert!(error.to_string().contains("variable-length strings"), "{error}");
    }
}
