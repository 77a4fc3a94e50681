//! The HDF5 filter 32003, Snappy, for programs that read and write with libhdf5.

use crate::chunk_buffer::ChunkBuffer;
use crate::errors::Area;
use crate::filter::{FilterArguments, FilterClass, REVERSE, filter_entry, keep_loaded};
use crate::guard::guard_in;
use crate::library::Library;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::codec::{Codec, Context, EncodeContext, EncodeOutcome, Snappy};
use hyperchunk_format::thread_state::with_state;
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::panic::catch_unwind;

/// The filter's registered number.
const FILTER_ID: c_int = 32003;
/// Filter flag: a chunk that does not become smaller may be stored without the filter.
const OPTIONAL: c_uint = 1;
/// Maximum size in bytes of a chunk that HDF5 filters.
const MAX_CHUNK_BYTES: usize = u32::MAX as usize;

thread_local! {
    /// Output buffer, kept for its capacity.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Class of the filter, for HDF5 to register.
static CLASS: FilterClass = FilterClass {
    version: 1,
    id: FILTER_ID,
    encoder_present: 1,
    decoder_present: 1,
    name: c"snappy".as_ptr(),
    can_apply: None,
    set_local: None,
    filter: entry,
};

/// Returns the filter's class for HDF5, which may keep the pointer forever.
#[must_use]
pub fn class() -> *const c_void {
    keep_loaded();
    (&raw const CLASS).cast()
}

filter_entry!(entry, filter);

/// Compresses or decompresses one chunk.
///
/// # Safety
/// HDF5's contract for filters, as for the filter of live datasets.
unsafe extern "C" fn filter(
    flags: c_uint,
    words: usize,
    client: *const c_uint,
    bytes: usize,
    buffer_size: *mut usize,
    buffer: *mut *mut c_void,
    caller: usize,
) -> usize {
    let library = catch_unwind(|| Library::that_contains(caller).ok()).ok().flatten();
    let Some(library) = library else { return 0 };
    guard_in(library, Area::Snappy, 0, || {
        let arguments = FilterArguments { words, client, bytes, buffer_size, buffer };
        let make = |input: &[u8], parameters: &[c_uint]| {
            // A chunk that does not become smaller is not an error.
            filtered(library, flags, parameters, input).map_err(Some)?.ok_or(None::<Error>)
        };
        // SAFETY: by HDF5's contract.
        unsafe { arguments.replaced(library, make) }
    })
}

/// Returns the filtered chunk; `None` if it should be stored without the filter, which must be optional then.
fn filtered(
    library: &'static Library,
    flags: c_uint,
    parameters: &[c_uint],
    input: &[u8],
) -> Result<Option<ChunkBuffer>> {
    with_state(&OUTPUT, |output| {
        let length = apply(flags, parameters, input, output)?;
        let Some(from) = length.and_then(|length| output.get(..length)).filter(|bytes| !bytes.is_empty())
        else {
            return Ok(None);
        };
        let mut result = ChunkBuffer::new(library, from.len())?;
        for (to, from) in result.uninitialised().iter_mut().zip(from) {
            to.write(*from);
        }
        Ok(Some(result))
    })
}

/// Applies or reverses the filter; returns the number of result bytes in `output`.
fn apply(flags: c_uint, parameters: &[c_uint], input: &[u8], output: &mut Vec<u8>) -> Result<Option<usize>> {
    if flags & REVERSE == 0 {
        let context = EncodeContext { parameters, optional: flags & OPTIONAL != 0 };
        let done =
            Snappy.encode(input, output, &context).map_err(|error| convert_error(&error, "a chunk"))?;
        return Ok(match done {
            EncodeOutcome::Written(length) => Some(length),
            EncodeOutcome::Same | EncodeOutcome::Refused => None,
        });
    }
    let context = Context { parameters, expected: None, limit: MAX_CHUNK_BYTES };
    Snappy.decode_over(input, output, &context).map_err(|error| convert_error(&error, "a stored chunk"))?;
    Ok(Some(output.len()))
}

fn convert_error(error: &hyperchunk_format::Error, of: &str) -> Error {
    let kind = match error.kind() {
        hyperchunk_format::ErrorKind::Limit => ErrorKind::Limit,
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, format!("the filter Snappy, {of}: {error}"))
}
