//! Writing a live dataset into a file: the dataset, its stubs and its record.

use super::attach::{AttachedDataset, Options};
use super::convert::copy_attributes;
use super::dimensions::{self, Scales};
use super::open::OpenFile;
use super::{absolute, attributes, fail, types};
use crate::plan::CLIENT_DATA_VERSION;
use crate::to_udf_error;
use hyperchunk::model::{
    CharacterSet, Class, Dataspace, Datatype, FillTime, Filter, ObjectKind, StringPadding,
};
use hyperchunk::write::{DatasetOptions, DatasetWriter, ExistingLink, NewLayout, NewLink, NodeId, Writer};
use hyperchunk_udf::chunking::chunk_numbers;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::record::{ATTRIBUTE, FILTER_ID, Record, UNLIMITED};
use hyperchunk_udf::stub::{RecordDigest, RecordLocation, Stub};

/// Maximum size in bytes of a record stored as a fixed string in the object header; a larger one is stored in
/// the file's heap.
const MAX_COMPACT_BYTES: usize = 60_000;
/// Name of the filter, as the plugin registers it. HDF5 1.10 copies the messages of a filter without a name
/// into too little memory if it has the plugin.
const FILTER_NAME: &str = "hyperchunk live dataset (UDF)";
/// Number of stubs that are written at once.
const BATCH_STUBS: usize = 4096;

fn engine(error: hyperchunk::Error) -> Error {
    to_udf_error(&error)
}

/// Stores a record as a dataset, unless this is a dry run.
pub(super) fn store(
    opened: &OpenFile,
    record: Record,
    options: &Options,
    scales: Option<Scales>,
    keep_attributes: bool,
) -> Result<AttachedDataset> {
    let bytes = record.encode()?;
    let path = absolute(&record.output.name);
    let taken = taken(opened, &path)?;
    if taken && !options.overwrite {
        fail!(Exists, "an object of this name already exists; --overwrite replaces it")
    }
    let chunks = record.output.dims.iter().zip(&record.chunk).map(|(&d, &c)| d.div_ceil(c)).product();
    let json = String::from_utf8_lossy(&bytes).into_owned();
    if !options.dry_run {
        let file = opened.writer()?;
        let no_group = |error: hyperchunk::Error| {
            let message = format!("cannot link the dataset (does its group exist?): {}", error.message());
            Error::new(to_udf_error(&error).kind(), message)
        };
        let place = file.place(path.as_bytes(), false).map_err(no_group)?;
        let replaced = file.find(place.group, place.name.as_bytes()).map_err(engine)?;
        let dataset = create(file, &record)?;
        write(&dataset, &record, &bytes)?;
        attributes::write(file, dataset.id(), &options.attributes)?;
        if let Some(scales) = &scales {
            dimensions::attach(file, dataset.id(), scales)?;
        }
        if let Some(NewLink::Hard(old)) = replaced
            && file.kind(old).map_err(engine)? == ObjectKind::Dataset
        {
            if keep_attributes {
                copy_attributes(file, old, dataset.id())?;
            }
            dimensions::forget(opened, old)?;
        }
        file.make_room(&place, ExistingLink::Replace).map_err(engine)?;
        file.link(place.group, place.name.as_bytes(), NewLink::Hard(dataset.id())).map_err(engine)?;
    }
    Ok(AttachedDataset { record, json, chunks })
}

/// Returns whether there is a link at a path.
fn taken(opened: &OpenFile, path: &str) -> Result<bool> {
    match opened.file.root().and_then(|root| root.group()?.link_at(path.as_bytes())) {
        Ok(link) => Ok(link.is_some()),
        Err(error) if error.is_of_reading() => Err(engine(error)),
        Err(_) => Ok(false),
    }
}

/// Creates the dataset, without a name.
fn create(file: &Writer, record: &Record) -> Result<DatasetWriter> {
    let datatype = types::file_type(&record.output.datatype)?;
    let dims = record.output.dims.clone();
    let max = if record.maximum.is_empty() { &dims } else { &record.maximum };
    let max = max.iter().map(|max| (*max != UNLIMITED).then_some(*max)).collect();
    let id = record.id.to_words();
    let parameters = vec![CLIENT_DATA_VERSION, id[0], id[1], id[2], id[3]];
    let number = u16::try_from(FILTER_ID)
        .map_err(|_| Error::new(ErrorKind::Worker, "the filter's number has more than 16 bits"))?;
    let filter = Filter { id: number, name: Some(FILTER_NAME.into()), optional: false, parameters };
    let mut options = DatasetOptions::new(datatype, Dataspace::Simple { dims, max })
        .with_layout(NewLayout::Chunked(record.chunk.clone()))
        .with_pipeline(vec![filter]);
    if !record.maximum.is_empty() {
        // HDF5 calls the filter of such a dataset before it resizes it: new chunks would have no stubs, and
        // read as zeros. The filter refuses.
        options.fill.time = FillTime::Allocation;
    }
    file.create_dataset(NodeId::ROOT, b"", options).map_err(engine)
}

/// Writes the stubs of a live dataset and its record, whose bytes are `bytes`, replacing existing ones.
pub(super) fn write(dataset: &DatasetWriter, record: &Record, bytes: &[u8]) -> Result<()> {
    let digest = RecordDigest::compute(bytes);
    let place = RecordLocation::choose(bytes.len(), &record.output.dims, &record.chunk);
    remove_attribute(dataset)?;
    let chunks = chunk_numbers(&record.output.dims, &record.chunk);
    match place {
        RecordLocation::Attribute => {
            write_chunks(dataset, record, digest, place, chunks)?;
            write_attribute(dataset, bytes)
        }
        RecordLocation::Chunk => {
            let others = chunks.filter(|chunk| chunk.iter().any(|&n| n != 0));
            let chunk = vec![0; record.chunk.len()];
            let mut first = Stub { id: record.id, record: digest, place, chunk: chunk.clone() }.encode()?;
            first.extend_from_slice(bytes);
            dataset.write_chunk(&chunk, &first, 0).map_err(engine)?;
            write_chunks(dataset, record, digest, place, others)
        }
    }
}

fn remove_attribute(dataset: &DatasetWriter) -> Result<()> {
    let (file, id) = (dataset.file(), dataset.id());
    if file.attribute(id, ATTRIBUTE.as_bytes()).map_err(engine)?.is_some() {
        file.delete_attribute(id, ATTRIBUTE.as_bytes()).map_err(engine)?;
    }
    Ok(())
}

/// Writes the stubs of some chunks.
pub(super) fn write_chunks(
    dataset: &DatasetWriter,
    record: &Record,
    digest: RecordDigest,
    place: RecordLocation,
    mut chunks: impl Iterator<Item = Vec<u64>>,
) -> Result<()> {
    loop {
        let stubs = chunks.by_ref().take(BATCH_STUBS).map(|chunk| {
            let offset: Vec<u64> = chunk.iter().zip(&record.chunk).map(|(n, c)| n * c).collect();
            Ok((offset, Stub { id: record.id, record: digest, place, chunk }.encode()?))
        });
        let stubs = stubs.collect::<Result<Vec<_>>>()?;
        if stubs.is_empty() {
            return Ok(());
        }
        let direct: Vec<_> = stubs.iter().map(|(offset, stub)| (&**offset, &**stub, 0)).collect();
        dataset.write_chunks(&direct).map_err(engine)?;
    }
}

/// Writes the record as an attribute.
fn write_attribute(dataset: &DatasetWriter, bytes: &[u8]) -> Result<()> {
    let (file, charset) = (dataset.file(), CharacterSet::Utf8);
    let (datatype, data) = if bytes.len() <= MAX_COMPACT_BYTES {
        let class = Class::String { padding: StringPadding::NullPadded, charset };
        (Datatype { size: bytes.len() as u64, class }, bytes.to_vec())
    } else {
        let class = Class::VlenString { padding: StringPadding::NullTerminated, charset };
        let text = file.store_attribute_sequence(bytes.len(), bytes).map_err(engine)?;
        (Datatype { size: 16, class }, text.to_vec())
    };
    let attribute = attributes::new(ATTRIBUTE, datatype, Dataspace::Scalar, data);
    file.set_attribute(dataset.id(), attribute).map_err(engine)
}
