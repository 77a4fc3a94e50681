//! A driver for CUDA without a GPU, for tests alone: `libcuda.so.1` in shape, with one made-up GPU.
//!
//! Kernels really run: their PTX is interpreted on the CPU ([the part](ptx) that NVRTC makes of plain kernels), so that tests
//! compare values. Device memory has addresses of its own, each access is checked, and an address is never given twice:
//! what is freed stays freed. What is asynchronous is put off until somebody waits for it, so that a wait that is missing
//! shows in the values. Every mistake is an error of CUDA's, with a line on stderr that says what it was.
//!
//! Tests load it through `HYPERCHUNK_CUDA_DRIVER`, an absolute path: [`library`] in Rust, the fixture `fake_cuda` in Python.
//! It is nvCOMP and cuFile, too, for `HYPERCHUNK_NVCOMP` and `HYPERCHUNK_CUFILE`. It is never published and in no wheel. What goes wrong on purpose is said with [`Knob`]s: in the environment,
//! `HYPERCHUNK_FAKE_CUDA="devices=0,out_of_memory=3"`, read at the first `cuInit`, or with [`Loaded::set`]. With
//! `HYPERCHUNK_FAKE_CUDA_REPORT=/a/file`, the [`Counts`] are written there when the process ends; with
//! `HYPERCHUNK_FAKE_CUDA_COUNTS=/a/folder`, they are in a file there, named by the process, as they are after each call.
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

/// What can be told to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Knob {
    /// How many GPUs there are; 1.
    Devices = 0,
    /// How many bytes of memory a GPU has; 1 GiB.
    Memory = 1,
    /// The so manieth allocation from now on fails; 0 is none.
    OutOfMemory = 2,
    /// The so manieth launch from now on fails; 0 is none.
    FailLaunch = 3,
    /// The version of CUDA, as the driver tells it; 12090.
    Version = 4,
    /// Whether cuFile finds `nvidia-fs`; 1.
    Nvfs = 5,
    /// How many threads the driver starts, which do nothing; 0.
    Threads = 6,
    /// Whether memory can be shared through descriptors; 1.
    Exports = 7,
    /// The so manieth import of shared memory from now on fails; 0 is none.
    FailImport = 8,
    /// The so manieth launch from now on ends the process; 0 is none.
    Die = 9,
    /// The so manieth import of shared memory from now on ends the process; 0 is none.
    DieImport = 10,
}

/// What the driver counted since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Pieces of device memory that are not freed, and their bytes.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes that there were at once.
    pub peak: u64,
    /// Pieces of page-locked memory that are not freed.
    pub pinned: u64,
    /// Streams that are not destroyed.
    pub streams: u64,
    /// Events that are not destroyed.
    pub events: u64,
    /// Modules that are not unloaded.
    pub modules: u64,
    /// Kernels that ran.
    pub launches: u64,
    /// Bytes that were copied to the GPU.
    pub up: u64,
    /// Bytes that were copied from it.
    pub down: u64,
    /// Bytes that cuFile read into it.
    pub direct: u64,
    /// Pieces that were decompressed on it.
    pub decompressed: u64,
    /// Mistakes that were found.
    pub mistakes: u64,
    /// Pieces of device memory that were ever taken.
    pub taken: u64,
    /// Pieces of memory that were ever made to be shared, and taken over from others.
    pub created: u64,
    /// Those taken over.
    pub imported: u64,
    /// Handles, mappings and reserved addresses of shared memory that were not given back.
    pub shared: u64,
}

/// Where the library is that cargo built beside the calling test: for `HYPERCHUNK_CUDA_DRIVER`.
///
/// # Panics
/// If there is none: the test's crate must have this one among its `dev-dependencies`.
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

/// The library as this process has it loaded.
#[derive(Debug)]
pub struct Loaded {
    handle: *mut c_void,
}

impl Loaded {
    /// The one at [`library`], loaded if it is not yet.
    ///
    /// # Panics
    /// If it cannot be loaded.
    #[must_use]
    #[expect(clippy::panic, reason = "a test cannot go on without it")]
    pub fn new() -> Loaded {
        let path = library();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the name is live; the library has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            panic!("{} cannot be loaded", path.display());
        }
        Loaded { handle }
    }

    /// Turns a knob.
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

    /// What it counted.
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

impl Default for Loaded {
    fn default() -> Self {
        Self::new()
    }
}

/// Turns a knob, by its number.
#[unsafe(no_mangle)]
pub extern "C" fn hyperchunk_fake_set(knob: u32, value: u64) {
    machine::machine().set(knob, value);
}

/// Writes what was counted, if the caller's structure has the size of [`Counts`].
///
/// # Safety
/// `to` leads to `size` bytes that may be written.
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
