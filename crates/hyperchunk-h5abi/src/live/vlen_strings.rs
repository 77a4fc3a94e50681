//! Inputs with strings of variable length.
//!
//! HDF5 allocates each such string separately. Here it allocates them from an arena with a limit, so that a
//! file cannot use more memory than the profile allows. In the worker's memory, which the worker can only
//! read, the strings follow the elements, and the elements contain the addresses at which the worker sees the
//! strings. The worker never sees an address of this process.

use crate::errors::ErrorStackGuard;
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::Hid;
use crate::{Error, Result, fail};
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::host::Strings;
use std::ffi::{CStr, c_char, c_void};

/// Size of an address, in bytes.
const ADDRESS_BYTES: usize = size_of::<u64>();
/// Size of an arena's block, in bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// An input as HDF5 has read it: the elements, and the strings to which they point.
pub(super) struct VlenStrings {
    elements: Vec<u8>,
    /// Size of an element in bytes, and the offsets of the addresses in it.
    size: usize,
    pointers: Vec<usize>,
    /// Owns the strings.
    _arena: Box<Arena>,
    /// Total size of the strings in bytes, including their zeros.
    text_bytes: u64,
}

impl VlenStrings {
    /// Reads an input of `bytes` bytes of elements with `read`, which gets the buffer and a transfer list.
    /// Returns the error `too_large` if everything together needs more than `limit` bytes.
    pub(super) fn read(
        library: &'static Library,
        datatype: &Datatype,
        bytes: u64,
        limit: u64,
        too_large: impl Fn() -> Error,
        read: impl FnOnce(&mut [u8], Hid) -> Result<()>,
    ) -> Result<Self> {
        let _quiet = ErrorStackGuard::new(library);
        if is_absent(library.f.plist_set_vlen as *const c_void) {
            fail!(
                Unsupported,
                "cannot read strings of variable length: this statically linked program lacks H5Pset_vlen_mem_manager"
            )
        }
        let length = usize::try_from(bytes).ok().filter(|_| bytes < limit).ok_or_else(&too_large)?;
        let mut elements = Vec::new();
        elements.try_reserve_exact(length).map_err(|_| too_large())?;
        elements.resize(length, 0);
        let mut arena =
            Box::new(Arena { blocks: Vec::new(), left: limit.saturating_sub(bytes), refused: false });
        let transfer = library.new_plist(c"H5P_CLS_DATASET_XFER_ID_g")?;
        let info = (&raw mut *arena).cast::<c_void>();
        // SAFETY: the functions have HDF5's signatures, and the arena outlives the list's use.
        if unsafe { (library.f.plist_set_vlen)(transfer.id, allocate, info, release, info) } < 0 {
            fail!(Worker, "cannot set the allocator of the transfer list")
        }
        let outcome = read(&mut elements, transfer.id);
        if arena.refused {
            return Err(too_large());
        }
        outcome?;
        let mut texts = VlenStrings {
            elements,
            size: datatype.size(),
            pointers: datatype.pointers(),
            _arena: arena,
            text_bytes: 1,
        };
        let mut text_bytes = 1u64;
        texts.each(|_, text| text_bytes = text_bytes.saturating_add(text.map_or(0, |t| t.len() as u64)));
        texts.text_bytes = text_bytes;
        if texts.bytes() > limit {
            return Err(too_large());
        }
        Ok(texts)
    }

    /// Calls `give` with the offset of each address in the elements, and its string, including the
    /// terminating zero; `None` if the address is null.
    fn each(&self, mut give: impl FnMut(usize, Option<&[u8]>)) {
        for (n, element) in self.elements.chunks_exact(self.size.max(1)).enumerate() {
            for &at in &self.pointers {
                let Some(Ok(bytes)) =
                    element.get(at..).and_then(|e| e.get(..ADDRESS_BYTES)).map(<[u8; 8]>::try_from)
                else {
                    continue;
                };
                let pointer = usize::try_from(u64::from_ne_bytes(bytes)).unwrap_or(0) as *const c_char;
                // SAFETY: HDF5 has put the address of a terminated string of the arena here, or null.
                let text =
                    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_bytes_with_nul());
                give(n.saturating_mul(self.size).saturating_add(at), text);
            }
        }
    }
}

impl Strings for VlenStrings {
    fn bytes(&self) -> u64 {
        (self.elements.len() as u64).saturating_add(self.text_bytes)
    }

    fn place(&self, to: &mut [u8], at: u64) -> Result<()> {
        let length = self.elements.len();
        let Some((elements, heap)) =
            to.split_at_mut_checked(length).filter(|(_, h)| h.len() as u64 >= self.text_bytes)
        else {
            fail!(Worker, "the buffer is too small for the strings")
        };
        elements.copy_from_slice(&self.elements);
        // Null addresses become the address of the first byte, an empty string.
        let mut next = 1usize;
        if let Some(first) = heap.first_mut() {
            *first = 0;
        }
        let start = at.saturating_add(length as u64);
        self.each(|place, text| {
            let mut address = start;
            if let Some(text) = text
                && let Some(room) = heap.get_mut(next..).and_then(|h| h.get_mut(..text.len()))
            {
                room.copy_from_slice(text);
                address = start.saturating_add(next as u64);
                next = next.saturating_add(text.len());
            }
            if let Some(room) = elements.get_mut(place..).and_then(|e| e.get_mut(..ADDRESS_BYTES)) {
                room.copy_from_slice(&address.to_ne_bytes());
            }
        });
        Ok(())
    }
}

/// Memory for strings, freed all at once.
struct Arena {
    blocks: Vec<Vec<u8>>,
    left: u64,
    refused: bool,
}

impl Arena {
    fn allocate(&mut self, bytes: usize) -> Option<*mut u8> {
        self.left = self.left.checked_sub(bytes as u64)?;
        let full = |b: &Vec<u8>| b.capacity() - b.len() < bytes;
        if self.blocks.last().is_none_or(full) {
            let mut block = Vec::new();
            block.try_reserve_exact(bytes.max(BLOCK_BYTES)).ok()?;
            self.blocks.push(block);
        }
        let block = self.blocks.last_mut()?;
        let at = block.len();
        // Within the capacity, so that nothing moves.
        block.resize(at + bytes, 0);
        Some(block.get_mut(at..)?.as_mut_ptr())
    }
}

/// `H5MM_allocate_t`: null makes the read fail.
unsafe extern "C" fn allocate(bytes: usize, info: *mut c_void) -> *mut c_void {
    // SAFETY: the arena that the list was made with.
    let arena = unsafe { &mut *info.cast::<Arena>() };
    match arena.allocate(bytes) {
        Some(memory) => memory.cast(),
        None => {
            arena.refused = true;
            std::ptr::null_mut()
        }
    }
}

/// `H5MM_free_t`.
unsafe extern "C" fn release(_: *mut c_void, _: *mut c_void) {}
