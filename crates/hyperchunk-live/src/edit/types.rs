//! Datatypes of outputs: how they are stored, and which output is stored like an existing dataset.

use super::fail;
use crate::inputs::{memory_type, number};
use hyperchunk::model::{ByteOrder, CharacterSet, Class, Datatype, EnumMember, Member, StringPadding};
use hyperchunk_udf::datatype::{Datatype as Element, ElementType, MAX_MEMBERS};
use hyperchunk_udf::error::Result;

/// Maximum number of named values of an enumeration.
const MAX_VALUES: usize = 1 << 16;

/// Returns the type in the file of an output, equal to its type in memory. Strings follow C and HDF5-UDF:
/// they end with a zero if there is room for it.
pub(super) fn file_type(datatype: &Element) -> Result<Datatype> {
    Ok(match datatype {
        Element::Number(element) => number(*element).1,
        Element::Half => Datatype::ieee(2, ByteOrder::Little),
        Element::Bool | Element::Enum(_) => {
            let Some((base, names)) = datatype.names() else {
                fail!(Worker, "the datatype is not an enumeration")
            };
            let base = number(base).1;
            let size = usize::try_from(base.size).unwrap_or(usize::MAX);
            let member = |(name, value): &(&str, i128)| EnumMember {
                name: (*name).into(),
                value: value.to_le_bytes().get(..size).unwrap_or_default().to_vec(),
            };
            let members = names.iter().map(member).collect();
            Datatype { size: base.size, class: Class::Enum { base: Box::new(base), members } }
        }
        Element::Text(size) | Element::Utf8(size) => {
            let charset =
                if matches!(datatype, Element::Utf8(_)) { CharacterSet::Utf8 } else { CharacterSet::Ascii };
            let class = Class::String { padding: StringPadding::NullTerminated, charset };
            Datatype { size: *size as u64, class }
        }
        Element::Pointer => fail!(Unsupported, "strings of variable length cannot be computed"),
        Element::Compound(compound) => {
            let members = compound.members().iter().map(|member| {
                Ok(Member {
                    name: member.name.as_str().into(),
                    offset: member.offset as u64,
                    datatype: file_type(&member.datatype)?,
                })
            });
            let members = members.collect::<Result<Vec<_>>>()?;
            Datatype { size: datatype.size() as u64, class: Class::Compound { members } }
        }
        Element::Array(base, dims) => {
            // Floats of 16 bits have more bytes in memory.
            let base = file_type(base)?;
            let size = dims.iter().fold(base.size, |size, dim| size.saturating_mul(*dim));
            Datatype { size, class: Class::Array { dims: dims.clone(), base: Box::new(base) } }
        }
    })
}

/// Returns the output type that is stored like a dataset of this type, except for byte order and layout;
/// `None` for types that outputs cannot have.
pub(super) fn stored_type(datatype: &Datatype) -> Option<Element> {
    match &datatype.class {
        Class::Float(_) if datatype.size == 2 => {
            let is_half = [ByteOrder::Little, ByteOrder::Big]
                .into_iter()
                .any(|order| *datatype == Datatype::ieee(2, order));
            is_half.then_some(Element::Half)
        }
        Class::Enum { base, members } => named_values(base, members),
        Class::Compound { members } => {
            let members = members.iter().take(MAX_MEMBERS + 1).map(|member| {
                let name = String::from_utf8(member.name.as_bytes().to_vec()).ok()?;
                Some((name, stored_type(&member.datatype)?))
            });
            Element::compound(members.collect::<Option<Vec<_>>>()?).ok()
        }
        Class::Array { dims, base } => Element::array(stored_type(base)?, dims.clone()).ok(),
        Class::String { charset: CharacterSet::Utf8, .. } => {
            Element::utf8(usize::try_from(datatype.size).ok()?).ok()
        }
        _ => memory_type(datatype).ok().map(|(element, _)| element),
    }
}

/// Returns the enumeration with these values.
fn named_values(base: &Datatype, members: &[EnumMember]) -> Option<Element> {
    let Class::Integer { order, .. } = base.class else { return None };
    let element: ElementType = memory_type(base).ok()?.0.number()?;
    let (_, most) = element.range()?;
    // Values beyond the maximum number are ignored.
    let names = members.iter().take(MAX_VALUES).map(|member| {
        let mut bytes = member.value.get(..element.size())?.to_vec();
        if order == ByteOrder::Big {
            bytes.reverse();
        }
        let value = bytes.iter().rev().fold(0_i128, |value, &byte| value << 8 | i128::from(byte));
        let value = if value > most { value - (1 << (8 * element.size())) } else { value };
        Some((String::from_utf8(member.name.as_bytes().to_vec()).ok()?, value))
    });
    Element::enumeration(element, names.collect::<Option<Vec<_>>>()?).ok()
}
