//! WebAssembly modules as bytes: checks before one is stored or compiled. No module runs here.
//!
//! Only sections and sizes are read. The compiler, in the worker, validates the code.

#[cfg(test)]
mod tests;

use crate::error::{Result, fail};
use crate::escape::escape;

/// Target of a module that was attached as a module, not as a source.
pub const TARGET: &str = "wasm32";
/// Target of a module compiled from C, with its source stored beside it.
pub const TARGET_C: &str = "wasm32/c";
/// Target of a module compiled from C++, with its source stored beside it.
pub const TARGET_CPP: &str = "wasm32/c++";
/// Custom section with the names of the datasets, one a line.
pub const DATASETS: &str = "hyperchunk.datasets";
/// Maximum size of a module in bytes.
pub const MAX_MODULE_BYTES: usize = 16 << 20;
/// Maximum number of functions in a module. Like the next two, bounds the cost of compilation.
pub const MAX_FUNCTIONS: u32 = 20_000;
/// Maximum size of a function in bytes.
pub const MAX_FUNCTION_BYTES: u32 = 512 << 10;
/// Maximum size of a module's code in bytes.
pub const MAX_TOTAL_CODE_BYTES: u32 = 8 << 20;
/// Maximum initial memory of a module in bytes. Inputs and outputs follow it.
pub const MAX_INITIAL_MEMORY_BYTES: u64 = 64 << 20;

/// Properties of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Datasets named in the section [`DATASETS`].
    pub datasets: Vec<String>,
    /// Set if it imports a source of random numbers.
    pub seed: bool,
    /// Set if it imports a clock.
    pub clock: bool,
}

/// Returns whether a compiled form's target is WebAssembly.
pub fn is_target(target: &str) -> bool {
    [TARGET, TARGET_C, TARGET_CPP].contains(&target)
}

/// Reads the sections of a module.
///
/// # Errors
/// `Syntax` if it is not a module, with its actual format if known; `Limit` if it is too large.
pub fn check(bytes: &[u8]) -> Result<Module> {
    let Some((head, sections)) = bytes.split_first_chunk::<8>() else {
        fail!(Syntax, "it is not a WebAssembly module: it has {} bytes", bytes.len())
    };
    match head {
        [0, b'a', b's', b'm', 1, 0, 0, 0] => {}
        [0, b'a', b's', b'm', _, 0, 1, 0] => {
            fail!(
                Unsupported,
                "it is a WebAssembly component; build a plain module (for Rust: wasm32-unknown-unknown or wasm32-wasip1)"
            )
        }
        [0, b'a', b's', b'm', ..] => fail!(Unsupported, "it is WebAssembly of another version than 1"),
        [0x7f, b'E', b'L', b'F', ..] => fail!(
            Syntax,
            "it is machine code (ELF), such as a .cwasm that was compiled before; give the .wasm module itself"
        ),
        [b'(', b'm', b'o', b'd', ..] => {
            fail!(Syntax, "it is WebAssembly as text; make a module of it first (wat2wasm)")
        }
        _ => fail!(Syntax, "it is not a WebAssembly module"),
    }
    if bytes.len() > MAX_MODULE_BYTES {
        fail!(Limit, "the module has more than {} MiB", MAX_MODULE_BYTES >> 20)
    }
    let mut module = Module::default();
    let mut rest = Cursor(sections);
    while !rest.0.is_empty() {
        let section = rest.byte().zip(rest.number()).and_then(|(id, size)| Some((id, rest.take(size)?)));
        let Some((id, content)) = section else {
            fail!(Syntax, "the module is damaged: it ends in a section")
        };
        let content = Cursor(content);
        let fine = match id {
            0 => custom(content, &mut module)?,
            2 => imports(content, &mut module).is_some(),
            5 => memories(content)?,
            10 => functions(content)?,
            _ => true,
        };
        if !fine {
            fail!(Syntax, "the module is damaged in section {id}")
        }
    }
    Ok(module)
}

fn custom(mut content: Cursor<'_>, module: &mut Module) -> Result<bool> {
    let Some(name) = content.number().and_then(|n| content.take(n)) else { return Ok(false) };
    if name != DATASETS.as_bytes() {
        return Ok(true);
    }
    let Ok(text) = std::str::from_utf8(content.0) else {
        fail!(Syntax, "its section {DATASETS} is not UTF-8")
    };
    // Compilers may end a string with a zero, and put several strings into one section.
    for name in text.split(['\n', '\r', '\0']).map(str::trim).filter(|n| !n.is_empty()) {
        if name.len() > 4096 {
            fail!(Syntax, "its section {DATASETS} has a name of {} bytes", name.len())
        }
        if !module.datasets.iter().any(|known| known == name) {
            module.datasets.push(name.to_owned());
        }
    }
    if module.datasets.len() > crate::shape::MAX_SLOTS {
        let first = module.datasets.first().map_or("", String::as_str);
        fail!(
            Limit,
            "its section {DATASETS} names more than {} datasets, {:?} first",
            crate::shape::MAX_SLOTS,
            escape(first, 80)
        )
    }
    Ok(true)
}

/// Records imported functions that a record has to declare. `None` for a damaged section.
fn imports(mut content: Cursor<'_>, module: &mut Module) -> Option<()> {
    for _ in 0..content.number()? {
        let from = content.number().and_then(|n| content.take(n))?;
        let name = content.number().and_then(|n| content.take(n))?;
        match (from, name) {
            (b"hyperchunk", b"seed") | (b"wasi_snapshot_preview1", b"random_get") => module.seed = true,
            (b"hyperchunk", b"clock") | (b"wasi_snapshot_preview1", b"clock_time_get" | b"clock_res_get") => {
                module.clock = true
            }
            _ => {}
        }
        match content.byte()? {
            // A function, and its type.
            0 => drop(content.number()?),
            // A table: its element type, and its limits.
            1 => {
                content.byte()?;
                limits(&mut content)?;
            }
            2 => limits(&mut content)?,
            // A global: its type, and its mutability.
            3 => {
                content.byte()?;
                content.byte()?;
            }
            // Features of later versions are left to the compiler to reject.
            _ => return Some(()),
        }
    }
    Some(())
}

fn limits(content: &mut Cursor<'_>) -> Option<()> {
    let flags = content.byte()?;
    content.number()?;
    if flags & 1 != 0 {
        content.number()?;
    }
    Some(())
}

fn memories(mut content: Cursor<'_>) -> Result<bool> {
    let Some(count) = content.number() else { return Ok(false) };
    if count != 1 {
        fail!(Unsupported, "the module has {count} memories; it must have one")
    }
    let (Some(flags), Some(pages)) = (content.byte(), content.number()) else { return Ok(false) };
    if flags > 1 {
        fail!(
            Unsupported,
            "its memory is shared between threads, or has 64-bit addresses; neither is supported"
        )
    }
    if u64::from(pages) << 16 > MAX_INITIAL_MEMORY_BYTES {
        fail!(
            Limit,
            "its initial memory has {} MiB; at most {} MiB are allowed; let it grow instead",
            u64::from(pages) >> 4,
            MAX_INITIAL_MEMORY_BYTES >> 20
        )
    }
    Ok(true)
}

fn functions(mut content: Cursor<'_>) -> Result<bool> {
    if content.0.len() > MAX_TOTAL_CODE_BYTES as usize {
        fail!(
            Limit,
            "its code has {} KiB; at most {} KiB are compiled",
            content.0.len() >> 10,
            MAX_TOTAL_CODE_BYTES >> 10
        )
    }
    let Some(count) = content.number() else { return Ok(false) };
    if count > MAX_FUNCTIONS {
        fail!(Limit, "it has {count} functions; at most {MAX_FUNCTIONS} are compiled")
    }
    for n in 0..count {
        let Some(size) = content.number() else { return Ok(false) };
        if size > MAX_FUNCTION_BYTES {
            fail!(
                Limit,
                "function {n} of its code has {} KiB; at most {} KiB are compiled",
                size >> 10,
                MAX_FUNCTION_BYTES >> 10
            )
        }
        if content.take(size).is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Reads an unsigned 32-bit number, LEB128.
    fn number(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    fn take(&mut self, count: u32) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(head)
    }
}
