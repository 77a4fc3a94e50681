//! Objects: the combined values of the messages in a header. Source: specification §IV.

use super::message::{
    self, comment, dataspace, datatype, external_files, fill_value, layout, modification_time, pipeline,
    shared,
};
use crate::model::{
    AllocationTime, Chunked, Dataspace, Datatype, ExternalFile, FillTime, FillValue, FillWhen, Layout, Name,
    ObjectHeader, ObjectKind, Pipeline, RawMessage,
};
use crate::{Error, Image, Result};

/// Combined messages of a dataset's header.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetHeader {
    /// Datatype of the elements.
    pub datatype: Datatype,
    /// Address of the object header of the committed datatype, if one is used.
    pub committed: Option<u64>,
    /// Extent.
    pub dataspace: Dataspace,
    /// Storage layout.
    pub layout: Layout,
    /// Filter pipeline of the chunks.
    pub pipeline: Pipeline,
    /// Fill value.
    pub fill: FillValue,
    /// External data files, in order; empty if the data are in this file.
    pub external: Vec<ExternalFile>,
}

/// Returns the kind of an object; `None` if its messages match no kind in the specification.
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

/// Finds the first message of a type.
pub(crate) fn find(header: &ObjectHeader, kind: u16) -> Option<&RawMessage> {
    header.messages.iter().find(|message| message.kind == kind)
}

fn required<'h>(header: &'h ObjectHeader, kind: u16, name: &str) -> Result<&'h RawMessage> {
    find(header, kind)
        .ok_or_else(|| Error::corrupt(format!("the object at {:#x} has no {name} message", header.address)))
}

/// Reads the datatype of a dataset's elements or of a committed datatype. Also returns the address of the
/// committed datatype it uses.
///
/// # Errors
/// Corrupt or Unsupported if a message is damaged or missing.
pub fn datatype(image: Image<'_>, header: &ObjectHeader) -> Result<(Datatype, Option<u64>)> {
    let body = shared::resolve(image, required(header, message::DATATYPE, "datatype")?)?;
    let datatype = datatype::parse(&mut body.cursor("datatype message"), image.limits)?;
    Ok((datatype, body.committed))
}

/// Reads the messages of a dataset's header.
///
/// # Errors
/// Corrupt or Unsupported if messages are damaged, missing or contradictory.
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

/// Replaces the element size of a version 4 layout by the datatype's: PureHDF before 2.1.3 wrote 4 for every
/// type, and HDF5 1.10 to 1.14 use only the datatype. The sizes of chunks are checked when they are read.
fn with_element_size(layout: Layout, size: u64) -> Layout {
    match layout {
        Layout::Chunked(chunked) if chunked.version == 4 => {
            Layout::Chunked(Chunked { element_size: size, ..chunked })
        }
        layout => layout,
    }
}

/// Checks that the messages of a dataset agree.
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
                return Err(format!(
                    "chunks of {}-byte elements, datatype of {size} bytes",
                    chunked.element_size
                ));
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

/// Reads the object's comment.
#[must_use]
pub fn comment(header: &ObjectHeader) -> Option<Name> {
    find(header, message::COMMENT).map(|raw| comment::parse(&message::cursor(raw, "comment message")))
}

/// Reads the modification time of an object, in seconds since 1970.
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
