//! Writes of some members of a compound: only these members are stored, and the others are not read.

use super::super::failure::{ON_ERROR_STACK, Outcome, done, refuse};
use super::super::slot::Slot;
use super::selection::Selection;
use super::transfer::{Call, allocate_zeroed};
use super::{SharedDataset, StoreDataset, describe};
use crate::symbols::Hid;
use hyperchunk::model::{Class, Datatype};
use hyperchunk_store::Hyperslab;
use std::borrow::Cow;
use std::ffi::CString;
use std::ops::Range;

/// `H5T_COMPOUND`.
const COMPOUND: i32 = 6;

/// A byte range of an element, consisting of whole members.
#[derive(Debug, Clone, Copy)]
struct MemberBytes {
    /// The start in an element in memory, or in a converted one.
    from: usize,
    /// The start in an element of the dataset.
    to: u64,
    size: usize,
}

/// A datatype of libhdf5, closed on drop.
struct Type<'s> {
    slot: &'s Slot,
    id: Hid,
}

impl<'s> Type<'s> {
    fn new(slot: &'s Slot, id: Hid) -> Outcome<Self> {
        if id < 0 { Err(ON_ERROR_STACK) } else { Ok(Self { slot, id }) }
    }
}

impl Drop for Type<'_> {
    fn drop(&mut self) {
        // SAFETY: it is ours and open.
        self.slot.keep_errors(|| unsafe { (self.slot.api.type_close)(self.id) });
    }
}

/// The members of a dataset's elements that a memory type contains.
pub(super) struct Fields<'s> {
    /// The members as byte ranges, sorted by their offset in an element.
    parts: Vec<MemberBytes>,
    /// The packed type that elements are converted to, and its size; `None` if no conversion is needed.
    converted: Option<(Type<'s>, usize)>,
}

impl<'s> Fields<'s> {
    /// Returns the members that a compound in memory has; `None` if it is not a compound, has none of the
    /// members, or has a nested compound that differs from the dataset's.
    pub(super) fn from_datatype(slot: &'s Slot, kind: Hid, dataset: &StoreDataset) -> Outcome<Option<Self>> {
        // SAFETY: any identifier may be asked.
        if unsafe { (slot.api.type_class)(kind) } != COMPOUND {
            return Ok(None);
        }
        let Class::Compound { members: stored } = &dataset.shared.definition.datatype.class else {
            return Ok(None);
        };
        let Some(Datatype { class: Class::Compound { members: given }, .. }) = describe::datatype(slot, kind)
        else {
            return Ok(None);
        };
        let narrow = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (mut parts, mut names, mut same) = (Vec::new(), Vec::new(), true);
        for member in stored {
            let Some(own) = given.iter().find(|own| own.name == member.name) else { continue };
            let alike = own.datatype == member.datatype;
            // A nested compound may be incomplete in memory.
            if !alike && has_compound(&member.datatype) {
                return Ok(None);
            }
            same &= alike;
            names.push(&member.name);
            parts.push(MemberBytes {
                from: narrow(own.offset),
                to: member.offset,
                size: narrow(member.datatype.size),
            });
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let mut converted = None;
        if !same {
            let mut at = 0_usize;
            for part in &mut parts {
                part.from = at;
                at = at.saturating_add(part.size);
            }
            let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
            converted = Some((packed(slot, dataset.kind, &names, at)?, at));
        }
        parts.sort_by_key(|part| part.to);
        // Members that are adjacent on both sides are merged into one part.
        parts.dedup_by(|next, last| {
            let on = last.from.checked_add(last.size) == Some(next.from)
                && last.to.checked_add(last.size as u64) == Some(next.to);
            if on {
                last.size = last.size.saturating_add(next.size);
            }
            on
        });
        Ok(Some(Self { parts, converted }))
    }

    /// Groups the parts that are adjacent in an element, with the byte range of each group.
    fn ranges(&self) -> Vec<(Range<u64>, &[MemberBytes])> {
        let end = |part: &MemberBytes| part.to.saturating_add(part.size as u64);
        let groups = self.parts.chunk_by(|one, next| end(one) == next.to);
        let ranges = groups.filter_map(|group| {
            let (first, last) = group.first().zip(group.last())?;
            Some((first.to..end(last), group))
        });
        ranges.collect()
    }

    /// Returns whether the parts make up whole elements.
    pub(super) fn are_whole(&self, shared: &SharedDataset) -> bool {
        let element = shared.definition.element_size();
        matches!(&*self.ranges(), [(range, _)] if *range == (0..element))
    }

    /// Writes the members of elements whose memory is contiguous.
    pub(super) fn write(
        &self,
        (slot, dataset, call): (&Slot, &StoreDataset, Call),
        chosen: &Selection,
        (number, size): (usize, usize),
        bytes: &[u8],
    ) -> Outcome<()> {
        let shared = &dataset.shared;
        let mut held = Vec::new();
        let (bytes, size) = match &self.converted {
            None => (bytes, size),
            Some((kind, width)) => {
                let both = size.max(*width);
                held.append(&mut allocate_zeroed(number, both)?);
                match held.get_mut(..bytes.len()) {
                    Some(part) => part.copy_from_slice(bytes),
                    None => refuse!(
                        "expected {number} elements of {size} bytes in memory, got {} bytes",
                        bytes.len()
                    ),
                }
                let mut background = allocate_zeroed(number, both)?;
                let (from, to) = (held.as_mut_ptr().cast(), background.as_mut_ptr().cast());
                // SAFETY: both buffers have room for that many elements of the larger type.
                done(unsafe { (slot.api.type_convert)(call.kind, kind.id, number, from, to, call.dxpl) })?;
                held.truncate(number.saturating_mul(*width));
                (&*held, *width)
            }
        };
        let whole = self.are_whole(shared);
        for (range, parts) in self.ranges() {
            let bytes = gather(parts, (number, size), bytes)?;
            match chosen {
                _ if !whole => shared.write_fields(chosen.boxes(), range, &bytes)?,
                Selection::Box(slab) if shared.filters => shared.write_filtered(slab, &bytes)?,
                _ => shared.write_boxes(chosen.boxes(), &bytes)?,
            }
        }
        Ok(())
    }
}

impl Selection {
    fn boxes(&self) -> &[Hyperslab] {
        match self {
            Selection::Box(slab) => std::slice::from_ref(slab),
            Selection::Runs(runs) => runs,
        }
    }
}

/// Returns whether a datatype is a compound, or contains one.
fn has_compound(datatype: &Datatype) -> bool {
    match &datatype.class {
        Class::Compound { .. } => true,
        Class::Array { base, .. } | Class::Vlen { base } => has_compound(base),
        _ => false,
    }
}

/// Creates a packed compound of some members of another.
fn packed<'s>(slot: &'s Slot, kind: Hid, names: &[&[u8]], size: usize) -> Outcome<Type<'s>> {
    let f = &slot.library.f;
    // SAFETY: plain numbers.
    let packed = Type::new(slot, unsafe { (f.type_create)(COMPOUND, size) })?;
    let mut at = 0_usize;
    // SAFETY: the dataset's type.
    let members = unsafe { (f.type_members)(kind) };
    for name in names {
        let Ok(name) = CString::new(*name) else { refuse!("a member's name contains a NUL byte") };
        let found = (0..u32::try_from(members).unwrap_or(0)).find(|number| {
            // SAFETY: a member of the type; its name is freed.
            unsafe {
                let own = (f.type_member_name)(kind, *number);
                let same = !own.is_null() && std::ffi::CStr::from_ptr(own) == &*name;
                if !own.is_null() {
                    (f.free)(own.cast());
                }
                same
            }
        });
        let Some(number) = found else { refuse!("the dataset's type has no member {name:?}") };
        // SAFETY: a member of the type.
        let member = Type::new(slot, unsafe { (f.type_member_type)(kind, number) })?;
        // SAFETY: both are types, and the name is a string.
        done(unsafe { (f.type_insert)(packed.id, name.as_ptr(), at, member.id) })?;
        // SAFETY: any identifier may be asked.
        at = at.saturating_add(unsafe { (slot.api.type_size)(member.id) });
    }
    if at != size {
        refuse!("the members have {at} bytes, expected {size}")
    }
    Ok(packed)
}

/// Copies the parts of elements of `size` bytes to a buffer, contiguously for each element.
fn gather<'b>(
    parts: &[MemberBytes],
    (number, size): (usize, usize),
    bytes: &'b [u8],
) -> Outcome<Cow<'b, [u8]>> {
    if let [part] = parts
        && part.from == 0
        && part.size == size
    {
        return Ok(Cow::Borrowed(bytes));
    }
    let width = parts.iter().map(|part| part.size).fold(0, usize::saturating_add);
    let mut out = allocate_zeroed(number, width)?;
    let mut at = 0_usize;
    for part in parts {
        let place = (part.from, size, at, width);
        // With a constant length, a copy is one instruction.
        match part.size {
            1 => copy::<1>(bytes, &mut out, place),
            2 => copy::<2>(bytes, &mut out, place),
            4 => copy::<4>(bytes, &mut out, place),
            8 => copy::<8>(bytes, &mut out, place),
            16 => copy::<16>(bytes, &mut out, place),
            length => {
                let elements = out.chunks_exact_mut(width.max(1)).zip(bytes.chunks_exact(size.max(1)));
                for (to, from) in elements {
                    let from = from.get(part.from..part.from.saturating_add(length));
                    let to = to.get_mut(at..at.saturating_add(length));
                    if let (Some(to), Some(from)) = (to, from) {
                        to.copy_from_slice(from);
                    }
                }
            }
        }
        at = at.saturating_add(part.size);
    }
    Ok(Cow::Owned(out))
}

/// Copies `N` bytes of each element, from an offset in elements of `size` bytes to an offset in elements of
/// `width` bytes.
fn copy<const N: usize>(bytes: &[u8], out: &mut [u8], (from, size, to, width): (usize, usize, usize, usize)) {
    for (out, element) in out.chunks_exact_mut(width.max(1)).zip(bytes.chunks_exact(size.max(1))) {
        let from = element.get(from..).and_then(|rest| rest.first_chunk::<N>());
        let to = out.get_mut(to..).and_then(|rest| rest.first_chunk_mut::<N>());
        if let (Some(from), Some(to)) = (from, to) {
            *to = *from;
        }
    }
}
