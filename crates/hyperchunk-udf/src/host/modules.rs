//! Modules that Python imports before it forks a worker, which can open no files to import others.

use crate::profile::Grants;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;

/// Packages by the word that requests them, with the modules that they import lazily. A function may import
/// all of these without a grant.
const MODULES: &[(&str, &[&str])] = &[
    (
        "numpy",
        &[
            "numpy",
            "numpy.fft",
            "numpy.linalg",
            "numpy.ma",
            "numpy.polynomial",
            "numpy.random",
            "unicodedata",
        ],
    ),
    ("math", &["math"]),
    ("cmath", &["cmath"]),
    ("random", &["random"]),
    ("statistics", &["statistics"]),
    ("fractions", &["fractions"]),
    ("decimal", &["decimal"]),
    ("datetime", &["datetime", "_strptime", "zoneinfo"]),
    ("calendar", &["calendar"]),
    ("time", &["time", "_strptime"]),
    ("json", &["json"]),
    ("re", &["re"]),
    ("string", &["string"]),
    ("textwrap", &["textwrap"]),
    ("struct", &["struct"]),
    ("array", &["array"]),
    ("bisect", &["bisect"]),
    ("heapq", &["heapq"]),
    ("collections", &["collections"]),
    ("itertools", &["itertools"]),
    ("functools", &["functools"]),
    ("operator", &["operator"]),
    ("enum", &["enum"]),
    ("dataclasses", &["dataclasses"]),
    ("typing", &["typing"]),
    ("copy", &["copy"]),
    ("hashlib", &["hashlib"]),
    ("zlib", &["zlib"]),
    ("base64", &["base64"]),
    ("binascii", &["binascii"]),
    ("unicodedata", &["unicodedata"]),
    ("csv", &["csv"]),
    ("io", &["io"]),
    ("warnings", &["warnings"]),
    ("traceback", &["traceback"]),
    ("ctypes", &["ctypes"]),
    ("gzip", &["gzip"]),
    ("logging", &["logging"]),
    ("socket", &["socket"]),
    ("select", &["select"]),
    ("selectors", &["selectors"]),
    ("signal", &["signal"]),
    ("contextlib", &["contextlib"]),
    ("pathlib", &["pathlib"]),
    ("fnmatch", &["fnmatch"]),
    ("urllib", &["urllib.parse"]),
    ("importlib", &["importlib.util"]),
    ("ast", &["ast"]),
    ("types", &["types"]),
    ("threading", &["threading"]),
    ("zoneinfo", &["zoneinfo"]),
];

/// Maximum number of remembered sources.
const MAX_CACHED_SOURCES: usize = 4096;

/// Hashes of sources that failed with only the modules that they name.
static NEEDS_ALL: Mutex<Option<HashSet<u64>>> = Mutex::new(None);

/// Modules of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Modules {
    /// Names, in the order of import. A missing module is ignored.
    pub(super) names: Vec<&'static str>,
    /// Set if modules were left out, so that a failing function is tried again with all of them.
    pub(super) partial: bool,
}

impl Modules {
    fn all() -> Self {
        Modules { names: MODULES.iter().flat_map(|(_, names)| *names).copied().collect(), partial: false }
    }

    /// Selects the modules for a function: the ones its source names, if it is certain to use no NumPy
    /// arrays otherwise. Importing NumPy takes Python longer than everything else in a first read.
    ///
    /// The source is untrusted, so it is searched for words and not parsed. A function that fails is [tried
    /// again](needs_all) with every module, so a missed one costs only time. A function that could have had
    /// side effects before it failed, through its profile's grants, gets every module at once.
    pub(super) fn from_source(source: &str, compiled: bool, grants: &Grants) -> Self {
        let acts = grants.has_files() || !grants.connect.is_empty();
        let imports =
            grants.imports.iter().any(|module| mentions(source, module.split('.').next().unwrap_or(module)));
        if compiled || acts || imports || uses_arrays(source) || known(source) {
            return Modules::all();
        }
        let wanted = MODULES.iter().filter(|(word, _)| mentions(source, word));
        Modules { names: wanted.flat_map(|(_, names)| *names).copied().collect(), partial: true }
    }
}

/// Returns whether the source names NumPy or something that may create an array: a slice, or a whole dataset
/// in a calculation.
fn uses_arrays(source: &str) -> bool {
    mentions(source, "numpy") || mentions(source, "array") || mentions(source, "slice") || has_slice(source)
}

/// Returns whether there is a colon in brackets.
fn has_slice(source: &str) -> bool {
    let mut depth = 0_u32;
    for c in source.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ':' if depth > 0 => return true,
            _ => {}
        }
    }
    false
}

/// Returns whether a source contains a word: in an import, a string, even a comment.
pub fn mentions(source: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(word).any(|(at, _)| {
        let (before, after) =
            (source.get(..at), at.checked_add(word.len()).and_then(|end| source.get(end..)));
        !before.is_some_and(|text| text.ends_with(is_part))
            && !after.is_some_and(|text| text.starts_with(is_part))
    })
}

fn hash(source: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    hasher.finish()
}

fn known(source: &str) -> bool {
    super::cache(&NEEDS_ALL).is_none_or(|known| known.as_ref().is_some_and(|k| k.contains(&hash(source))))
}

/// Gives later workers for this source every module.
pub(super) fn needs_all(source: &str) {
    let Ok(mut known) = NEEDS_ALL.lock() else { return };
    let known = known.get_or_insert_default();
    if known.len() >= MAX_CACHED_SOURCES {
        known.clear();
    }
    known.insert(hash(source));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(source: &str) -> Modules {
        Modules::from_source(source, false, &Grants::default())
    }

    #[test]
    fn a_loop_over_elements_gets_what_it_names() {
        let source = "import math\ndef dynamic_dataset():\n    a = lib.getData('a')\n    for i in range(9): a[i] = math.sin(i)\n";
        assert_eq!(modules(source), Modules { names: vec!["math"], partial: true });
        assert_eq!(modules("def dynamic_dataset(): pass"), Modules { names: vec![], partial: true });
        assert!(modules("from datetime import date").names.contains(&"_strptime"));
    }

    #[test]
    fn arrays_and_failures_get_all() {
        for source in ["import numpy as np", "out[0:9] = 1", "lib.array('x')", "x[slice(3)]"] {
            assert_eq!(modules(source), Modules::all(), "{source}");
        }
        assert_eq!(Modules::from_source("", true, &Grants::default()), Modules::all());
        let grants = Grants { read: vec!["/data".into()], ..Grants::default() };
        assert_eq!(Modules::from_source("", false, &grants), Modules::all());
        let grants = Grants { imports: vec!["scipy.signal".into()], ..Grants::default() };
        assert_eq!(Modules::from_source("import scipy", false, &grants), Modules::all());
        assert!(Modules::from_source("import math", false, &grants).partial);
        let source = "this one fails";
        assert!(modules(source).partial);
        needs_all(source);
        assert_eq!(modules(source), Modules::all());
    }

    #[test]
    fn words_are_whole() {
        assert!(mentions("import numpy", "numpy") && mentions("numpy.sin", "numpy"));
        assert!(!mentions("mynumpy", "numpy") && !mentions("numpy_", "numpy"));
    }
}
