//! Finding libhdf5: the copy that called a plugin, or all copies in this process.

use crate::errors::{Area, Ids};
use crate::static_symbols::{Symbols, prefix_in};
use crate::symbols::{Functions, Hid};
use crate::{Result, fail};
use hyperchunk_udf::host::object_path;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

/// One libhdf5 loaded in this process. A process can have several (h5py's and netCDF4's, say); each has its
/// own identifiers.
#[allow(missing_debug_implementations, reason = "a table of function pointers")]
pub struct Library {
    pub(crate) f: Functions,
    base: usize,
    symbols: Symbols,
    path: PathBuf,
    /// Cached address of `H5Fget_fileno`: 0 if not yet looked up, 1 if absent.
    pub(crate) fileno: AtomicUsize,
    pub(crate) error_ids: Mutex<Vec<(Area, Ids)>>,
}

static LIBRARIES: Mutex<Vec<&'static Library>> = Mutex::new(Vec::new());
thread_local! {
    /// The last result of [`Library::that_contains`] in this thread: an address and its library.
    static LAST: Cell<Option<(usize, &'static Library)>> = const { Cell::new(None) };
}

impl Library {
    /// Finds the library whose code contains `address`, such as the return address of a callback.
    ///
    /// # Errors
    /// `NotFound` if it is not a libhdf5, or lacks a function that we need.
    pub fn that_contains(address: usize) -> Result<&'static Library> {
        if let Some((last, library)) = LAST.get()
            && last == address
        {
            return Ok(library);
        }
        // SAFETY: all-zero is a valid Dl_info.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: any address may be asked about.
        if unsafe { libc::dladdr(address as *const c_void, &raw mut info) } == 0 || info.dli_fname.is_null() {
            fail!(NotFound, "the caller is not in a loaded library")
        }
        // SAFETY: a NUL-terminated string of the loader.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        // The loader's path may be relative to an earlier working directory.
        let file = || object_path(name, address);
        let library = Library::register(info.dli_fbase as usize, name, file, || {
            let path = file().and_then(|p| CString::new(p.into_os_string().into_vec()).ok());
            for name in [Some(name), path.as_deref()].into_iter().flatten() {
                // SAFETY: the name is live; NOLOAD loads nothing.
                let loaded = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
                if !loaded.is_null() {
                    return loaded;
                }
            }
            // libhdf5 is linked into the program itself.
            // SAFETY: null asks for the main program.
            unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) }
        })?;
        LAST.set(Some((address, library)));
        Ok(library)
    }

    fn register(
        base: usize,
        name: &CStr,
        file: impl FnOnce() -> Option<PathBuf>,
        open: impl FnOnce() -> *mut c_void,
    ) -> Result<&'static Library> {
        let mut list = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = list.iter().find(|l| l.base == base) {
            return Ok(library);
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let symbols = Symbols::open(open(), base, file().as_deref())?;
        let f = Functions::load(|symbol| symbols.look_up_for_table(symbol), symbols.absent());
        let f = match f {
            Ok(f) => f,
            Err(missing) => {
                fail!(NotFound, "{} lacks {missing}; HDF5 1.10.3 or newer is needed", path.display())
            }
        };
        let library: &'static Library = Box::leak(Box::new(Library {
            f,
            base,
            symbols,
            path,
            fileno: AtomicUsize::new(0),
            error_ids: Mutex::default(),
        }));
        // SAFETY: no arguments; initialises the library if that has not happened yet.
        unsafe { (library.f.open)() };
        list.push(library);
        Ok(library)
    }

    /// Returns the path of the library's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the load address, which is unique among the libhdf5 of this process.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Returns the library's version.
    pub fn version(&self) -> (c_uint, c_uint, c_uint) {
        let (mut a, mut b, mut c) = (0, 0, 0);
        // SAFETY: three live integers.
        unsafe { (self.f.version)(&raw mut a, &raw mut b, &raw mut c) };
        (a, b, c)
    }

    /// Looks up a function or global that not every version has.
    pub(crate) fn optional(&self, name: &CStr) -> *mut c_void {
        self.symbols.look_up(name)
    }

    /// Returns the value of a global identifier such as `H5T_NATIVE_FLOAT_g`.
    ///
    /// A program that refers to the global has its own copy of the variable (a COPY relocation), which
    /// libhdf5 sets, while the library's variable stays -1. So the program's is read first, if its `H5open`
    /// is this library's.
    ///
    /// # Errors
    /// `NotFound` if the library has no such global.
    pub(crate) fn global(&self, name: &CStr) -> Result<Hid> {
        let of_program = match self.symbols.is_program() {
            true => std::ptr::null_mut(),
            // SAFETY: look-ups of names; null asks for the main program.
            false => unsafe {
                let main = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
                let shared =
                    !main.is_null() && libc::dlsym(main, c"H5open".as_ptr()) == self.optional(c"H5open");
                if shared { libc::dlsym(main, name.as_ptr()) } else { std::ptr::null_mut() }
            },
        };
        let variable = if of_program.is_null() { self.optional(name) } else { of_program }.cast::<Hid>();
        // SAFETY: HDF5 declares its globals of this name as hid_t.
        match unsafe { variable.as_ref() } {
            Some(id) => Ok(*id),
            None => fail!(NotFound, "{} lacks {}", self.path.display(), name.to_string_lossy()),
        }
    }
}

/// Returns every libhdf5 loaded in this process.
pub fn loaded() -> Vec<&'static Library> {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> i32 {
        // SAFETY: dl_iterate_phdr passes a live row and our own vector.
        unsafe {
            let (name, names) = ((*info).dlpi_name, &mut *names.cast::<Vec<CString>>());
            if !name.is_null() {
                names.push(CStr::from_ptr(name).to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback gets the vector that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    let is_hdf5 = |n: &&CString| {
        let path = n.to_string_lossy();
        let file = path.rsplit('/').next().unwrap_or("");
        file.contains("hdf5") && !file.contains("_hl") && !file.contains("_cpp") && !file.contains("_fortran")
    };
    let found = names.iter().filter(is_hdf5).filter_map(|name| {
        // SAFETY: NOLOAD loads nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: a live handle and a NUL-terminated name.
        let inside = unsafe { libc::dlsym(handle, c"H5open".as_ptr()) };
        if !inside.is_null() {
            return Library::that_contains(inside as usize).ok();
        }
        // A libhdf5 whose symbols have a prefix.
        let prefix = prefix_in(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))).ok()??;
        let open = CString::new(format!("{prefix}H5open")).ok()?;
        // SAFETY: as above.
        Library::that_contains(unsafe { libc::dlsym(handle, open.as_ptr()) } as usize).ok()
    });
    // Looking up a name in a library that depends on libhdf5 finds libhdf5, too, so there may be duplicates.
    let mut libraries: Vec<&'static Library> = Vec::new();
    for library in found {
        if !libraries.iter().any(|known| known.base == library.base) {
            libraries.push(library);
        }
    }
    libraries
}

/// Prepends `folder` to the plugin search path of each loaded libhdf5; returns the number of libraries.
pub fn prepend_plugin_folder(folder: &CStr) -> usize {
    type Prepend = unsafe extern "C" fn(*const c_char) -> i32;
    let told = loaded().into_iter().filter(|library| {
        let symbol = library.optional(c"H5PLprepend");
        if symbol.is_null() {
            return false;
        }
        // SAFETY: H5PLprepend has had this signature since 1.10.1.
        unsafe { std::mem::transmute::<*mut c_void, Prepend>(symbol)(folder.as_ptr()) >= 0 }
    });
    told.count()
}
