//! Recognition of files that are not HDF5, for error messages.

/// Number of bytes at the start of a file that are examined.
pub(super) const EXAMINED_BYTES: u64 = 256;

/// First bytes of formats that users take for HDF5, with what to do.
const SIGNATURES: [(&[u8], &str); 21] = [
    (b"\x89HCX", "it is a collection of files: open it with hyperchunk.open_collection or xarray"),
    (b"\x89HCI", "it is an index: open the file that it belongs to"),
    (b"CDF\x01", NETCDF3),
    (b"CDF\x02", NETCDF3),
    (b"CDF\x05", NETCDF3),
    (b"\x0E\x03\x13\x01", "it is an HDF4 file: convert it, for example with `h4toh5`"),
    (
        b"MATLAB 5.0",
        "it is a MAT-file of an earlier format: save it with -v7.3, or read it with scipy.io.loadmat",
    ),
    (b"PAR1", ARROW),
    (b"ARROW1", ARROW),
    (b"\x93NUMPY", "it is a NumPy array: read it with numpy.load"),
    (b"GRIB", "it is a GRIB file: read it with cfgrib or ecCodes"),
    (b"SIMPLE  =", "it is a FITS file: read it with astropy"),
    (b"II*\0", TIFF),
    (b"MM\0*", TIFF),
    (b"PK\x03\x04", "it is a ZIP archive: unpack it first"),
    (b"\x1F\x8B", "it is compressed with gzip: decompress it first"),
    (b"BZh", "it is compressed with bzip2: decompress it first"),
    (b"\xFD7zXZ\0", "it is compressed with xz: decompress it first"),
    (b"\x28\xB5\x2F\xFD", "it is compressed with zstd: decompress it first"),
    (b"version https://git-lfs", "it is a Git LFS pointer: `git lfs pull` fetches the file"),
    (b"{", "it is a JSON document"),
];
const NETCDF3: &str = "it is a netCDF-3 file: `nccopy -k nc4 OLD NEW` converts it";
const ARROW: &str = "it is an Arrow or Parquet file: `hyperchunk arrow import` makes an HDF5 file of it";
const TIFF: &str = "it is a TIFF image: read it with tifffile or rasterio";
const HTML: &str = "it is an HTML page, which servers send for a wrong address or without a login";
const XML: &str = "it is an XML document, which object stores send for an error";

/// Returns what a file is, if its first bytes tell.
pub(super) fn recognize(first: &[u8]) -> Option<&'static str> {
    if first.is_empty() {
        return Some("it is empty");
    }
    if let Some((_, what)) = SIGNATURES.iter().find(|(signature, _)| first.starts_with(signature)) {
        return Some(what);
    }
    let text = first.trim_ascii_start().to_ascii_lowercase();
    let is_page = text.starts_with(b"<!doctype html") || text.starts_with(b"<html");
    let found = if is_page { Some(HTML) } else { None };
    found.or_else(|| text.starts_with(b"<?xml").then_some(XML))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognized_by_their_first_bytes() {
        let check = |first: &[u8], expected: Option<&str>| {
            assert_eq!(
                recognize(first).map(|what| what.contains(expected.unwrap_or("?"))),
                expected.map(|_| true)
            );
        };
        check(b"", Some("empty"));
        check(b"CDF\x02\0\0\0\0", Some("netCDF-3"));
        check(b"CDF\x09", None);
        check(b"\n <!DOCTYPE html>\n<html>", Some("HTML"));
        check(b"<HTML>", Some("HTML"));
        check(b"<?xml version=\"1.0\"?><Error>", Some("XML"));
        check(b"<svg", None);
        check(b"MATLAB 5.0 MAT-file, Platform: GLNXA64", Some("-v7.3"));
        check(b"version https://git-lfs.github.com/spec/v1\n", Some("git lfs pull"));
        check(b"\x89HDF\r\n\x1a", None);
        check(&[0; 100], None);
    }
}
