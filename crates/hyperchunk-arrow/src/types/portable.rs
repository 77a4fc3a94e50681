//! Portable forms of datatypes, as our files store them: with addresses of 8 bytes.

use super::form::narrow;
use crate::{Error, Result};
use hyperchunk::model::{Class, Datatype, Member, ReferenceKind};

/// The size in bytes of a global heap ID.
const HEAP_ID_BYTES: u64 = 16;

/// Returns the type with the sizes that its heap IDs and references have in our files.
pub(crate) fn portable(datatype: &Datatype) -> Result<Datatype> {
    if !datatype.has_vlen() && !datatype.has_reference() {
        return Ok(datatype.clone());
    }
    let too_large = || Error::limit("elements of 2^64 bytes");
    let sized = |size| Datatype { size, class: datatype.class.clone() };
    Ok(match &datatype.class {
        Class::Reference(ReferenceKind::Object1) => sized(8),
        Class::Reference(ReferenceKind::Region1) => sized(12),
        Class::Reference(ReferenceKind::Object2 | ReferenceKind::Region2 | ReferenceKind::Attribute) => {
            sized(18)
        }
        Class::VlenString { .. } => sized(HEAP_ID_BYTES),
        Class::Vlen { base } => {
            Datatype { size: HEAP_ID_BYTES, class: Class::Vlen { base: Box::new(portable(base)?) } }
        }
        Class::Array { dims, base } => {
            let base = portable(base)?;
            let size = base.size.checked_mul(datatype.array_length()).ok_or_else(too_large)?;
            Datatype { size, class: Class::Array { dims: dims.clone(), base: Box::new(base) } }
        }
        Class::Compound { members } => {
            // Gaps between members are kept, so members after one that grows move.
            let mut order: Vec<usize> = (0..members.len()).collect();
            order.sort_by_key(|number| members.get(*number).map(|member| member.offset));
            let mut moved: Vec<Member> = members.clone();
            let mut shift = 0_u64;
            for number in order {
                let Some(member) = moved.get_mut(number) else { continue };
                let inner = portable(&member.datatype)?;
                member.offset = member.offset.checked_add(shift).ok_or_else(too_large)?;
                let grown = inner.size.checked_sub(member.datatype.size);
                shift = grown.and_then(|by| shift.checked_add(by)).ok_or_else(too_large)?;
                member.datatype = inner;
            }
            let size = datatype.size.checked_add(shift).ok_or_else(too_large)?;
            narrow(size)?;
            Datatype { size, class: Class::Compound { members: moved } }
        }
        _ => datatype.clone(),
    })
}
