//! Lexer for CUDA sources, with expansion of simple macros.
//!
//! Only the signatures of kernels and `dynamic_dataset` are examined. Static assertions make the compiler
//! check that it sees the same signatures. Text under `#if` is read as if every condition held.

use crate::error::{Result, fail};
use std::collections::HashMap;
use std::ops::Range;

/// Maximum number of tokens of a source after macro expansion.
const MAX_TOKENS: usize = 1 << 20;
/// Maximum nesting of macros.
const MAX_NESTING: usize = 16;
/// Words with a special meaning, which no macro may replace.
const RESERVED_WORDS: [&str; 5] = ["DATASET", "THREADS", "__global__", "dynamic_dataset", "lib"];
/// Headers of the host that the run-time compiler lacks; their supported parts are built in.
const HOST_HEADERS: [&str; 28] = [
    "algorithm",
    "cassert",
    "assert.h",
    "cfloat",
    "climits",
    "cmath",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "cuda.h",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "device_launch_parameters.h",
    "float.h",
    "iostream",
    "limits",
    "limits.h",
    "math.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string",
    "string.h",
    "type_traits",
    "vector",
];

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Identifier or keyword.
    Word,
    /// Number.
    Number,
    /// String; the text is between the quotes.
    Text,
    /// One character of an operator.
    Op,
    /// Character, or a kind of string that cannot name a dataset.
    Other,
    /// Name of a macro whose value is not known.
    Unknown,
}

/// Token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) line: u32,
    /// Start in the source; in an expanded macro, the start of its use.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Set for tokens from a macro.
    pub(super) replaced: bool,
}

/// Tokens of a source.
#[derive(Debug)]
pub(super) struct LexedSource<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    /// Byte ranges removed for the compiler: headers of the host.
    pub(super) dropped: Vec<Range<usize>>,
}

#[derive(Debug, Default)]
struct Macro<'a> {
    /// `None` if it depends on a condition or on arguments.
    body: Option<Vec<Token<'a>>>,
}

/// Splits `source` into tokens.
///
/// # Errors
/// `Syntax` for unclosed comments and strings and for macros with reserved names; `Limit`.
pub(super) fn lex(source: &str) -> Result<LexedSource<'_>> {
    let mut lexer =
        Lexer { source, at: 0, line: 1, macros: HashMap::new(), conditions: 0, dropped: Vec::new() };
    let mut raw = Vec::new();
    let mut fresh = true;
    while let Some(byte) = lexer.skip_blanks(&mut fresh)? {
        if raw.len() >= MAX_TOKENS {
            fail!(Limit, "the source has more than {MAX_TOKENS} tokens")
        }
        if byte == b'#' && fresh {
            lexer.directive()?;
            continue;
        }
        fresh = false;
        raw.push(lexer.token()?);
    }
    let mut tokens = Vec::with_capacity(raw.len());
    for token in raw {
        replace(token, token, &lexer.macros, 0, &mut tokens)?;
    }
    Ok(LexedSource { tokens, dropped: lexer.dropped })
}

fn replace<'a>(
    token: Token<'a>,
    used: Token<'a>,
    macros: &HashMap<&'a str, Macro<'a>>,
    nesting: usize,
    to: &mut Vec<Token<'a>>,
) -> Result<()> {
    if to.len() >= MAX_TOKENS || nesting > MAX_NESTING {
        fail!(Limit, "line {}: the macros of this source are too large or recursive", used.line)
    }
    match macros.get(token.text).filter(|_| token.kind == Kind::Word) {
        None => {
            let (line, start, end) = (used.line, used.start, used.end);
            to.push(Token { line, start, end, replaced: nesting > 0, ..token });
        }
        Some(Macro { body: None }) => to.push(Token { kind: Kind::Unknown, ..used }),
        Some(Macro { body: Some(body) }) => {
            for &inner in body {
                replace(inner, used, macros, nesting + 1, to)?;
            }
        }
    }
    Ok(())
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: u32,
    macros: HashMap<&'a str, Macro<'a>>,
    /// Number of open `#if`.
    conditions: usize,
    dropped: Vec<Range<usize>>,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at.saturating_add(ahead)).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a [u8] {
        self.source.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn text(&self, range: Range<usize>) -> &'a str {
        self.source.get(range).unwrap_or_default()
    }

    fn bump(&mut self, count: usize) {
        for _ in 0..count {
            self.line += u32::from(self.byte(0) == b'\n');
            self.at += 1;
        }
    }

    /// Skips to the next token and returns its first byte. Sets `fresh` if it is the first of its line.
    fn skip_blanks(&mut self, fresh: &mut bool) -> Result<Option<u8>> {
        while self.at < self.source.len() {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    *fresh = true;
                    self.bump(1);
                }
                (b'\\', b'\n') => self.bump(2),
                (b'\\', b'\r') => self.bump(2),
                (b' ' | b'\t' | b'\r' | 0x0b | 0x0c, _) => self.bump(1),
                (b'/', b'/') => self.skip_line(),
                (b'/', b'*') => self.skip_comment()?,
                (byte, _) => return Ok(Some(byte)),
            }
        }
        Ok(None)
    }

    /// Skips to the end of the line; a backslash continues it on the next.
    fn skip_line(&mut self) {
        while self.at < self.source.len() && self.byte(0) != b'\n' {
            let joined = self.rest().starts_with(b"\\\n");
            self.bump(if joined { 2 } else { 1 });
        }
    }

    fn skip_comment(&mut self) -> Result<()> {
        let first = self.line;
        self.bump(2);
        while self.at < self.source.len() {
            if self.rest().starts_with(b"*/") {
                self.bump(2);
                return Ok(());
            }
            self.bump(1);
        }
        fail!(Syntax, "line {first}: this comment is not closed")
    }

    fn token(&mut self) -> Result<Token<'a>> {
        let (line, start) = (self.line, self.at);
        let make = |kind, text, end| Token { kind, text, line, start, end, replaced: false };
        match self.byte(0) {
            b'"' => return self.quoted(b'"', Kind::Text),
            b'\'' => return self.quoted(b'\'', Kind::Other),
            b'0'..=b'9' => self.number(),
            b'.' if self.byte(1).is_ascii_digit() => self.number(),
            byte if is_name(byte) => {
                while is_name(self.byte(0)) {
                    self.bump(1);
                }
                if self.byte(0) == b'"' {
                    // `u8"…"`, `R"(…)"`: cannot be the name of a dataset.
                    return match self.text(start..self.at).ends_with('R') {
                        true => self.raw(),
                        false => self.quoted(b'"', Kind::Other),
                    };
                }
                return Ok(make(Kind::Word, self.text(start..self.at), self.at));
            }
            _ => {
                self.bump(1);
                while !self.source.is_char_boundary(self.at) {
                    self.bump(1);
                }
                return Ok(make(Kind::Op, self.text(start..self.at), self.at));
            }
        }
        Ok(make(Kind::Number, self.text(start..self.at), self.at))
    }

    fn number(&mut self) {
        let hexadecimal = matches!((self.byte(0), self.byte(1)), (b'0', b'x' | b'X'));
        while is_name(self.byte(0)) || matches!(self.byte(0), b'.' | b'\'') {
            if self.byte(0) == b'\'' && !is_name(self.byte(1)) {
                break;
            }
            let exponent = match hexadecimal {
                true => matches!(self.byte(0), b'p' | b'P'),
                false => matches!(self.byte(0), b'e' | b'E'),
            };
            let signed = exponent && matches!(self.byte(1), b'+' | b'-');
            self.bump(if signed { 2 } else { 1 });
        }
    }

    fn quoted(&mut self, quote: u8, kind: Kind) -> Result<Token<'a>> {
        let (line, start) = (self.line, self.at);
        self.bump(1);
        let first = self.at;
        while self.at < self.source.len() && self.byte(0) != b'\n' {
            if self.byte(0) == quote {
                let text = self.text(first..self.at);
                self.bump(1);
                return Ok(Token { kind, text, line, start, end: self.at, replaced: false });
            }
            let escaped = self.byte(0) == b'\\';
            self.bump(if escaped { 2 } else { 1 });
        }
        fail!(
            Syntax,
            "line {line}: this {} is not closed",
            if quote == b'"' { "string" } else { "character" }
        )
    }

    fn raw(&mut self) -> Result<Token<'a>> {
        let (line, start) = (self.line, self.at);
        self.bump(1);
        let first = self.at;
        let Some(open) = self.rest().iter().take(17).position(|&b| b == b'(') else {
            fail!(Syntax, "line {line}: this raw string has no parenthesis")
        };
        let end = format!("){}\"", self.text(first..first + open));
        match self.text(first..self.source.len()).find(&end) {
            Some(length) => {
                let text = self.text(first..first + length);
                self.bump(length + end.len());
                Ok(Token { kind: Kind::Other, text, line, start, end: self.at, replaced: false })
            }
            None => fail!(Syntax, "line {line}: this raw string is not closed"),
        }
    }

    /// Handles a line that starts with `#`.
    fn directive(&mut self) -> Result<()> {
        let (line, start) = (self.line, self.at);
        self.skip_directive_comments()?;
        let all = self.text(start..self.at);
        let body = all.trim_start_matches('#').trim_start();
        let word_end = body.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(body.len());
        let (word, rest) = body.split_at(word_end);
        match word {
            "if" | "ifdef" | "ifndef" => self.conditions += 1,
            "endif" => self.conditions = self.conditions.saturating_sub(1),
            "define" | "undef" => {
                let inside = self.at - rest.len();
                let mut inner = Lexer {
                    source: self.text(0..self.at),
                    at: inside,
                    line,
                    macros: HashMap::new(),
                    conditions: 0,
                    dropped: Vec::new(),
                };
                inner.line = line;
                let (mut tokens, mut fresh) = (Vec::new(), false);
                while inner.skip_blanks(&mut fresh)?.is_some() && tokens.len() < MAX_TOKENS {
                    tokens.push(inner.token()?);
                }
                self.define(word == "undef", &tokens)?;
            }
            "include" => {
                let name = rest.trim().trim_matches(|c| matches!(c, '<' | '>' | '"'));
                if HOST_HEADERS.contains(&name) {
                    self.dropped.push(start..self.at);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Skips to the end of a directive; a comment in it may span lines.
    fn skip_directive_comments(&mut self) -> Result<()> {
        while self.at < self.source.len() && self.byte(0) != b'\n' {
            if self.rest().starts_with(b"/*") {
                self.skip_comment()?;
            } else if self.rest().starts_with(b"//") {
                self.skip_line();
            } else {
                let joined = self.rest().starts_with(b"\\\n") || self.rest().starts_with(b"\\\r");
                self.bump(if joined { 2 } else { 1 });
            }
        }
        Ok(())
    }

    fn define(&mut self, undefined: bool, tokens: &[Token<'a>]) -> Result<()> {
        let Some((name, body)) = tokens.split_first().filter(|(name, _)| name.kind == Kind::Word) else {
            return Ok(());
        };
        if RESERVED_WORDS.contains(&name.text) {
            fail!(Syntax, "line {}: {} is reserved for Hyperchunk; rename the macro", name.line, name.text)
        }
        // A parenthesis directly after the name makes it a function-like macro.
        let is_function = body.first().is_some_and(|t| t.text == "(" && t.start == name.end);
        let known =
            !undefined && !is_function && self.conditions == 0 && !self.macros.contains_key(name.text);
        self.macros.insert(name.text, Macro { body: known.then(|| body.to_vec()) });
        Ok(())
    }
}
