//! Cursor in a list of tokens.

use super::lex::{Kind, Token};
use crate::error::{Result, fail};
use crate::escape::escape;

/// Position of a parser.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    pub(super) fn new(tokens: &'t [Token<'a>]) -> Self {
        Cursor { tokens, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn set(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at.checked_add(ahead)?).copied()
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek(0)?;
        self.at += 1;
        Some(token)
    }

    pub(super) fn ends(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Returns the line of the next token, or of the last.
    pub(super) fn line(&self) -> u32 {
        self.peek(0).or(self.tokens.last().copied()).map_or(1, |token| token.line)
    }

    /// Returns whether the next token is this word.
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.peek(0).is_some_and(|t| t.kind == Kind::Word && t.text == word)
    }

    /// Returns whether the next tokens are this operator, without blanks in it.
    pub(super) fn is(&self, operator: &str) -> bool {
        let mut end = None;
        for (n, c) in operator.bytes().enumerate() {
            let Some(token) = self.peek(n).filter(|t| t.kind == Kind::Op && t.text.as_bytes() == [c]) else {
                return false;
            };
            if end.is_some_and(|end| end != token.start) && !token.replaced {
                return false;
            }
            end = Some(token.end);
        }
        true
    }

    /// Consumes this operator if it is next.
    pub(super) fn take(&mut self, operator: &str) -> bool {
        let there = self.is(operator);
        if there {
            self.at += operator.len();
        }
        there
    }

    /// Consumes this word if it is next.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let there = self.is_word(word);
        self.at += usize::from(there);
        there
    }

    /// Consumes any word.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        let token = self.peek(0).filter(|t| t.kind == Kind::Word)?;
        self.at += 1;
        Some(token.text)
    }

    /// Consumes this operator, or fails.
    pub(super) fn need(&mut self, operator: &str) -> Result<()> {
        if self.take(operator) {
            return Ok(());
        }
        fail!(Syntax, "line {}: {operator} is missing before {}", self.line(), self.describe_next())
    }

    /// Returns the next token for messages.
    pub(super) fn describe_next(&self) -> String {
        match self.peek(0) {
            None => "the end".to_owned(),
            Some(Token { kind: Kind::Text, text, .. }) => format!("{:?}", escape(text, 40)),
            Some(token) => format!("`{}`", escape(token.text, 40)),
        }
    }

    /// Consumes a bracketed group and returns its content; the opening bracket must be next.
    pub(super) fn brackets(&mut self) -> Result<&'t [Token<'a>]> {
        let line = self.line();
        let first = self.at + 1;
        let mut depth = 0usize;
        while let Some(token) = self.next() {
            if token.kind == Kind::Op {
                match token.text {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            if depth == 0 {
                return Ok(self.tokens.get(first..self.at - 1).unwrap_or_default());
            }
        }
        fail!(Syntax, "line {line}: this bracket is not closed")
    }

    /// Consumes a dataset's name, a string.
    pub(super) fn dataset(&mut self) -> Result<String> {
        let line = self.line();
        let mut name = String::new();
        let mut count = 0;
        while let Some(token) = self.peek(0).filter(|t| t.kind == Kind::Text) {
            if token.text.contains('\\') {
                fail!(Syntax, "line {line}: write the name of a dataset without a backslash")
            }
            name.push_str(token.text);
            count += 1;
            self.at += 1;
        }
        if count == 0 {
            fail!(
                Syntax,
                "line {line}: a dataset's name has to be a string here, and not {}; names must be constants because they are recorded when the function is attached",
                self.describe_next()
            )
        }
        if crate::shape::normal_name(&name).is_empty() || name.contains('\0') || name.len() > 4096 {
            fail!(Syntax, "line {line}: {:?} cannot be the name of a dataset", escape(&name, 80))
        }
        Ok(name)
    }
}

/// Splits tokens at the commas outside of brackets. An empty list has no parts.
pub(super) fn split_at_commas<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let (mut parts, mut first, mut depth) = (Vec::new(), 0, 0usize);
    for (n, token) in tokens.iter().enumerate().filter(|(_, t)| t.kind == Kind::Op) {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                parts.push(tokens.get(first..n).unwrap_or_default());
                first = n + 1;
            }
            _ => {}
        }
    }
    if !tokens.is_empty() {
        parts.push(tokens.get(first..).unwrap_or_default());
    }
    parts
}
