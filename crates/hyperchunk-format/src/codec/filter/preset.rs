//! Presets: filter pipelines with a name.

use super::{Target, filter};
use crate::model::{Filter, Pipeline};
use crate::{Error, Result};

/// Names of presets, each with its purpose.
pub const PRESETS: [(&str, &str); 5] = [
    ("deflate", "shuffle and deflate at its fastest level: every HDF5 library reads it"),
    ("fast", "bitshuffle and LZ4: several times as fast; readers need the plugin bitshuffle"),
    ("small", "shuffle and zstd at a high level: small files; readers need the plugin zstd"),
    ("snappy", "shuffle and Snappy in blocks, which GPUs undo fast; readers need the plugin of Hyperchunk"),
    ("none", "no filters"),
];

/// Level of deflate. On Poisson counts of 1 to 20 a pixel, shuffle and libdeflate's level 1 take a twelfth to
/// a fifteenth of the time of zlib's level 6 without shuffle, and compress 1.3 times as well; compared with
/// shuffle and zlib's level 6, a fifth to a tenth of the time, and 0.96 to 1.02 of its ratio.
const DEFLATE_LEVEL: u32 = 1;
/// Level of zstd: on such counts, files at most as large as with deflate's level 9, three times as fast.
const ZSTD_LEVEL: u32 = 12;

/// Returns the preset that uses a compression, for advice in errors.
#[must_use]
pub fn preset_with(compression: &str) -> Option<&'static str> {
    match compression.split(':').next().unwrap_or_default() {
        "gzip" | "gz" | "zlib" => Some("deflate"),
        "lz4" | "bitshuffle" => Some("fast"),
        "zstd" | "zstandard" => Some("small"),
        _ => None,
    }
}

/// Returns the filters of a preset; see [`PRESETS`].
///
/// # Errors
/// Invalid if there is no preset with that name, and as [`filter`].
pub fn preset(name: &str, target: &Target<'_>) -> Result<Pipeline> {
    let shuffled = |compressor: Filter| -> Result<Pipeline> {
        // Shuffling single bytes has no effect.
        let shuffle = if target.datatype.size > 1 { Some(filter(2, &[], target)?) } else { None };
        Ok(shuffle.into_iter().chain([compressor]).collect())
    };
    match name {
        "deflate" => shuffled(filter(1, &[DEFLATE_LEVEL], target)?),
        "fast" => Ok(vec![filter(32008, &[0, 2], target)?]),
        "small" => shuffled(filter(32015, &[ZSTD_LEVEL], target)?),
        "snappy" => shuffled(filter(32003, &[], target)?),
        "none" => Ok(Vec::new()),
        _ => {
            let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
            Err(Error::invalid(format!(
                "no preset \"{}\": expected one of {}{}",
                name.escape_debug(),
                names.join(", "),
                preset_with(name)
                    .map_or_else(String::new, |preset| format!("; {preset} has that compression"))
            )))
        }
    }
}
