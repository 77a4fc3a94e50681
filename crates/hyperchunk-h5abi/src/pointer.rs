//! Link files: a name on this machine for a file over a network, for programs that take no URLs.
//!
//! Such a file begins as every HDF5 file does, since programs look at that by themselves; then comes a version of the
//! superblock that no HDF5 has, so that who does not know links fails, `hyperchunk link 1`, and the URL, each with the end of a
//! line.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// HDF5's signature, no version of a superblock, ours.
const START: &[u8] = b"\x89HDF\r\n\x1a\n\xffhyperchunk link 1\n";
/// No link is longer.
const LONGEST: usize = 4096;

/// The bytes of a link to a URL.
///
/// # Errors
/// A message, if no link can say it.
pub fn encode(url: &str) -> Result<Vec<u8>, String> {
    if !url.contains("://") || url.chars().any(char::is_control) {
        return Err(format!("`{}` is no URL", url.escape_debug()));
    }
    let bytes = [START, url.as_bytes(), b"\n"].concat();
    if bytes.len() > LONGEST { Err("the URL is too long".into()) } else { Ok(bytes) }
}

/// The URL that these bytes are a link to.
fn decode(bytes: &[u8]) -> Option<&str> {
    let url = std::str::from_utf8(bytes.strip_prefix(START)?.strip_suffix(b"\n")?).ok()?;
    (!url.chars().any(char::is_control)).then_some(url)
}

/// The URL that a file is a link to, if it is one.
pub(crate) fn read(path: &Path) -> Option<String> {
    let look = || -> io::Result<Vec<u8>> {
        let about = path.metadata()?;
        if !about.is_file() || about.len() > LONGEST as u64 || about.len() <= START.len() as u64 {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // What cannot be read fails natively, with the words that everybody knows.
    let bytes = look().ok().filter(|bytes| bytes.len() <= LONGEST)?;
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
        for wrong in ["a.h5", "grpc://a\nb", &format!("s3://{}", "x".repeat(LONGEST))] {
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
