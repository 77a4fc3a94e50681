//! Finding libhdf5's functions: by the loader, or in the symbol table of a program that has libhdf5 inside.
//!
//! A program that was linked with `libhdf5.a` (as Debian's `h5cc` does) does not export its functions, so the loader does
//! not know them. Unless it was stripped, its file has them in its symbol table.

use crate::{Error, ErrorKind, Result, fail};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};

/// No program is read whose file is larger.
const MAX_PROGRAM: u64 = 1 << 30;
/// What nothing works without; of the rest, the linker has left out what the program does not use.
const ESSENTIAL: [&str; 4] = ["H5open", "H5allocate_memory", "H5free_memory", "H5Dread"];

/// Where a library's functions are looked up.
pub(crate) enum Symbols {
    /// By the loader, with this handle.
    Loader(usize),
    /// In the program's own table: names that begin with `H5`, and where they are.
    Table(HashMap<String, usize>),
}

/// Stands for a function that a static program does not have. Every function of the table answers failure with a negative
/// number, and this ignores its arguments, which the caller owns in the C calling conventions of our machines.
extern "C" fn absent() -> i64 {
    -1
}

/// One address for it, wherever it is named.
static ABSENT: extern "C" fn() -> i64 = absent;

/// Whether a function of the table is missing in a static program.
pub(crate) fn is_absent(function: *const c_void) -> bool {
    function == ABSENT as *const c_void
}

impl Symbols {
    /// For the object that the loader knows as `handle` and that begins at `base`.
    pub(crate) fn of(handle: *mut c_void, base: usize) -> Result<Self> {
        // SAFETY: a handle of the loader, and a NUL-terminated name.
        if !unsafe { libc::dlsym(handle, c"H5open".as_ptr()) }.is_null() {
            return Ok(Symbols::Loader(handle as usize));
        }
        let table = program_table(base)?;
        match ESSENTIAL.iter().find(|name| !table.contains_key(**name)) {
            None => Ok(Symbols::Table(table)),
            Some(missing) => fail!(
                NotFound,
                "this program has libhdf5 inside and does not show its functions ({missing}); link it with the shared libhdf5 (h5cc -shlib), or do not strip it"
            ),
        }
    }

    /// A function or global, or null.
    pub(crate) fn look_up(&self, name: &CStr) -> *mut c_void {
        match self {
            // SAFETY: a live handle and a NUL-terminated name.
            Symbols::Loader(handle) => unsafe { libc::dlsym(*handle as *mut c_void, name.as_ptr()) },
            Symbols::Table(table) => name
                .to_str()
                .ok()
                .and_then(|n| table.get(n))
                .map_or(std::ptr::null_mut(), |&a| a as *mut c_void),
        }
    }

    /// A function for the table of functions; `name` ends with a NUL.
    pub(crate) fn look_up_for_table(&self, name: &str) -> *mut c_void {
        let found =
            CStr::from_bytes_with_nul(name.as_bytes()).map_or(std::ptr::null_mut(), |n| self.look_up(n));
        match self {
            Symbols::Table(_) if found.is_null() => ABSENT as *mut c_void,
            _ => found,
        }
    }
}

fn program_table(base: usize) -> Result<HashMap<String, usize>> {
    const PROGRAM: &str = "/proc/self/exe";
    let bad =
        |e: &dyn std::fmt::Display| Error::new(ErrorKind::NotFound, format!("the program's symbols: {e}"));
    let size = std::fs::metadata(PROGRAM).map_err(|e| bad(&e))?.len();
    if size > MAX_PROGRAM {
        fail!(NotFound, "the program's file has {size} bytes, too many to look for libhdf5 in it")
    }
    let bytes = std::fs::read(PROGRAM).map_err(|e| bad(&e))?;
    let elf = ElfFile64::<object::Endianness>::parse(&*bytes).map_err(|e| bad(&e))?;
    let lowest = elf.segments().map(|s| s.address()).min().unwrap_or(0);
    let bias = base.wrapping_sub(usize::try_from(lowest & !0xfff).unwrap_or(0));
    let symbols = elf.symbols().filter(|s| s.is_definition());
    let named = symbols.filter_map(|s| Some((s.name().ok()?.to_owned(), usize::try_from(s.address()).ok()?)));
    Ok(named
        .filter(|(name, _)| name.starts_with("H5"))
        .map(|(name, at)| (name, bias.wrapping_add(at)))
        .collect())
}
