//! What an object is: the values that the messages of its header make together. Source: specification §IV.

use super::message::{
    self, comment, dataspace, datatype, external_files, fill_value, layout, modification_time, pipeline,
    shared,
};
use crate::model::{
    AllocationTime, Chunked, Dataspace, Datatype, ExternalFile, FillTime, FillValue, FillWhen, Layout, Name,
    ObjectHeader, ObjectKind, Pipeline, RawMessage,
};
use crate::{Error, Image, Result};

/// What the header of a dataset says.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetHeader {
    /// The type of its elements.
    pub datatype: Datatype,
    /// The committed datatype that it uses, by the address of its header.
    pub committed: Option<u64>,
    /// Its extent.
    pub dataspace: Dataspace,
    /// Where its data lie.
    pub layout: Layout,
    /// The filters of its chunks.
    pub pipeline: Pipeline,
    /// What never-written elements are.
    pub fill: FillValue,
    /// The files that hold its data, in order; empty if this file does.
    pub external: Vec<ExternalFile>,
}

/// What the object is; `None` if it is nothing that the specification knows.
#[must_use]
pub fn kind(header: &ObjectHeader) -> Option<ObjectKind> {
    let has = |kind| find(header, kind).is_some();
    if has(message::SYMBOL_TABLE) || has(message::LINK_INFO) {
        return Some(ObjectKind::Group);
    }
    match (has(message::DATATYPE), has(message::DATASPACE)) {
        (true, true) => Some(ObjectKind::Dataset),
        (true, false) => Some(ObjectKind::Datatype),
        (false, _) => None,
    }
}

/// The first message of a type.
pub(crate) fn find(header: &ObjectHeader, kind: u16) -> Option<&RawMessage> {
    header.messages.iter().find(|message| message.kind == kind)
}

fn required<'h>(header: &'h ObjectHeader, kind: u16, name: &str) -> Result<&'h RawMessage> {
    find(header, kind)
        .ok_or_else(|| Error::corrupt(format!("the object at {:#x} has no {name} message", header.address)))
}

/// The type of a dataset's elements, or the committed datatype itself; and the committed datatype that it uses.
///
/// # Errors
/// Corrupt or Unsupported if the messages are damaged, or missing.
pub fn datatype(image: Image<'_>, header: &ObjectHeader) -> Result<(Datatype, Option<u64>)> {
    let body = shared::resolve(image, required(header, message::DATATYPE, "datatype")?)?;
    let datatype = datatype::parse(&mut body.cursor("datatype message"), image.limits)?;
    Ok((datatype, body.committed))
}

/// What the header of a dataset says.
///
/// # Errors
/// Corrupt or Unsupported if its messages are damaged, missing or contradict each other.
pub fn dataset(image: Image<'_>, header: &ObjectHeader) -> Result<DatasetHeader> {
    let (datatype, committed) = datatype(image, header)?;
    let body = shared::resolve(image, required(header, message::DATASPACE, "dataspace")?)?;
    let dataspace = dataspace::parse(&mut body.cursor("dataspace message"), image.sizes)?;
    let body = shared::resolve(image, required(header, message::LAYOUT, "data layout")?)?;
    let layout = layout::parse(&mut body.cursor("data layout message"), image.sizes)?;
    let layout = with_element_size(layout, datatype.size);
    let pipeline = match find(header, message::PIPELINE) {
        Some(raw) => pipeline::parse(&mut shared::resolve(image, raw)?.cursor("filter pipeline message"))?,
        None => Pipeline::new(),
    };
    let fill = fill_value(image, header, &layout)?;
    let external = match find(header, message::EXTERNAL_FILES) {
        Some(raw) => external_files::parse(image, &mut message::cursor(raw, "external data files message"))?,
        None => Vec::new(),
    };
    let dataset = DatasetHeader { datatype, committed, dataspace, layout, pipeline, fill, external };
    check(&dataset).map_err(|message| Error::corrupt(message).within("dataset header"))?;
    Ok(dataset)
}

fn fill_value(image: Image<'_>, header: &ObjectHeader, layout: &Layout) -> Result<FillValue> {
    if let Some(raw) = find(header, message::FILL_VALUE) {
        return fill_value::parse(&mut shared::resolve(image, raw)?.cursor("fill value message"));
    }
    if let Some(raw) = find(header, message::FILL_VALUE_OLD) {
        return fill_value::parse_old(&mut shared::resolve(image, raw)?.cursor("old fill value message"));
    }
    let allocation = match layout {
        Layout::Compact { .. } => AllocationTime::Early,
        Layout::Contiguous { .. } => AllocationTime::Late,
        Layout::Chunked(_) | Layout::Virtual { .. } => AllocationTime::Incremental,
    };
    Ok(FillValue { value: FillWhen::Undefined, allocation, time: FillTime::IfSet })
}

/// Of a layout of version 4, the size of an element is what the datatype says: PureHDF before 2.1.3 wrote 4 for every type,
/// and HDF5 1.10 to 1.14 look at the datatype alone. The sizes of the chunks are checked when they are read.
fn with_element_size(layout: Layout, size: u64) -> Layout {
    match layout {
        Layout::Chunked(chunked) if chunked.version == 4 => {
            Layout::Chunked(Chunked { element_size: size, ..chunked })
        }
        layout => layout,
    }
}

/// What the messages of a dataset must agree on.
fn check(dataset: &DatasetHeader) -> Result<(), String> {
    let size = dataset.datatype.size;
    let total = dataset.dataspace.elements().and_then(|elements| elements.checked_mul(size));
    match &dataset.layout {
        Layout::Compact { data } if total != Some(data.len() as u64) => {
            return Err(format!("{} bytes of compact data for {:?}", data.len(), dataset.dataspace));
        }
        Layout::Contiguous { .. } if total.is_none() => {
            return Err(format!("contiguous data of more than 2^64 bytes: {:?}", dataset.dataspace));
        }
        Layout::Chunked(chunked) => {
            let rank = dataset.dataspace.dims().len();
            if chunked.dims.len() != rank {
                return Err(format!("chunks of {} dimensions in a dataset of {rank}", chunked.dims.len()));
            }
            if chunked.element_size != size {
                return Err(format!("chunks of {}-byte elements, a type of {size}", chunked.element_size));
            }
        }
        _ => {}
    }
    match &dataset.fill.value {
        FillWhen::User(value) if value.len() as u64 != size => {
            Err(format!("a fill value of {} bytes for elements of {size}", value.len()))
        }
        _ => Ok(()),
    }
}

/// The object's comment.
#[must_use]
pub fn comment(header: &ObjectHeader) -> Option<Name> {
    find(header, message::COMMENT).map(|raw| comment::parse(&message::cursor(raw, "comment message")))
}

/// When the object was last modified, in seconds since 1970.
///
/// # Errors
/// Corrupt or Unsupported if the message is damaged.
pub fn modification_time(header: &ObjectHeader) -> Result<Option<i64>> {
    let structure = "modification time message";
    if let Some(raw) = find(header, message::MODIFICATION_TIME) {
        return modification_time::parse(&mut message::cursor(raw, structure)).map(Some);
    }
    if let Some(raw) = find(header, message::MODIFICATION_TIME_OLD) {
        return modification_time::parse_old(&mut message::cursor(raw, structure)).map(Some);
    }
    Ok(header.times.map(|times| times.modification.into()))
}
