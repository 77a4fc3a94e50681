//! The inputs of functions, as the engine has them.

use crate::of_function;
use hyperchunk::live::on_this_thread;
use hyperchunk::model::{ByteOrder, Class, Dataspace, Datatype, Layout, Member, StringPadding};
use hyperchunk::select::{Axis, Choice};
use hyperchunk::{Dataset, File};
use hyperchunk_udf::datatype::{Datatype as Element, ElementType, MAX_DEPTH};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::record::{Block, Record, Slot, bytes_of};

/// What elements are in memory, as functions see them, and the engine's name for that. Small floats become `float`,
/// enumerations their integers, compounds structures of C.
///
/// # Errors
/// `Unsupported`, with the member.
pub(crate) fn in_memory(datatype: &Datatype) -> Result<(Element, Datatype)> {
    in_memory_at(datatype, 0)
}

fn in_memory_at(datatype: &Datatype, depth: usize) -> Result<(Element, Datatype)> {
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
            in_memory_at(base, depth + 1)?
        }
        (Class::String { charset, .. }, size) => {
            let class = Class::String { padding: StringPadding::NullPadded, charset: *charset };
            let bytes = usize::try_from(size).unwrap_or(usize::MAX);
            (Element::text(bytes)?, Datatype { size, class })
        }
        (Class::Compound { members }, _) => compound(members, depth)?,
        (Class::Array { dims, base }, _) => {
            let (element, memory) = in_memory_at(base, depth + 1)?;
            let element = Element::array(element, dims.clone())?;
            let class = Class::Array { dims: dims.clone(), base: Box::new(memory) };
            (element.clone(), Datatype { size: wide(element.size()), class })
        }
        (Class::VlenString { .. }, _) => {
            return unsupported(
                "strings of variable length are given to functions by HDF5 alone yet: read it with h5py and the plugin",
            );
        }
        _ => return unsupported("its datatype is not one that functions can use"),
    })
}

fn compound(members: &[Member], depth: usize) -> Result<(Element, Datatype)> {
    let (mut list, mut types) = (Vec::new(), Vec::new());
    for member in members {
        let Ok(name) = String::from_utf8(member.name.as_bytes().to_vec()) else {
            return Err(Error::new(ErrorKind::Unsupported, "a member has a name that is not UTF-8"));
        };
        let about = |e: Error| Error::new(e.kind(), format!("member {:?}: {e}", escape(&name, 80)));
        let (element, memory) = in_memory_at(&member.datatype, depth + 1).map_err(about)?;
        list.push((name, element));
        types.push(memory);
    }
    let element = Element::compound(list)?;
    let Element::Compound(compound) = &element else {
        return Err(Error::new(ErrorKind::Worker, "no compound"));
    };
    let placed = compound.members().iter().zip(members).zip(types);
    let placed = placed.map(|((place, member), datatype)| Member {
        name: member.name.clone(),
        offset: wide(place.offset),
        datatype,
    });
    let class = Class::Compound { members: placed.collect() };
    Ok((element.clone(), Datatype { size: wide(element.size()), class }))
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A number of the machine's own.
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

/// The same of a type that lies in the file as it does in memory, however strings are padded.
///
/// # Errors
/// `Unsupported` for others.
pub(crate) fn as_in_file(datatype: &Datatype) -> Result<Element> {
    let (element, memory) = in_memory(datatype)?;
    if padded(datatype) == memory {
        return Ok(element);
    }
    let message = format!(
        "it is {} in another layout than C's, or in another byte order, which functions of HDF5-UDF are not given yet: attach the source anew",
        escape(&element.name(), 200)
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// The type with its strings padded with zeros.
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

/// What the dataset of this name is now.
///
/// # Errors
/// `Unsupported` when it is `exact` that is wanted, and a structure of C lies otherwise.
pub(crate) fn slot(file: &File, name: &str, exact: bool) -> Result<Slot> {
    let read = || {
        let dataset = find(file, name)?;
        let (datatype, _) = in_memory(dataset.datatype())?;
        if exact && datatype.flat_number().is_none() {
            as_in_file(dataset.datatype())?;
        }
        Ok(Slot { name: name.to_owned(), datatype, dims: dataset.dims().to_vec() })
    };
    read().map_err(|e: Error| Error::new(e.kind(), format!("{:?}: {e}", escape(name, 80))))
}

fn find(file: &File, name: &str) -> Result<Dataset> {
    let path = format!("/{}", name.trim_start_matches('/'));
    let found = file.root().and_then(|root| root.named("/").group()?.get(path.as_bytes())?.dataset());
    found.map_err(|error| of_function(&error))
}

/// Refuses an input without a dataspace of elements, which has no dimensions either, as a scalar has none.
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

/// An input, if it is what it was when the function was attached.
pub(crate) fn open(file: &File, record: &Record, slot: &Slot) -> Result<Dataset> {
    let dataset = find(file, &slot.name)?;
    not_null(&dataset)?;
    let (element, _) = in_memory(dataset.datatype())?;
    if !record.fits(slot, dataset.dims()) || element != slot.datatype {
        let message = format!(
            "it is {} {:?} now, and was {} {:?} when the function was attached; attach it again",
            escape(&element.name(), 200),
            dataset.dims(),
            escape(&slot.datatype.name(), 200),
            slot.dims
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(dataset)
}

/// Where an input lies in the file if a worker may map it: in one piece, in the machine's own type.
pub(crate) fn place(file: &File, slot: &Slot, dataset: &Dataset) -> Option<u64> {
    let Layout::Contiguous { address: Some(address), .. } = dataset.layout() else { return None };
    let plain = dataset.external().is_empty()
        && dataset.store().is_none()
        && dataset.dims() == slot.dims
        && dataset.object().file().same(file)
        && in_memory(dataset.datatype()).is_ok_and(|(_, memory)| memory == *dataset.datatype());
    let offset = file.superblock().base.checked_add(*address)?;
    let inside = offset.checked_add(slot.bytes()).is_some_and(|end| end <= file.size());
    (plain && inside && offset % slot.datatype.align() as u64 == 0).then_some(offset)
}

/// Reads a block of an input, converted to the machine's types. The input may itself be live: then this thread comes back
/// here.
pub(crate) fn read(
    file: &File,
    record: &Record,
    slot: &Slot,
    (offset, shape): &Block,
    to: &mut [u8],
) -> Result<()> {
    let dataset = open(file, record, slot)?;
    let bytes = usize::try_from(bytes_of(shape, &slot.datatype)).ok().and_then(|bytes| to.get_mut(..bytes));
    let to =
        bytes.ok_or_else(|| Error::new(ErrorKind::Worker, format!("no room for a block of {shape:?}")))?;
    let axes =
        offset.iter().zip(shape).map(|(&start, &count)| Axis::range(start..start.saturating_add(count)));
    let block = if shape.is_empty() { Choice::All } else { Choice::Axes(axes.collect()) };
    let (_, memory) = in_memory(dataset.datatype())?;
    let mut read = || dataset.read_as(&block, &memory, to);
    // What is computed itself stays on this thread, which knows what it is computing.
    let computed = dataset.is_live() || matches!(dataset.layout(), Layout::Virtual { .. });
    if computed { on_this_thread(read) } else { read() }.map_err(|error| of_function(&error))
}
