//! Filters by one name.

use super::{Target, filter};
use crate::model::{Filter, Pipeline};
use crate::{Error, Result};

/// The names of [`preset`], each with what it is for.
pub const PRESETS: [(&str, &str); 4] = [
    ("deflate", "shuffle and deflate at its fastest level: every HDF5 library reads it"),
    ("fast", "bitshuffle and LZ4: several times as fast; readers need the plugin bitshuffle"),
    ("small", "shuffle and zstd at a high level: small files; readers need the plugin zstd"),
    ("none", "no filters"),
];

/// The level of deflate. libdeflate's first level is smaller than zlib's third, and at most 5 % larger than its sixth on
/// what detectors write.
const DEFLATE_LEVEL: u32 = 1;
/// The level of zstd.
const ZSTD_LEVEL: u32 = 12;

/// The filters of a preset; see [`PRESETS`].
///
/// # Errors
/// Invalid if there is none with that name, and as [`filter`].
pub fn preset(name: &str, target: &Target<'_>) -> Result<Pipeline> {
    let shuffled = |compressor: Filter| -> Result<Pipeline> {
        // Single bytes have nothing to be shuffled.
        let shuffle = if target.datatype.size > 1 { Some(filter(2, &[], target)?) } else { None };
        Ok(shuffle.into_iter().chain([compressor]).collect())
    };
    match name {
        "deflate" => shuffled(filter(1, &[DEFLATE_LEVEL], target)?),
        "fast" => Ok(vec![filter(32008, &[0, 2], target)?]),
        "small" => shuffled(filter(32015, &[ZSTD_LEVEL], target)?),
        "none" => Ok(Vec::new()),
        _ => {
            let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
            Err(Error::invalid(format!(
                "no preset \"{}\"; there are {}",
                name.escape_debug(),
                names.join(", ")
            )))
        }
    }
}
