//! Link files: local names for files over a network, for programs that take no URLs.
//!
//! A link file begins with the HDF5 signature, since some programs check it themselves. Then comes a
//! superblock version that HDF5 does not have, so that programs that do not know link files fail; then
//! `hyperchunk link 1` and the URL, each followed by a newline.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// HDF5's signature, an invalid superblock version, and our own version.
const START: &[u8] = b"\x89HDF\r\n\x1a\n\xffhyperchunk link 1\n";
/// Maximum size of a link file, in bytes.
const MAX_LINK_BYTES: usize = 4096;

/// Returns the contents of a link file for a URL.
///
/// # Errors
/// A message, if the URL cannot be stored in a link.
pub fn encode(url: &str) -> Result<Vec<u8>, String> {
    if !url.contains("://") || url.chars().any(char::is_control) {
        return Err(format!("`{}` is not a URL", url.escape_debug()));
    }
    let bytes = [START, url.as_bytes(), b"\n"].concat();
    if bytes.len() > MAX_LINK_BYTES { Err("the URL is too long".into()) } else { Ok(bytes) }
}

/// Returns the URL in the contents of a link file.
fn decode(bytes: &[u8]) -> Option<&str> {
    let url = std::str::from_utf8(bytes.strip_prefix(START)?.strip_suffix(b"\n")?).ok()?;
    (!url.chars().any(char::is_control)).then_some(url)
}

/// Returns the URL in a link file, or `None` if the file is not one.
pub(crate) fn read(path: &Path) -> Option<String> {
    let look = || -> io::Result<Vec<u8>> {
        let about = path.metadata()?;
        if !about.is_file() || about.len() > MAX_LINK_BYTES as u64 || about.len() <= START.len() as u64 {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_LINK_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // An unreadable file fails later in native HDF5, with its usual messages.
    let bytes = look().ok().filter(|bytes| bytes.len() <= MAX_LINK_BYTES)?;
    decode(&bytes).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_what_is_none() {
        let url = "grpc://host:8815/a b.h5";
        let link = encode(url).unwrap();
        assert_eq!(decode(&link), Some(url));
        for wrong in ["a.h5", "grpc://a\nb", &format!("s3://{}", "x".repeat(MAX_LINK_BYTES))] {
            assert!(encode(wrong).is_err(), "{wrong}");
        }
        for end in 0..link.len() {
            assert_eq!(decode(&link[..end]), None, "{end}");
        }
        assert_eq!(decode(b"\x89HDF\r\n\x1a\n\x00hyperchunk link 1\ns3://a/b\n"), None);
        assert_eq!(read(Path::new("/not/there")), None);
        assert_eq!(read(Path::new("/")), None);
    }
}
