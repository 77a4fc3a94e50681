//! JSON text, written as it comes: names in files need not be UTF-8, and outputs may be long.

use hyperchunk_udf::escape::is_unseen;
use std::fmt;

/// A name or string of a file as a JSON string. Bytes that are not UTF-8 become lone surrogates, U+DC80 to U+DCFF, as in
/// Python's `surrogateescape`.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '"' => f.write_str("\\\"")?,
                    '\\' => f.write_str("\\\\")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    c if is_unseen(c) => {
                        let mut units = [0; 2];
                        c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(f, "\\u{unit:04x}"))?;
                    }
                    c => fmt::Write::write_char(f, c)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\udc{byte:02x}"))?;
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        let check = |bytes: &[u8], json: &str| assert_eq!(Text(bytes).to_string(), json);
        check(b"a\"\\\n\x1b", r#""a\"\\\n\u001b""#);
        check("Zürich\u{202e}".as_bytes(), "\"Zürich\\u202e\"");
        check(b"a\xffb\xc3", r#""a\udcffb\udcc3""#);
    }
}
