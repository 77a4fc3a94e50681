//! Translation of elements that contain addresses: references, and variable-length sequences and strings.
//! Objects and heap objects have other addresses in the new file.

use crate::heap::Sequences;
use crate::write::Writer;
use crate::{Error, File, Result, room};
use hyperchunk_format::Sizes;
use hyperchunk_format::model::{Class, Datatype, Member, ReferenceKind};

/// Size in bytes of a variable-length element in the new file: length, and address and index in the global
/// heap.
const HANDLE_BYTES: u64 = 16;
/// Size in bytes of an address in the new file.
const ADDRESS_BYTES: usize = 8;

/// Conversion of elements of a source to elements of the new file.
#[derive(Debug, Clone)]
pub struct Translation {
    /// Datatype in the new file.
    pub datatype: Datatype,
    form: ElementForm,
    /// Size of an element in the source.
    size: usize,
}

/// Context for translating addresses.
pub(super) struct AddressContext<'a> {
    pub(super) file: &'a File,
    pub(super) writer: &'a Writer,
    /// Maps the address of an object in the source to the one in the new file: `None` if the object is
    /// missing there, 0 if the reference becomes null.
    pub(super) address: &'a dyn Fn(u64) -> Result<Option<u64>>,
    /// True if the elements are an attribute's: its sequences are stored apart from datasets' ones.
    pub(super) attribute: bool,
}

/// Kind of translation of an element.
#[derive(Debug, Clone)]
enum ElementForm {
    /// Elements without addresses, which are copied.
    Plain,
    /// Object references of HDF5 before 1.12.
    Object,
    /// Region references of HDF5 before 1.12.
    Region,
    /// References of HDF5 1.12 and later.
    Revised,
    /// Variable-length sequences and strings.
    Sequence(Box<Translation>),
    /// Sequences of object references, from which references to missing objects are removed.
    Living(Box<Translation>),
    /// Members of a compound.
    Parts(Vec<Part>),
    Array(Box<Translation>),
}

/// A member of a compound, with its offsets in the source and in the new file.
#[derive(Debug, Clone)]
struct Part {
    from: usize,
    to: usize,
    translation: Translation,
}

/// Returns whether an object reference is null or undefined.
pub fn is_null_reference(reference: &[u8]) -> bool {
    [0, 255].iter().any(|byte| reference.iter().all(|other| other == byte))
}

fn narrow(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::limit("an element exceeds the address space"))
}

impl Translation {
    /// Plans the translation of elements of a datatype.
    ///
    /// # Errors
    /// Unsupported or Limit for elements that cannot be translated.
    pub fn new(datatype: &Datatype, sizes: Sizes) -> Result<Self> {
        let size = narrow(datatype.size)?;
        let same = |form| Self { datatype: datatype.clone(), form, size };
        if !datatype.has_vlen() && !datatype.has_reference() {
            return Ok(same(ElementForm::Plain));
        }
        let resized = |new: u64, form| Self {
            datatype: Datatype { size: new, class: datatype.class.clone() },
            form,
            size,
        };
        Ok(match &datatype.class {
            Class::Reference(ReferenceKind::Object1) => resized(ADDRESS_BYTES as u64, ElementForm::Object),
            Class::Reference(ReferenceKind::Region1) => {
                resized(ADDRESS_BYTES as u64 + 4, ElementForm::Region)
            }
            Class::Reference(_) if usize::from(sizes.address) != ADDRESS_BYTES => {
                let message = "references of HDF5 1.12 in a file whose addresses do not have 8 bytes";
                return Err(Error::unsupported(message));
            }
            Class::Reference(_) => same(ElementForm::Revised),
            Class::VlenString { .. } => {
                let byte = Datatype { size: 1, class: Class::Opaque { tag: Default::default() } };
                resized(HANDLE_BYTES, ElementForm::Sequence(Box::new(Self::new(&byte, sizes)?)))
            }
            Class::Vlen { base } => {
                let base = Self::new(base, sizes)?;
                let class = Class::Vlen { base: Box::new(base.datatype.clone()) };
                let datatype = Datatype { size: HANDLE_BYTES, class };
                Self { datatype, form: ElementForm::Sequence(Box::new(base)), size }
            }
            Class::Array { dims, base } => {
                let count = datatype.array_length();
                let base = Self::new(base, sizes)?;
                let new = base.datatype.size.checked_mul(count);
                let new = new.ok_or_else(|| Error::limit("an element has more than 2^64 - 1 bytes"))?;
                let class = Class::Array { dims: dims.clone(), base: Box::new(base.datatype.clone()) };
                Self {
                    datatype: Datatype { size: new, class },
                    form: ElementForm::Array(Box::new(base)),
                    size,
                }
            }
            Class::Compound { members } => Self::compound(members, datatype.size, sizes)?,
            _ => return Err(Error::unsupported("references or sequences inside a datatype of this class")),
        })
    }

    /// Plans the translation of a compound. If a member grows, the following ones move; padding stays.
    fn compound(members: &[Member], size: u64, sizes: Sizes) -> Result<Self> {
        let too_large = || Error::limit("an element has more than 2^64 - 1 bytes");
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|number| members[*number].offset);
        let mut new: Vec<Member> = members.to_vec();
        let mut parts = Vec::with_capacity(members.len());
        let mut shift = 0_u64;
        for number in order {
            let member = &members[number];
            let translation = Self::new(&member.datatype, sizes)?;
            let offset = member.offset.checked_add(shift).ok_or_else(too_large)?;
            // Datatypes in the new file are never smaller: its addresses have 8 bytes.
            shift = shift
                .checked_add(translation.datatype.size.saturating_sub(member.datatype.size))
                .ok_or_else(too_large)?;
            new[number].offset = offset;
            new[number].datatype = translation.datatype.clone();
            parts.push(Part { from: narrow(member.offset)?, to: narrow(offset)?, translation });
        }
        let datatype = Datatype {
            size: size.checked_add(shift).ok_or_else(too_large)?,
            class: Class::Compound { members: new },
        };
        Ok(Self { datatype, form: ElementForm::Parts(parts), size: narrow(size)? })
    }

    /// Changes the translation of sequences of object references: removes references to missing objects.
    pub(crate) fn without_dangling(mut self) -> Self {
        self.form = match self.form {
            ElementForm::Sequence(base) if matches!(base.form, ElementForm::Object) => {
                ElementForm::Living(base)
            }
            form => form,
        };
        self
    }

    /// Returns whether elements stay unchanged.
    pub(crate) fn is_copy(&self) -> bool {
        matches!(self.form, ElementForm::Plain)
    }

    /// Translates elements of the source.
    pub(super) fn run(&self, elements: &[u8], ends: &AddressContext<'_>) -> Result<Vec<u8>> {
        if self.is_copy() {
            return room::copy(elements);
        }
        let mut sequences = ends.file.sequences();
        self.elements(elements, ends, &mut sequences)
    }

    fn elements(
        &self,
        elements: &[u8],
        ends: &AddressContext<'_>,
        sequences: &mut Sequences<'_>,
    ) -> Result<Vec<u8>> {
        let size = narrow(self.datatype.size)?;
        let count = elements.len().checked_div(self.size).unwrap_or(0);
        let too_large = || Error::limit("the elements exceed the address space");
        let length = count.checked_mul(size).ok_or_else(too_large)?;
        let mut new = room::zeros(length)?;
        for (from, to) in elements.chunks_exact(self.size.max(1)).zip(new.chunks_exact_mut(size.max(1))) {
            self.element(from, to, ends, sequences)?;
        }
        Ok(new)
    }

    fn element(
        &self,
        from: &[u8],
        to: &mut [u8],
        ends: &AddressContext<'_>,
        sequences: &mut Sequences<'_>,
    ) -> Result<()> {
        match &self.form {
            ElementForm::Plain => to.copy_from_slice(from),
            ElementForm::Object => {
                let width = ends.width();
                let address = address(from, width)?;
                // 0 is a null reference.
                let new = if address == 0 { 0 } else { ends.find(address)? };
                put(to, 0, &new.to_le_bytes())?;
            }
            ElementForm::Region => {
                let width = ends.width();
                let (collection, index) = (address(from, width)?, number(from, width)?);
                if collection == 0 {
                    to.fill(0);
                } else {
                    let object = sequences.object(collection, index)?;
                    match ends.moved(object, 0, width)? {
                        None => to.fill(0),
                        Some(object) => {
                            put(to, 0, ends.store(object.len(), &object)?.get(4..).unwrap_or_default())?;
                        }
                    }
                }
            }
            ElementForm::Revised => self.revised(from, to, ends, sequences)?,
            ElementForm::Sequence(base) | ElementForm::Living(base) => {
                let found = sequences.get(
                    from,
                    &Datatype { size: base.size as u64, class: Class::Opaque { tag: Default::default() } },
                )?;
                match found {
                    None => to.fill(0),
                    Some((count, bytes)) => {
                        // Copied, since the recursive call borrows the heap cache again.
                        let bytes = bytes.to_vec();
                        let bytes =
                            if base.is_copy() { bytes } else { base.elements(&bytes, ends, sequences)? };
                        if !matches!(self.form, ElementForm::Living(_)) {
                            return put(to, 0, &ends.store(narrow(count)?, &bytes)?);
                        }
                        let references = bytes.chunks_exact(ADDRESS_BYTES);
                        let living: Vec<&[u8]> = references.filter(|one| !is_null_reference(one)).collect();
                        match living.is_empty() {
                            true => to.fill(0),
                            false => put(to, 0, &ends.store(living.len(), &living.concat())?)?,
                        }
                    }
                }
            }
            ElementForm::Parts(parts) => {
                if from.len() == to.len() {
                    to.copy_from_slice(from);
                }
                for Part { from: start, to: new_start, translation } in parts {
                    let size = narrow(translation.datatype.size)?;
                    let from = from.get(*start..start.saturating_add(translation.size));
                    let to = to.get_mut(*new_start..new_start.saturating_add(size));
                    let outside = || Error::corrupt("a member extends past the end of its compound");
                    let (from, to) = from.zip(to).ok_or_else(outside)?;
                    translation.element(from, to, ends, sequences)?;
                }
            }
            ElementForm::Array(base) => {
                let size = narrow(base.datatype.size)?;
                for (from, to) in from.chunks_exact(base.size.max(1)).zip(to.chunks_exact_mut(size.max(1))) {
                    base.element(from, to, ends, sequences)?;
                }
            }
        }
        Ok(())
    }

    /// Translates a reference of HDF5 1.12: an address preceded by its size, in the element or in the heap.
    /// Source: HDF5 2.x `H5R__encode`.
    fn revised(
        &self,
        from: &[u8],
        to: &mut [u8],
        ends: &AddressContext<'_>,
        sequences: &mut Sequences<'_>,
    ) -> Result<()> {
        const OBJECT: u8 = 2;
        const EXTERNAL: u8 = 0x01;
        to.copy_from_slice(from);
        let [kind, flags, ..] = *from else { return Err(Error::corrupt("a reference of less than 2 bytes")) };
        let external = flags & EXTERNAL != 0;
        if kind == OBJECT && !external {
            return match ends.token(from, 2)? {
                Some(moved) => put(to, 0, &moved),
                None => {
                    to.fill(0);
                    Ok(())
                }
            };
        }
        let handle = from.get(6..).unwrap_or_default();
        let (address, index) = (address(handle, ADDRESS_BYTES)?, number(handle, ADDRESS_BYTES)?);
        if kind == 0 || address == 0 {
            return Ok(());
        }
        let object = sequences.object(address, index)?;
        // An address in another file stays the same.
        let moved = if external { Some(object.to_vec()) } else { ends.token(object, 0)? };
        let Some(object) = moved else {
            to.fill(0);
            return Ok(());
        };
        put(to, 6, ends.store(object.len(), &object)?.get(4..).unwrap_or_default())
    }
}

impl AddressContext<'_> {
    fn width(&self) -> usize {
        self.file.superblock().sizes.address.into()
    }

    fn store(&self, count: usize, bytes: &[u8]) -> Result<[u8; 16]> {
        if self.attribute {
            self.writer.store_attribute_sequence(count, bytes)
        } else {
            self.writer.store_sequence(count, bytes)
        }
    }

    /// Returns the address in the new file; the undefined address if the object is missing.
    fn find(&self, address: u64) -> Result<u64> {
        Ok((self.address)(address)?.unwrap_or(u64::MAX))
    }

    /// Replaces the address of `width` bytes at offset `at` by the new one of 8 bytes; returns `None` if the
    /// reference becomes null.
    fn moved(&self, bytes: &[u8], at: usize, width: usize) -> Result<Option<Vec<u8>>> {
        let old = address(bytes.get(at..).unwrap_or_default(), width)?;
        let new = self.find(old)?;
        let (head, tail) = (bytes.get(..at), bytes.get(at.saturating_add(width)..));
        let moved = [head.unwrap_or_default(), &new.to_le_bytes(), tail.unwrap_or_default()].concat();
        Ok((new != 0).then_some(moved))
    }

    /// Replaces an address as [`AddressContext::moved`]. It is preceded by its size at offset `at`.
    fn token(&self, bytes: &[u8], at: usize) -> Result<Option<Vec<u8>>> {
        if bytes.get(at) != Some(&8) {
            return Err(Error::unsupported("a reference whose address does not have 8 bytes"));
        }
        self.moved(bytes, at + 1, ADDRESS_BYTES)
    }
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) -> Result<()> {
    let target = to.get_mut(at..at.saturating_add(bytes.len()));
    target.ok_or_else(|| Error::corrupt("an element is too short"))?.copy_from_slice(bytes);
    Ok(())
}

/// Reads an address of `width` bytes.
fn address(bytes: &[u8], width: usize) -> Result<u64> {
    let bytes = bytes.get(..width).ok_or_else(|| Error::corrupt("an address is truncated"))?;
    if bytes.iter().all(|byte| *byte == 255) {
        return Ok(u64::MAX);
    }
    let (low, high) = bytes.split_at(width.min(8));
    if high.iter().any(|byte| *byte != 0) {
        return Err(Error::corrupt("an address exceeds 2^64 - 1"));
    }
    Ok(low.iter().rev().fold(0, |address, byte| address << 8 | u64::from(*byte)))
}

/// Reads the 4-byte heap index after an address.
fn number(bytes: &[u8], width: usize) -> Result<u32> {
    let four = bytes.get(width..).and_then(|bytes| bytes.first_chunk());
    four.map(|four| u32::from_le_bytes(*four)).ok_or_else(|| Error::corrupt("a heap handle is truncated"))
}
