//! Lexer for C++, including preprocessor lines.
//!
//! Text in an inactive `#if` block need not be C++, so an unclosed quote on a line is not an error here.

use super::super::token::{
    ARROW, INVALID_ESCAPE, Kind, SCOPE, Tokens, braced, continuation, digits, join_lines, push_char,
};
use crate::error::{Result, fail};

/// Splits `source` into tokens, without comments.
pub(super) fn lex(source: &str) -> Result<Tokens<'_>> {
    let mut lexer = Lexer { text: source, at: 0, line: 1, lone_quote: false, tokens: Tokens::new(source) };
    lexer.settle();
    while !lexer.ends() {
        lexer.token()?;
    }
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    text: &'a str,
    /// Never at a line continuation.
    at: usize,
    line: u32,
    /// Set if a quote on this line is not closed: further quotes on it do not start literals.
    lone_quote: bool,
    tokens: Tokens<'a>,
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80
}

impl Lexer<'_> {
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Returns the byte after this one.
    fn next(&self) -> u8 {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        loop {
            match continuation(bytes.get(at..).unwrap_or_default()) {
                0 => return bytes.get(at).copied().unwrap_or(0),
                n => at += n,
            }
        }
    }

    fn ends(&self) -> bool {
        self.at >= self.text.len()
    }

    fn settle(&mut self) {
        loop {
            match continuation(self.text.as_bytes().get(self.at..).unwrap_or_default()) {
                0 => return,
                n => {
                    self.at += n;
                    self.line += 1;
                }
            }
        }
    }

    fn bump(&mut self) {
        if self.byte() == b'\n' {
            self.line += 1;
            self.lone_quote = false;
        }
        self.at += 1;
        self.settle();
    }

    /// Adds a token of `count` characters.
    fn push(&mut self, kind: Kind, count: usize) {
        let (line, start) = (self.line, self.at);
        for _ in 0..count {
            self.bump();
        }
        self.tokens.push(kind, line, start, self.at);
    }

    fn token(&mut self) -> Result<()> {
        match self.byte() {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => self.bump(),
            b'/' if self.next() == b'/' => {
                while !self.ends() && self.byte() != b'\n' {
                    self.bump();
                }
            }
            b'/' if self.next() == b'*' => self.block_comment()?,
            b'"' => self.literal(Kind::Text),
            b'\'' => self.literal(Kind::Other),
            b'0'..=b'9' => self.number(),
            b'.' if self.next().is_ascii_digit() => self.number(),
            b'-' if self.next() == b'>' => self.push(Kind::Op(ARROW), 2),
            b':' if self.next() == b':' => self.push(Kind::Op(SCOPE), 2),
            b if is_name(b) => self.word()?,
            b => self.push(Kind::Op(char::from(b)), 1),
        }
        Ok(())
    }

    fn block_comment(&mut self) -> Result<()> {
        let first = self.line;
        self.bump();
        self.bump();
        while !self.ends() {
            if self.byte() == b'*' && self.next() == b'/' {
                self.bump();
                self.bump();
                return Ok(());
            }
            self.bump();
        }
        fail!(Syntax, "line {first}: this comment is not closed")
    }

    fn number(&mut self) {
        let (line, start) = (self.line, self.at);
        while is_name(self.byte()) || matches!(self.byte(), b'.' | b'\'') {
            let next = self.next();
            match self.byte() {
                b'\'' if !is_name(next) => break,
                b'e' | b'E' | b'p' | b'P' if matches!(next, b'+' | b'-') => self.bump(),
                _ => (),
            }
            self.bump();
        }
        self.tokens.push(Kind::Other, line, start, self.at);
    }

    fn word(&mut self) -> Result<()> {
        let (line, start) = (self.line, self.at);
        while is_name(self.byte()) {
            self.bump();
        }
        let word = join_lines(self.text.as_bytes().get(start..self.at).unwrap_or_default());
        if self.byte() == b'"' && !self.lone_quote {
            match &*word {
                // The following string is the token.
                b"u8" | b"u" | b"U" | b"L" => return Ok(()),
                b"R" | b"u8R" | b"uR" | b"UR" | b"LR" => return self.raw_string(),
                _ => (),
            }
        }
        self.tokens.push(Kind::Word, line, start, self.at);
        Ok(())
    }

    /// Reads a string or character literal, or a quote by itself.
    fn literal(&mut self, kind: Kind) {
        let (line, open, quote) = (self.line, self.at, self.byte());
        if self.lone_quote {
            return self.push(Kind::Op(char::from(quote)), 1);
        }
        self.bump();
        let start = self.at;
        while !self.ends() && self.byte() != b'\n' {
            if self.byte() == quote {
                self.tokens.push(kind, line, start, self.at);
                return self.bump();
            }
            if self.byte() == b'\\' && self.next() != b'\n' {
                self.bump();
            }
            self.bump();
        }
        (self.line, self.at, self.lone_quote) = (line, open, true);
        self.push(Kind::Op(char::from(quote)), 1);
    }

    /// Reads `"delimiter(text)delimiter"`, where escapes and line continuations have no effect.
    fn raw_string(&mut self) -> Result<()> {
        let line = self.line;
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let Some((delimiter, body)) = rest.split_once('(').filter(|(d, _)| {
            d.len() <= 16 && !d.contains([' ', ')', '\\', '"', '\t', '\n', '\r', '\x0b', '\x0c'])
        }) else {
            fail!(Syntax, "line {line}: this raw string has no valid delimiter")
        };
        let closing = format!("){delimiter}\"");
        let Some(length) = body.find(&closing) else {
            fail!(Syntax, "line {line}: this raw string is not closed")
        };
        let start = self.at + 1 + delimiter.len() + 1;
        self.tokens.push(Kind::Raw, line, start, start + length);
        let inside = body.as_bytes().get(..length).unwrap_or_default();
        let lines = inside.iter().filter(|b| **b == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.at = start + length + closing.len();
        self.settle();
        Ok(())
    }
}

/// Decodes the content of a string literal.
pub(super) fn unescape(text: &[u8]) -> Vec<u8> {
    let joined = join_lines(text);
    let mut text = &*joined;
    let mut out = Vec::with_capacity(text.len());
    loop {
        text = match text {
            [] => return out,
            [b'\\', rest @ ..] => escape(rest, &mut out),
            [byte, rest @ ..] => {
                out.push(*byte);
                rest
            }
        }
    }
}

/// Decodes an escape after its backslash and returns the rest.
fn escape<'a>(text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let byte = |v: Option<u32>| v.and_then(|v| u8::try_from(v).ok()).unwrap_or(INVALID_ESCAPE);
    let (letter, rest) = match text {
        [] => (INVALID_ESCAPE, text),
        [b'0'..=b'7', ..] => {
            let (value, rest) = digits(text, 8, 3);
            (byte(value), rest)
        }
        [b'x', rest @ ..] => {
            let (value, rest) =
                if rest.starts_with(b"{") { braced(rest) } else { digits(rest, 16, usize::MAX) };
            (byte(value), rest)
        }
        [letter @ (b'u' | b'U'), rest @ ..] => {
            let count = if *letter == b'u' { 4 } else { 8 };
            let (value, rest) = if *letter == b'u' && rest.starts_with(b"{") {
                braced(rest)
            } else {
                let (value, after) = digits(rest, 16, count);
                (value.filter(|_| rest.len() - after.len() == count), after)
            };
            push_char(out, value);
            return rest;
        }
        [b'a', rest @ ..] => (0x07, rest),
        [b'b', rest @ ..] => (0x08, rest),
        [b'e', rest @ ..] => (0x1b, rest),
        [b'f', rest @ ..] => (0x0c, rest),
        [b'n', rest @ ..] => (b'\n', rest),
        [b'r', rest @ ..] => (b'\r', rest),
        [b't', rest @ ..] => (b'\t', rest),
        [b'v', rest @ ..] => (0x0b, rest),
        [letter @ (b'\\' | b'"' | b'\'' | b'?'), rest @ ..] => (*letter, rest),
        [_, rest @ ..] => (INVALID_ESCAPE, rest),
    };
    out.push(letter);
    rest
}
