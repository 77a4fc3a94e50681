//! Filters by one name.

use super::{Target, filter};
use crate::model::{Filter, Pipeline};
use crate::{Error, Result};

/// The names of [`preset`], each with what it is for.
pub const PRESETS: [(&str, &str); 5] = [
    ("deflate", "shuffle and deflate at its fastest level: every HDF5 library reads it"),
    ("fast", "bitshuffle and LZ4: several times as fast; readers need the plugin bitshuffle"),
    ("small", "shuffle and zstd at a high level: small files; readers need the plugin zstd"),
    ("snappy", "shuffle and Snappy in blocks, which GPUs undo fast; readers need the plugin of Hyperchunk"),
    ("none", "no filters"),
];

/// The level of deflate. On Poisson counts of 1 to 20 a pixel, shuffle and libdeflate's first level take a twelfth to a
/// fifteenth of the time of zlib's sixth level alone, and compress 1.3 times as well; against shuffle and zlib's sixth level,
/// a fifth to a tenth of the time, and 0.96 to 1.02 of its ratio.
const DEFLATE_LEVEL: u32 = 1;
/// The level of zstd: on such counts, as small as deflate's ninth level or smaller, three times as fast.
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
        "snappy" => shuffled(filter(32003, &[], target)?),
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
