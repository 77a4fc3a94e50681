//! Percent-encoding, as in URLs (RFC 3986 §2.1).

/// Encodes a part of a URL's path.
#[cfg(feature = "cloud")]
pub(super) fn encode(part: &str) -> String {
    let mut encoded = String::new();
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Decodes a part of a URL; `None` if it is not valid.
pub(super) fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}
