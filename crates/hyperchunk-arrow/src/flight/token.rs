//! Tokens for authorisation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;

use hyperchunk::{Error, ErrorKind, Result};

/// The environment variable that holds the token, for servers and clients.
pub const VARIABLE: &str = "HYPERCHUNK_TOKEN";
/// Maximum length of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 4096;

/// A secret that client and server share. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Makes a token.
    ///
    /// # Errors
    /// Invalid if it is empty, too long, or not valid in a header.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty()
            || text.len() > MAX_TOKEN_BYTES
            || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let message =
                format!("a token must be 1 to {MAX_TOKEN_BYTES} visible ASCII characters, without spaces");
            return Err(Error::invalid(message));
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a token from a file.
    ///
    /// # Errors
    /// NotFound or Io from the system; as [`Token::new`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the token: {error}")).file(path.display())
        })?;
        Self::new(&text).map_err(|error| error.file(path.display()))
    }

    /// Returns the token in the environment, if there is one.
    ///
    /// # Errors
    /// As [`Token::new`].
    pub fn from_environment() -> Result<Option<Self>> {
        let set = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
        set.map(|text| Self::new(&text)).transpose()
    }

    /// Returns the authorization header.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Returns whether a header has this token: `Bearer TOKEN`, or `Basic` with any user and the token as the
    /// password.
    pub(super) fn is_in(&self, header: &[u8]) -> bool {
        let Some((scheme, rest)) = std::str::from_utf8(header).ok().and_then(|text| text.split_once(' '))
        else {
            return false;
        };
        if scheme.eq_ignore_ascii_case("bearer") {
            return same(self.0.as_bytes(), rest.trim().as_bytes());
        }
        if !scheme.eq_ignore_ascii_case("basic") || rest.len() > MAX_TOKEN_BYTES * 2 {
            return false;
        }
        let Ok(decoded) = STANDARD.decode(rest.trim()) else { return false };
        let colon = decoded.iter().position(|byte| *byte == b':');
        colon.and_then(|at| decoded.get(at + 1..)).is_some_and(|given| same(self.0.as_bytes(), given))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Compares two texts in a time that depends only on the length of the given one.
fn same(secret: &[u8], given: &[u8]) -> bool {
    let mut difference = u8::from(secret.len() != given.len());
    for (place, byte) in given.iter().enumerate() {
        // The secret is never empty.
        let other = secret.get(place % secret.len().max(1)).copied().unwrap_or_default();
        difference |= std::hint::black_box(byte ^ other);
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let token = Token::new(" s3cret\n").unwrap();
        let check = |header: &str, good| assert_eq!(token.is_in(header.as_bytes()), good, "{header}");
        check("Bearer s3cret", true);
        check("bearer s3cret", true);
        check("Bearer s3creT", false);
        check("Bearer s3crets3cret", false);
        check("Bearer s3cre", false);
        check("Bearer ", false);
        check("s3cret", false);
        check("Basic bWU6czNjcmV0", true);
        check("Basic bWU6czNjcmVU", false);
        check("Basic !", false);
        check("Basic bWU=", false);
        assert!(!token.is_in(b"Bearer \xff"));
        assert_eq!(token.header(), "Bearer s3cret");
        assert_eq!(format!("{token:?}"), "Token(…)");
        for bad in ["", " ", "a b", "ä", &"x".repeat(5000)] {
            assert!(Token::new(bad).is_err());
        }
    }
}
