//! The slot of each libhdf5 of the process: its functions, its connector class, and the connectors below.

use super::api::{Api, P};
use super::class::{Class, class};
use super::failure::{Failure, ON_ERROR_STACK, Outcome};
use super::mpi;
use crate::errors::Area;
use crate::guard::guard_in;
use crate::library::Library;
use crate::symbols::Hid;
use crate::{Result, fail};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Maximum number of libhdf5 in one process that can use the connector.
const MAX_LIBRARIES: usize = 4;
/// `H5_VOL_NATIVE`.
pub(super) const NATIVE: c_int = 0;

/// The connector's state for one libhdf5.
pub(super) struct Slot {
    pub(super) library: &'static Library,
    pub(super) api: Api,
    pub(super) class: Class,
    /// The native connector, or -1 before the first use.
    native: AtomicI64,
    /// The index of the slot.
    number: usize,
    /// The driver of files over a network, or -1 before the first use.
    driver: AtomicI64,
    /// The error of a file that could not be read, to which a file over a network refers.
    unreachable: Mutex<Option<String>>,
    /// True if `unreachable` was set in this call.
    noted: AtomicBool,
    /// True if a file found by a search for a connector is registered with the connector that opened it. HDF5
    /// 2.0 to 2.2 register it with the native one, which takes our object for its own and crashes.
    pub(super) registers_found: bool,
    /// Identifiers of other connectors below ours, by value; one reference each until the library closes.
    others: Mutex<Vec<(c_int, Hid)>>,
    /// The library's MPI functions, if it was built with MPI.
    mpi: OnceLock<Option<mpi::Lists>>,
}

// SAFETY: the class points to constants and code.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

static TABLE: [OnceLock<Slot>; MAX_LIBRARIES] = [const { OnceLock::new() }; MAX_LIBRARIES];
static FILLING: Mutex<()> = Mutex::new(());

/// Returns the connector class for a library, which gets a slot on the first call.
pub(super) fn class_for(library: &'static Library) -> Result<*const Class> {
    let _one_at_a_time = FILLING.lock().unwrap_or_else(PoisonError::into_inner);
    for (number, cell) in TABLE.iter().enumerate() {
        if let Some(slot) = cell.get() {
            if slot.library.base() == library.base() {
                return Ok(&raw const slot.class);
            }
            continue;
        }
        let look_up = |name: &str| {
            CStr::from_bytes_with_nul(name.as_bytes())
                .map_or(std::ptr::null_mut(), |name| library.optional(name))
        };
        let api = Api::load(look_up, std::ptr::null_mut());
        let api = match api {
            Ok(api) => api,
            Err(missing) => fail!(
                NotFound,
                "{} lacks {missing}; the connector needs HDF5 1.14 or newer",
                library.path().display()
            ),
        };
        let class = match number {
            0 => class::<0>(),
            1 => class::<1>(),
            2 => class::<2>(),
            _ => class::<3>(),
        };
        // HDF5 may load a plugin in the middle of a failed operation, and the version query clears the error
        // stack.
        // SAFETY: takes the current stack as a stack of its own, which becomes the current one again.
        let version = unsafe {
            let errors = (api.error_take)();
            let version = library.version();
            (api.error_put)(errors);
            version
        };
        let registers_found = version < (1, 15, 0);
        let slot = cell.get_or_init(|| Slot {
            library,
            api,
            class,
            native: AtomicI64::new(-1),
            number,
            driver: AtomicI64::new(-1),
            unreachable: Mutex::default(),
            noted: AtomicBool::new(false),
            registers_found,
            others: Mutex::default(),
            mpi: OnceLock::new(),
        });
        return Ok(&raw const slot.class);
    }
    fail!(Limit, "more than {MAX_LIBRARIES} different libhdf5 in one process ask for the connector")
}

/// Returns the slot of the callbacks with the constant `L`. They run only after their class was handed out.
pub(super) fn slot<const L: usize>() -> &'static Slot {
    match TABLE.get(L).and_then(OnceLock::get) {
        Some(slot) => slot,
        None => unreachable!("a callback of a class that was not handed out"),
    }
}

/// Guard around every callback: returns `failed` when `body` fails or panics.
pub(super) fn enter<const L: usize, T>(failed: T, body: impl FnOnce(&'static Slot) -> Outcome<T>) -> T {
    super::object::set_file_requested(false);
    slot::<L>().forget_unreachable();
    enter_within::<L, T>(failed, body)
}

/// Like [`enter`], for callbacks that the library calls in the middle of another operation.
pub(super) fn enter_within<const L: usize, T>(
    failed: T,
    body: impl FnOnce(&'static Slot) -> Outcome<T>,
) -> T {
    let slot = slot::<L>();
    guard_in(slot.library, Area::Store, failed, || body(slot).map_err(Failure::reason))
}

impl Slot {
    /// Returns the identifier of the connector with that value. It is kept until the library closes, so that
    /// objects need no reference each.
    pub(super) fn connector(&self, value: c_int) -> Outcome<Hid> {
        if value == NATIVE {
            let known = self.native.load(Ordering::Relaxed);
            if known >= 0 {
                return Ok(known);
            }
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = others.iter().find(|(of, _)| *of == value) {
            return Ok(*id);
        }
        // SAFETY: no pointers; 0 is the default list.
        let id = unsafe { (self.api.connector_by_value)(value, 0) };
        if id < 0 {
            return Err(ON_ERROR_STACK);
        }
        if value == NATIVE {
            self.native.store(id, Ordering::Relaxed);
        }
        others.push((value, id));
        Ok(id)
    }

    /// Returns the MPI functions of a libhdf5 that was built with MPI.
    pub(super) fn mpi(&self) -> Option<&mpi::Lists> {
        self.mpi.get_or_init(|| mpi::lists(self)).as_ref()
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Returns the driver of files over a network; negative before it is registered.
    pub(super) fn driver(&self) -> Hid {
        self.driver.load(Ordering::Relaxed)
    }

    pub(super) fn set_driver(&self, id: Hid) {
        self.driver.store(id, Ordering::Relaxed);
    }

    /// Records, until the next call, the error of a file to which a file over a network refers, for
    /// [`Slot::reached`]: libhdf5 treats a source of a virtual dataset that it cannot open as missing.
    pub(super) fn note_unreachable(&self, why: String) {
        *self.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.noted.store(true, Ordering::Relaxed);
    }

    /// Returns whether an error was recorded in this call, so that a further file need not be waited for.
    pub(super) fn has_unreachable(&self) -> bool {
        self.noted.load(Ordering::Relaxed)
    }

    fn forget_unreachable(&self) {
        if self.noted.swap(false, Ordering::Relaxed) {
            *self.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Returns a result derived from the sources of a virtual dataset, or an error if a source could not be
    /// read.
    pub(super) fn reached<T>(&self, result: T) -> Outcome<T> {
        if !self.has_unreachable() {
            return Ok(result);
        }
        let why = self.unreachable.lock().unwrap_or_else(PoisonError::into_inner).take();
        super::failure::refuse!(
            "a source of this virtual dataset cannot be read: {}",
            why.unwrap_or_default()
        )
    }

    /// Returns the native connector.
    pub(super) fn native(&self) -> Outcome<Hid> {
        self.connector(NATIVE)
    }

    /// Returns a default list, such as `H5P_LST_LINK_ACCESS_ID_g`; calls between connectors do not accept 0
    /// for it.
    pub(super) fn default_list(&self, name: &CStr) -> Outcome<Hid> {
        match self.library.global(name) {
            Ok(list) => Ok(list),
            Err(error) => super::failure::refuse!("{error}"),
        }
    }

    /// Runs HDF5 calls that clean up, and keeps the error stack. Otherwise they would clear it, and errno
    /// with it.
    pub(super) fn keep_errors<T>(&self, clean_up: impl FnOnce() -> T) -> T {
        // SAFETY: takes the current stack as a stack of its own.
        let errors = unsafe { (self.api.error_take)() };
        let result = clean_up();
        // SAFETY: the stack from above becomes the current one, which closes it.
        unsafe { (self.api.error_put)(errors) };
        result
    }

    /// Returns whether HDF5 is searching its plugin folders for a connector that can open a file which the
    /// native one could not.
    ///
    /// The search pauses the error stack (2.0 and newer) or leaves the failure on it (1.14), while a query by
    /// the application begins with an empty stack. There is no search if the default connector is not the
    /// native one. Leaves the error stack unchanged.
    pub(super) fn is_searched(&self) -> bool {
        let paused = crate::errors::is_paused(self.library);
        // SAFETY: takes the current stack as a stack of its own, counts it, and puts it back at the end; live
        // places; the identifier of the connector is closed.
        unsafe {
            let errors = (self.api.error_take)();
            let failed = paused || (self.api.error_count)(errors) > 0;
            let (mut id, mut value) = (-1, -1);
            if failed
                && let Ok(list) = self.default_list(c"H5P_LST_FILE_ACCESS_ID_g")
                && (self.api.plist_vol)(list, &raw mut id) >= 0
            {
                (self.api.connector_value)(id, &raw mut value);
                (self.api.connector_close)(id);
            }
            (self.api.error_put)(errors);
            failed && value == NATIVE
        }
    }

    /// Adds a message to the error stack, even if that is paused.
    pub(super) fn add_error(&self, message: String) {
        // SAFETY: takes the current stack as a stack of its own, which becomes the current one again.
        unsafe {
            let errors = (self.api.error_take)();
            crate::errors::push_on(self.library, errors, Area::Store, message);
            (self.api.error_put)(errors);
        }
    }

    /// Runs `body`, which HDF5 calls after a failure to try an alternative, and keeps the earlier errors.
    pub(super) fn keep_earlier_errors<T>(&self, body: impl FnOnce() -> T) -> T {
        // SAFETY: takes the current stack as a stack of its own, and counts it.
        let (errors, earlier) = unsafe {
            let errors = (self.api.error_take)();
            (errors, (self.api.error_count)(errors))
        };
        if earlier <= 0 {
            // SAFETY: the stack from above.
            unsafe { (self.api.error_close)(errors) };
            return body();
        }
        let result = body();
        // SAFETY: the stack from above becomes the current one, which closes it.
        unsafe { (self.api.error_put)(errors) };
        result
    }

    /// Forgets the identifiers when the library closes, which invalidates them.
    pub(super) fn forget(&self) {
        self.native.store(-1, Ordering::Relaxed);
        self.driver.store(-1, Ordering::Relaxed);
        self.others.lock().unwrap_or_else(PoisonError::into_inner).clear();
        super::store::forget(self);
        crate::errors::forget(self.library);
    }
}

/// A property list that is closed on drop, without a change to the error stack.
pub(super) struct PropertyList {
    pub(super) slot: &'static Slot,
    pub(super) id: Hid,
}

impl PropertyList {
    /// Copies a list.
    pub(super) fn copy(slot: &'static Slot, plist: Hid) -> Outcome<Self> {
        // SAFETY: any identifier may be asked for a copy.
        let id = unsafe { (slot.api.plist_copy)(plist) };
        if id < 0 { Err(ON_ERROR_STACK) } else { Ok(PropertyList { slot, id }) }
    }
}

impl PropertyList {
    /// Returns the identifier, which the caller must close.
    pub(super) fn into_id(self) -> Hid {
        let id = self.id;
        std::mem::forget(self);
        id
    }
}

impl Drop for PropertyList {
    fn drop(&mut self) {
        // SAFETY: the list is ours and open.
        self.slot.keep_errors(|| unsafe { (self.slot.api.plist_close)(self.id) });
    }
}

/// Null, for request arguments that our callbacks ignore and do not pass on.
pub(super) const NO_REQUEST: P = std::ptr::null_mut();
