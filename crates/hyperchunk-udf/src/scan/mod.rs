//! Scanner that finds the datasets that a source names, by parsing it.
//!
//! Each call of `lib.getData("x")`, `getDims`, `getType`, `getSize` and `array` must give its dataset as a
//! constant, and each `lib.getAttr("x", "name")` also an attribute, because the names are recorded when the
//! function is attached: later the function has access to these only. A source is only parsed here; none of
//! it is run, imported or compiled.
//!
//! [`Scan::names`] keeps every spelling of the source, so both `/NIR` and `NIR` may be present;
//! [`crate::spec::resolve`] treats them as one dataset.

mod cpp;
mod lua;
#[cfg(target_os = "linux")]
pub mod python;
#[cfg(test)]
mod tests;
mod token;

use crate::backend::Backend;
use crate::cuda;
use crate::error::{Result, fail};
use crate::escape::escape;
use hyperchunk_expression::Expression;
use std::collections::HashSet;
use std::path::Path;

/// Maximum size of a source in bytes.
pub const MAX_SOURCE_BYTES: usize = 16 << 20;

/// Functions of `lib` whose first argument names a dataset.
const METHODS: [&str; 7] = ["getData", "getDims", "getType", "getSize", "array", ATTRIBUTE, ATTRIBUTE_TEXT];
/// Function whose second argument names an attribute of that dataset, or of a group.
const ATTRIBUTE: &str = "getAttr";
/// C's form of [`ATTRIBUTE`].
const ATTRIBUTE_TEXT: &str = "getAttrText";

/// Result of scanning a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Names passed to `lib`, in order of first use.
    pub names: Vec<String>,
    /// Set if it calls `lib.seed`, and therefore needs a seed.
    pub seed: bool,
    /// Set if it calls `lib.clock`, and therefore needs the clock.
    pub clock: bool,
}

/// Finds the datasets that `source` names.
///
/// `python` is the interpreter that parses Python sources; the other back ends do not need it.
///
/// # Errors
/// - `Syntax`, with the line: a name that is not a constant, text that cannot be parsed, a NUL byte, or no
///   `dynamic_dataset`
/// - `Unsupported`: compiled Lua
/// - `Limit`: more than [`MAX_SOURCE_BYTES`] bytes
/// - `NotFound`, `Worker`, `Limit`: no Python, or one that fails or takes too long
pub fn scan(backend: Backend, source: &str, python: Option<&Path>) -> Result<Scan> {
    if source.len() > MAX_SOURCE_BYTES {
        fail!(
            Limit,
            "the source is {} bytes long; at most {MAX_SOURCE_BYTES} bytes are allowed",
            source.len()
        )
    }
    if source.starts_with("\x1bLJ") || source.starts_with("\x1bLua") {
        fail!(Unsupported, "this is compiled Lua; attach the source text, which runs on every machine")
    }
    if let Some(at) = source.bytes().position(|b| b == 0) {
        let line = source.bytes().take(at).filter(|&b| b == b'\n').count() + 1;
        fail!(Syntax, "line {line}: the source has a NUL byte, so it is not a text file")
    }
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    Ok(match (backend, python) {
        (Backend::Lua, _) => lua::scan(source)?,
        // Sources for WebAssembly are C or C++.
        (Backend::Cpp | Backend::Wasm, _) => cpp::scan(source)?,
        (Backend::Cuda, _) => {
            Scan { names: cuda::Program::parse(source)?.names().to_vec(), ..Scan::default() }
        }
        #[cfg(target_os = "linux")]
        (Backend::Python, Some(python)) => python::scan(python, source)?,
        #[cfg(not(target_os = "linux"))]
        (Backend::Python, Some(_)) => fail!(Unsupported, "functions in Python need Linux"),
        (Backend::Expression, _) => {
            Scan { names: Expression::parse(source)?.inputs().to_vec(), ..Scan::default() }
        }
        (Backend::Python, None) => {
            fail!(NotFound, "no Python was found to parse this source; install Python 3.11 or newer")
        }
    })
}

impl Scan {
    /// Creates the result from the names, and from calls of `lib.seed` and `lib.clock` in the tokens.
    fn new(names: Vec<String>, tokens: &token::Tokens<'_>) -> Self {
        let calls = |word: &str| {
            (0..tokens.len()).any(|at| {
                let accessed = tokens.is_any_op(at + 1, &['.', token::ARROW, token::SCOPE]);
                tokens.is_word(at, "lib") && accessed && tokens.is_word(at + 2, word)
                    || tokens.is_word(at, "lib")
                        && tokens.is_op(at + 1, '[')
                        && tokens.is_string(at + 2)
                        && tokens.bytes(at + 2) == word.as_bytes()
            })
        };
        Scan { names, seed: calls("seed"), clock: calls("clock") }
    }
}

/// Collects names without duplicates, in order of first use.
#[derive(Debug, Default)]
struct Names {
    list: Vec<String>,
    seen: HashSet<String>,
}

impl Names {
    fn add(&mut self, name: Vec<u8>, line: u32) -> Result<()> {
        let Ok(name) = String::from_utf8(name) else {
            fail!(Syntax, "line {line}: this dataset name is not valid UTF-8, or has an unknown escape")
        };
        if name.is_empty() || name.contains('\0') {
            fail!(Syntax, "line {line}: {:?} cannot be the name of a dataset", escape(&name, 80))
        }
        if self.seen.insert(name.clone()) {
            self.list.push(name);
        }
        Ok(())
    }
}

/// Returns the name of an attribute as an input.
fn attribute_name(object: &[u8], attribute: &[u8]) -> Vec<u8> {
    [object, b"@", attribute].concat()
}

fn takes_attribute(method: &str) -> bool {
    matches!(method, ATTRIBUTE | ATTRIBUTE_TEXT)
}

fn is_method(name: &[u8]) -> bool {
    METHODS.iter().any(|m| m.as_bytes() == name)
}

/// Returns the error for a call with a computed name; `advice` is a correct call in that language.
fn not_constant<T>(line: u32, method: &str, advice: &str) -> Result<T> {
    fail!(
        Syntax,
        "line {line}: lib.{method} needs the dataset's name as a string constant, as in {advice}; names must be \
         constants because they are recorded when the function is attached"
    )
}

/// Returns the error for a source without an entry point.
fn no_entry<T>(declaration: &str) -> Result<T> {
    fail!(Syntax, "the source does not define dynamic_dataset; write its computation in `{declaration}`")
}

/// Returns the error for `lib` or one of its functions used as a value, after which calls could not be
/// recognised.
fn used_as_value<T>(line: u32, what: &str, advice: &str) -> Result<T> {
    fail!(
        Syntax,
        "line {line}: {what} is passed on here, so the names that it gets cannot be seen; call it as {advice} instead"
    )
}
