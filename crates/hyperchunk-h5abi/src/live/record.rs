//! The record of a live dataset, stored in its first chunk or in an attribute.

use crate::errors::{ErrorStackGuard, failure};
use crate::handles::c_name;
use crate::library::Library;
use crate::symbols::{CLASS_STRING, Hid};
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::audit;
use hyperchunk_udf::host::cache;
use hyperchunk_udf::legacy::LegacyDataset;
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{ATTRIBUTE, MAX_RECORD_BYTES, Record};
use hyperchunk_udf::signature::{self, Fingerprint};
use hyperchunk_udf::stub::{MAX_STUB_BYTES, RecordDigest, RecordLocation, Stub};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex};

/// A parsed record: its signature is valid, or absent.
#[derive(Debug)]
pub(crate) struct VerifiedRecord {
    pub(crate) digest: RecordDigest,
    pub(crate) record: Record,
    pub(crate) signer: Option<Fingerprint>,
    /// The parsed data of HDF5-UDF from which the record was made, if HDF5-UDF wrote the dataset.
    pub(crate) legacy: Option<LegacyDataset>,
}

impl VerifiedRecord {
    /// Parses and verifies the bytes of a record.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        let record = Record::parse(bytes)?;
        let signer = signature::verify(&record)?;
        Ok(VerifiedRecord { digest: RecordDigest::compute(bytes), record, signer, legacy: None })
    }

    /// Returns the profile that applies to the record on this machine.
    pub(crate) fn profile(&self) -> Result<Profile> {
        match &self.legacy {
            Some(legacy) => legacy.profile(),
            None => Profile::for_signer(self.signer),
        }
    }

    /// Returns the record with the current shapes, for a dataset that has grown to `dims` since the function
    /// was attached.
    pub(crate) fn grown(self: Arc<Self>, dims: &[u64]) -> Result<Arc<Self>> {
        if self.record.maximum.is_empty() || *dims == *self.record.output.dims {
            return Ok(self);
        }
        let record = self.record.grown(dims)?;
        Ok(Arc::new(VerifiedRecord { digest: self.digest, record, signer: self.signer, legacy: None }))
    }

    /// Writes the outcome of using the record in this file to the audit log, if there is one.
    pub(crate) fn note(&self, file: &str, dataset: &str, profile: Option<&str>, error: Option<&Error>) {
        audit::note(&audit::Event {
            file,
            dataset,
            record: self.digest,
            signer: self.signer,
            profile,
            language: self.record.backend.short_name(),
            error,
        });
    }

    /// Returns the language, the key and the profile, for messages.
    pub(crate) fn describe(&self, profile: Option<&Profile>) -> String {
        let key = self.signer.map_or_else(|| "unsigned".to_owned(), |f| format!("key {f}"));
        let profile = profile.map(|p| format!(", profile {}", p.name)).unwrap_or_default();
        format!("{}, {key}{profile}", self.record.backend.short_name())
    }
}

/// Cache of verified records, keyed by digest, so an entry can never be out of date.
static VERIFIED: Mutex<VecDeque<Arc<VerifiedRecord>>> = Mutex::new(VecDeque::new());
const MAX_CACHED_RECORDS: usize = 64;

/// Returns the verified record with this digest, from the cache or from the dataset that should have it.
pub(crate) fn verified(
    library: &'static Library,
    dataset: Hid,
    digest: RecordDigest,
) -> Result<Arc<VerifiedRecord>> {
    let known =
        |list: &VecDeque<Arc<VerifiedRecord>>| list.iter().find(|v| v.digest == digest).map(Arc::clone);
    if let Some(found) = cache(&VERIFIED).and_then(|list| known(&list)) {
        return Ok(found);
    }
    let Some((bytes, _)) = read(library, dataset)? else {
        fail!(
            Invalid,
            "it has no record (in its first chunk or in the attribute {ATTRIBUTE}): it was removed, or the dataset was only partly copied"
        )
    };
    if RecordDigest::compute(&bytes) != digest {
        fail!(Invalid, "its record is not the one that its chunks were made for: it was changed")
    }
    let new = Arc::new(VerifiedRecord::new(&bytes)?);
    if let Some(mut list) = cache(&VERIFIED) {
        if list.len() >= MAX_CACHED_RECORDS {
            list.pop_front();
        }
        list.push_back(Arc::clone(&new));
    }
    Ok(new)
}

/// Returns whether the dataset has the record with this digest.
pub(crate) fn has_digest(library: &'static Library, dataset: Hid, digest: RecordDigest) -> bool {
    read(library, dataset).is_ok_and(|bytes| bytes.is_some_and(|(b, _)| RecordDigest::compute(&b) == digest))
}

/// Reads the bytes of a dataset's record, and their location; `None` if it has none.
pub(crate) fn read(library: &'static Library, dataset: Hid) -> Result<Option<(Vec<u8>, RecordLocation)>> {
    if let Some(chunk) = first_chunk(library, dataset)?
        && let Ok((Stub { place: RecordLocation::Chunk, .. }, record)) = Stub::split(&chunk)
    {
        return Ok(record.map(|record| (record.to_vec(), RecordLocation::Chunk)));
    }
    Ok(attribute(library, dataset)?.map(|bytes| (bytes, RecordLocation::Attribute)))
}

/// Returns the stored bytes of a dataset's first chunk; `None` if there is no chunk, no filter was applied to
/// it, or it is too large to contain a record.
pub(crate) fn first_chunk(library: &'static Library, dataset: Hid) -> Result<Option<Vec<u8>>> {
    let dims = library.dims(library.dataset_space(dataset)?.id)?;
    if dims.contains(&0) {
        return Ok(None);
    }
    let origin = vec![0; dims.len()];
    let mut size = 0;
    // For the size of a missing chunk, some library versions return 0, and others fail.
    let quiet = ErrorStackGuard::new(library);
    // SAFETY: the offset has the dataset's rank; one live integer.
    let there = unsafe { (library.f.dataset_chunk_size)(dataset, origin.as_ptr(), &raw mut size) } >= 0;
    drop(quiet);
    if !there {
        return Ok(None);
    }
    let Some(length) =
        usize::try_from(size).ok().filter(|&n| n > 0 && n <= MAX_RECORD_BYTES + MAX_STUB_BYTES)
    else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| Error::new(ErrorKind::Limit, format!("no memory for a record of {length} bytes")))?;
    bytes.resize(length, 0u8);
    let mut mask = 0u32;
    // SAFETY: as above, and the buffer has the size that HDF5 returned.
    let rc = unsafe {
        (library.f.dataset_read_chunk)(dataset, 0, origin.as_ptr(), &raw mut mask, bytes.as_mut_ptr().cast())
    };
    if rc < 0 {
        return Err(failure(library, "its first chunk"));
    }
    Ok((mask == 0).then_some(bytes))
}

/// Reads the record attribute; `None` if the dataset has none.
fn attribute(library: &'static Library, dataset: Hid) -> Result<Option<Vec<u8>>> {
    let name = c_name(ATTRIBUTE)?;
    // SAFETY: a NUL-terminated name.
    if unsafe { (library.f.attr_exists)(dataset, name.as_ptr()) } <= 0 {
        return Ok(None);
    }
    // SAFETY: as above; 0 is the default access list.
    let id = unsafe { (library.f.attr_open)(dataset, name.as_ptr(), 0) };
    let attribute = library.wrap_attribute(id, "its record")?;
    // SAFETY: an open attribute.
    let file_type = library.wrap_type(unsafe { (library.f.attr_type)(attribute.id) }, "its record")?;
    // SAFETY: an open type.
    let (class, variable, size) = unsafe {
        let t = file_type.id;
        ((library.f.type_class)(t), (library.f.type_is_variable_string)(t), (library.f.type_size)(t))
    };
    // SAFETY: an open attribute.
    let space = unsafe { (library.f.attr_space)(attribute.id) };
    // SAFETY: an open dataspace, then closed.
    let rank = unsafe {
        let rank = (library.f.space_rank)(space);
        (library.f.space_close)(space);
        rank
    };
    if class != CLASS_STRING || rank != 0 || (variable <= 0 && size > MAX_RECORD_BYTES) {
        fail!(Invalid, "its record (attribute {ATTRIBUTE}) is not a string")
    }
    if variable > 0 {
        return read_variable(library, attribute.id, file_type.id).map(Some);
    }
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size)
        .map_err(|_| Error::new(ErrorKind::Limit, format!("no memory for a record of {size} bytes")))?;
    bytes.resize(size, 0u8);
    // SAFETY: the memory type is the file's, a fixed string of `size` bytes.
    if unsafe { (library.f.attr_read)(attribute.id, file_type.id, bytes.as_mut_ptr().cast()) } < 0 {
        return Err(failure(library, "its record"));
    }
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |n| n + 1);
    bytes.truncate(end);
    Ok(Some(bytes))
}

fn read_variable(library: &'static Library, attribute: Hid, memory_type: Hid) -> Result<Vec<u8>> {
    // Before the string is allocated, which would leak if this failed.
    let space = library.scalar_space()?;
    let mut text: *mut c_char = std::ptr::null_mut();
    // SAFETY: a variable-length string is read into one pointer.
    if unsafe { (library.f.attr_read)(attribute, memory_type, (&raw mut text).cast()) } < 0 || text.is_null()
    {
        return Err(failure(library, "its record"));
    }
    // SAFETY: HDF5 terminates the strings that it reads.
    let length = unsafe { CStr::from_ptr(text) }.to_bytes().len();
    let bytes = if length <= MAX_RECORD_BYTES {
        // SAFETY: that many bytes are live.
        Ok(unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) }.to_vec())
    } else {
        Err(Error::new(
            ErrorKind::Limit,
            format!("its record has {length} bytes, more than {MAX_RECORD_BYTES}"),
        ))
    };
    // SAFETY: allocated by attr_read for this type and space.
    unsafe { (library.f.vlen_reclaim)(memory_type, space.id, 0, (&raw mut text).cast()) };
    bytes
}
