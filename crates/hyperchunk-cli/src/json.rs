//! JSON text, written without serde_json: names in files need not be UTF-8, and outputs may be long.

use hyperchunk_udf::escape::is_unseen;
use std::fmt;

/// Name or string from a file, displayed as a JSON string. Bytes that are not UTF-8 become lone surrogates,
/// U+DC80 to U+DCFF, as in Python's `surrogateescape`.
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
                    c if is_unseen(c) => escape(f, c)?,
                    c => fmt::Write::write_char(f, c)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\udc{byte:02x}"))?;
        }
        f.write_str("\"")
    }
}

/// Writes a character as JSON escapes of its UTF-16 units.
fn escape(out: &mut impl fmt::Write, c: char) -> fmt::Result {
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

/// JSON text, displayed with escapes for characters that a terminal obeys. JSON has such characters only in
/// its strings.
pub(crate) struct TerminalSafe<'a>(pub(crate) &'a str);

impl fmt::Display for TerminalSafe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' | '\t' => fmt::Write::write_char(f, c),
            c if is_unseen(c) => escape(f, c),
            c => fmt::Write::write_char(f, c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_are_escaped_in_json() {
        let text = "a\u{202e}b\u{7f}\u{e0001}\u{9b}";
        let json = TerminalSafe(&serde_json::json!({ text: [text] }).to_string()).to_string();
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
