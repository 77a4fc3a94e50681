//! Filters registered with The HDF Group, for messages about missing ones. Source: the list of registered
//! filters in the repository of HDF5's filter plugins, and the HDF5 Library's own identifiers.

use crate::model::Filter;
use crate::{Error, ErrorKind};

/// Identifier, name, and source of each filter.
const REGISTERED: &[(u16, &str, &str)] = &[
    (1, "deflate", "the HDF5 library"),
    (2, "shuffle", "the HDF5 library"),
    (3, "fletcher32", "the HDF5 library"),
    (4, "szip", "the HDF5 library"),
    (5, "nbit", "the HDF5 library"),
    (6, "scaleoffset", "the HDF5 library"),
    (257, "hzip", "Silo, https://software.llnl.gov/Silo"),
    (258, "fpzip", "Silo, https://software.llnl.gov/Silo"),
    (305, "LZO", "PyTables, https://www.pytables.org"),
    (307, "bzip2", "PyTables, https://www.pytables.org"),
    (
        31300,
        "HDF5-UDF",
        "a live dataset, whose values Hyperchunk's filter plugin computes in HDF5 applications",
    ),
    (32000, "LZF", "h5py, https://www.h5py.org"),
    (32001, "Blosc", "https://www.blosc.org"),
    (32002, "MAFISC", "https://wr.informatik.uni-hamburg.de/research/projects/icomex/mafisc"),
    (32003, "Snappy", "https://github.com/lucasvr/snappy-cuda"),
    (32004, "LZ4", "https://github.com/HDFGroup/hdf5_plugins"),
    (32005, "APAX", "no longer available"),
    (32006, "CBF", "imgCIF/CBF, Herbert J. Bernstein"),
    (32007, "JPEG-XR", "Marvin Albert"),
    (32008, "bitshuffle", "https://github.com/kiyo-masui/bitshuffle"),
    (32009, "SPDP", "https://userweb.cs.txstate.edu/~burtscher/research/SPDPcompressor"),
    (32010, "LPC-Rice", "https://sourceforge.net/projects/lpcrice"),
    (32011, "CCSDS-123", "https://sourceforge.net/projects/ccsds123-hdf-filter"),
    (32012, "JPEG-LS", "https://sourceforge.net/projects/jpegls-hdf-filter"),
    (32013, "ZFP", "https://github.com/LLNL/H5Z-ZFP"),
    (32014, "fpzip", "https://computing.llnl.gov/projects/fpzip"),
    (32015, "Zstandard", "https://github.com/HDFGroup/hdf5_plugins"),
    (32016, "B3D", "https://doi.org/10.1101/164624"),
    (32017, "SZ", "https://github.com/szcompressor/SZ"),
    (32018, "FCIDECOMP", "EUMETSAT"),
    (32019, "JPEG", "https://github.com/HDFGroup/hdf5_plugins"),
    (32020, "VBZ", "https://github.com/nanoporetech/vbz_compression"),
    (32021, "FAPEC", "https://www.dapcom.es/fapec"),
    (32022, "BitGroom", "https://github.com/ccr/ccr"),
    (32023, "Granular BitRound", "https://github.com/ccr/ccr"),
    (32024, "SZ3", "https://github.com/szcompressor/SZ3"),
    (32025, "Delta-Rice", "https://gitlab.com/dgma224/deltarice"),
    (32026, "Blosc2", "https://www.blosc.org"),
    (32027, "FLAC", "https://github.com/xiph/flac"),
    (32028, "SPERR", "https://github.com/NCAR/H5Z-SPERR"),
    (32029, "TERSE/PROLIX", "https://github.com/Senikm/trpx"),
    (32030, "FFMPEG", "https://github.com/Cai-Lab-at-University-of-Michigan/ffmpeg_HDF5_filter"),
    (32031, "JPEG 2000", "https://github.com/hmaarrfk/hdf5_jpeg2000"),
    (32032, "BitRound", "https://github.com/HDFGroup/hdf5_plugins"),
    (32033, "HTJ2K", "https://github.com/silx-kit/hdf5plugin"),
];

/// Returns the name of a registered filter.
pub(super) fn name(id: u16) -> Option<&'static str> {
    REGISTERED.iter().find(|(other, ..)| *other == id).map(|(_, name, _)| *name)
}

/// Creates the error for a filter without a codec, with its name and advice.
#[cold]
pub(super) fn missing(filter: &Filter) -> Error {
    let number = filter.id;
    let mut message = match REGISTERED.iter().find(|(id, ..)| *id == number) {
        Some((_, name, maker)) => format!("the filter {name} ({number}; {maker}) is not built in"),
        None => format!("filter {number}, which is not registered with The HDF Group, is not built in"),
    };
    if let Some(name) = &filter.name {
        let name = name.as_bytes().get(..80).unwrap_or(name.as_bytes());
        message.push_str(&format!("; the file calls it \"{}\"", name.escape_ascii()));
    }
    message.push_str(
        ". Where its plugin is installed, `h5repack -f NONE` makes a copy of the file without it; programs can bring \
         their own with `register_codec`",
    );
    Error::new(ErrorKind::MissingFilter, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise() {
        assert!(REGISTERED.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn messages_say_what_it_is_and_what_to_do() {
        let message = |id, name: Option<&str>| {
            let name = name.map(Into::into);
            missing(&Filter { id, optional: false, name, parameters: Vec::new() }).message().to_owned()
        };
        let lzo = message(305, Some("lzo\u{1b}[2J"));
        for part in
            ["LZO (305; PyTables, https://www.pytables.org)", "lzo\\x1b[2J", "h5repack", "register_codec"]
        {
            assert!(lzo.contains(part), "{lzo}");
        }
        assert!(message(9, None).starts_with("filter 9, which is not registered"));
    }
}
