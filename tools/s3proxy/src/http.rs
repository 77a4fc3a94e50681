//! Subset of HTTP/1.1 for a proxy: heads, and bodies of a known length.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read};

/// Maximum size of a head and of a chunked body, in bytes.
const MAX_HEAD_BYTES: u64 = 64 << 10;
const MAX_CHUNKED_BYTES: usize = 64 << 20;

/// First line and headers of a request or a response.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// First line, without its line end.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
}

fn bad(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Reads one line without its end; `None` at the end of the stream.
fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if from.take(MAX_HEAD_BYTES).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let kept = line.strip_suffix('\n').ok_or_else(|| bad("a line of a head is cut short"))?;
    Ok(Some(kept.strip_suffix('\r').unwrap_or(kept).to_owned()))
}

impl Head {
    pub(crate) fn new(line: &str) -> Self {
        Self { line: line.to_owned(), headers: Vec::new() }
    }

    /// Reads a head; `None` if the stream ends before it starts.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(line) = read_line(from)? else { return Ok(None) };
        let mut head = Self::new(&line);
        loop {
            let line = read_line(from)?.ok_or_else(|| bad("a head is cut short"))?;
            if line.is_empty() {
                return Ok(Some(head));
            }
            let (name, value) = line.split_once(':').ok_or_else(|| bad("a header has no colon"))?;
            head.headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// Returns the value of a header.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Replaces or adds a header.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.into()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
    }

    /// Returns `Content-Length`, 0 if it is missing.
    pub(crate) fn length(&self) -> io::Result<u64> {
        self.get("content-length").map_or(Ok(0), |text| text.parse().map_err(|_| bad("not a length")))
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }

    /// Returns a word of the first line: method, target and version, or version, status and reason.
    pub(crate) fn word(&self, number: usize) -> &str {
        self.line.split(' ').nth(number).unwrap_or_default()
    }

    /// Returns the status of a response.
    pub(crate) fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or(0)
    }

    /// Encodes the head for the wire.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}

/// Reads the body of a chunked response.
pub(crate) fn read_chunked(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from)?.ok_or_else(|| bad("a chunked body is cut short"))?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| bad("not the size of a chunk"))?;
        let before = body.len();
        from.take(size).read_to_end(&mut body)?;
        if (body.len() - before) as u64 != size || body.len() > MAX_CHUNKED_BYTES {
            return Err(bad("a chunked body is cut short or too long"));
        }
        while !read_line(from)?.ok_or_else(|| bad("a chunked body is cut short"))?.is_empty() {}
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Returns the pairs of a query, percent-decoded.
pub(crate) fn query(target: &str) -> Vec<(String, String)> {
    let (_, query) = target.split_once('?').unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(k, v)| (decoded(k), decoded(v)))
        .collect()
}

/// Decodes `%2C` and the like in a text.
pub(crate) fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let value = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(value.unwrap_or(b'%'));
        bytes.extend_from_slice(&part.as_bytes()[if value.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_changed_and_written() {
        let text = b"GET /a?x=1 HTTP/1.1\r\nHost: h\r\nrange:  bytes=0-1 \r\n\r\nbody";
        let mut from = &text[..];
        let mut head = Head::read(&mut from).unwrap().unwrap();
        assert_eq!(from, b"body");
        assert_eq!((head.word(0), head.word(1), head.get("Range")), ("GET", "/a?x=1", Some("bytes=0-1")));
        head.set("Range", "bytes=2-3");
        head.remove("HOST");
        assert_eq!(head.bytes(), b"GET /a?x=1 HTTP/1.1\r\nRange: bytes=2-3\r\n\r\n");
        assert!(Head::read(&mut &b""[..]).unwrap().is_none());
        assert!(Head::read(&mut &b"GET / HTTP/1.1\r\nHost"[..]).is_err());
    }

    #[test]
    fn chunked_bodies_are_joined() {
        let text = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nnext";
        let mut from = &text[..];
        assert_eq!(read_chunked(&mut from).unwrap(), b"abc0123456789");
        assert_eq!(from, b"next");
        assert!(read_chunked(&mut &b"5\r\nabc"[..]).is_err());
    }

    #[test]
    fn queries_are_decoded() {
        let pairs = query("/__set?a=x%2Cy%3A0.5&b&c=%zz");
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "x,y:0.5"), ("b", ""), ("c", "%zz")]);
        assert!(query("/").is_empty());
    }
}
