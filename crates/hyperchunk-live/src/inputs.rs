//! Inputs of functions, read through the engine.

use crate::attributes;
use crate::to_udf_error;
use hyperchunk::ExternalPolicy;
use hyperchunk::live::{on_this_thread, with_inputs};
use hyperchunk::model::{
    ByteOrder, CharacterSet, Class, Dataspace, Datatype, EnumMember, Layout, Member, StringPadding,
};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::{Dataset, File};
use hyperchunk_udf::datatype::{Datatype as Element, ElementType, MAX_DEPTH};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::profile::{InputFiles, Profile};
use hyperchunk_udf::record::{Block, Record, Slot, byte_size};

/// Returns the element type in memory, as functions see it, and the datatype as which the engine reads it.
/// Small floats become `float`, enumerations their integers, compounds C structures. For an element with
/// variable-length strings, the engine reads the members packed, with the file's handles of the strings;
/// [`vlen_strings`] builds the element from them.
///
/// # Errors
/// `Unsupported`, with the member.
pub(crate) fn memory_type(datatype: &Datatype) -> Result<(Element, Datatype)> {
    memory_type_at(datatype, 0)
}

fn memory_type_at(datatype: &Datatype, depth: usize) -> Result<(Element, Datatype)> {
    let unsupported = |message: &str| Err(Error::new(ErrorKind::Unsupported, message));
    if depth > MAX_DEPTH {
        return unsupported("its datatype has too many levels");
    }
    Ok(match (&datatype.class, datatype.size) {
        (Class::Float(_), 1..=4) => number(ElementType::Float32),
        (Class::Float(_), 8) => number(ElementType::Float64),
        (Class::Integer { signed: true, .. }, 1) => number(ElementType::Int8),
        (Class::Integer { signed: true, .. }, 2) => number(ElementType::Int16),
        (Class::Integer { signed: true, .. }, 4) => number(ElementType::Int32),
        (Class::Integer { signed: true, .. }, 8) => number(ElementType::Int64),
        (Class::Integer { signed: false, .. }, 1) => number(ElementType::UInt8),
        (Class::Integer { signed: false, .. }, 2) => number(ElementType::UInt16),
        (Class::Integer { signed: false, .. }, 4) => number(ElementType::UInt32),
        (Class::Integer { signed: false, .. }, 8) => number(ElementType::UInt64),
        (Class::Enum { base, .. }, _) if matches!(base.class, Class::Integer { .. }) => {
            memory_type_at(base, depth + 1)?
        }
        (Class::String { charset, .. }, size) => {
            let class = Class::String { padding: StringPadding::NullPadded, charset: *charset };
            let bytes = usize::try_from(size).unwrap_or(usize::MAX);
            (Element::text(bytes)?, Datatype { size, class })
        }
        (Class::Compound { members }, _) => compound(members, depth)?,
        (Class::Array { dims, base }, _) => {
            let (element, memory) = memory_type_at(base, depth + 1)?;
            let element = Element::array(element, dims.clone())?;
            let size = memory.size.saturating_mul(wide(element.elements()));
            (element, Datatype { size, class: Class::Array { dims: dims.clone(), base: Box::new(memory) } })
        }
        (Class::VlenString { .. }, _) => (Element::Pointer, datatype.clone()),
        (class, size) => return unsupported(&unusable(class, size)),
    })
}

/// Returns why functions cannot use a datatype.
fn unusable(class: &Class, size: u64) -> String {
    let what = match class {
        Class::Integer { .. } => "an integer",
        Class::Float(_) => "a float",
        Class::Time { .. } => "a time",
        Class::Bitfield { .. } => "a bitfield",
        Class::Opaque { .. } => "opaque",
        Class::Reference(_) => "a reference",
        Class::Enum { .. } => "an enumeration",
        Class::Vlen { .. } => "a sequence of variable length",
        Class::Complex { .. } => "a complex number",
        _ => "unknown",
    };
    if matches!(class, Class::Integer { .. } | Class::Float(_)) {
        return format!(
            "its datatype is {what} of {size} bytes; functions use integers of 1 to 8 bytes and floats of up to 8"
        );
    }
    format!(
        "its datatype is {what}, which functions cannot use yet: they use numbers, enumerations, strings, and compounds and arrays of them"
    )
}

fn compound(members: &[Member], depth: usize) -> Result<(Element, Datatype)> {
    let (mut list, mut types) = (Vec::new(), Vec::new());
    for member in members {
        let Ok(name) = String::from_utf8(member.name.as_bytes().to_vec()) else {
            return Err(Error::new(ErrorKind::Unsupported, "a member has a name that is not UTF-8"));
        };
        let about = |e: Error| Error::new(e.kind(), format!("member {:?}: {e}", escape(&name, 80)));
        let (element, memory) = memory_type_at(&member.datatype, depth + 1).map_err(about)?;
        list.push((name, element));
        types.push(memory);
    }
    let element = Element::compound(list)?;
    let Element::Compound(compound) = &element else {
        return Err(Error::new(ErrorKind::Worker, "the datatype is not a compound"));
    };
    let packed = element.has_pointers();
    let (mut placed, mut end) = (Vec::new(), 0u64);
    for ((place, member), datatype) in compound.members().iter().zip(members).zip(types) {
        let offset = if packed { end } else { wide(place.offset) };
        end = offset.saturating_add(datatype.size);
        placed.push(Member { name: member.name.clone(), offset, datatype });
    }
    let size = if packed { end } else { wide(element.size()) };
    Ok((element, Datatype { size, class: Class::Compound { members: placed } }))
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Returns a native number type.
pub(crate) fn number(element: ElementType) -> (Element, Datatype) {
    let order = ByteOrder::Little;
    let datatype = match element {
        ElementType::Float32 => Datatype::ieee(4, order),
        ElementType::Float64 => Datatype::ieee(8, order),
        ElementType::Int8 => Datatype::integer(1, true, order),
        ElementType::Int16 => Datatype::integer(2, true, order),
        ElementType::Int32 => Datatype::integer(4, true, order),
        ElementType::Int64 => Datatype::integer(8, true, order),
        ElementType::UInt8 => Datatype::integer(1, false, order),
        ElementType::UInt16 => Datatype::integer(2, false, order),
        ElementType::UInt32 => Datatype::integer(4, false, order),
        ElementType::UInt64 => Datatype::integer(8, false, order),
    };
    (element.into(), datatype)
}

/// Returns the element type for a datatype with the same layout in the file and in memory, ignoring the
/// padding of strings.
///
/// # Errors
/// `Unsupported` for other datatypes.
pub(crate) fn file_type(datatype: &Datatype) -> Result<Element> {
    let (element, memory) = memory_type(datatype)?;
    let is_structure = element != Element::Pointer && element.has_pointers();
    if !is_structure && padded(datatype) == memory {
        return Ok(element);
    }
    let message = format!(
        "it is {} in another layout than C's, or in another byte order, which is not supported for functions of HDF5-UDF yet: attach the source again",
        escape(&element.name(), 200)
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Replaces the padding of strings by zeros.
fn padded(datatype: &Datatype) -> Datatype {
    let class = match &datatype.class {
        Class::String { charset, .. } => {
            Class::String { padding: StringPadding::NullPadded, charset: *charset }
        }
        Class::Compound { members } => Class::Compound {
            members: members
                .iter()
                .map(|member| Member { datatype: padded(&member.datatype), ..member.clone() })
                .collect(),
        },
        Class::Array { dims, base } => Class::Array { dims: dims.clone(), base: Box::new(padded(base)) },
        other => other.clone(),
    };
    Datatype { size: datatype.size, class }
}

/// Returns whether a dataset of this datatype is the stored form of an output of type `wanted`:
/// little-endian, with members of compounds at the same offsets as in memory.
pub(crate) fn is_stored_as(datatype: &Datatype, wanted: &Element) -> bool {
    match (&datatype.class, wanted) {
        (_, Element::Half) => *datatype == Datatype::ieee(2, ByteOrder::Little),
        (Class::Enum { base, members }, Element::Bool | Element::Enum(_)) => {
            let Some((element, names)) = wanted.names() else { return false };
            let size = usize::try_from(base.size).unwrap_or(usize::MAX);
            let same = |member: &EnumMember| {
                names.iter().any(|(name, value)| {
                    member.name.as_bytes() == name.as_bytes()
                        && value.to_le_bytes().get(..size) == Some(member.value.as_slice())
                })
            };
            **base == number(element).1 && members.len() == names.len() && members.iter().all(same)
        }
        (Class::Compound { members }, Element::Compound(compound)) => {
            datatype.size == wide(wanted.size())
                && members.len() == compound.members().len()
                && members.iter().zip(compound.members()).all(|(member, wanted)| {
                    member.name.as_bytes() == wanted.name.as_bytes()
                        && member.offset == wide(wanted.offset)
                        && is_stored_as(&member.datatype, &wanted.datatype)
                })
        }
        (Class::Array { dims, base }, Element::Array(wanted, wanted_dims)) => {
            dims == wanted_dims && is_stored_as(base, wanted)
        }
        (Class::String { padding, charset }, Element::Text(bytes) | Element::Utf8(bytes)) => {
            // Earlier versions stored strings not restricted to UTF-8 as UTF-8, padded with zeros.
            let is_utf8 = matches!(charset, CharacterSet::Utf8);
            datatype.size == wide(*bytes)
                && !matches!(padding, StringPadding::SpacePadded)
                && (is_utf8 || matches!(wanted, Element::Text(_)))
        }
        _ => memory_type(datatype).is_ok_and(|(element, memory)| element == *wanted && memory == *datatype),
    }
}

/// Returns the current datatype and shape of a dataset.
///
/// # Errors
/// `Unsupported` if `exact` is requested and a C structure has another layout.
pub(crate) fn slot(file: &File, name: &str, exact: bool) -> Result<Slot> {
    let read = || {
        let dataset = find(file, name)?;
        let (datatype, _) = memory_type(dataset.datatype())?;
        if exact && datatype.flat_number().is_none() {
            file_type(dataset.datatype())?;
        }
        Ok(Slot { name: name.to_owned(), datatype, dims: dataset.dims().to_vec() })
    };
    read().map_err(|e: Error| Error::new(e.kind(), format!("{:?}: {e}", escape(name, 80))))
}

fn find(file: &File, name: &str) -> Result<Dataset> {
    let path = format!("/{}", name.trim_start_matches('/'));
    let found = file.root().and_then(|root| root.named("/").group()?.get(path.as_bytes())?.dataset());
    found.map_err(|error| to_udf_error(&error))
}

/// Refuses an input with a null dataspace, which has no dimensions, like a scalar.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn not_null(dataset: &Dataset) -> Result<()> {
    if matches!(dataset.dataspace(), Dataspace::Null) {
        let message = "it has no elements at all (a null dataspace)";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// Opens an input, if its datatype and shape are the same as when the function was attached.
pub(crate) fn open(file: &File, record: &Record, slot: &Slot) -> Result<Dataset> {
    if record.find_attribute(slot).is_some() {
        return Err(Error::new(ErrorKind::Invalid, "it is an attribute, not a dataset"));
    }
    let dataset = find(file, &slot.name)?;
    not_null(&dataset)?;
    let (element, _) = memory_type(dataset.datatype())?;
    if !record.fits(slot, dataset.dims()) || element != slot.datatype {
        let now = escape(&element.name(), 200);
        let message = difference(record, slot, (now.as_str(), dataset.dims()), "function");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(dataset)
}

/// Returns the message for an input with another datatype or shape than the record says. `what` is attached.
pub(crate) fn difference(record: &Record, slot: &Slot, (now, dims): (&str, &[u64]), what: &str) -> String {
    let then = escape(&slot.datatype.name(), 200);
    if record.maximum.is_empty() || !record.is_cut(slot) {
        return format!(
            "it is {now} {dims:?} now, and was {then} {:?} when the {what} was attached; attach it again",
            slot.dims
        );
    }
    // The dataset may have grown since.
    format!(
        "it is {now} {dims:?} now, and the dataset, as large as it is now, needs {then} {:?}; attach it again",
        slot.dims
    )
}

/// Calls `read` with a profile's policy for input files: this file only, or others, too.
pub(crate) fn allowed<T>(profile: &Profile, read: impl FnOnce() -> T) -> T {
    let policy = match profile.inputs {
        InputFiles::File => ExternalPolicy::Never,
        InputFiles::Beside => ExternalPolicy::Beside,
        InputFiles::Any => ExternalPolicy::Anywhere,
    };
    with_inputs(policy, read)
}

/// Returns whether the values of a dataset are stored in this file, and do not depend on other files.
pub(crate) fn is_stored_in(file: &File, dataset: &Dataset) -> bool {
    dataset.external().is_empty()
        && dataset.store().is_none()
        && !dataset.is_live()
        && !matches!(dataset.layout(), Layout::Virtual { .. })
        && dataset.object().file().same(file)
}

/// Returns the file offset of an input that a worker may map: contiguous and of native type.
pub(crate) fn place(file: &File, slot: &Slot, dataset: &Dataset) -> Option<u64> {
    let Layout::Contiguous { address: Some(address), .. } = dataset.layout() else { return None };
    let plain = is_stored_in(file, dataset)
        && dataset.dims() == slot.dims
        && !slot.datatype.has_pointers()
        && memory_type(dataset.datatype()).is_ok_and(|(_, memory)| memory == *dataset.datatype());
    let offset = file.superblock().base.checked_add(*address)?;
    let inside = offset.checked_add(slot.bytes()).is_some_and(|end| end <= file.size());
    (plain && inside && offset % slot.datatype.align() as u64 == 0).then_some(offset)
}

/// Reads a block of an input, converted to native types. If the input is itself live, this thread re-enters
/// this module.
pub(crate) fn read(
    file: &File,
    record: &Record,
    slot: &Slot,
    (offset, shape): &Block,
    to: &mut [u8],
) -> Result<()> {
    if record.find_attribute(slot).is_some() {
        return attributes::open(file, record, slot)?.read(slot, to);
    }
    let dataset = open(file, record, slot)?;
    let bytes = usize::try_from(byte_size(shape, &slot.datatype)).ok().and_then(|bytes| to.get_mut(..bytes));
    let to = bytes.ok_or_else(|| {
        Error::new(ErrorKind::Worker, format!("the memory for a block of {shape:?} is too small"))
    })?;
    let (_, memory) = memory_type(dataset.datatype())?;
    read_block(&dataset, &memory, (offset, shape), to)
}

/// Converts a block to a selection.
pub(crate) fn block_selection(offset: &[u64], shape: &[u64]) -> Selection {
    let axes =
        offset.iter().zip(shape).map(|(&start, &count)| Axis::range(start..start.saturating_add(count)));
    if shape.is_empty() { Selection::All } else { Selection::Axes(axes.collect()) }
}

/// Reads a block of a dataset.
pub(crate) fn read_block(
    dataset: &Dataset,
    memory: &Datatype,
    (offset, shape): (&[u64], &[u64]),
    to: &mut [u8],
) -> Result<()> {
    let block = block_selection(offset, shape);
    let mut read = || dataset.read_as(&block, memory, to);
    // Computed datasets stay on this thread, whose state tracks the computations in progress. Datasets with
    // parts in other files stay, too, because this thread's policy decides which files may be opened.
    let computed = dataset.is_live()
        || matches!(dataset.layout(), Layout::Virtual { .. })
        || !dataset.external().is_empty()
        || dataset.store().is_some();
    if computed { on_this_thread(read) } else { read() }.map_err(|error| to_udf_error(&error))
}

/// Adds the name of the input to an error.
pub(crate) fn name_input(error: &Error, input: &Slot) -> Error {
    Error::new(error.kind(), format!("input {:?}: {error}", escape(&input.name, 80)))
}

/// Creates the error for failed memory allocation.
pub(crate) fn no_room(bytes: u64) -> Error {
    Error::new(ErrorKind::Limit, format!("no memory for {bytes} bytes"))
}
