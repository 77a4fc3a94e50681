//! Predicates on values, such as `value > 12 and value <= 20`, and their parser.
//!
//! Comparisons are exact for integers of 64 bits. For floating-point numbers they follow NumPy: a
//! number takes the type of the elements.

use hyperchunk::{Error, Result};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// Maximum length of a text in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// A number of a predicate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

/// Comparison of a value with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Class of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    NotANumber,
    Infinite,
    Finite,
}

/// A part of a predicate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    Compare(Comparison, Number),
    Is(Class),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// A condition on each value of a dataset.
///
/// ```
/// use hyperchunk_store::query::Predicate;
///
/// let waves: Predicate = "12 < value <= 20 or isnan(value)".parse()?;
/// assert_eq!(waves.to_string(), "12 < value <= 20 or isnan(value)");
/// assert!("value >".parse::<Predicate>().is_err());
/// # Ok::<(), hyperchunk::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    text: String,
    pub(crate) term: Term,
}

impl Comparison {
    /// Returns whether the comparison holds for the given order of value and number; `None` if one
    /// of them is NaN.
    pub(crate) fn holds(self, order: Option<Ordering>) -> bool {
        match (self, order) {
            (Self::Less, Some(order)) => order.is_lt(),
            (Self::LessOrEqual, Some(order)) => order.is_le(),
            (Self::Greater, Some(order)) => order.is_gt(),
            (Self::GreaterOrEqual, Some(order)) => order.is_ge(),
            (Self::Equal, Some(order)) => order.is_eq(),
            (Self::NotEqual, order) => order.is_none_or(Ordering::is_ne),
            (_, None) => false,
        }
    }

    /// Returns the comparison with the operands swapped.
    fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }
}

impl Number {
    /// Compares an integer with the number, without rounding.
    #[expect(clippy::cast_possible_truncation, reason = "larger numbers saturate")]
    pub(crate) fn compared(self, value: i128) -> Option<Ordering> {
        match self {
            Self::Integer(number) => Some(value.cmp(&number)),
            Self::Float(number) if number.is_nan() => None,
            Self::Float(number) => {
                let floor = number.floor();
                let order = value.cmp(&(floor as i128));
                Some(if order.is_eq() && floor < number { Ordering::Less } else { order })
            }
        }
    }

    /// Returns the number rounded to floating-point elements of `size` bytes.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a number takes the type of the elements, as NumPy does it"
    )]
    pub(crate) fn rounded(self, size: usize) -> f64 {
        let wide = match self {
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        };
        if size == 4 { f64::from(wide as f32) } else { wide }
    }
}

impl FromStr for Predicate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::limit(format!(
                "a predicate of {} bytes, more than {MAX_TEXT_BYTES}",
                text.len()
            )));
        }
        let mut parser = Parser { tokens: tokens(text)?, at: 0, text, depth: 0 };
        let term = parser.any()?;
        match parser.next() {
            (Token::End, _) => Ok(Self { text: text.trim().to_owned(), term }),
            (_, place) => Err(parser.error("unexpected text after the predicate", place)),
        }
    }
}

impl Predicate {
    /// Parses a predicate that names its dataset, and returns the name: `max(/ocean/h) > 12`, `0 <
    /// value(h) < 1 or isnan(h)`.
    ///
    /// # Errors
    /// Invalid if it names no dataset, or several; as parsing a predicate.
    pub fn parse_with_dataset(text: &str) -> Result<(String, Self)> {
        let (mut plain, mut name) = (String::with_capacity(text.len()), None::<&str>);
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c: char| !letter(c)).unwrap_or(rest.len());
            let word = rest.get(..end).unwrap_or_default();
            let asked = matches!(word, "value" | "max" | "min");
            let inner = rest.get(end..).and_then(|after| after.trim_start().strip_prefix('('));
            let inner = inner.filter(|_| asked || matches!(word, "isnan" | "isinf" | "isfinite"));
            if let Some((found, after)) = inner.and_then(|inner| inner.split_once(')'))
                && found.trim() != "value"
                && !found.contains('(')
            {
                let found = found.trim();
                if found.is_empty() || name.is_some_and(|name| name != found) {
                    let message = "expected one dataset, as in `max(/ocean/h) > 12`";
                    return Err(wrong(text, message, at));
                }
                name = Some(found);
                plain.push_str(word);
                plain.push_str(if asked { "" } else { "(value)" });
                at = text.len() - after.len();
                continue;
            }
            let step = if end > 0 { end } else { rest.chars().next().map_or(1, char::len_utf8) };
            plain.push_str(rest.get(..step).unwrap_or_default());
            at += step;
        }
        let name =
            name.ok_or_else(|| wrong(text, "expected the name of a dataset, as in `max(/ocean/h) > 12`", 0))?;
        Ok((name.to_owned(), plain.parse()?))
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'t> {
    Word(&'t str),
    Number(Number),
    Compare(Comparison),
    Minus,
    Plus,
    Open,
    Close,
    And,
    Or,
    Not,
    End,
}

fn wrong(text: &str, what: &str, place: usize) -> Error {
    Error::invalid(format!(
        "{what}, at character {} of {text:?}",
        text.get(..place).map_or(0, |s| s.chars().count()) + 1
    ))
}

fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        let (token, length) = match first {
            space if space.is_whitespace() => {
                at += space.len_utf8();
                continue;
            }
            '<' if rest.starts_with("<=") => (Token::Compare(Comparison::LessOrEqual), 2),
            '<' => (Token::Compare(Comparison::Less), 1),
            '>' if rest.starts_with(">=") => (Token::Compare(Comparison::GreaterOrEqual), 2),
            '>' => (Token::Compare(Comparison::Greater), 1),
            '=' => (Token::Compare(Comparison::Equal), 1 + usize::from(rest.starts_with("=="))),
            '!' if rest.starts_with("!=") => (Token::Compare(Comparison::NotEqual), 2),
            '!' | '~' => (Token::Not, 1),
            '&' => (Token::And, 1 + usize::from(rest.starts_with("&&"))),
            '|' => (Token::Or, 1 + usize::from(rest.starts_with("||"))),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '-' => (Token::Minus, 1),
            '+' => (Token::Plus, 1),
            digit if digit.is_ascii_digit() || digit == '.' => number(text, at)?,
            letter if letter.is_ascii_alphabetic() || letter == '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
                let token = match word {
                    "and" => Token::And,
                    "or" => Token::Or,
                    "not" => Token::Not,
                    "inf" | "Infinity" => Token::Number(Number::Float(f64::INFINITY)),
                    "nan" | "NaN" => Token::Number(Number::Float(f64::NAN)),
                    word => Token::Word(word),
                };
                (token, word.len())
            }
            _ => return Err(wrong(text, "an unknown character", at)),
        };
        found.push((token, at));
        at += length;
    }
    found.push((Token::End, text.len()));
    Ok(found)
}

fn number(text: &str, at: usize) -> Result<(Token<'_>, usize)> {
    let rest = text.get(at..).unwrap_or_default();
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let value = i128::from_str_radix(digits.get(..end).unwrap_or_default(), 16);
        let value = value.map_err(|_| wrong(text, "an invalid number", at))?;
        return Ok((Token::Number(Number::Integer(value)), 2 + end));
    }
    let bytes = rest.as_bytes();
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        let sign = matches!(byte, b'+' | b'-') && matches!(bytes.get(end.wrapping_sub(1)), Some(b'e' | b'E'));
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || sign) {
            break;
        }
        end += 1;
    }
    let digits: String = rest.get(..end).unwrap_or_default().replace('_', "");
    let value = match digits.parse::<i128>() {
        Ok(value) => Some(Number::Integer(value)),
        Err(_) => digits.parse::<f64>().ok().map(Number::Float),
    };
    let value = value.ok_or_else(|| wrong(text, "an invalid number", at))?;
    Ok((Token::Number(value), end))
}

struct Parser<'t> {
    tokens: Vec<(Token<'t>, usize)>,
    at: usize,
    text: &'t str,
    depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operand {
    Value,
    Largest,
    Smallest,
    Number(Number),
}

impl<'t> Parser<'t> {
    fn error(&self, what: &str, place: usize) -> Error {
        wrong(self.text, what, place)
    }

    fn peek(&self) -> (Token<'t>, usize) {
        self.tokens.get(self.at).copied().unwrap_or((Token::End, self.text.len()))
    }

    fn next(&mut self) -> (Token<'t>, usize) {
        let next = self.peek();
        self.at += 1;
        next
    }

    /// Parses terms joined by `or`.
    fn any(&mut self) -> Result<Term> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::limit(format!("a predicate nested more than {MAX_DEPTH} deep")));
        }
        let mut terms = vec![self.all()?];
        while self.peek().0 == Token::Or {
            self.at += 1;
            terms.push(self.all()?);
        }
        self.depth -= 1;
        Ok(if terms.len() == 1 { terms.remove(0) } else { Term::Or(terms) })
    }

    /// Parses terms joined by `and`.
    fn all(&mut self) -> Result<Term> {
        let mut terms = vec![self.one()?];
        while self.peek().0 == Token::And {
            self.at += 1;
            terms.push(self.one()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Term::And(terms) })
    }

    /// Parses a negation, a term in parentheses, a class such as `isnan(value)`, or a comparison.
    fn one(&mut self) -> Result<Term> {
        match self.peek() {
            (Token::Not, place) => {
                self.at += 1;
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(self.error("too many negations", place));
                }
                let term = self.one()?;
                self.depth -= 1;
                Ok(Term::Not(Box::new(term)))
            }
            (Token::Open, _) => {
                self.at += 1;
                let term = self.any()?;
                self.closed()?;
                Ok(term)
            }
            (Token::Word(word), _) if matches!(word, "isnan" | "isinf" | "isfinite") => {
                self.at += 1;
                let (open, place) = self.next();
                let (value, _) = self.next();
                if open != Token::Open || value != Token::Word("value") {
                    return Err(self.error(&format!("{word} is asked as {word}(value)"), place));
                }
                self.closed()?;
                Ok(Term::Is(match word {
                    "isnan" => Class::NotANumber,
                    "isinf" => Class::Infinite,
                    _ => Class::Finite,
                }))
            }
            _ => self.comparison(),
        }
    }

    fn closed(&mut self) -> Result<()> {
        match self.next() {
            (Token::Close, _) => Ok(()),
            (_, place) => Err(self.error("a parenthesis is not closed", place)),
        }
    }

    /// Parses a comparison: `value > 12`, `0 <= value < 5`.
    fn comparison(&mut self) -> Result<Term> {
        let mut left = self.operand()?;
        let mut terms = Vec::new();
        while let (Token::Compare(comparison), place) = self.peek() {
            self.at += 1;
            let right = self.operand()?;
            let (comparison, asked, number) = match (left, right) {
                (Operand::Number(_), Operand::Number(_)) => {
                    return Err(self.error("two numbers are compared; one side must be `value`", place));
                }
                (asked, Operand::Number(number)) => (comparison, asked, number),
                (Operand::Number(number), asked) => (comparison.flipped(), asked, number),
                _ => return Err(self.error("expected a comparison of `value` with a number", place)),
            };
            let above = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
            let below = matches!(comparison, Comparison::Less | Comparison::LessOrEqual);
            if (asked == Operand::Largest && !above) || (asked == Operand::Smallest && !below) {
                let message = "`max` can only be compared by > or >=, and `min` by < or <=; use `value`";
                return Err(self.error(message, place));
            }
            terms.push(Term::Compare(comparison, number));
            left = right;
        }
        match terms.len() {
            0 => Err(self.error("a comparison is missing, such as `value > 12`", self.peek().1)),
            1 => Ok(terms.remove(0)),
            _ => Ok(Term::And(terms)),
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        match self.next() {
            (Token::Word("value"), _) => Ok(Operand::Value),
            (Token::Word("max"), _) => Ok(Operand::Largest),
            (Token::Word("min"), _) => Ok(Operand::Smallest),
            (Token::Number(number), _) => Ok(Operand::Number(number)),
            (sign @ (Token::Minus | Token::Plus), place) => match self.next() {
                (Token::Number(number), _) => Ok(Operand::Number(match (sign, number) {
                    (Token::Minus, Number::Integer(number)) => Number::Integer(-number),
                    (Token::Minus, Number::Float(number)) => Number::Float(-number),
                    _ => number,
                })),
                _ => Err(self.error("a sign without a number", place)),
            },
            (Token::Word(word), place) => {
                Err(self.error(&format!("{word:?} is not known; use `value` for the values"), place))
            }
            (_, place) => Err(self.error("expected `value` or a number", place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(text: &str) -> Term {
        text.parse::<Predicate>().unwrap().term
    }

    #[test]
    fn datasets_are_named() {
        let check = |text: &str, name: &str, plain: &str| {
            let (found, predicate) = Predicate::parse_with_dataset(text).unwrap();
            assert_eq!((&*found, &*predicate.to_string()), (name, plain));
        };
        check("max(h) > 12", "h", "max > 12");
        check("0 < value (/a/b c) < 1 or isnan(/a/b c)", "/a/b c", "0 < value < 1 or isnan(value)");
        check("not isfinite( ü ) and min(ü) < -3", "ü", "not isfinite(value) and min < -3");
        for wrong in
            ["max > 12", "max(a) > 1 or max(b) > 1", "max() > 1", "max(a > 1", "isnan(value)", "", "max(a)"]
        {
            assert!(Predicate::parse_with_dataset(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn predicates_are_read() {
        use Comparison::{Equal, Greater, Less, LessOrEqual, NotEqual};
        let integer = |comparison, number| Term::Compare(comparison, Number::Integer(number));
        assert_eq!(term("value > 12"), integer(Greater, 12));
        assert_eq!(term("12 > value"), integer(Less, 12));
        assert_eq!(term(" - 0x10 <= value < 1_000 "), term("value >= -16 and value < 1000"));
        assert_eq!(term("value == 1e3"), Term::Compare(Equal, Number::Float(1000.0)));
        assert_eq!(term("value = -.5"), Term::Compare(Equal, Number::Float(-0.5)));
        assert_eq!(term("value > 1e-3 && value < 5"), term("value > 0.001 & value < 5"));
        assert_eq!(
            term("not value != 3 or isnan(value) and value <= 18446744073709551615"),
            Term::Or(vec![
                Term::Not(Box::new(integer(NotEqual, 3))),
                Term::And(vec![Term::Is(Class::NotANumber), integer(LessOrEqual, u64::MAX.into())]),
            ])
        );
        assert_eq!(term("max > 12"), integer(Greater, 12));
        assert_eq!(term("3 > min"), integer(Less, 3));
        assert_eq!(term("(value < -inf)"), Term::Compare(Less, Number::Float(f64::NEG_INFINITY)));
    }

    #[test]
    fn what_is_no_predicate_says_where() {
        for (text, place, what) in [
            ("", 1, "expected `value`"),
            ("value", 6, "comparison is missing"),
            ("value >", 8, "expected `value`"),
            ("h > 12", 1, "\"h\" is not known"),
            ("value > 12)", 11, "unexpected text"),
            ("(value > 12", 12, "not closed"),
            ("3 > 4", 3, "two numbers"),
            ("value > value", 7, "with a number"),
            ("max < 3", 5, "`max`"),
            ("value > 1..2", 9, "invalid number"),
            ("value > 12 and", 15, "expected `value`"),
            ("isnan(3)", 6, "isnan(value)"),
            ("é > 3", 1, "unknown character"),
            ("value > - value", 9, "sign"),
        ] {
            let error = text.parse::<Predicate>().unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
            assert!(error.contains(&format!("at character {place} of")), "{text}: {error}");
        }
        assert!("(".repeat(100).parse::<Predicate>().is_err());
        assert!("!".repeat(100).parse::<Predicate>().is_err());
        assert!(" ".repeat(MAX_TEXT_BYTES + 1).parse::<Predicate>().is_err());
    }

    #[test]
    fn integers_are_compared_without_rounding() {
        let large = i128::from(i64::MAX);
        assert_eq!(Number::Float(9.223_372_036_854_776e18).compared(large), Some(Ordering::Less));
        assert_eq!(Number::Integer(large).compared(large - 1), Some(Ordering::Less));
        assert_eq!(Number::Float(2.5).compared(2), Some(Ordering::Less));
        assert_eq!(Number::Float(-2.5).compared(-2), Some(Ordering::Greater));
        assert_eq!(Number::Float(f64::INFINITY).compared(large), Some(Ordering::Less));
        assert_eq!(Number::Float(f64::NEG_INFINITY).compared(-large), Some(Ordering::Greater));
        assert_eq!(Number::Float(f64::NAN).compared(0), None);
        assert!((Number::Float(0.1).rounded(4) - 0.100_000_001_49).abs() < 1e-12);
    }
}
