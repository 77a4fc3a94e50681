//! MPI as the program has loaded it, and the functions that only a libhdf5 built with MPI has.
//!
//! Nothing is linked: the functions are looked up in the scope of that libhdf5. A communicator is an `int` in
//! MPICH and a pointer in Open MPI; here it is a machine word, which is passed in the same register.

use super::failure::{Failure, Outcome, done, refuse};
use super::slot::{PropertyList, Slot};
use crate::errors::ErrorStackGuard;
use crate::symbols::{Herr, Hid, functions};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A communicator or datatype of MPI.
type Word = usize;

functions! {
    /// Functions that only a libhdf5 with MPI has.
    Lists:
    get_driver = "H5Pget_fapl_mpio": fn(Hid, *mut Word, *mut Word) -> Herr;
    get_transfer = "H5Pget_dxpl_mpio": fn(Hid, *mut c_int) -> Herr;
    set_transfer = "H5Pset_dxpl_mpio": fn(Hid, c_int) -> Herr;
    set_reads = "H5Pset_all_coll_metadata_ops": fn(Hid, bool) -> Herr;
    set_writes = "H5Pset_coll_metadata_write": fn(Hid, bool) -> Herr;
}

functions! {
    /// MPI functions with which ranks agree.
    Calls:
    size = "MPI_Comm_size": fn(Word, *mut c_int) -> c_int;
    rank = "MPI_Comm_rank": fn(Word, *mut c_int) -> c_int;
    free = "MPI_Comm_free": fn(*mut Word) -> c_int;
    broadcast = "MPI_Bcast": fn(*mut c_void, c_int, Word, c_int, Word) -> c_int;
    all_gather = "MPI_Allgather": fn(*const c_void, c_int, Word, *mut c_void, c_int, Word, Word) -> c_int;
    finalized = "MPI_Finalized": fn(*mut c_int) -> c_int;
    version = "MPI_Get_library_version": fn(*mut c_char, *mut c_int) -> c_int;
}

/// `H5FD_MPIO_INDEPENDENT`, `H5FD_MPIO_COLLECTIVE`.
const INDEPENDENT: c_int = 0;
const COLLECTIVE: c_int = 1;
/// `MPI_BYTE` in MPICH and its ABI-compatible relatives, and in the ABI of the MPI standard.
const BYTE_OF_MPICH: Word = 0x4c00_010d;
const BYTE_OF_STANDARD: Word = 0x247;
/// Larger than `MPI_MAX_LIBRARY_VERSION_STRING` of any implementation.
const MAX_VERSION_BYTES: usize = 16 << 10;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Returns the functions of a libhdf5 that was built with MPI; `None` for any other.
pub(super) fn lists(slot: &Slot) -> Option<Lists> {
    Lists::load(|name| look_up(slot, name), std::ptr::null_mut()).ok()
}

fn look_up(slot: &Slot, name: &str) -> *mut c_void {
    CStr::from_bytes_with_nul(name.as_bytes())
        .map_or(std::ptr::null_mut(), |name| slot.library.optional(name))
}

/// The ranks that open a file together.
pub(super) struct Ranks {
    slot: &'static Slot,
    calls: Calls,
    byte: Word,
    communicator: Word,
    pub(super) size: u32,
    rank: u32,
    /// The access list with which the ranks opened the file.
    list: Option<PropertyList>,
    /// See [`Ranks::independent`].
    transfer: Mutex<Option<PropertyList>>,
}

/// Converts a status of MPI to a result.
fn succeeded(call: &str, status: c_int) -> Outcome<()> {
    if status != 0 {
        refuse!("{call} failed with status {status}")
    }
    Ok(())
}

impl Ranks {
    /// Returns the ranks of an access list that requests MPI-IO; `None` for any other driver. Collective: all
    /// ranks call this.
    pub(super) fn from_access_list(slot: &'static Slot, fapl: Hid) -> Outcome<Option<Self>> {
        let Some(lists) = slot.mpi() else { return Ok(None) };
        let mut communicator = 0;
        let asked = slot.keep_errors(|| {
            // Another driver is not an error.
            let _quiet = ErrorStackGuard::new(slot.library);
            // SAFETY: any identifier may be asked; a live place, which the library fills with a copy that is ours.
            unsafe { (lists.get_driver)(fapl, &raw mut communicator, std::ptr::null_mut()) }
        });
        if asked < 0 {
            return Ok(None);
        }
        let calls = match Calls::load(|name| look_up(slot, name), std::ptr::null_mut()) {
            Ok(calls) => calls,
            Err(missing) => {
                refuse!("cannot find the MPI that {} uses: it lacks {missing}", slot.library.path().display())
            }
        };
        let byte = byte(slot, &calls)?;
        let (mut size, mut rank) = (0, 0);
        // SAFETY: a communicator of the library, live places.
        unsafe {
            succeeded("MPI_Comm_size", (calls.size)(communicator, &raw mut size))?;
            succeeded("MPI_Comm_rank", (calls.rank)(communicator, &raw mut rank))?;
        }
        let number = |number: c_int| u32::try_from(number).unwrap_or(0);
        let (size, rank) = (number(size), number(rank));
        let list = Some(PropertyList::copy(slot, fapl)?);
        Ok(Some(Ranks { slot, calls, byte, communicator, size, rank, list, transfer: Mutex::default() }))
    }

    /// Returns whether this is rank 0, which decides for all ranks.
    pub(super) fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Returns whether MPI can still be called.
    pub(super) fn are_there(&self) -> bool {
        let mut finalized = 0;
        // SAFETY: a live place; this may be called at any time.
        unsafe { (self.calls.finalized)(&raw mut finalized) == 0 && finalized == 0 }
    }

    /// Returns a copy of an access list without MPI-IO, for a file of one rank alone.
    pub(super) fn list_without(&self, fapl: Hid) -> Outcome<PropertyList> {
        let list = PropertyList::copy(self.slot, fapl)?;
        let Some(lists) = self.slot.mpi() else { return Ok(list) };
        // SAFETY: a list of our own.
        unsafe {
            done((self.slot.library.f.plist_set_sec2)(list.id))?;
            done((lists.set_reads)(list.id, false))?;
            done((lists.set_writes)(list.id, false))?;
        }
        Ok(list)
    }

    /// Returns a copy of the access list with which the ranks opened the file.
    pub(super) fn list(&self) -> Outcome<Option<PropertyList>> {
        self.list.as_ref().map(|list| PropertyList::copy(self.slot, list.id)).transpose()
    }

    /// Returns a copy of the transfer list `dxpl` without collective transfers, if `dxpl` requests them,
    /// since the file of a single rank has none. The copy is kept until the next call, because HDF5 writes to
    /// it when the transfer has ended.
    pub(super) fn independent(&self, dxpl: Hid) -> Outcome<Option<Hid>> {
        let Some(lists) = self.slot.mpi() else { return Ok(None) };
        let mut mode = INDEPENDENT;
        // SAFETY: HDF5 passes a transfer list, or 0 for none; a live place.
        if dxpl == 0 || unsafe { (lists.get_transfer)(dxpl, &raw mut mode) } < 0 || mode != COLLECTIVE {
            return Ok(None);
        }
        let list = PropertyList::copy(self.slot, dxpl)?;
        // SAFETY: a list of our own.
        done(unsafe { (lists.set_transfer)(list.id, INDEPENDENT) })?;
        let id = list.id;
        *self.transfer.lock().unwrap_or_else(PoisonError::into_inner) = Some(list);
        Ok(Some(id))
    }

    /// Broadcasts bytes from one rank to all.
    fn broadcast_bytes(&self, by: u32, bytes: &[u8]) -> Outcome<Vec<u8>> {
        let bytes = bytes.get(..bytes.len().min(MAX_MESSAGE_BYTES)).unwrap_or_default();
        let mut length = (bytes.len() as u64).to_ne_bytes();
        self.broadcast(by, &mut length)?;
        let length = usize::try_from(u64::from_ne_bytes(length)).unwrap_or(0).min(MAX_MESSAGE_BYTES);
        let mut all = bytes.to_vec();
        all.resize(length, 0);
        self.broadcast(by, &mut all)?;
        Ok(all)
    }

    fn broadcast(&self, by: u32, bytes: &mut [u8]) -> Outcome<()> {
        if bytes.is_empty() {
            // The address of an empty vector may have a special meaning in MPI.
            return Ok(());
        }
        let count = c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
        let root = c_int::try_from(by).unwrap_or(0);
        let buffer = bytes.as_mut_ptr().cast();
        // SAFETY: a buffer of as many bytes, a communicator that is ours.
        let status = unsafe { (self.calls.broadcast)(buffer, count, self.byte, root, self.communicator) };
        succeeded("MPI_Bcast", status)
    }

    /// Runs `find` at the first rank only, and returns its result or error at all ranks.
    pub(super) fn broadcast_from_first(&self, find: impl FnOnce() -> Outcome<Vec<u8>>) -> Outcome<Vec<u8>> {
        let found = self.is_first().then(find).unwrap_or_else(|| Ok(Vec::new()));
        let found = self.agreed(found, drop)?;
        self.broadcast_bytes(0, &found)
    }

    /// Returns the result if all ranks succeeded. If one failed, all return an error, and `undo` gets the
    /// result of this rank.
    pub(super) fn agreed<T>(&self, mine: Outcome<T>, undo: impl FnOnce(T)) -> Outcome<T> {
        let failed = u8::from(mine.is_err());
        let mut all = vec![0_u8; self.size as usize];
        // SAFETY: one byte from each rank, room for all of them, a communicator that is ours.
        let status = unsafe {
            let (from, to) = ((&raw const failed).cast(), all.as_mut_ptr().cast());
            (self.calls.all_gather)(from, 1, self.byte, to, 1, self.byte, self.communicator)
        };
        succeeded("MPI_Allgather", status)?;
        let Some(first) = all.iter().position(|failed| *failed != 0) else { return mine };
        let first = u32::try_from(first).unwrap_or(0);
        let why = mine.as_ref().err().map(|why| why.text().unwrap_or("see HDF5's error stack on that rank"));
        let why = self.broadcast_bytes(first, why.unwrap_or_default().as_bytes())?;
        match mine {
            Err(error) => Err(error),
            Ok(mine) => {
                undo(mine);
                Err(Failure::from(format!("rank {first} failed: {}", String::from_utf8_lossy(&why))))
            }
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if !self.are_there() {
            // MPI was finalized: the communicator was freed already, and the lists must not be closed.
            let transfer = self.transfer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            for list in self.list.take().into_iter().chain(transfer) {
                list.into_id();
            }
            return;
        }
        drop(self.list.take());
        // SAFETY: a communicator that is ours.
        unsafe { (self.calls.free)(&raw mut self.communicator) };
    }
}

/// Returns `MPI_BYTE` of the MPI that the program has loaded.
fn byte(slot: &Slot, calls: &Calls) -> Outcome<Word> {
    let of_open_mpi = look_up(slot, "ompi_mpi_byte\0");
    if !of_open_mpi.is_null() {
        return Ok(of_open_mpi as Word);
    }
    let mut name = vec![0_u8; MAX_VERSION_BYTES];
    let mut length = 0;
    // SAFETY: a buffer that is longer than any version, and a live place.
    succeeded("MPI_Get_library_version", unsafe {
        (calls.version)(name.as_mut_ptr().cast(), &raw mut length)
    })?;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy();
    if !["MPICH", "Intel", "MVAPICH"].iter().any(|known| name.contains(known)) {
        let name = name.lines().next().unwrap_or_default();
        refuse!(
            "cannot create a store with this MPI library: expected MPICH, Open MPI or a derivative, got {name}"
        )
    }
    // SAFETY: an all-zero Dl_info is valid, and dladdr accepts any address.
    let file = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        match libc::dladdr(calls.broadcast as *const c_void, &raw mut info) {
            0 => None,
            _ => (!info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname).to_owned()),
        }
    };
    let file = file.unwrap_or_default();
    let file = Path::new(OsStr::from_bytes(file.to_bytes())).file_name().unwrap_or_default();
    let standard = file.as_bytes().starts_with(b"libmpi_abi");
    Ok(if standard { BYTE_OF_STANDARD } else { BYTE_OF_MPICH })
}
