//! Opening and creating files, and queries about files by name.

use super::api::{Name, P};
use super::failure::{ON_ERROR_STACK, Outcome, refuse};
use super::info::Info;
use super::object::{Object, wrap_internally};
use super::options::Options;
use super::remote;
use super::slot::{NO_REQUEST, PropertyList, Slot, enter};
use super::store;
use crate::symbols::{Herr, Hid};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::null_mut;

/// `H5VL_file_specific_t`.
const FLUSH: c_int = 0;
const REOPEN: c_int = 1;
const IS_ACCESSIBLE: c_int = 2;
const DELETE: c_int = 3;

/// `H5VL_file_specific_args_t` of the operations that name a file.
#[repr(C)]
#[derive(Clone, Copy)]
struct NamedFileArguments {
    operation: c_int,
    name: Name,
    fapl: Hid,
    accessible: *mut bool,
}

/// `H5VL_file_specific_args_t` of a reopen.
#[repr(C)]
pub(super) struct ReopenArguments {
    pub(super) operation: c_int,
    pub(super) file: *mut P,
}

/// `H5I_FILE`.
const FILE: c_int = 1;
/// `H5VL_NATIVE_FILE_GET_MPI_ATOMICITY` and `H5VL_NATIVE_FILE_SET_MPI_ATOMICITY`.
const GET_ATOMICITY: c_int = 26;
const SET_ATOMICITY: c_int = 27;
/// `H5VL_NATIVE_FILE_POST_OPEN`.
const POST_OPEN: c_int = 28;
/// `H5F_ACC_RDWR`, `H5F_ACC_SWMR_WRITE`, `H5F_ACC_SWMR_READ`.
const INTENTS: c_uint = 0x61;
const WRITES: c_uint = 1;
/// `H5F_ACC_CREAT`.
const CREATES: c_uint = 0x10;
const GET_FAPL: c_int = 1;
const GET_INTENT: c_int = 4;
const GET_NAME: c_int = 5;

/// `H5VL_file_get_args_t` with an identifier or an address.
#[repr(C)]
struct GetArguments {
    operation: c_int,
    answer: i64,
}

/// `H5VL_file_get_args_t` for a name. The fields after the operation are aligned to 8.
#[repr(C)]
struct GetNameArguments {
    operation: i64,
    kind: c_int,
    size: usize,
    buffer: *mut c_char,
    length: *mut usize,
}

/// `H5VL_optional_args_t` for atomic transfers: the address of the result, or the new value.
#[repr(C)]
struct AtomicityArguments {
    operation: c_int,
    args: *mut AtomicityFlag,
}

/// See [`AtomicityArguments`].
#[repr(C)]
union AtomicityFlag {
    answer: *mut bool,
    wish: bool,
}

/// Our information from an access list, and a copy of the list for the connector below.
pub(super) struct LowerAccess {
    pub(super) fapl: PropertyList,
    pub(super) vol: Hid,
    pub(super) options: Options,
}

impl LowerAccess {
    fn from_access_list(slot: &'static Slot, fapl: Hid) -> Outcome<Self> {
        let info = Info::from_access_list(slot, fapl);
        let options = info.as_ref().map(|info| info.options.clone()).unwrap_or_default();
        let (vol, under_info) = match &info {
            Some(info) => (info.vol, info.under),
            None => (slot.native()?, null_mut()),
        };
        let fapl = PropertyList::copy(slot, fapl)?;
        // SAFETY: a list of our own, and information that the connector below understands; HDF5 copies it.
        if unsafe { (slot.api.plist_set_vol)(fapl.id, vol, under_info) } < 0 {
            return Err(ON_ERROR_STACK);
        }
        Ok(LowerAccess { fapl, vol, options })
    }
}

/// Rejects, before anything is written, a name with symbolic links that another user could redirect.
fn check_links(name: &CStr) -> Outcome<()> {
    if remote::url(name).is_none() {
        hyperchunk::output::target(Path::new(OsStr::from_bytes(name.to_bytes())))?;
    }
    Ok(())
}

pub(super) unsafe extern "C" fn file_create<const L: usize>(
    name: Name,
    flags: c_uint,
    fcpl: Hid,
    fapl: Hid,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        let below = LowerAccess::from_access_list(slot, fapl)?;
        // SAFETY: HDF5 passes a NUL-terminated name.
        let call = store::FileCall { name: unsafe { CStr::from_ptr(name) }, flags, fcpl, dxpl };
        check_links(call.name)?;
        remote::attach(slot, &below, call.name, CREATES)?;
        if let Some(made) = store::create(slot, &below, &below.options, call)? {
            return Ok(made);
        }
        // SAFETY: the arguments are passed on unchanged, except for the access list.
        let under = unsafe { (slot.api.file_create)(name, flags, fcpl, below.fapl.id, dxpl, NO_REQUEST) };
        Ok(Object::wrap(under, below.vol, None, None))
    })
}

pub(super) unsafe extern "C" fn file_open<const L: usize>(
    name: Name,
    flags: c_uint,
    fapl: Hid,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        let below = LowerAccess::from_access_list(slot, fapl)?;
        // SAFETY: HDF5 passes a NUL-terminated name.
        let call = store::FileCall { name: unsafe { CStr::from_ptr(name) }, flags, fcpl: 0, dxpl };
        if flags & WRITES != 0 {
            check_links(call.name)?;
        }
        let remote = remote::resolve(&below, call.name)?;
        let name = remote.as_deref().unwrap_or(call.name).as_ptr();
        if let Some(url) = &remote {
            remote::attach(slot, &below, url, flags)?;
        } else if let Some(made) = store::open(slot, &below, &below.options, call)? {
            return Ok(made);
        }
        // SAFETY: the arguments are passed on unchanged, except for the access list.
        let under = unsafe { (slot.api.file_open)(name, flags, below.fapl.id, dxpl, NO_REQUEST) };
        Ok(Object::wrap(under, below.vol, None, None))
    })
}

pub(super) unsafe extern "C" fn file_specific<const L: usize>(object: P, args: P, dxpl: Hid, _: P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: every variant of the arguments begins with its operation.
        let operation = unsafe { *args.cast::<c_int>() };
        let call = slot.api.file_specific;
        if matches!(operation, IS_ACCESSIBLE | DELETE) {
            // SAFETY: arguments of an operation that names a file; DELETE's lack the last field, which is not read.
            let (name, fapl) = unsafe {
                let named = args.cast::<NamedFileArguments>();
                ((*named).name, (*named).fapl)
            };
            let accessible = match operation {
                // SAFETY: as above.
                IS_ACCESSIBLE => unsafe { (*args.cast::<NamedFileArguments>()).accessible },
                _ => null_mut(),
            };
            if operation == IS_ACCESSIBLE && slot.is_searched() {
                // SAFETY: HDF5 passes a NUL-terminated name and a live place.
                unsafe { *accessible = claims(slot, CStr::from_ptr(name)) };
                return Ok(0);
            }
            // After a native open that failed, HDF5 asks every connector that it finds, and reports the first
            // failure, so earlier messages are kept.
            return slot.keep_earlier_errors(|| {
                let below = LowerAccess::from_access_list(slot, fapl)?;
                // SAFETY: HDF5 passes a NUL-terminated name.
                let given = unsafe { CStr::from_ptr(name) };
                let remote = if operation == DELETE { None } else { remote::resolve(&below, given)? };
                let given = remote.as_deref().unwrap_or(given);
                remote::attach(slot, &below, given, if operation == DELETE { CREATES } else { 0 })?;
                let name = given.as_ptr();
                let mut named = NamedFileArguments { operation, name, fapl: below.fapl.id, accessible };
                // SAFETY: no object, as HDF5 itself calls it; our own live arguments.
                Ok(unsafe { call(null_mut(), below.vol, (&raw mut named).cast(), dxpl, NO_REQUEST) })
            });
        }
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        let vol = ours.vol;
        // SAFETY: the arguments are passed on unchanged; the object of an is_equal is unwrapped already.
        let status = unsafe { call(ours.under, vol, args, dxpl, NO_REQUEST) };
        if operation == FLUSH
            && status >= 0
            && let Some(file) = &ours.file
        {
            file.flush_together()?;
        }
        if operation == REOPEN && status >= 0 {
            // SAFETY: arguments of a reopen, whose file is now one of the connector below.
            unsafe {
                let file = (*args.cast::<ReopenArguments>()).file;
                *file = Object::wrap(*file, vol, ours.file.as_ref(), None);
            }
        }
        Ok(status)
    })
}

/// Returns whether HDF5's search for a connector should end here: native HDF5 cannot read the file (it is
/// over a network, a link to such a file, or a sharded store), and this release passes it to the connector
/// that it found. If the release does not, adds advice to the error stack.
fn claims(slot: &Slot, name: &CStr) -> bool {
    let ours = remote::url(name).is_some() || remote::link(name).is_some() || store::is_store_named(name);
    if ours && !slot.registers_found {
        slot.add_error(format!(
            "cannot open {}: expected the connector by name, got HDF5's search for one; set HDF5_VOL_CONNECTOR=hyperchunk (hyperchunk env --vol)",
            name.to_string_lossy()
        ));
    }
    ours && slot.registers_found
}

/// Returns the kind of object whose name is requested.
fn requested_kind(args: P) -> c_int {
    // SAFETY: called with the arguments of that operation.
    unsafe { (*args.cast::<GetNameArguments>()).kind }
}

/// Answers queries about a store's file with the application's own name and mode, instead of the skeleton's.
pub(super) unsafe extern "C" fn file_get<const L: usize>(object: P, args: P, dxpl: Hid, _: P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        // SAFETY: every variant of the arguments begins with its operation.
        let operation = unsafe { *args.cast::<c_int>() };
        match (&ours.file, operation) {
            (Some(file), GET_NAME) if file.contains_object(ours.under, ours.vol, requested_kind(args)) => {
                let name = file.given.as_bytes();
                // SAFETY: arguments of this operation: a buffer of the given size, or none, and an address
                // for the length.
                unsafe {
                    let args = &*args.cast::<GetNameArguments>();
                    if !args.buffer.is_null() && args.size > 0 {
                        let part = name.len().min(args.size.saturating_sub(1));
                        std::ptr::copy_nonoverlapping(name.as_ptr(), args.buffer.cast(), part);
                        *args.buffer.add(part) = 0;
                    }
                    if let Some(length) = args.length.as_mut() {
                        *length = name.len();
                    }
                }
                return Ok(0);
            }
            (Some(file), GET_INTENT)
                if file.flags & WRITES == 0 && file.contains_object(ours.under, ours.vol, FILE) =>
            {
                // SAFETY: arguments of this operation: a place for flags.
                unsafe { *((*args.cast::<GetArguments>()).answer as *mut c_uint) = file.flags & INTENTS };
                return Ok(0);
            }
            // With MPI ranks, the file below has another driver.
            (Some(file), GET_FAPL) => {
                if let Some(list) = file.list()? {
                    // SAFETY: arguments of this operation: a place for an identifier.
                    unsafe { (*args.cast::<GetArguments>()).answer = list.into_id() };
                    return Ok(0);
                }
            }
            _ => {}
        }
        // SAFETY: the arguments are passed on unchanged.
        Ok(unsafe { (slot.api.file_get)(ours.under, ours.vol, args, dxpl, NO_REQUEST) })
    })
}

pub(super) unsafe extern "C" fn file_optional<const L: usize>(object: P, args: P, dxpl: Hid, _: P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours, and arguments that begin with their operation.
        let (ours, operation) = unsafe { (Object::from_pointer(object), *args.cast::<c_int>()) };
        if matches!(operation, GET_ATOMICITY | SET_ATOMICITY)
            && ours.file.as_ref().is_some_and(|file| file.has_ranks())
        {
            // SAFETY: arguments of these operations.
            unsafe {
                let flag = (*args.cast::<AtomicityArguments>()).args;
                if operation == GET_ATOMICITY {
                    *(*flag).answer = false;
                } else if (*flag).wish {
                    refuse!(
                        "H5Fset_mpi_atomicity: a sharded store has no atomic mode: ranks that write the same elements differ when it is committed"
                    )
                }
            }
            return Ok(0);
        }
        // SAFETY: the arguments are passed on unchanged.
        let call = || unsafe { (slot.api.file_optional)(ours.under, ours.vol, args, dxpl, NO_REQUEST) };
        Ok(if operation == POST_OPEN { wrap_internally(call) } else { call() })
    })
}
