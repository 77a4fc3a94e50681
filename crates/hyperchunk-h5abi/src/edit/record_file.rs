//! Writing the record of a live dataset and its stubs into the file.

use crate::Result;
use crate::errors::failure;
use crate::handles::c_name;
use crate::library::Library;
use crate::symbols::Hid;
use hyperchunk_udf::chunking::chunk_numbers;
use hyperchunk_udf::record::{ATTRIBUTE, Record};
use hyperchunk_udf::stub::{RecordDigest, RecordLocation, Stub};

/// Maximum size in bytes of a record stored as a fixed string in the object header; a larger one is stored in
/// the file's heap.
const MAX_COMPACT_BYTES: usize = 60_000;

/// Writes the stubs of a live dataset and its record, whose bytes are `bytes`, replacing existing ones.
///
/// The old record is removed first and the new one written last: in between, the stubs belong to no record,
/// and reading them is an error.
pub(super) fn write(library: &'static Library, dataset: Hid, record: &Record, bytes: &[u8]) -> Result<()> {
    let digest = RecordDigest::compute(bytes);
    let place = RecordLocation::choose(bytes.len(), &record.output.dims, &record.chunk);
    remove_attribute(library, dataset)?;
    let chunks = chunk_numbers(&record.output.dims, &record.chunk);
    match place {
        RecordLocation::Attribute => {
            write_chunks(library, dataset, record, digest, place, chunks)?;
            write_attribute(library, dataset, bytes)
        }
        RecordLocation::Chunk => {
            let others = chunks.filter(|chunk| chunk.iter().any(|&n| n != 0));
            write_chunks(library, dataset, record, digest, place, others)?;
            let chunk = vec![0; record.chunk.len()];
            let mut first = Stub { id: record.id, record: digest, place, chunk: chunk.clone() }.encode()?;
            first.extend_from_slice(bytes);
            write_chunk(library, dataset, record, &chunk, &first)
        }
    }
}

fn remove_attribute(library: &'static Library, dataset: Hid) -> Result<()> {
    let name = c_name(ATTRIBUTE)?;
    // SAFETY: an open dataset and a NUL-terminated name.
    let removed = unsafe {
        (library.f.attr_exists)(dataset, name.as_ptr()) <= 0
            || (library.f.attr_delete)(dataset, name.as_ptr()) >= 0
    };
    if removed { Ok(()) } else { Err(failure(library, "cannot remove the old record")) }
}

/// Writes the stubs of some chunks.
pub(super) fn write_chunks(
    library: &'static Library,
    dataset: Hid,
    record: &Record,
    digest: RecordDigest,
    place: RecordLocation,
    chunks: impl Iterator<Item = Vec<u64>>,
) -> Result<()> {
    for chunk in chunks {
        let bytes = Stub { id: record.id, record: digest, place, chunk: chunk.clone() }.encode()?;
        write_chunk(library, dataset, record, &chunk, &bytes)?;
    }
    Ok(())
}

fn write_chunk(
    library: &'static Library,
    dataset: Hid,
    record: &Record,
    chunk: &[u64],
    bytes: &[u8],
) -> Result<()> {
    let offset: Vec<u64> = chunk.iter().zip(&record.chunk).map(|(n, c)| n * c).collect();
    // SAFETY: the offset has the dataset's rank; the bytes are live.
    let rc = unsafe {
        (library.f.dataset_write_chunk)(dataset, 0, 0, offset.as_ptr(), bytes.len(), bytes.as_ptr().cast())
    };
    if rc < 0 { Err(failure(library, "cannot write a chunk")) } else { Ok(()) }
}

/// Writes the record as an attribute.
fn write_attribute(library: &'static Library, dataset: Hid, bytes: &[u8]) -> Result<()> {
    const VARIABLE: usize = usize::MAX;
    const UTF8: i32 = 1;
    const NULL_PADDED: i32 = 1;
    let compact = bytes.len() <= MAX_COMPACT_BYTES;
    let text = c_name(&String::from_utf8_lossy(bytes))?;
    // SAFETY: a copy of a constant type, then closed by its handle.
    let datatype = library
        .wrap_type(unsafe { (library.f.type_copy)(library.global(c"H5T_C_S1_g")?) }, "a string type")?;
    // SAFETY: an open type of ours.
    let set = unsafe {
        (library.f.type_set_size)(datatype.id, if compact { bytes.len() } else { VARIABLE }) >= 0
            && (library.f.type_set_cset)(datatype.id, UTF8) >= 0
            && (!compact || (library.f.type_set_strpad)(datatype.id, NULL_PADDED) >= 0)
    };
    if !set {
        return Err(failure(library, "a string type"));
    }
    let space = library.scalar_space()?;
    let name = c_name(ATTRIBUTE)?;
    // SAFETY: open identifiers and a NUL-terminated name; 0 are default lists.
    let id = unsafe { (library.f.attr_create)(dataset, name.as_ptr(), datatype.id, space.id, 0, 0) };
    let attribute = library.wrap_attribute(id, "cannot make the record")?;
    let pointer = text.as_ptr();
    let data = if compact { pointer.cast() } else { (&raw const pointer).cast() };
    // SAFETY: a fixed string of that size, or one pointer to a terminated one.
    if unsafe { (library.f.attr_write)(attribute.id, datatype.id, data) } < 0 {
        return Err(failure(library, "cannot write the record"));
    }
    Ok(())
}
