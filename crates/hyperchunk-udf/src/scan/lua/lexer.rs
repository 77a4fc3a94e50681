//! Lexer for Lua 5.1 as LuaJIT reads it.

use super::super::token::{COMPARE, CONCAT, INVALID_ESCAPE, Kind, SCOPE, Tokens, braced, digits, push_char};
use crate::error::{Result, fail};

/// Splits `source` into tokens, without comments and a `#!` line.
pub(super) fn lex(source: &str) -> Result<Tokens<'_>> {
    let mut lexer = Lexer { source: source.as_bytes(), at: 0, line: 1, tokens: Tokens::new(source) };
    if lexer.byte(0) == b'#' {
        lexer.skip_line();
    }
    while lexer.at < lexer.source.len() {
        lexer.token()?;
    }
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    line: u32,
    tokens: Tokens<'a>,
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

impl Lexer<'_> {
    /// Returns the byte at distance `ahead`; 0 past the end.
    fn byte(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn ends(&self) -> bool {
        self.at >= self.source.len()
    }

    fn push(&mut self, kind: Kind, length: usize) {
        self.tokens.push(kind, self.line, self.at, self.at + length);
        self.at += length;
    }

    fn skip_line(&mut self) {
        while !self.ends() && !matches!(self.byte(0), b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Skips a line end; `\r\n` and `\n\r` count as one.
    fn newline(&mut self) {
        let pair = matches!((self.byte(0), self.byte(1)), (b'\r', b'\n') | (b'\n', b'\r'));
        self.at += if pair { 2 } else { 1 };
        self.line += 1;
    }

    fn token(&mut self) -> Result<()> {
        match (self.byte(0), self.byte(1)) {
            (b'\n' | b'\r', _) => self.newline(),
            (b' ' | b'\t' | 0x0b | 0x0c, _) => self.at += 1,
            (b'-', b'-') => {
                self.at += 2;
                match self.long_level() {
                    Some(level) => {
                        self.long(level, "comment")?;
                    }
                    None => self.skip_line(),
                }
            }
            (b'[', _) => match self.long_level() {
                Some(level) => {
                    let line = self.line;
                    let (start, end) = self.long(level, "string")?;
                    self.tokens.push(Kind::Raw, line, start, end);
                }
                None => self.push(Kind::Op('['), 1),
            },
            (quote @ (b'"' | b'\''), _) => self.string(quote)?,
            (b'0'..=b'9', _) | (b'.', b'0'..=b'9') => self.number(),
            (b'.', b'.') if self.byte(2) == b'.' => self.push(Kind::Other, 3),
            (b'.', b'.') => self.push(Kind::Op(CONCAT), 2),
            (b'=' | b'~' | b'<' | b'>', b'=') => self.push(Kind::Op(COMPARE), 2),
            (b':', b':') => self.push(Kind::Op(SCOPE), 2),
            (b, _) if is_name(b) => {
                let rest = self.source.get(self.at..).unwrap_or_default();
                self.push(Kind::Word, rest.iter().take_while(|b| is_name(**b)).count());
            }
            (b, _) => self.push(Kind::Op(char::from(b)), 1),
        }
        Ok(())
    }

    fn number(&mut self) {
        let exponent = if matches!((self.byte(0), self.byte(1)), (b'0', b'x' | b'X')) { b'p' } else { b'e' };
        let start = self.at;
        while is_name(self.byte(0)) || self.byte(0) == b'.' {
            let signed = self.byte(0).to_ascii_lowercase() == exponent && matches!(self.byte(1), b'+' | b'-');
            self.at += if signed { 2 } else { 1 };
        }
        self.tokens.push(Kind::Other, self.line, start, self.at);
    }

    /// Returns the number of `=` if a long bracket opens here.
    fn long_level(&self) -> Option<usize> {
        let rest = self.source.get(self.at..)?.strip_prefix(b"[")?;
        let level = rest.iter().take_while(|b| **b == b'=').count();
        (rest.get(level) == Some(&b'[')).then_some(level)
    }

    /// Skips a long bracket and returns the range of its content, without a line end at its start.
    fn long(&mut self, level: usize, what: &str) -> Result<(usize, usize)> {
        let first = self.line;
        self.at += level + 2;
        if matches!(self.byte(0), b'\n' | b'\r') {
            self.newline();
        }
        let start = self.at;
        while !self.ends() {
            match self.byte(0) {
                b'\n' | b'\r' => self.newline(),
                b']' => {
                    let end = self.at;
                    self.at += 1;
                    while self.byte(0) == b'=' {
                        self.at += 1;
                    }
                    if self.byte(0) == b']' && self.at - end - 1 == level {
                        self.at += 1;
                        return Ok((start, end));
                    }
                }
                _ => self.at += 1,
            }
        }
        fail!(Syntax, "line {first}: this long {what} is not closed")
    }

    fn string(&mut self, quote: u8) -> Result<()> {
        let (first, start) = (self.line, self.at + 1);
        self.at = start;
        while !self.ends() {
            match (self.byte(0), self.byte(1)) {
                (b, _) if b == quote => {
                    self.tokens.push(Kind::Text, first, start, self.at);
                    self.at += 1;
                    return Ok(());
                }
                (b'\n' | b'\r', _) => break,
                (b'\\', b'\n' | b'\r') => {
                    self.at += 1;
                    self.newline();
                }
                (b'\\', b'z') => {
                    self.at += 2;
                    while is_space(self.byte(0)) {
                        if matches!(self.byte(0), b'\n' | b'\r') { self.newline() } else { self.at += 1 }
                    }
                }
                (b'\\', _) => self.at += 2,
                _ => self.at += 1,
            }
        }
        fail!(Syntax, "line {first}: this string is not closed")
    }
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Decodes the content of a quoted string.
pub(super) fn unescape(mut text: &[u8]) -> Vec<u8> {
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
        [b'0'..=b'9', ..] => {
            let (value, rest) = digits(text, 10, 3);
            (byte(value), rest)
        }
        [b'x', rest @ ..] => {
            let (value, after) = digits(rest, 16, 2);
            (byte(value.filter(|_| rest.len() - after.len() == 2)), after)
        }
        [b'u', rest @ ..] => {
            let (value, rest) = braced(rest);
            push_char(out, value);
            return rest;
        }
        [b'z', rest @ ..] => {
            let blanks = rest.iter().take_while(|b| is_space(**b)).count();
            return rest.get(blanks..).unwrap_or_default();
        }
        [b'\r', b'\n', rest @ ..] | [b'\n', b'\r', rest @ ..] | [b'\n' | b'\r', rest @ ..] => (b'\n', rest),
        [b'a', rest @ ..] => (0x07, rest),
        [b'b', rest @ ..] => (0x08, rest),
        [b'f', rest @ ..] => (0x0c, rest),
        [b'n', rest @ ..] => (b'\n', rest),
        [b'r', rest @ ..] => (b'\r', rest),
        [b't', rest @ ..] => (b'\t', rest),
        [b'v', rest @ ..] => (0x0b, rest),
        [letter @ (b'\\' | b'"' | b'\''), rest @ ..] => (*letter, rest),
        [_, rest @ ..] => (INVALID_ESCAPE, rest),
    };
    out.push(letter);
    rest
}
