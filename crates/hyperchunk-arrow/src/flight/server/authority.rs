//! Workaround for gRPC's C++ library: as the host of a Unix socket it sends the socket's path with `%2F`,
//! which is not a host. h2 0.4 refuses such requests before any service of ours or of tonic's sees them, so
//! pyarrow could not connect to a Unix socket. The header frames are rewritten as they arrive: `%` becomes
//! `-`. Connections over TCP are not touched.
//!
//! Source: RFC 9113 (frames), RFC 7541 (headers). Only the value of `:authority` is changed, and no length.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Length of the client's connection preface.
const PREFACE_BYTES: usize = 24;
/// Length of a frame's head.
const FRAME_HEAD_BYTES: usize = 9;
/// The type of header frames, and their flags.
const HEADERS_FRAME: u8 = 1;
const PADDED_FLAG: u8 = 8;
const PRIORITY_FLAG: u8 = 32;
/// Maximum length of rewritten header frames; no supported client sends longer ones.
const MAX_HEADERS_BYTES: usize = 64 << 10;

/// The state of the parser.
#[derive(Debug)]
enum ParserState {
    /// The remaining number of bytes that are not headers.
    Other(usize),
    /// A part that is being received: its bytes so far, and its length.
    Whole(FramePart, Vec<u8>, usize),
    /// Bytes to pass on, the number passed on already, and the next state.
    Ready(Vec<u8>, usize, Box<ParserState>),
}

#[derive(Debug, Clone, Copy)]
enum FramePart {
    Head,
    /// The payload of a frame with these flags.
    Headers(u8),
}

/// A reader that parses frames and rewrites the authority.
#[derive(Debug)]
pub(super) struct AuthorityRewriter(ParserState);

impl AuthorityRewriter {
    pub(super) fn new() -> Self {
        Self(ParserState::Other(PREFACE_BYTES))
    }

    /// Reads from a stream, as its own `poll_read` does.
    pub(super) fn poll_read(
        &mut self,
        mut stream: Pin<&mut impl AsyncRead>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match &mut self.0 {
                ParserState::Other(0) => {
                    self.0 = ParserState::Whole(FramePart::Head, Vec::new(), FRAME_HEAD_BYTES)
                }
                ParserState::Other(left) => {
                    let most = buffer.remaining().min(*left);
                    let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
                    ready!(stream.as_mut().poll_read(context, &mut part))?;
                    let received = part.filled().len();
                    buffer.advance(received);
                    *left -= received;
                    return Poll::Ready(Ok(()));
                }
                ParserState::Whole(part, bytes, length) => {
                    let mut scratch = [0; 4096];
                    let missing = (*length - bytes.len()).min(scratch.len());
                    let mut received = ReadBuf::new(&mut scratch[..missing]);
                    ready!(stream.as_mut().poll_read(context, &mut received))?;
                    bytes.extend_from_slice(received.filled());
                    if received.filled().is_empty() && missing > 0 {
                        // The stream ended inside a frame; the partial frame is useless.
                        return Poll::Ready(Ok(()));
                    }
                    if bytes.len() == *length {
                        self.0 = whole(*part, std::mem::take(bytes));
                    }
                }
                ParserState::Ready(bytes, taken, then) => {
                    let rest = bytes.get(*taken..).unwrap_or_default();
                    let part = rest.get(..rest.len().min(buffer.remaining())).unwrap_or_default();
                    buffer.put_slice(part);
                    *taken += part.len();
                    if *taken == bytes.len() {
                        let then = std::mem::replace(&mut **then, ParserState::Other(0));
                        self.0 = then;
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

/// Returns the state after a complete part.
fn whole(part: FramePart, mut bytes: Vec<u8>) -> ParserState {
    let then = match (part, bytes.as_slice()) {
        (FramePart::Head, [a, b, c, kind, flags, ..]) => {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            match *kind == HEADERS_FRAME && (1..=MAX_HEADERS_BYTES).contains(&length) {
                true => ParserState::Whole(FramePart::Headers(*flags), Vec::with_capacity(length), length),
                false => ParserState::Other(length),
            }
        }
        (FramePart::Headers(flags), _) => {
            // The rest of an invalid header list is left unchanged: h2 will report it.
            let _ = rewrite_headers(&mut bytes, flags);
            ParserState::Other(0)
        }
        (FramePart::Head, _) => ParserState::Other(0),
    };
    ParserState::Ready(bytes, 0, Box::new(then))
}

/// Rewrites the headers of a frame.
fn rewrite_headers(payload: &mut [u8], flags: u8) -> Option<()> {
    let mut at = 0;
    let mut end = payload.len();
    if flags & PADDED_FLAG != 0 {
        end = end.checked_sub(usize::from(*payload.first()?))?;
        at = 1;
    }
    if flags & PRIORITY_FLAG != 0 {
        at += 5;
    }
    let fields = payload.get_mut(at..end)?;
    let mut at = 0;
    while at < fields.len() {
        let first = *fields.get(at)?;
        let prefix = match first {
            // Indexed field (RFC 7541, 6.1).
            128.. => {
                number(fields, &mut at, 7)?;
                continue;
            }
            // Literal with incremental indexing (6.2.1).
            64.. => 6,
            // Dynamic table size update (6.3).
            32.. => {
                number(fields, &mut at, 5)?;
                continue;
            }
            // Literal without indexing, or never indexed (6.2.2, 6.2.3).
            _ => 4,
        };
        // RFC 7541, appendix A: the first entry is `:authority`.
        let is_authority = match number(fields, &mut at, prefix)? {
            0 => string(fields, &mut at)?.is_some_and(|name| name == b":authority"),
            index => index == 1,
        };
        if let Some(value) = string(fields, &mut at)?.filter(|_| is_authority) {
            value.iter_mut().filter(|byte| **byte == b'%').for_each(|byte| *byte = b'-');
        }
    }
    Some(())
}

/// Parses a number whose prefix is the low `bits` bits of a byte (RFC 7541, 5.1).
fn number(fields: &[u8], at: &mut usize, bits: u32) -> Option<usize> {
    let mask = (1_usize << bits) - 1;
    let mut value = usize::from(*fields.get(*at)?) & mask;
    *at += 1;
    if value < mask {
        return Some(value);
    }
    for shift in (0..28).step_by(7) {
        let byte = usize::from(*fields.get(*at)?);
        *at += 1;
        value += (byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

/// Parses a string; the inner value is `None` if it is Huffman-coded (RFC 7541, 5.2).
fn string<'a>(fields: &'a mut [u8], at: &mut usize) -> Option<Option<&'a mut [u8]>> {
    let packed = *fields.get(*at)? >= 128;
    let length = number(fields, at, 7)?;
    let start = *at;
    *at = start.checked_add(length)?;
    let text = fields.get_mut(start..*at)?;
    Some((!packed).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output for a stream of these bytes, read in parts of a size.
    fn read(bytes: &[u8], size: usize) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut stream, mut rewriter, mut out) = (bytes, AuthorityRewriter::new(), Vec::new());
            loop {
                let mut scratch = vec![0; size];
                let mut buffer = ReadBuf::new(&mut scratch);
                std::future::poll_fn(|context| {
                    rewriter.poll_read(Pin::new(&mut stream), context, &mut buffer)
                })
                .await
                .unwrap();
                if buffer.filled().is_empty() {
                    return out;
                }
                out.extend_from_slice(buffer.filled());
            }
        })
    }

    #[test]
    fn authorities_are_mended() {
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut add = |kind: u8, flags: u8, payload: &[u8]| {
            sent.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes()[1..]);
            sent.extend_from_slice(&[kind, flags, 0, 0, 0, 1]);
            sent.extend_from_slice(payload);
        };
        add(4, 0, b"\x00\x02\x00\x00\x00\x00");
        // By name and by index; other values with `%` stay, as do data.
        let fields = b"\x40\x05:path\x04/%2F\x40\x0a:authority\x05a%2Fb\x83\x86\x01\x03x%y\x40\x03a%b\x02%%";
        add(1, 4, fields);
        add(1, 4 | PADDED_FLAG | PRIORITY_FLAG, &[b"\x03abcde".as_slice(), fields, b"%%%"].concat());
        add(0, 0, &[b'%'; 5000]);
        add(1, 4, b"\xff\xff\xff\xff\xff\xff:authority\x05%");
        let expected = {
            let mut text = sent.clone();
            for (from, to) in [(b"a%2Fb".as_slice(), b"a-2Fb".as_slice()), (b"x%y", b"x-y")] {
                let places: Vec<usize> =
                    (0..text.len() - from.len()).filter(|at| text[*at..].starts_with(from)).collect();
                assert_eq!(places.len(), 2);
                places.iter().for_each(|at| text[*at..at + to.len()].copy_from_slice(to));
            }
            text
        };
        for size in [1, 2, 7, 9, 100, 10_000] {
            assert_eq!(read(&sent, size), expected, "{size}");
        }
    }

    #[test]
    fn test_authority_rewriter_passes_invalid_frames() {
        let mut seed = 1_u32;
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend((0..20_000).map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Many heads of header frames.
            [0, 0, 9, 1, (seed >> 24) as u8][(seed >> 16) as usize % 5]
        }));
        assert!(read(&bytes, 100).len() <= bytes.len());
    }
}
