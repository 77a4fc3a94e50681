//! A file driver for libhdf5 that reads a file over a network through a relay.
//!
//! libhdf5 does everything else as for a local file. `H5FD_class_t` and `H5FD_t` are the same in HDF5 1.14
//! and 2.x.

use super::failure::{ON_ERROR_STACK, Outcome};
use super::remote;
use super::slot::{Slot, slot};
use crate::errors::Area;
use crate::guard::guard_within;
use crate::relay::{Failure, ReadPurpose, Relay};
use crate::symbols::{Herr, Hid};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// `H5FD_CLASS_VERSION`.
const VERSION: c_uint = 1;
/// The driver's number. 256 to 511 are for unregistered drivers.
const VALUE: c_int = 313;
const NAME: &CStr = c"hyperchunk";
/// `H5F_CLOSE_WEAK`.
const CLOSE_WEAK: c_int = 1;
/// `H5FD_MEM_DRAW`.
const RAW: c_int = 3;
/// `H5FD_MEM_NTYPES`, and `H5FD_MEM_DEFAULT` for each of them.
const MEMORY_TYPE_COUNT: usize = 7;
/// `H5FD_FEAT_ACCUMULATE_METADATA_READ`, `H5FD_FEAT_DATA_SIEVE`, `H5FD_FEAT_DEFAULT_VFD_COMPATIBLE`.
const FEATURES: c_ulong = 0x4 | 0x8 | 0x8000;
/// The largest address.
const MAX_ADDRESS: u64 = i64::MAX as u64;
/// `HADDR_UNDEF`.
const UNDEFINED: u64 = u64::MAX;

/// Size in bytes of a cached block. Smaller reads go through the cache.
const BLOCK_BYTES: usize = 64 << 10;
/// Maximum number of cached blocks for each file.
const MAX_CACHED_BLOCKS: usize = 64;

type Callback = *const c_void;
/// A driver's file, as libhdf5 passes it.
type F = *mut File;

/// `H5FD_class_t`, version 1.
#[repr(C)]
struct Class {
    version: c_uint,
    value: c_int,
    name: *const c_char,
    largest: u64,
    close_degree: c_int,
    terminate: Callback,
    superblock: [Callback; 3],
    info_size: usize,
    info: [Callback; 3],
    transfer_size: usize,
    transfer: [Callback; 2],
    /// open, close, compare, query; the map of kinds, allocate, free; address space and size; handle.
    file: [Callback; 11],
    /// read, write; of vectors, of selections.
    access: [Callback; 6],
    /// flush, truncate, lock, unlock, delete, control.
    rest: [Callback; 6],
    lists: [c_int; MEMORY_TYPE_COUNT],
}

const _: () = assert!(std::mem::offset_of!(Class, terminate) == 32);
const _: () = assert!(std::mem::offset_of!(Class, lists) == 32 + 8 * (1 + 3 + 1 + 3 + 1 + 2 + 11 + 6 + 6));

/// The driver's information in an access list: the file that a program opened, and the command of the relay.
#[derive(Clone, Debug)]
pub(super) struct Info {
    pub(super) url: String,
    pub(super) command: PathBuf,
}

/// `H5FD_t`, whose first part libhdf5 fills, followed by our own fields.
#[repr(C)]
struct File {
    /// The part of libhdf5; longer than in any release.
    public: [u64; 32],
    end: u64,
    info: Info,
    relay: Relay,
    blocks: Mutex<Blocks>,
}

/// Cache of blocks read in small pieces, by block number.
#[derive(Default)]
struct Blocks {
    kept: HashMap<u64, (u64, Arc<[u8]>)>,
    clock: u64,
}

/// Returns the class with the callbacks of slot `L`.
fn class<const L: usize>() -> Class {
    Class {
        version: VERSION,
        value: VALUE,
        name: NAME.as_ptr(),
        largest: MAX_ADDRESS,
        close_degree: CLOSE_WEAK,
        terminate: null(),
        superblock: [null(); 3],
        info_size: size_of::<Info>(),
        info: [file_info as _, info_copy as _, info_free as _],
        transfer_size: 0,
        transfer: [null(); 2],
        file: [
            open::<L> as _,
            close as _,
            compare as _,
            query as _,
            null(),
            null(),
            null(),
            end_of_addresses as _,
            set_end_of_addresses as _,
            end_of_file as _,
            null(),
        ],
        access: [read::<L> as _, write::<L> as _, null(), null(), null(), null()],
        rest: [null(), null(), null(), null(), null(), null()],
        lists: [0; MEMORY_TYPE_COUNT],
    }
}

/// Returns the driver's identifier in this library, registered on first use.
pub(super) fn id(slot: &'static Slot) -> Outcome<Hid> {
    let known = slot.driver();
    if known >= 0 {
        return Ok(known);
    }
    let class = match slot.number() {
        0 => class::<0>(),
        1 => class::<1>(),
        2 => class::<2>(),
        _ => class::<3>(),
    };
    // SAFETY: a live class, which the library copies.
    let id = unsafe { (slot.api.driver_register)((&raw const class).cast()) };
    if id < 0 {
        return Err(ON_ERROR_STACK);
    }
    slot.set_driver(id);
    Ok(id)
}

/// Guard around the callbacks that can fail.
fn enter<const L: usize, T>(failed: T, body: impl FnOnce(&'static Slot) -> Result<T, Failure>) -> T {
    let slot = slot::<L>();
    guard_within(slot.library, Area::Remote, failed, || body(slot))
}

unsafe extern "C" fn open<const L: usize>(name: *const c_char, flags: c_uint, fapl: Hid, _: u64) -> F {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes a NUL-terminated name.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        // SAFETY: any identifier may be asked; the list owns its information.
        let info = unsafe { (slot.api.plist_driver_info)(fapl).cast::<Info>().as_ref() };
        let Some(info) = info else {
            return Err(Failure::new("the access list names this driver, but no file over a network"));
        };
        let shown = remote::redact(&info.url);
        let url = match *name == info.url {
            true => info.url.clone(),
            false => remote::resolve_sibling(&info.url, &name).ok_or_else(|| {
                Failure::new(format!(
                    "{shown} leads to {name}, which is not beside it: a file over a network can only refer to files beside it"
                ))
            })?,
        };
        if flags & 1 != 0 {
            return Err(Failure::new(format!("{shown} is read-only: open it with mode 'r'")));
        }
        let is_beside = *name != info.url;
        if is_beside && slot.has_unreachable() {
            return Err(Failure::new(format!("a file beside {shown} could not be reached a moment ago")));
        }
        let relay = Relay::open(&info.command, &url).inspect_err(|failure| {
            if is_beside && !failure.is_not_found() {
                slot.note_unreachable(failure.to_string());
            }
        })?;
        Ok(Box::into_raw(Box::new(File {
            public: [0; 32],
            end: 0,
            info: Info { url, command: info.command.clone() },
            relay,
            blocks: Mutex::default(),
        })))
    })
}

unsafe extern "C" fn close(file: F) -> Herr {
    // SAFETY: HDF5 gives up a file that open() made.
    let file = unsafe { Box::from_raw(file) };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(file))) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

unsafe extern "C" fn compare(first: F, second: F) -> c_int {
    // SAFETY: HDF5 passes two files that open() made.
    let (one, two) = unsafe { (&*first, &*second) };
    if one.relay.is_same(&two.relay) {
        return 0;
    }
    let key = |file: &File, at: F| (file.relay.identity.as_bytes().to_vec(), file.relay.size, at as usize);
    if key(one, first) < key(two, second) { -1 } else { 1 }
}

unsafe extern "C" fn query(_: F, flags: *mut c_ulong) -> Herr {
    // SAFETY: HDF5 passes a place or null.
    if let Some(flags) = unsafe { flags.as_mut() } {
        *flags = FEATURES;
    }
    0
}

unsafe extern "C" fn end_of_addresses(file: F, _: c_int) -> u64 {
    // SAFETY: HDF5 passes a file that open() made.
    unsafe { (*file).end }
}

unsafe extern "C" fn set_end_of_addresses(file: F, _: c_int, end: u64) -> Herr {
    // SAFETY: HDF5 passes a file that open() made, to one thread at a time.
    unsafe { (*file).end = end };
    0
}

unsafe extern "C" fn end_of_file(file: F, _: c_int) -> u64 {
    // SAFETY: HDF5 passes a file that open() made.
    unsafe { (*file).relay.size }
}

unsafe extern "C" fn file_info(file: F) -> *mut Info {
    // SAFETY: HDF5 passes a file that open() made.
    Box::into_raw(Box::new(unsafe { (*file).info.clone() }))
}

unsafe extern "C" fn info_copy(info: *const Info) -> *mut Info {
    // SAFETY: HDF5 passes an information of ours.
    Box::into_raw(Box::new(unsafe { (*info).clone() }))
}

unsafe extern "C" fn info_free(info: *mut Info) -> Herr {
    // SAFETY: HDF5 gives up an information of ours.
    drop(unsafe { Box::from_raw(info) });
    0
}

unsafe extern "C" fn read<const L: usize>(
    file: F,
    kind: c_int,
    _: Hid,
    address: u64,
    size: usize,
    buffer: *mut u8,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes a file that open() made, and a buffer of that size; with 0 it may be null.
        let (file, buffer) = unsafe {
            (&*file, if size == 0 { &mut [] } else { std::slice::from_raw_parts_mut(buffer, size) })
        };
        if address == UNDEFINED || address.checked_add(size as u64).is_none_or(|end| end > MAX_ADDRESS) {
            return Err(Failure::new(format!("address {address} is larger than HDF5's maximum")));
        }
        let what = if kind == RAW { ReadPurpose::Data } else { ReadPurpose::Structure };
        file.read(address, buffer, what)
            .map_err(|failure| failure.with_range(address, size))
            .inspect_err(|failure| slot.note_unreachable(failure.to_string()))?;
        Ok(0)
    })
}

unsafe extern "C" fn write<const L: usize>(
    file: F,
    _: c_int,
    _: Hid,
    _: u64,
    _: usize,
    _: *const u8,
) -> Herr {
    enter::<L, _>(-1, |_| {
        // SAFETY: HDF5 passes a file that open() made.
        let url = unsafe { remote::redact(&(*file).info.url) };
        Err(Failure::new(format!("{url} is read-only: open it with mode 'r'")))
    })
}

impl File {
    /// Fills a buffer. Bytes past the end of the file read as zeros, as in local files: libhdf5 has checked
    /// that the file is as long as its superblock says.
    fn read(&self, address: u64, buffer: &mut [u8], what: ReadPurpose) -> Result<(), Failure> {
        let available = usize::try_from(self.relay.size.saturating_sub(address)).unwrap_or(usize::MAX);
        let (buffer, past_end) = buffer.split_at_mut(available.min(buffer.len()));
        past_end.fill(0);
        if buffer.len() >= BLOCK_BYTES {
            return self.relay.read(address, buffer, what);
        }
        let (mut at, mut left) = (address, buffer);
        while !left.is_empty() {
            let block = self.block(at / BLOCK_BYTES as u64, what)?;
            let from = usize::try_from(at % BLOCK_BYTES as u64).unwrap_or(0);
            let part = block.get(from..).unwrap_or_default();
            let part = part.get(..left.len().min(part.len())).unwrap_or_default();
            if part.is_empty() {
                return Err(Failure::new("a block is too short"));
            }
            let (to, rest) = left.split_at_mut(part.len());
            to.copy_from_slice(part);
            at = at.saturating_add(part.len() as u64);
            left = rest;
        }
        Ok(())
    }

    fn block(&self, number: u64, what: ReadPurpose) -> Result<Arc<[u8]>, Failure> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.clock = blocks.clock.wrapping_add(1);
        let clock = blocks.clock;
        if let Some((used, block)) = blocks.kept.get_mut(&number) {
            *used = clock;
            return Ok(Arc::clone(block));
        }
        let start = number.saturating_mul(BLOCK_BYTES as u64);
        let length =
            usize::try_from(self.relay.size.saturating_sub(start)).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        let mut bytes = vec![0; length];
        self.relay.read(start, &mut bytes, what)?;
        if blocks.kept.len() >= MAX_CACHED_BLOCKS
            && let Some(oldest) =
                blocks.kept.iter().min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number)
        {
            blocks.kept.remove(&oldest);
        }
        let block: Arc<[u8]> = bytes.into();
        blocks.kept.insert(number, (clock, Arc::clone(&block)));
        Ok(block)
    }
}
