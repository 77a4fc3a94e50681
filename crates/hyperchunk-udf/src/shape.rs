//! Dimensions and names of a function's datasets, as descriptions write them, and how many there may be.

use crate::error::{Result, fail};

/// Maximum rank of a dataset, as in HDF5.
pub const MAX_RANK: usize = 32;

/// Maximum number of a function's inputs and outputs together.
pub const MAX_SLOTS: usize = 128;

/// Parses dimensions: `1000x1000`.
///
/// # Errors
/// `Syntax`.
pub(crate) fn dimensions(text: &str) -> Result<Vec<u64>> {
    let mut dims = Vec::new();
    for part in text.split('x') {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            fail!(Syntax, "{text:?} is not a resolution: whole numbers with x between them, as in 1000x1000")
        }
        match part.parse() {
            Ok(dim) => dims.push(dim),
            Err(_) => fail!(Syntax, "the dimension {part} is too large"),
        }
        if dims.len() > MAX_RANK {
            fail!(Syntax, "it has more than {MAX_RANK} dimensions")
        }
    }
    Ok(dims)
}

/// Formats dimensions as in a description: `1000x1000`.
pub fn resolution(dims: &[u64]) -> String {
    let dims: Vec<_> = dims.iter().map(u64::to_string).collect();
    dims.join("x")
}

/// Returns whether a dataset of these dimensions has one element.
pub fn is_single(dims: &[u64]) -> bool {
    dims.iter().all(|&d| d == 1)
}

/// Normalises a dataset's path, without leading, doubled and trailing slashes and `.`: equal for all
/// spellings of one dataset.
pub fn normal_name(name: &str) -> String {
    let parts: Vec<_> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    parts.join("/")
}
