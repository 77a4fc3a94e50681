//! Tokens as ranges of the source: small, and without copies before they are needed.

use std::borrow::Cow;

/// `->` of C++.
pub(super) const ARROW: char = '→';
/// `::` of C++ and Lua.
pub(super) const SCOPE: char = '∷';
/// `..` of Lua.
pub(super) const CONCAT: char = '‥';
/// A comparison (`==`, `~=`, `<=`, `>=`) of Lua.
pub(super) const COMPARE: char = '≡';

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Identifier or keyword.
    Word,
    /// Content of a string literal, with escapes not yet decoded.
    Text,
    /// Content of a string literal without escapes.
    Raw,
    /// Operator: its character, or one of the constants above.
    Op(char),
    /// Number or character, which the scanners ignore.
    Other,
}

/// Token: bytes `start..end` of the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    kind: Kind,
    line: u32,
    start: u32,
    end: u32,
}

/// Tokens of a source. Every method accepts any index; there are no tokens past the end.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    source: &'a [u8],
    list: Vec<Token>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Tokens { source: source.as_bytes(), list: Vec::new() }
    }

    pub(super) fn push(&mut self, kind: Kind, line: u32, start: usize, end: usize) {
        // Sources have at most 16 MiB, so this never saturates.
        let small = |n| u32::try_from(n).unwrap_or(u32::MAX);
        self.list.push(Token { kind, line, start: small(start), end: small(end) });
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn kind(&self, at: usize) -> Option<Kind> {
        self.list.get(at).map(|t| t.kind)
    }

    /// Returns the line of token `at`, or of the last one.
    pub(super) fn line(&self, at: usize) -> u32 {
        self.list.get(at).or(self.list.last()).map_or(1, |t| t.line)
    }

    pub(super) fn bytes(&self, at: usize) -> &'a [u8] {
        let range = |t: &Token| t.start as usize..t.end as usize;
        self.list.get(at).and_then(|t| self.source.get(range(t))).unwrap_or_default()
    }

    /// Returns the identifier at `at`, or `None` for another kind of token.
    pub(super) fn word(&self, at: usize) -> Option<Cow<'a, [u8]>> {
        // An identifier contains a backslash only for a C++ line continuation.
        match self.kind(at)? {
            Kind::Word if self.bytes(at).contains(&b'\\') => Some(join_lines(self.bytes(at))),
            Kind::Word => Some(Cow::Borrowed(self.bytes(at))),
            _ => None,
        }
    }

    pub(super) fn is_word(&self, at: usize, word: &str) -> bool {
        self.word(at).is_some_and(|w| *w == *word.as_bytes())
    }

    pub(super) fn is_op(&self, at: usize, op: char) -> bool {
        self.kind(at) == Some(Kind::Op(op))
    }

    pub(super) fn is_any_op(&self, at: usize, ops: &[char]) -> bool {
        matches!(self.kind(at), Some(Kind::Op(op)) if ops.contains(&op))
    }

    pub(super) fn is_string(&self, at: usize) -> bool {
        matches!(self.kind(at), Some(Kind::Text | Kind::Raw))
    }

    /// Returns whether the token before `at` is one of `ops`.
    pub(super) fn follows(&self, at: usize, ops: &[char]) -> bool {
        at.checked_sub(1).is_some_and(|before| self.is_any_op(before, ops))
    }

    /// Returns whether the token before `at` is `word`.
    pub(super) fn follows_word(&self, at: usize, word: &str) -> bool {
        at.checked_sub(1).is_some_and(|before| self.is_word(before, word))
    }
}

/// Returns the length of a C++ line continuation at the start of `text`, or 0. As in GCC, blanks may precede
/// the line end.
pub(super) fn continuation(text: &[u8]) -> usize {
    let [b'\\', rest @ ..] = text else { return 0 };
    let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)).count();
    if rest.get(blanks) == Some(&b'\n') { blanks + 2 } else { 0 }
}

/// Removes C++ line continuations from `text`.
pub(super) fn join_lines(mut text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\n') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        match continuation(text) {
            0 => {
                out.push(*first);
                text = rest;
            }
            n => text = text.get(n..).unwrap_or_default(),
        }
    }
    Cow::Owned(out)
}

/// Placeholder in a decoded string for an invalid escape; it makes the string invalid as a name.
pub(super) const INVALID_ESCAPE: u8 = 0xff;

/// Appends the character with this number, or [`INVALID_ESCAPE`].
pub(super) fn push_char(out: &mut Vec<u8>, number: Option<u32>) {
    match number.and_then(char::from_u32) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.push(INVALID_ESCAPE),
    }
}

/// Reads up to `max` digits of base `radix`. Returns their value (`None` without digits, or if too large),
/// and the rest.
pub(super) fn digits(text: &[u8], radix: u32, max: usize) -> (Option<u32>, &[u8]) {
    let is_digit = |b: &u8| char::from(*b).is_digit(radix);
    let count = text.iter().take(max).take_while(|b| is_digit(b)).count();
    let (head, rest) = text.split_at_checked(count).unwrap_or((text, &[]));
    let value = std::str::from_utf8(head).ok().and_then(|d| u32::from_str_radix(d, radix).ok());
    (value, rest)
}

/// Reads `{digits}` of base 16. Returns the value, and the rest after the brace.
pub(super) fn braced(text: &[u8]) -> (Option<u32>, &[u8]) {
    let (value, rest) = digits(text.strip_prefix(b"{").unwrap_or_default(), 16, usize::MAX);
    match rest.strip_prefix(b"}") {
        Some(rest) => (value, rest),
        None => (None, rest),
    }
}
