//! Lexer for expressions.

use crate::error::{Result, fail};
use hyperchunk_format::printable::escape;

/// Token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Integer(i128),
    Real(f64),
    /// Bare name.
    Word(String),
    /// Name of a dataset in quotes, or of an attribute as `dataset@attribute`.
    Quoted(String),
    Sign(&'static str),
    End,
}

/// Operators and punctuation, the longest first.
const SIGNS: [&str; 22] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "~",
    "(", ")", ",",
];

/// Returns each token with its byte offset; [`Token::End`] is the last.
pub(crate) fn lex(text: &str) -> Result<Vec<(Token, usize)>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        let Some(first) = rest.chars().next() else { break };
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if first == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (token, length) = token(rest, first).map_err(|e| super::at_position(&e, text, at))?;
        tokens.push((token, at));
        at += length;
    }
    tokens.push((Token::End, text.len()));
    Ok(tokens)
}

fn token(rest: &str, first: char) -> Result<(Token, usize)> {
    let second_is_digit = rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if first.is_ascii_digit() || (first == '.' && second_is_digit) {
        return number(rest);
    }
    if first.is_alphabetic() || first == '_' {
        let end = word(rest);
        let name = rest.get(..end).unwrap_or(rest).to_owned();
        return Ok(attribute(rest, &name, end)?.unwrap_or((Token::Word(name), end)));
    }
    if matches!(first, '"' | '\'') {
        let (name, end) = quoted(rest, first)?;
        return Ok(attribute(rest, &name, end)?.unwrap_or((Token::Quoted(name), end)));
    }
    if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    let advice = match first {
        '@' => "; write it between a dataset and its attribute, without blanks",
        '=' => "; == compares",
        '!' => "; write `not`",
        '[' | ']' | '{' | '}' => "; an expression sees one element at a time",
        _ => "",
    };
    fail!(Syntax, "unexpected {:?}{advice}", escape(&first.to_string(), 8))
}

/// Returns the end of a word.
fn word(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len())
}

/// Returns the attribute of the object `name`, whose name ends at `end`, if `@` follows.
fn attribute(rest: &str, name: &str, end: usize) -> Result<Option<(Token, usize)>> {
    let Some(after) = rest.get(end..).and_then(|r| r.strip_prefix('@')) else { return Ok(None) };
    let (attribute, length) = match after.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(after, quote)?,
        Some(first) if first.is_alphabetic() || first == '_' => {
            let length = word(after);
            (after.get(..length).unwrap_or(after).to_owned(), length)
        }
        _ => fail!(Syntax, "expected the name of an attribute after @, in quotes if it is not a plain word"),
    };
    Ok(Some((Token::Quoted(format!("{name}@{attribute}")), end + 1 + length)))
}

fn number(rest: &str) -> Result<(Token, usize)> {
    let bytes = rest.as_bytes();
    let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let mut end = 0;
    while let Some(&b) = bytes.get(end) {
        let exponent = !hexadecimal && matches!(bytes.get(end.wrapping_sub(1)), Some(b'e' | b'E'));
        let signed = exponent && matches!(b, b'+' | b'-');
        if !(b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_') || signed) {
            break;
        }
        end += 1;
    }
    let text = rest.get(..end).unwrap_or(rest);
    let plain = text.replace('_', "");
    let integer = if hexadecimal {
        i128::from_str_radix(plain.get(2..).unwrap_or(""), 16).ok()
    } else {
        plain.parse::<i128>().ok()
    };
    if let Some(value) = integer.filter(|v| u64::try_from(*v).is_ok()) {
        return Ok((Token::Integer(value), end));
    }
    if integer.is_some() {
        fail!(Syntax, "{text} is too large for an integer; write it as a decimal number, such as 1e30")
    }
    // Rust also parses words such as "inf"; a number starts with a digit or a point.
    match plain.parse::<f64>() {
        Ok(value) if !hexadecimal && value.is_finite() => Ok((Token::Real(value), end)),
        _ => fail!(Syntax, "{:?} is not a number", escape(text, 40)),
    }
}

fn quoted(rest: &str, quote: char) -> Result<(String, usize)> {
    let mut name = String::new();
    let mut escaped = false;
    for (n, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => break,
            '\\' if !escaped => escaped = true,
            c if c == quote && !escaped => {
                if name.is_empty() || name.contains('\0') {
                    fail!(Syntax, "this cannot be the name of a dataset")
                }
                return Ok((name, n + 1));
            }
            c if escaped && c != quote && c != '\\' => {
                fail!(Syntax, "in a name, a backslash can only be before a quote or a backslash")
            }
            c => {
                name.push(c);
                escaped = false;
            }
        }
    }
    fail!(Syntax, "the quote is not closed")
}
