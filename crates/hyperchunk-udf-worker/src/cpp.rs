//! C++ back end: a shared object, loaded and run after the lock-down.

mod legacy;

use crate::fail;
use hyperchunk_sandbox as sandbox;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::protocol::Setup;
use hyperchunk_udf::worker::{self, CallSlot, Runtime};
use legacy::LegacyObject;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::OnceLock;

/// Slot, as `cpp/prelude.hpp` declares it.
#[repr(C)]
struct CppSlot {
    name: *const c_char,
    datatype: *const c_char,
    data: *mut c_void,
    rank: u64,
    dims: *const u64,
}

/// Table of slots, as `cpp/prelude.hpp` declares it.
#[repr(C)]
struct CppTable {
    count: u64,
    slots: *const CppSlot,
    file_path: *const c_char,
    connect: Connect,
    starts: *const *const u64,
    /// Seed of the block; −1 if the record has none.
    seed: i64,
    clock: Clock,
    wide: u64,
}

/// Function that returns seconds since 1970, or −1 and a message.
type Clock = unsafe extern "C" fn(*mut c_char, usize) -> f64;
/// Function that returns a connected descriptor, or −1 and a message.
type Connect = unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> c_int;
type Run = unsafe extern "C" fn(*const CppTable, *mut c_char, usize) -> c_int;

/// Loaded function.
#[derive(Debug)]
pub(crate) struct CppRuntime {
    run: Option<Run>,
    legacy: Option<LegacyObject>,
    names: Vec<(CString, CString)>,
    file_path: CString,
    /// Seed of the block, if the record has one.
    seed: Option<u64>,
    /// Set if the function's second version, for AVX2, runs on this processor.
    wide: bool,
}

/// Reason why the function has no clock, if it has none. Set before any of the worker's functions is called.
static NO_CLOCK: OnceLock<Option<String>> = OnceLock::new();

impl CppRuntime {
    /// Loads the C++ library, so that loading the function needs no file.
    ///
    /// # Errors
    /// `Worker` when the machine has no C++ library.
    pub(crate) fn new(setup: &Setup) -> Result<Self> {
        for library in [c"libm.so.6", c"libgcc_s.so.1", c"libstdc++.so.6"] {
            // Lazy binding: a quarter of the loading time is for binding symbols that are never called.
            open(library, libc::RTLD_LAZY)?;
        }
        let c = |text: &str| {
            CString::new(text).map_err(|_| Error::new(ErrorKind::Worker, "a name contains a NUL".to_owned()))
        };
        let names = setup
            .slots
            .iter()
            .map(|s| Ok((c(&s.name)?, c(Datatype::parse(&s.datatype)?.type_name_for_lib())?)))
            .collect::<Result<_>>()?;
        NO_CLOCK.get_or_init(|| setup.no_clock.clone());
        Ok(CppRuntime {
            run: None,
            legacy: None,
            names,
            file_path: c(&setup.file_path)?,
            seed: setup.seed,
            wide: setup.wide,
        })
    }
}

/// Implements `lib.connect` of the prelude.
unsafe extern "C" fn connect(target: *const c_char, message: *mut c_char, size: usize) -> c_int {
    // SAFETY: the prelude gives a NUL-terminated text.
    let target = unsafe { CStr::from_ptr(target) };
    match worker::connect(&target.to_string_lossy()) {
        Ok(fd) => fd.into_raw_fd(),
        Err(error) => {
            // SAFETY: the prelude gives room for `size` bytes.
            unsafe { tell(error.message(), message, size) };
            -1
        }
    }
}

/// Implements `lib.clock` of the prelude.
unsafe extern "C" fn clock(message: *mut c_char, size: usize) -> f64 {
    match NO_CLOCK.get().map(Option::as_deref) {
        Some(None) => worker::now(),
        Some(Some(why)) => {
            // SAFETY: the prelude gives room for `size` bytes.
            unsafe { tell(&format!("lib.clock: {why}"), message, size) };
            -1.0
        }
        None => -1.0,
    }
}

/// Writes as much of a text as fits into `message`, and a terminating zero.
///
/// # Safety
/// `message` has `size` bytes, at least one.
unsafe fn tell(text: &str, message: *mut c_char, size: usize) {
    let length = text.len().min(size.saturating_sub(1));
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), message, length);
        message.add(length).write(0);
    }
}

fn open(path: &CStr, binding: c_int) -> Result<*mut c_void> {
    // SAFETY: a NUL-terminated path. Constructors of the object run here: in this process, locked down if it
    // is the function's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), binding | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: dlerror returns a string or null, valid until the next dl call of this thread.
    let text = unsafe {
        let message = libc::dlerror();
        if message.is_null() {
            "unknown error".into()
        } else {
            CStr::from_ptr(message).to_string_lossy().into_owned()
        }
    };
    fail!(Worker, "cannot load native code: {text}")
}

impl Runtime for CppRuntime {
    fn sandbox_runtime(&self) -> sandbox::Runtime {
        sandbox::Runtime::Cpp
    }

    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()> {
        let Some(object) = compiled else { fail!(Worker, "the set-up has no compiled form") };
        let path = CString::new(format!("/proc/self/fd/{}", object.as_raw_fd())).unwrap_or_default();
        let handle = open(&path, libc::RTLD_NOW)?;
        if setup.source.is_empty() {
            self.legacy = Some(LegacyObject::new(handle)?);
            return Ok(sandbox::end_loading(sandbox::Runtime::Cpp, &setup.grants.rights())?);
        }
        // Each takes a table; functions of older versions know only its first fields.
        let symbol = [c"hyperchunk_run_3", c"hyperchunk_run_2", c"hyperchunk_run"]
            .into_iter()
            // SAFETY: a live handle and a NUL-terminated name.
            .map(|name| unsafe { libc::dlsym(handle, name.as_ptr()) })
            .find(|symbol| !symbol.is_null());
        let Some(symbol) = symbol else {
            fail!(Failed, "the compiled form has no entry point; attach the function again")
        };
        sandbox::end_loading(sandbox::Runtime::Cpp, &setup.grants.rights())?;
        // SAFETY: the prelude defines the symbol with this type. A false object harms only this locked-down
        // process.
        self.run = Some(unsafe { std::mem::transmute::<*mut c_void, Run>(symbol) });
        Ok(())
    }

    fn seed(&mut self, seed: u64) -> Result<()> {
        self.seed = self.seed.map(|_| seed);
        // SAFETY: no preconditions; the function's `rand` is the one of this C library.
        unsafe { libc::srand(u32::try_from(seed & 0xffff_ffff).unwrap_or(0)) };
        Ok(())
    }

    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        if let Some(legacy) = &mut self.legacy {
            legacy.call(slots, &self.names, &self.file_path);
            // SAFETY: flushing every C stream has no preconditions.
            unsafe { libc::fflush(std::ptr::null_mut()) };
            return Ok(());
        }
        let rows: Vec<CppSlot> = slots
            .iter()
            .zip(&self.names)
            .map(|(s, (name, datatype))| CppSlot {
                name: name.as_ptr(),
                datatype: datatype.as_ptr(),
                data: s.data.cast(),
                rank: s.dims.len() as u64,
                dims: s.dims.as_ptr(),
            })
            .collect();
        let starts: Vec<_> = slots.iter().map(|s| s.start.as_ptr()).collect();
        let table = CppTable {
            count: rows.len() as u64,
            slots: rows.as_ptr(),
            file_path: self.file_path.as_ptr(),
            connect,
            starts: starts.as_ptr(),
            seed: self.seed.and_then(|seed| i64::try_from(seed).ok()).unwrap_or(-1),
            clock,
            wide: u64::from(self.wide),
        };
        let mut text = [0u8; 1024];
        let Some(run) = self.run else { fail!(Worker, "the function was called before it was loaded") };
        // SAFETY: the table and the text buffer outlive the call; see load() for the function itself.
        let rc = unsafe { run(&raw const table, text.as_mut_ptr().cast(), text.len()) };
        // SAFETY: flushing every C stream has no preconditions.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        if rc == 0 {
            return Ok(());
        }
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        fail!(Failed, "{}", String::from_utf8_lossy(text.get(..end).unwrap_or_default()))
    }
}
