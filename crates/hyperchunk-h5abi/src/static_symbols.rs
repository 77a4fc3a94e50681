//! Finding libhdf5's functions: by the loader, under the names that the build gave them, or in the symbol
//! table of a program that is linked with a static libhdf5.
//!
//! VTK, ParaView and ITK have their own libhdf5, whose functions have a prefix (`vtkhdf5_H5Dopen2`,
//! `itk_H5Dopen2`) to prevent conflicts with another libhdf5. The prefix is taken from the name of `H5open`
//! in the object's dynamic symbols.
//!
//! A program that was linked with `libhdf5.a` (as Debian's `h5cc` does) does not export its functions, so the
//! loader does not know them, unless it was linked with `-rdynamic`; even then, functions that it does not
//! use are left out. If it was not stripped, its file has them in its symbol table.

use crate::{Error, ErrorKind, Result, fail};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::sync::OnceLock;

/// Maximum size in bytes of a program file whose symbols are read.
const MAX_PROGRAM_BYTES: u64 = 1 << 30;
/// Functions without which nothing works. The linker may have left out others that the program does not use.
const ESSENTIAL: [&CStr; 4] = [c"H5open", c"H5allocate_memory", c"H5free_memory", c"H5Dread"];

/// The method of looking up a library's functions.
pub(crate) enum Symbols {
    /// In a shared library, by the loader, with this handle.
    Loader(usize),
    /// In a shared library, with this prefix before each name.
    Prefixed(usize, String),
    /// In the program itself, which contains libhdf5.
    Program(Program),
}

/// A program with libhdf5 inside. The loader knows the symbols that it exports (`-rdynamic`); the others are
/// in its own symbol table, if that was not stripped.
pub(crate) struct Program {
    handle: usize,
    base: usize,
    /// Addresses of names that begin with `H5`; read when the loader does not know one.
    table: OnceLock<HashMap<String, usize>>,
}

impl Program {
    fn look_up(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a live handle and a NUL-terminated name.
        let exported = unsafe { libc::dlsym(self.handle as *mut c_void, name.as_ptr()) };
        // The loader also searches other libraries, which may include another libhdf5.
        if !exported.is_null() && find_base(exported) == Some(self.base) {
            return exported;
        }
        let table = self.table.get_or_init(|| program_table(self.base).unwrap_or_default());
        let found = name.to_str().ok().and_then(|name| table.get(name));
        found.map_or(std::ptr::null_mut(), |&address| address as *mut c_void)
    }
}

/// Returns the base address of the object that contains this address.
fn find_base(address: *const c_void) -> Option<usize> {
    // SAFETY: all-zero is a valid Dl_info; any address may be asked about.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &raw mut info) != 0).then_some(info.dli_fbase as usize)
    }
}

/// Returns the base address of the program.
fn program_base() -> Option<usize> {
    // SAFETY: no pointers; the program's headers are in its first page.
    find_base(unsafe { libc::getauxval(libc::AT_PHDR) } as *const c_void)
}

/// Placeholder for a function that a static program does not have. All functions of the table report failure
/// with a negative number. The placeholder ignores its arguments; in the C calling conventions of the
/// supported machines, the caller owns them.
extern "C" fn absent() -> i64 {
    -1
}

/// The placeholder's unique address: the function itself may have several.
static ABSENT: extern "C" fn() -> i64 = absent;

/// Returns whether a function of the table is missing in a static program.
pub(crate) fn is_absent(function: *const c_void) -> bool {
    function == ABSENT as *const c_void
}

impl Symbols {
    /// Opens the symbols of the object with this file, which the loader knows as `handle` and which is loaded
    /// at `base`.
    pub(crate) fn open(handle: *mut c_void, base: usize, file: Option<&Path>) -> Result<Self> {
        if program_base() != Some(base) {
            let plain = Symbols::Loader(handle as usize);
            // The loader also searches the object's dependencies, which may include another libhdf5.
            if find_base(plain.look_up(c"H5open")) == Some(base) {
                return Ok(plain);
            }
            let prefix = file.and_then(|file| prefix_in(file).transpose()).transpose()?;
            return Ok(prefix.map_or(plain, |prefix| Symbols::Prefixed(handle as usize, prefix)));
        }
        let program = Program { handle: handle as usize, base, table: OnceLock::new() };
        match ESSENTIAL.iter().find(|name| program.look_up(name).is_null()) {
            None => Ok(Symbols::Program(program)),
            Some(missing) => fail!(
                NotFound,
                "cannot use the libhdf5 inside this program: expected the function {} in its symbols, got none; link it with the shared libhdf5 (h5cc -shlib), or do not strip it",
                missing.to_string_lossy()
            ),
        }
    }

    /// Returns whether libhdf5 is inside the program.
    pub(crate) fn is_program(&self) -> bool {
        matches!(self, Symbols::Program(_))
    }

    /// Returns the address of a function or global, or null.
    pub(crate) fn look_up(&self, name: &CStr) -> *mut c_void {
        match self {
            // SAFETY: a live handle and a NUL-terminated name.
            Symbols::Loader(handle) => unsafe { libc::dlsym(*handle as *mut c_void, name.as_ptr()) },
            Symbols::Prefixed(handle, prefix) => {
                let Ok(name) = CString::new([prefix.as_bytes(), name.to_bytes()].concat()) else {
                    return std::ptr::null_mut();
                };
                // SAFETY: as above.
                unsafe { libc::dlsym(*handle as *mut c_void, name.as_ptr()) }
            }
            Symbols::Program(program) => program.look_up(name),
        }
    }

    /// Looks up a function for the table of functions; `name` ends with a NUL.
    pub(crate) fn look_up_for_table(&self, name: &str) -> *mut c_void {
        CStr::from_bytes_with_nul(name.as_bytes()).map_or(std::ptr::null_mut(), |n| self.look_up(n))
    }

    /// Returns the table's placeholder for a missing function; null if none may be missing.
    pub(crate) fn absent(&self) -> *mut c_void {
        match self {
            Symbols::Program(_) => ABSENT as *mut c_void,
            _ => std::ptr::null_mut(),
        }
    }
}

/// Finds the prefix of a libhdf5's names in the dynamic symbols of a file.
pub(crate) fn prefix_in(file: &Path) -> Result<Option<String>> {
    const LAST: &str = "H5open";
    let bad = |e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::NotFound, format!("the symbols of {}: {e}", file.display()))
    };
    if std::fs::metadata(file).map_err(|e| bad(&e))?.len() > MAX_PROGRAM_BYTES {
        return Ok(None);
    }
    let bytes = std::fs::read(file).map_err(|e| bad(&e))?;
    let elf = ElfFile64::<object::Endianness>::parse(&*bytes).map_err(|e| bad(&e))?;
    let names: HashSet<&str> =
        elf.dynamic_symbols().filter(|s| s.is_definition()).filter_map(|s| s.name().ok()).collect();
    let has_all = |prefix: &str| {
        let mut essential = ESSENTIAL.iter().filter_map(|name| name.to_str().ok());
        essential.all(|name| names.contains(format!("{prefix}{name}").as_str()))
    };
    let prefixes =
        names.iter().filter_map(|name| name.strip_suffix(LAST)).filter(|prefix| !prefix.is_empty());
    Ok(prefixes.filter(|prefix| has_all(prefix)).min().map(str::to_owned))
}

fn program_table(base: usize) -> Result<HashMap<String, usize>> {
    const PROGRAM: &str = "/proc/self/exe";
    let bad =
        |e: &dyn std::fmt::Display| Error::new(ErrorKind::NotFound, format!("the program's symbols: {e}"));
    let size = std::fs::metadata(PROGRAM).map_err(|e| bad(&e))?.len();
    if size > MAX_PROGRAM_BYTES {
        fail!(NotFound, "the program's file has {size} bytes: too large to search it for libhdf5")
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
