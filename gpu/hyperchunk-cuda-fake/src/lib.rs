//! A fake CUDA driver without a GPU, only for tests: it has the interface of `libcuda.so.1`, with one
//! simulated GPU.
//!
//! Kernels really run: their PTX is interpreted on the CPU ([the subset](ptx) that NVRTC produces for plain
//! kernels), so that tests compare values. Device memory has its own addresses, each access is checked, and
//! addresses are never reused: freed memory stays invalid. Asynchronous work is deferred until a wait for it,
//! so that a missing wait shows in the values. Every mistake is one of CUDA's errors, with a line on stderr
//! that describes it.
//!
//! Tests load it through `HYPERCHUNK_CUDA_DRIVER`, an absolute path: [`library`] in Rust, the fixture
//! `fake_cuda` in Python. It also provides nvCOMP and cuFile, for `HYPERCHUNK_NVCOMP` and
//! `HYPERCHUNK_CUFILE`. It is never published and in no wheel. Failures are injected with [`Knob`]s: in the
//! environment, `HYPERCHUNK_FAKE_CUDA="devices=0,out_of_memory=3"`, read at the first `cuInit`, or with
//! [`LoadedLibrary::set`]. With `HYPERCHUNK_FAKE_CUDA_REPORT=/a/file`, the [`Counts`] are written there when the
//! process ends; with `HYPERCHUNK_FAKE_CUDA_COUNTS=/a/folder`, they are in a file there, named by the
//! process, updated after each call.
#![allow(
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "an interpreter cuts values off, and a tool for tests talks to who runs them"
)]

mod cufile;
mod driver;
mod machine;
mod nvcomp;
mod ptx;
mod shared;
mod streams;

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Settings of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Knob {
    /// Number of GPUs; 1.
    Devices = 0,
    /// Memory of a GPU in bytes; 1 GiB.
    Memory = 1,
    /// Fail the Nth allocation from now (0: never).
    OutOfMemory = 2,
    /// Fail the Nth launch from now (0: never).
    FailLaunch = 3,
    /// The version of CUDA that the driver reports; 12090.
    Version = 4,
    /// True if cuFile finds `nvidia-fs`; 1.
    Nvfs = 5,
    /// Number of idle threads that the driver starts; 0.
    Threads = 6,
    /// True if memory can be shared through descriptors; 1.
    Exports = 7,
    /// Fail the Nth import of shared memory from now (0: never).
    FailImport = 8,
    /// Abort the process at the Nth launch from now (0: never).
    Die = 9,
    /// Abort the process at the Nth import of shared memory from now (0: never).
    DieImport = 10,
}

/// The driver's counters since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Live allocations of device memory.
    pub allocations: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The peak of this size.
    pub peak: u64,
    /// Live allocations of page-locked memory.
    pub pinned: u64,
    /// Live streams.
    pub streams: u64,
    /// Live events.
    pub events: u64,
    /// Loaded modules.
    pub modules: u64,
    /// Kernels that ran.
    pub launches: u64,
    /// Bytes copied to the GPU.
    pub up: u64,
    /// Bytes copied from it.
    pub down: u64,
    /// Bytes that cuFile read into it.
    pub direct: u64,
    /// Pieces decompressed on it.
    pub decompressed: u64,
    /// Detected mistakes.
    pub mistakes: u64,
    /// Allocations of device memory ever made.
    pub taken: u64,
    /// Shareable allocations ever made.
    pub created: u64,
    /// Imports of shared memory ever made.
    pub imported: u64,
    /// Live handles, mappings and address reservations of shared memory.
    pub shared: u64,
}

/// Returns the path of the library that cargo built next to the calling test: for `HYPERCHUNK_CUDA_DRIVER`.
///
/// # Panics
/// If the library is missing: the test's crate must have this one among its `dev-dependencies`.
#[must_use]
#[expect(clippy::panic, reason = "a test cannot go on without it")]
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let name =
        format!("{}hyperchunk_cuda_fake{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let mut folders =
        program.ancestors().skip(1).take(2).flat_map(|folder| [folder.to_owned(), folder.join("deps")]);
    match folders.find(|folder| folder.join(&name).is_file()) {
        Some(folder) => folder.join(&name),
        None => panic!("{name} is not beside {}: `cargo build -p hyperchunk-cuda-fake`", program.display()),
    }
}

/// The library, loaded in this process.
#[derive(Debug)]
pub struct LoadedLibrary {
    handle: *mut c_void,
}

impl LoadedLibrary {
    /// Loads the library at [`library`], if it is not loaded yet.
    ///
    /// # Panics
    /// If it cannot be loaded.
    #[must_use]
    #[expect(clippy::panic, reason = "a test cannot go on without it")]
    pub fn new() -> LoadedLibrary {
        let path = library();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the name is live; the library has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            panic!("{} cannot be loaded", path.display());
        }
        LoadedLibrary { handle }
    }

    /// Sets a knob.
    ///
    /// # Panics
    /// If the library is another one.
    #[expect(clippy::panic, reason = "a test cannot go on without it")]
    pub fn set(&self, knob: Knob, value: u64) {
        // SAFETY: the handle is live; the name is.
        let found = unsafe { libc::dlsym(self.handle, c"hyperchunk_fake_set".as_ptr()) };
        if found.is_null() {
            panic!("not our library");
        }
        // SAFETY: the function of that name has this type, below.
        let set = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32, u64)>(found) };
        // SAFETY: takes two numbers.
        unsafe { set(knob as u32, value) };
    }

    /// Returns its counters.
    ///
    /// # Panics
    /// If the library is another one.
    #[must_use]
    #[expect(clippy::panic, reason = "a test cannot go on without it")]
    pub fn counts(&self) -> Counts {
        // SAFETY: the handle is live; the name is.
        let found = unsafe { libc::dlsym(self.handle, c"hyperchunk_fake_counts".as_ptr()) };
        if found.is_null() {
            panic!("not our library");
        }
        // SAFETY: the function of that name has this type, below.
        let counts = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Counts, usize) -> bool>(found)
        };
        let mut found = Counts::default();
        // SAFETY: writes one value, if it has this size.
        if !unsafe { counts(&raw mut found, size_of::<Counts>()) } {
            panic!("another version of our library");
        }
        found
    }
}

impl Default for LoadedLibrary {
    fn default() -> Self {
        Self::new()
    }
}

/// Sets a knob, by its number.
#[unsafe(no_mangle)]
pub extern "C" fn hyperchunk_fake_set(knob: u32, value: u64) {
    machine::machine().set(knob, value);
}

/// Writes the counters, if the caller's structure has the size of [`Counts`].
///
/// # Safety
/// `to` points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hyperchunk_fake_counts(to: *mut Counts, size: usize) -> bool {
    if size != size_of::<Counts>() {
        return false;
    }
    let counts = machine::machine().counts();
    // SAFETY: the caller's promise, and it is as large as it should be.
    unsafe { to.write_unaligned(counts) };
    true
}
