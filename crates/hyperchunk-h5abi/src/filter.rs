//! HDF5 filter 31300, which replaces the stub of a live chunk with computed values.

use crate::chunk_buffer::ChunkBuffer;
use crate::errors::ErrorStackGuard;
use crate::guard::guard;
use crate::library::Library;
use crate::live::Computation;
use crate::symbols::OPTIONAL;
use crate::{Result, fail, live};
pub use hyperchunk_udf::host::keep_loaded;
use hyperchunk_udf::record::FILTER_ID;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `H5Z_class2_t`.
#[repr(C)]
#[allow(missing_debug_implementations, reason = "a table of function pointers")]
pub struct FilterClass {
    pub(crate) version: c_int,
    pub(crate) id: c_int,
    pub(crate) encoder_present: c_uint,
    pub(crate) decoder_present: c_uint,
    pub(crate) name: *const c_char,
    pub(crate) can_apply: Option<unsafe extern "C" fn()>,
    pub(crate) set_local: Option<unsafe extern "C" fn()>,
    pub(crate) filter: unsafe extern "C" fn(),
}

// SAFETY: the class is constant; its pointers are to constants and code.
unsafe impl Sync for FilterClass {}

/// Class of the live dataset filter, for HDF5 to register.
pub static CLASS: FilterClass = FilterClass {
    version: 1,
    id: FILTER_ID,
    encoder_present: 1,
    decoder_present: 1,
    name: c"hyperchunk live dataset (UDF)".as_ptr(),
    can_apply: Some(can_apply_entry),
    set_local: Some(set_local_entry),
    filter: entry,
};

/// Defines the entry point `$entry` of an `H5Z_func_t`, which has six arguments. It calls `$body` with a
/// seventh: the return address, which identifies the calling library.
macro_rules! filter_entry {
    ($entry:ident, $body:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        unsafe extern "C" fn $entry() {
            std::arch::naked_asm!(
                "mov rax, [rsp]",
                "push rax",
                "call {body}",
                "add rsp, 8",
                "ret",
                body = sym $body,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        unsafe extern "C" fn $entry() {
            std::arch::naked_asm!("mov x6, x30", "b {body}", body = sym $body)
        }
    };
}
pub(crate) use filter_entry;

filter_entry!(entry, filter);

/// Defines the entry point `$entry` of an `H5Z_can_apply_func_t` or `H5Z_set_local_func_t`, which have three
/// arguments. It calls `$body` with a fourth: the return address.
macro_rules! prelude_entry {
    ($entry:ident, $body:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        unsafe extern "C" fn $entry() {
            std::arch::naked_asm!("mov rcx, [rsp]", "jmp {body}", body = sym $body)
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        unsafe extern "C" fn $entry() {
            std::arch::naked_asm!("mov x3, x30", "b {body}", body = sym $body)
        }
    };
}

prelude_entry!(can_apply_entry, can_apply);
prelude_entry!(set_local_entry, set_local);

const READ_ONLY: &str = "a live dataset is computed and cannot be written or resized; to replace it, remove it first (hyperchunk udf rm); to grow one that was attached with --maxshape, use hyperchunk udf extend";

/// Rejects the first write to a live dataset. If only the filter call itself failed, HDF5 would keep the
/// unwritable data in its chunk cache, and fail when it closes the dataset.
unsafe extern "C" fn can_apply(plist: i64, _: i64, _: i64, caller: usize) -> c_int {
    guard(caller, -1, |library| {
        let quiet = ErrorStackGuard::new(library);
        let written = live::is_written(library, plist);
        drop(quiet);
        if written { fail!(Unsupported, "{READ_ONLY}") } else { Ok(1) }
    })
}

/// Makes the filter optional in a dataset that a program creates with the creation properties of a live one.
/// Data written to it are then stored unfiltered, with the filter marked as skipped in each chunk's filter
/// mask, and are readable without this plugin. Stub chunks that are copied to it are still computed.
unsafe extern "C" fn set_local(plist: i64, _: i64, _: i64, caller: usize) -> c_int {
    guard(caller, -1, |library| {
        let Some((flags, words)) = library.live_filter_of_copy(plist) else { return Ok(0) };
        if flags & OPTIONAL != 0 {
            return Ok(0);
        }
        // SAFETY: an open list that has the filter; the words are live.
        let rc = unsafe {
            (library.f.plist_modify_filter)(plist, FILTER_ID, flags | OPTIONAL, words.len(), words.as_ptr())
        };
        if rc < 0 {
            Err(crate::errors::failure(library, "cannot make a copy of a live dataset"))
        } else {
            Ok(0)
        }
    })
}

/// Filter flag: the call is for reading (`H5Z_FLAG_REVERSE`).
pub(crate) const REVERSE: c_uint = 0x100;

/// Replaces the stub of a chunk with the computed values.
///
/// # Safety
/// HDF5's contract for filters: `buffer` and `buffer_size` are live, `*buffer` has `*buffer_size` bytes of
/// which `bytes` are used, allocated by HDF5.
unsafe extern "C" fn filter(
    flags: c_uint,
    words: usize,
    client: *const c_uint,
    bytes: usize,
    buffer_size: *mut usize,
    buffer: *mut *mut c_void,
    caller: usize,
) -> usize {
    if flags & (REVERSE | OPTIONAL) == OPTIONAL {
        // For an optional filter, 0 makes HDF5 store the chunk without this filter.
        return 0;
    }
    guard(caller, 0, |library| {
        if flags & REVERSE == 0 {
            fail!(Unsupported, "{READ_ONLY}")
        }
        let _computation = Computation::begin(library);
        let arguments = FilterArguments { words, client, bytes, buffer_size, buffer };
        // SAFETY: by HDF5's contract.
        unsafe { arguments.replaced(library, |stub, client| live::evaluate(library, stub, client)) }
    })
}

/// The arguments of a filter call: the client data, and the buffer of a chunk, which the filter replaces.
pub(crate) struct FilterArguments {
    pub(crate) words: usize,
    pub(crate) client: *const c_uint,
    pub(crate) bytes: usize,
    pub(crate) buffer_size: *mut usize,
    pub(crate) buffer: *mut *mut c_void,
}

impl FilterArguments {
    /// Replaces the chunk with the result of `make`, which gets the chunk and the client data. Returns the
    /// new size in bytes. On an error, nothing is changed.
    ///
    /// # Safety
    /// HDF5's contract for filters: `client` has `words` numbers; `buffer` and `buffer_size` are live,
    /// `*buffer` has `*buffer_size` bytes of which `bytes` are used, allocated by this library. The caller
    /// has exclusive access to them.
    pub(crate) unsafe fn replaced<E>(
        self,
        library: &'static Library,
        make: impl FnOnce(&[u8], &[c_uint]) -> Result<ChunkBuffer, E>,
    ) -> Result<usize, E> {
        // SAFETY: the caller's promise; the bytes are only read until the buffer is replaced.
        let input =
            unsafe { std::slice::from_raw_parts((*self.buffer).cast::<u8>().cast_const(), self.bytes) };
        let client = match self.words {
            0 => &[],
            // SAFETY: the caller's promise.
            n => unsafe { std::slice::from_raw_parts(self.client, n) },
        };
        let chunk = make(input, client)?;
        // SAFETY: by HDF5's contract the buffer may be replaced by another of HDF5's own allocator.
        unsafe {
            (library.f.free)(*self.buffer);
            *self.buffer_size = chunk.bytes;
            *self.buffer = chunk.release();
            Ok(*self.buffer_size)
        }
    }
}
