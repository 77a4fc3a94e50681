//! The inputs of functions, as the engine has them.

use crate::of_function;
use hyperchunk::live::on_this_thread;
use hyperchunk::model::{ByteOrder, Class, Datatype, Layout};
use hyperchunk::select::{Axis, Choice};
use hyperchunk::{Dataset, File};
use hyperchunk_udf::datatype::ElementType;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::record::{Slot, bytes_of};

/// What elements are in memory, as functions see them.
pub(crate) fn element_type(datatype: &Datatype) -> Option<ElementType> {
    Some(match (&datatype.class, datatype.size) {
        (Class::Float(_), 4) => ElementType::Float32,
        (Class::Float(_), 8) => ElementType::Float64,
        (Class::Integer { signed: true, .. }, 1) => ElementType::Int8,
        (Class::Integer { signed: true, .. }, 2) => ElementType::Int16,
        (Class::Integer { signed: true, .. }, 4) => ElementType::Int32,
        (Class::Integer { signed: true, .. }, 8) => ElementType::Int64,
        (Class::Integer { signed: false, .. }, 1) => ElementType::UInt8,
        (Class::Integer { signed: false, .. }, 2) => ElementType::UInt16,
        (Class::Integer { signed: false, .. }, 4) => ElementType::UInt32,
        (Class::Integer { signed: false, .. }, 8) => ElementType::UInt64,
        _ => return None,
    })
}

/// The datatype of elements in memory.
pub(crate) fn in_memory(element: ElementType) -> Datatype {
    let order = ByteOrder::Little;
    match element {
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
    }
}

/// An input, if it is what it was when the function was attached.
pub(crate) fn open(file: &File, slot: &Slot) -> Result<Dataset> {
    let path = format!("/{}", slot.name.trim_start_matches('/'));
    let found = file.root().and_then(|root| root.named("/").group()?.get(path.as_bytes())?.dataset());
    let dataset = found.map_err(|error| of_function(&error))?;
    let element = element_type(dataset.datatype());
    if dataset.dims() != slot.dims || element != Some(slot.datatype) {
        let message = format!(
            "it is {} {:?} now, and was {} {:?} when the function was attached; attach it again",
            element.map_or("of another type", ElementType::name),
            dataset.dims(),
            slot.datatype.name(),
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
        && dataset.object().file().same(file)
        && *dataset.datatype() == in_memory(slot.datatype);
    let offset = file.superblock().base.checked_add(*address)?;
    let inside = offset.checked_add(slot.bytes()).is_some_and(|end| end <= file.size());
    (plain && inside && offset % slot.datatype.size() as u64 == 0).then_some(offset)
}

/// Reads a block of an input, converted to the machine's types. The input may itself be live: then this thread comes back
/// here.
pub(crate) fn read(file: &File, slot: &Slot, offset: &[u64], shape: &[u64], to: &mut [u8]) -> Result<()> {
    let dataset = open(file, slot)?;
    let bytes = usize::try_from(bytes_of(shape, slot.datatype)).ok().and_then(|bytes| to.get_mut(..bytes));
    let to =
        bytes.ok_or_else(|| Error::new(ErrorKind::Worker, format!("no room for a block of {shape:?}")))?;
    let axes =
        offset.iter().zip(shape).map(|(&start, &count)| Axis::range(start..start.saturating_add(count)));
    let block = if shape.is_empty() { Choice::All } else { Choice::Axes(axes.collect()) };
    let mut read = || dataset.read_as(&block, &in_memory(slot.datatype), to);
    // What is computed itself stays on this thread, which knows what it is computing.
    let computed = dataset.is_live() || matches!(dataset.layout(), Layout::Virtual { .. });
    if computed { on_this_thread(read) } else { read() }.map_err(|error| of_function(&error))
}
