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

/// Escapes characters that a terminal obeys in JSON text. JSON has them only in its strings.
pub(crate) fn escape_unseen(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unseen(c) && c != '\n' && c != '\t' {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_are_escaped_in_json() {
        let text = "a\u{202e}b\u{7f}\u{e0001}\u{9b}";
        let json = escape_unseen(&serde_json::json!({ text: [text] }).to_string());
        assert_eq!(json.matches("\\u202e").count(), 2);
        assert!(json.is_ascii(), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()[text][0], text);
    }

    #[test]
    fn text() {
        let check = |bytes: &[u8], json: &str| assert_eq!(Text(bytes).to_string(), json);
        check(b"a\"\\\n\x1b", r#""a\"\\\n\u001b""#);
        check("Zürich\u{202e}".as_bytes(), "\"Zürich\\u202e\"");
        check(b"a\xffb\xc3", r#""a\udcffb\udcc3""#);
    }
}
