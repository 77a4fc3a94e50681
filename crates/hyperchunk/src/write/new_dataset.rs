//! Checks of the options of a new dataset.

use super::chunks::{Chunks, Data};
use super::options::{DatasetOptions, NewLayout};
use super::tree::DatasetNode;
use super::writer::MAX_DATA_BYTES;
use super::{message_limits, needs};
use crate::{Error, Result};
use hyperchunk_format::encode::{self, LibVersion, virtual_layout};
use hyperchunk_format::model::{Class, Dataspace, Datatype, FillWhen};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

/// Maximum size of compact data in bytes, limited by the 16-bit size of a header message.
const MAX_COMPACT_BYTES: u64 = 65_520;

/// Checks options and creates the node of a dataset.
pub(super) fn dataset_node(
    options: DatasetOptions,
    oldest: LibVersion,
    newest: LibVersion,
) -> Result<DatasetNode> {
    let DatasetOptions { datatype, committed, dataspace, layout, pipeline, fill, .. } = options;
    let mut needs = needs(&datatype, oldest, newest)?;
    if committed.is_none() {
        message_limits::datatype(&encode::message::datatype::encode(&datatype, needs)?)?;
    }
    message_limits::fill(&fill.value)?;
    if let Dataspace::Simple { dims, max } = &dataspace {
        if dims.len() != max.len() || dims.len() > 32 {
            let message = format!(
                "invalid dataspace: {} extents and {} maximum extents, expected an equal number up to 32",
                dims.len(),
                max.len()
            );
            return Err(Error::invalid(message));
        }
        message_limits::extent(dims, max)?;
    }
    let element_size = usize::try_from(datatype.size)
        .ok()
        .filter(|size| *size > 0)
        .ok_or_else(|| Error::invalid("invalid datatype: its size is 0 or exceeds the address space"))?;
    if let FillWhen::User(value) = &fill.value
        && value.len() != element_size
    {
        let message = format!("the fill value has {} bytes, expected {element_size}", value.len());
        return Err(Error::invalid(message));
    }
    let elements = dataspace.elements();
    let bytes =
        elements.and_then(|count| count.checked_mul(datatype.size)).filter(|bytes| *bytes <= MAX_DATA_BYTES);
    let size = || bytes.ok_or_else(|| Error::limit("the dataset has more than 2^62 bytes"));
    if !matches!(layout, NewLayout::Chunked(_)) {
        if !pipeline.is_empty() {
            return Err(Error::invalid("filters need chunks"));
        }
        let growing = matches!(&dataspace, Dataspace::Simple { dims, max }
            if dims.iter().zip(max).any(|(dim, max)| *max != Some(*dim)));
        if growing && !matches!(layout, NewLayout::External(_) | NewLayout::Virtual(_)) {
            return Err(Error::invalid("a dataset that can grow needs chunks"));
        }
    }
    let data = match layout {
        NewLayout::Compact => {
            let size = size()?;
            if size > MAX_COMPACT_BYTES {
                let message = format!("a compact dataset of {size} bytes: the limit is {MAX_COMPACT_BYTES}");
                return Err(Error::limit(message));
            }
            Data::Compact(RwLock::new(Vec::new()))
        }
        NewLayout::Contiguous => Data::Contiguous { address: Mutex::new(None), size: size()? },
        NewLayout::External(files) => {
            message_limits::external_files(files.len())?;
            Data::External(files)
        }
        NewLayout::Virtual(mappings) => {
            needs = needs.max(LibVersion::V110);
            Data::Virtual(mappings)
        }
        NewLayout::Chunked(chunk) => {
            let Dataspace::Simple { dims, .. } = &dataspace else {
                return Err(Error::invalid("chunks need a dataspace with dimensions"));
            };
            if chunk.len() != dims.len() || dims.is_empty() {
                let message = format!("chunks of rank {}, expected rank {}", chunk.len(), dims.len());
                return Err(Error::invalid(message));
            }
            // They may be larger than the maximum extent: HDF5 creates such datasets if the extent is 0.
            if chunk.contains(&0) {
                return Err(Error::invalid("chunks without elements: expected extents of at least 1"));
            }
            let bytes = chunk.iter().try_fold(datatype.size, |product, dim| product.checked_mul(*dim));
            if bytes.is_some_and(|bytes| u32::try_from(bytes).is_err()) && newest >= LibVersion::V200 {
                needs = LibVersion::V200;
            }
            let most =
                if needs.max(oldest) >= LibVersion::V200 { MAX_DATA_BYTES } else { u64::from(u32::MAX) };
            let Some(bytes) = bytes.filter(|bytes| *bytes <= most) else {
                return Err(Error::limit(
                    "chunks of 4 GiB or more: HDF5 before 2.0 cannot read them (use libver \"v200\")",
                ));
            };
            let bytes =
                usize::try_from(bytes).map_err(|_| Error::limit("chunks exceed the address space"))?;
            Data::Chunked(Chunks::new(chunk, bytes))
        }
    };
    let apart = |part: &Datatype| {
        matches!(part.class, Class::Vlen { .. } | Class::VlenString { .. } | Class::Reference(_))
    };
    let node = DatasetNode {
        id: OnceLock::new(),
        has_vlen: datatype.any(&mut |part| apart(part)),
        datatype,
        committed,
        element_size,
        dataspace: RwLock::new(dataspace),
        pipeline,
        fill,
        data,
        needs,
        edge_chunks_unfiltered: false,
        is_edited: false,
        touched: AtomicBool::new(true),
        members: Mutex::default(),
    };
    if let (Data::Compact(data), Some(bytes)) = (&node.data, bytes) {
        *data.write().unwrap_or_else(PoisonError::into_inner) =
            node.filled(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    }
    Ok(node)
}

/// Checks that all parts of a new dataset can be encoded. Otherwise the commit of the whole file would fail.
///
/// # Errors
/// Errors of the encoding; Limit for filters or mappings that are too large.
pub(super) fn check_encodable(node: &DatasetNode, oldest: LibVersion) -> Result<()> {
    encode::message::dataspace::encode(&node.dataspace())?;
    encode::message::fill_value::encode(&node.fill)?;
    message_limits::pipeline(&node.pipeline)?;
    match &node.data {
        Data::External(files) => encode::message::external_files::encode(files, 0).map(drop),
        Data::Virtual(mappings) => virtual_layout::encode(mappings, node.oldest(oldest)).map(drop),
        Data::Compact(_) | Data::Contiguous { .. } | Data::Chunked(_) => Ok(()),
    }
}
