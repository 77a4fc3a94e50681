//! Digests of values, for comparing files and readers: SHA-256 over all elements in row-major order.
//!
//! *Raw* digests use elements as they are stored. Types with parts that mean nothing outside their file
//! (sequences, references) have a *canonical* digest: numbers little-endian, sequences as their count and
//! elements, strings as their length and bytes, references as the address of the target's object header. It
//! treats null sequences and strings as empty ones, as most readers do; a second digest records which ones
//! are null.

use crate::heap::Sequences;
use crate::slabs::slabs;
use crate::{Dataset, Error, File, Result, room};
use hyperchunk_format::convert::{Conversion, memory_type};
use hyperchunk_format::model::{
    Attribute, Class, Dataspace, Datatype, ObjectKind, Reference, ReferenceKind, StringPadding,
};
use hyperchunk_format::select::Selection;
use sha2::{Digest as _, Sha256};

/// Number of bytes read at a time.
const SLAB_BYTES: u64 = 16 << 20;

/// Function that returns bytes that identify a reference's target.
pub(crate) type Follow<'a> = dyn Fn(&Reference) -> Vec<u8> + 'a;

/// A digest, and the form of the values that it was computed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// The digest in hexadecimal, or `null` for a null dataspace.
    pub digest: String,
    /// `raw` or `canonical`.
    pub form: &'static str,
    /// Digest of the null flags of variable-length sequences and strings: a byte for each, in the order of
    /// the elements, 1 for null and 0 for others. `None` if no element is null.
    pub nulls: Option<String>,
}

/// Computes the digest of a dataset's values.
///
/// # Errors
/// The errors of reading it; Limit if it has more than `max_bytes`.
pub fn dataset(dataset: &Dataset, max_bytes: u64) -> Result<Digest> {
    let size = dataset.elements()?.checked_mul(dataset.datatype().size);
    if size.is_none_or(|size| size > max_bytes) {
        return Err(dataset
            .with_context(Error::limit(format!("the dataset has more than {max_bytes} bytes of data"))));
    }
    digest_dataset(dataset, None)
}

/// Computes the digest of a dataset of any size; `follow` returns the bytes that stand for a reference.
pub fn dataset_following(dataset: &Dataset, follow: &Follow<'_>) -> Result<Digest> {
    digest_dataset(dataset, Some(follow))
}

/// Computes the digest of some selections' elements, one selection after the other, as
/// [`dataset_following`] does.
pub(crate) fn parts_following(dataset: &Dataset, parts: &[Selection], follow: &Follow<'_>) -> Result<Digest> {
    let mut hasher = Hasher::new(dataset.object().file(), dataset.datatype(), Some(follow))?;
    let mut buffer = Vec::new();
    for part in parts {
        read_part(dataset, part, &mut buffer)?;
        hasher.update(&buffer).map_err(|error| dataset.with_context(error))?;
    }
    Ok(hasher.finish())
}

/// Reads the elements of a selection.
fn read_part(dataset: &Dataset, part: &Selection, buffer: &mut Vec<u8>) -> Result<()> {
    let bytes = part.count(dataset.dims())?.checked_mul(dataset.datatype().size);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    room::resize(buffer, bytes.ok_or_else(|| Error::limit("a selection larger than the address space"))?)?;
    dataset.read(part, buffer)
}

/// Checks that all global heap objects that elements refer to can be read.
///
/// # Errors
/// If one of them cannot.
pub(crate) fn check_elements(file: &File, datatype: &Datatype, elements: &[u8]) -> Result<()> {
    Hasher::new(file, datatype, Some(&|_| Vec::new()))?.update(elements)
}

/// Computes the digest of each element of a dataset, in row-major order.
pub fn elements_following(dataset: &Dataset, follow: &Follow<'_>) -> Result<Vec<[u8; 32]>> {
    let mut hasher = Hasher::new(dataset.object().file(), dataset.datatype(), Some(follow))?;
    let (mut digests, mut buffer) = (Vec::new(), Vec::new());
    for slab in slabs(dataset, SLAB_BYTES) {
        let bytes = usize::try_from(slab.count(dataset.dims())? * dataset.datatype().size);
        room::resize(
            &mut buffer,
            bytes.map_err(|_| Error::limit("a selection larger than the address space"))?,
        )?;
        dataset.read(&slab, &mut buffer)?;
        for element in buffer.chunks_exact(hasher.size.max(1)) {
            hasher.update(element).map_err(|error| dataset.with_context(error))?;
            digests.push(std::mem::take(&mut hasher.sums).finalize());
        }
    }
    Ok(digests)
}

/// Computes the digest of one element of a dataset, from its stored bytes.
pub fn element_following(dataset: &Dataset, bytes: &[u8], follow: &Follow<'_>) -> Result<[u8; 32]> {
    let mut hasher = Hasher::new(dataset.object().file(), dataset.datatype(), Some(follow))?;
    hasher.update(bytes).map_err(|error| dataset.with_context(error))?;
    Ok(hasher.sums.finalize())
}

fn digest_dataset(dataset: &Dataset, follow: Option<&Follow<'_>>) -> Result<Digest> {
    if *dataset.dataspace() == Dataspace::Null {
        return Ok(null());
    }
    let file = dataset.object().file();
    let mut hasher = Hasher::new(file, dataset.datatype(), follow)?;
    let mut buffer = Vec::new();
    for slab in slabs(dataset, SLAB_BYTES) {
        let count = slab.count(dataset.dims())?;
        let bytes = usize::try_from(count * dataset.datatype().size);
        room::resize(
            &mut buffer,
            bytes.map_err(|_| Error::limit("a selection larger than the address space"))?,
        )?;
        dataset.read(&slab, &mut buffer)?;
        hasher.update(&buffer).map_err(|error| dataset.with_context(error))?;
    }
    Ok(hasher.finish())
}

/// Computes the digest of an attribute's value.
///
/// # Errors
/// If a part of it in the global heap cannot be read.
pub fn attribute(file: &File, attribute: &Attribute) -> Result<Digest> {
    digest_attribute(file, attribute, None)
}

/// Computes the digest as [`attribute`] does; `follow` returns the bytes that stand for a reference.
pub fn attribute_following(file: &File, attribute: &Attribute, follow: &Follow<'_>) -> Result<Digest> {
    digest_attribute(file, attribute, Some(follow))
}

fn digest_attribute(file: &File, attribute: &Attribute, follow: Option<&Follow<'_>>) -> Result<Digest> {
    if attribute.dataspace == Dataspace::Null {
        return Ok(null());
    }
    let mut hasher = Hasher::new(file, &attribute.datatype, follow)?;
    hasher.update(&attribute.data)?;
    Ok(hasher.finish())
}

fn null() -> Digest {
    Digest { digest: "null".into(), form: "raw", nulls: None }
}

/// Running digests of the values and of the null flags.
#[derive(Default)]
struct Sums {
    values: Sha256,
    nulls: Sha256,
    any_null: bool,
}

impl Sums {
    fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.values.update(bytes);
    }

    /// Records whether a sequence is null.
    fn note(&mut self, null: bool) {
        self.nulls.update([u8::from(null)]);
        self.any_null |= null;
    }

    /// Combines both into one digest.
    fn finalize(mut self) -> [u8; 32] {
        self.values.update(self.nulls.finalize());
        self.values.finalize().into()
    }
}

fn hexadecimal(sha: Sha256) -> String {
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Hasher<'a> {
    sums: Sums,
    sequences: Sequences<'a>,
    ends: Ends<'a>,
    size: usize,
    /// `None`: elements are used as they are.
    canonical: Option<Form>,
}

/// Context for following references.
#[derive(Clone, Copy)]
struct Ends<'a> {
    file: &'a File,
    follow: Option<&'a Follow<'a>>,
}

impl<'a> Hasher<'a> {
    fn new(file: &'a File, datatype: &Datatype, follow: Option<&'a Follow<'a>>) -> Result<Self> {
        let canonical =
            if datatype.any(&mut |part| is_canonical(part)) { Some(Form::new(datatype)?) } else { None };
        let size = usize::try_from(datatype.size)
            .map_err(|_| Error::limit("elements larger than the address space"))?;
        let ends = Ends { file, follow };
        Ok(Self { sums: Sums::default(), sequences: file.sequences(), ends, size, canonical })
    }

    fn update(&mut self, elements: &[u8]) -> Result<()> {
        let Some(form) = &self.canonical else {
            self.sums.update(elements);
            return Ok(());
        };
        elements
            .chunks_exact(self.size)
            .try_for_each(|element| form.add(element, self.ends, &mut self.sequences, &mut self.sums))
    }

    fn finish(self) -> Digest {
        let form = if self.canonical.is_some() { "canonical" } else { "raw" };
        let Sums { values, nulls, any_null } = self.sums;
        Digest { digest: hexadecimal(values), form, nulls: any_null.then(|| hexadecimal(nulls)) }
    }
}

/// Returns whether a type with this part has a canonical digest. Other implementations decide this by
/// searching for these words in a textual description of the type, which includes member names; so this does
/// the same.
fn is_canonical(part: &Datatype) -> bool {
    let words: [&[u8]; 4] = [b"vl<", b"vstr", b"ref", b"complex"];
    let has_word = |name: &[u8]| words.iter().any(|word| name.windows(word.len()).any(|part| part == *word));
    match &part.class {
        Class::Vlen { .. } | Class::VlenString { .. } | Class::Reference(_) | Class::Complex { .. } => true,
        Class::Compound { members } => members.iter().any(|member| has_word(member.name.as_bytes())),
        _ => false,
    }
}

/// Returns whether a reference's target can be opened.
fn can_follow(file: &File, reference: &Reference) -> Result<bool> {
    let followed = file.dereference(reference).and_then(|object| match object.kind() {
        ObjectKind::Group => Ok(()),
        ObjectKind::Dataset => object.dataset().map(drop),
        ObjectKind::Datatype => object.datatype().map(drop),
    });
    match followed {
        Err(error) if error.is_of_reading() => Err(error),
        followed => Ok(followed.is_ok()),
    }
}

/// Conversion of an element to its canonical form.
enum Form {
    /// A fixed-size value, through a conversion.
    Value {
        conversion: Conversion,
        size: usize,
    },
    Bytes,
    FixedString(StringPadding),
    VlenString,
    Vlen {
        base: Datatype,
        form: Box<Form>,
    },
    /// Parts by offset and size.
    Parts(Vec<(usize, usize, Form)>),
    Array {
        size: usize,
        form: Box<Form>,
    },
    Reference(ReferenceKind),
}

impl Form {
    fn new(datatype: &Datatype) -> Result<Self> {
        let size = |datatype: &Datatype| {
            usize::try_from(datatype.size).map_err(|_| Error::limit("elements larger than the address space"))
        };
        Ok(match &datatype.class {
            Class::Opaque { .. } => Self::Bytes,
            Class::String { padding, .. } => Self::FixedString(*padding),
            Class::VlenString { .. } => Self::VlenString,
            Class::Vlen { base } => Self::Vlen { base: (**base).clone(), form: Box::new(Self::new(base)?) },
            Class::Array { base, .. } => Self::Array { size: size(base)?, form: Box::new(Self::new(base)?) },
            Class::Reference(kind) => Self::Reference(*kind),
            Class::Compound { members } => {
                let mut members: Vec<_> = members.iter().collect();
                // libhdf5 uses this order, too, when it converts a compound with parts in a heap.
                members.sort_by_key(|member| member.offset);
                let part = |offset: u64, datatype: &Datatype| {
                    let offset = usize::try_from(offset)
                        .map_err(|_| Error::limit("elements larger than the address space"))?;
                    Ok((offset, size(datatype)?, Self::new(datatype)?))
                };
                Self::Parts(
                    members
                        .iter()
                        .map(|member| part(member.offset, &member.datatype))
                        .collect::<Result<_>>()?,
                )
            }
            Class::Time { .. } => {
                return Err(Error::unsupported("times have no canonical form for a digest"));
            }
            Class::Complex { base } => Self::Array { size: size(base)?, form: Box::new(Self::new(base)?) },
            Class::Enum { base, .. } => Self::new(base)?,
            _ => {
                let memory = memory_type(datatype);
                let conversion = Conversion::new(datatype, &memory)?;
                Self::Value { conversion, size: size(&memory)? }
            }
        })
    }

    fn add(
        &self,
        element: &[u8],
        ends: Ends<'_>,
        sequences: &mut Sequences<'_>,
        sums: &mut Sums,
    ) -> Result<()> {
        match self {
            Self::Bytes => sums.update(element),
            Self::Value { conversion, size } => {
                let mut converted = room::zeros(*size)?;
                conversion.run(element, &mut converted, 1)?;
                sums.update(&converted);
            }
            Self::FixedString(padding) => {
                let kept = match padding {
                    StringPadding::NullTerminated => {
                        element.iter().position(|byte| *byte == 0).unwrap_or(element.len())
                    }
                    StringPadding::NullPadded => element.len(),
                    StringPadding::SpacePadded => {
                        element.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1)
                    }
                };
                sums.update(&element[..kept]);
                // In blocks, since a damaged file may claim a string of any size.
                let mut left = element.len() - kept;
                while left > 0 {
                    let zeros = &[0; 256][..left.min(256)];
                    sums.update(zeros);
                    left -= zeros.len();
                }
            }
            Self::VlenString => {
                sums.note(sequences.is_null(element)?);
                let string = sequences.string(element)?;
                sums.update((string.len() as u64).to_le_bytes());
                sums.update(string);
            }
            Self::Vlen { base, form } => {
                sums.note(sequences.is_null(element)?);
                let Some((count, bytes)) = sequences.get(element, base)? else {
                    sums.update(0_u64.to_le_bytes());
                    return Ok(());
                };
                sums.update(count.to_le_bytes());
                // Copied, since the recursion reads the heap again.
                let bytes = bytes.to_vec();
                let size = usize::try_from(base.size).unwrap_or(usize::MAX).max(1);
                bytes.chunks_exact(size).try_for_each(|element| form.add(element, ends, sequences, sums))?;
            }
            Self::Parts(parts) => {
                for (offset, size, form) in parts {
                    let part = element.get(*offset..offset + size);
                    form.add(
                        part.ok_or_else(|| Error::corrupt("a compound member extends past its element"))?,
                        ends,
                        sequences,
                        sums,
                    )?;
                }
            }
            Self::Array { size, form } => {
                element
                    .chunks_exact(*size)
                    .try_for_each(|element| form.add(element, ends, sequences, sums))?;
            }
            Self::Reference(kind) => match ends.file.reference(*kind, element) {
                Ok(Some(reference)) if ends.follow.is_some() => {
                    sums.update(ends.follow.map_or_else(Vec::new, |follow| follow(&reference)));
                }
                Ok(None) => sums.update([0; 8]),
                Ok(Some(reference)) if can_follow(ends.file, &reference)? => {
                    sums.update(reference.address.to_le_bytes())
                }
                Err(error) if error.is_of_reading() => return Err(error),
                _ => sums.update(b"badref"),
            },
        }
        Ok(())
    }
}
