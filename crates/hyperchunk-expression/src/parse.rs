//! Parser for expressions, by operator precedence, with Python's precedences.

use super::lex::{Token, lex};
use super::tree::{Function, Number, Op, Part, Rounding, function, function_names};
use super::{MAX_DEPTH, MAX_INPUTS, MAX_PARTS, at_position};
use crate::error::{Result, fail};
use hyperchunk_format::printable::escape;

/// Result of the parser: parts, each after its arguments, and the names of datasets.
#[derive(Debug, Default)]
pub(crate) struct ParsedExpression {
    pub(crate) parts: Vec<Part>,
    pub(crate) names: Vec<String>,
    pub(crate) constants: Vec<&'static str>,
}

/// Named constants.
const CONSTANTS: [(&str, Part); 8] = [
    ("pi", Part::Number(Number::Real(std::f64::consts::PI))),
    ("e", Part::Number(Number::Real(std::f64::consts::E))),
    ("nan", Part::Number(Number::Real(f64::NAN))),
    ("NaN", Part::Number(Number::Real(f64::NAN))),
    ("inf", Part::Number(Number::Real(f64::INFINITY))),
    ("Inf", Part::Number(Number::Real(f64::INFINITY))),
    ("True", Part::Truth(true)),
    ("False", Part::Truth(false)),
];

// Precedence of operators, the weakest first.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const UNARY: u8 = 11;
const POWER: u8 = 12;

fn operator(token: &Token) -> Option<(u8, Op)> {
    Some(match token {
        Token::Word(w) if w == "or" => (OR, Op::Or),
        Token::Word(w) if w == "and" => (AND, Op::And),
        Token::Sign(sign) => match *sign {
            "<" => (COMPARE, Op::Less),
            "<=" => (COMPARE, Op::LessEqual),
            ">" => (COMPARE, Op::Greater),
            ">=" => (COMPARE, Op::GreaterEqual),
            "==" => (COMPARE, Op::Equal),
            "!=" => (COMPARE, Op::NotEqual),
            "|" => (5, Op::BitOr),
            "^" => (6, Op::BitXor),
            "&" => (7, Op::BitAnd),
            "<<" => (8, Op::ShiftLeft),
            ">>" => (8, Op::ShiftRight),
            "+" => (9, Op::Add),
            "-" => (9, Op::Subtract),
            "*" => (10, Op::Multiply),
            "/" => (10, Op::Divide),
            "//" => (10, Op::FloorDivide),
            "%" => (10, Op::Remainder),
            "**" => (POWER, Op::Power),
            _ => return None,
        },
        _ => return None,
    })
}

pub(crate) fn parse(text: &str) -> Result<ParsedExpression> {
    let tokens = lex(text)?;
    let mut parser = Parser { tokens, next: 0, out: ParsedExpression::default() };
    let done = parser.expression(0, 0).and_then(|_| match parser.peek() {
        Token::End => Ok(()),
        Token::Sign(")") => fail!(Syntax, "this parenthesis was never opened"),
        Token::Sign(",") => fail!(Syntax, "a comma can only be between the values of a function"),
        _ => fail!(Syntax, "an operator is missing before this"),
    });
    match done {
        Ok(()) => Ok(parser.out),
        Err(error) => {
            let at = parser.tokens.get(parser.next).map_or(text.len(), |t| t.1);
            Err(at_position(&error, text, at))
        }
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    out: ParsedExpression,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |t| &t.0)
    }

    fn take(&mut self, sign: &'static str) -> bool {
        let found = *self.peek() == Token::Sign(sign);
        self.next += usize::from(found);
        found
    }

    fn push(&mut self, part: Part) -> Result<usize> {
        if self.out.parts.len() >= MAX_PARTS {
            fail!(Limit, "the expression has more than {MAX_PARTS} parts")
        }
        self.out.parts.push(part);
        Ok(self.out.parts.len() - 1)
    }

    fn call1(&mut self, op: Op, a: usize) -> Result<usize> {
        self.push(Part::Call(op, [a, 0, 0], 1))
    }

    fn call2(&mut self, op: Op, a: usize, b: usize) -> Result<usize> {
        self.push(Part::Call(op, [a, b, 0], 2))
    }

    /// Parses operators of at least the precedence `least`.
    fn expression(&mut self, least: u8, depth: usize) -> Result<usize> {
        if depth > MAX_DEPTH {
            fail!(Limit, "the expression is nested more than {MAX_DEPTH} deep")
        }
        let mut left = self.prefix(least, depth)?;
        while let Some((strength, op)) = operator(self.peek()).filter(|(s, _)| *s >= least) {
            self.next += 1;
            // A power is right-associative, and its exponent may have a sign.
            let right_least = if strength == POWER { UNARY } else { strength + 1 };
            let right = self.expression(right_least, depth + 1)?;
            left = self.call2(op, left, right)?;
            if strength == COMPARE && operator(self.peek()).is_some_and(|(s, _)| s == COMPARE) {
                fail!(Syntax, "two comparisons in a row: write (a < b) and (b < c)")
            }
        }
        Ok(left)
    }

    fn prefix(&mut self, least: u8, depth: usize) -> Result<usize> {
        let unary = match self.peek() {
            Token::Sign("-") => Some((Op::Negative, UNARY)),
            Token::Sign("+") => Some((Op::Positive, UNARY)),
            Token::Sign("~") => Some((Op::Invert, UNARY)),
            Token::Word(w) if w == "not" => Some((Op::Not, NOT)),
            _ => None,
        };
        if let Some((op, strength)) = unary {
            if least > strength && op == Op::Not {
                fail!(Syntax, "put `not …` into parentheses here")
            }
            self.next += 1;
            let value = self.expression(strength, depth + 1)?;
            return self.call1(op, value);
        }
        self.primary(depth)
    }

    fn primary(&mut self, depth: usize) -> Result<usize> {
        let token = self.peek().clone();
        match token {
            Token::Integer(n) => {
                self.next += 1;
                self.push(Part::Number(Number::Integer(n)))
            }
            Token::Real(x) => {
                self.next += 1;
                self.push(Part::Number(Number::Real(x)))
            }
            Token::Quoted(name) => self.input(&name),
            Token::Word(word) => self.word(&word, depth),
            Token::Sign("(") => {
                self.next += 1;
                let inside = self.expression(0, depth + 1)?;
                self.close()?;
                Ok(inside)
            }
            Token::End => fail!(Syntax, "expected a value, got the end"),
            _ => fail!(Syntax, "expected a value here"),
        }
    }

    fn close(&mut self) -> Result<()> {
        if self.take(")") {
            return Ok(());
        }
        fail!(Syntax, "a closing parenthesis is missing here")
    }

    fn word(&mut self, word: &str, depth: usize) -> Result<usize> {
        if matches!(word, "and" | "or" | "not" | "if" | "else" | "lambda") {
            fail!(Syntax, "expected a value here, got {word:?}")
        }
        let called = self.tokens.get(self.next + 1).is_some_and(|t| t.0 == Token::Sign("("));
        if called {
            let Some(function) = function(word) else {
                fail!(
                    Syntax,
                    "there is no function {:?}; the functions are {}",
                    escape(word, 80),
                    function_names()
                )
            };
            self.next += 2;
            return self.call(word, function, depth);
        }
        if let Some((name, part)) = CONSTANTS.iter().find(|(n, _)| *n == word) {
            self.next += 1;
            if !self.out.constants.contains(name) {
                self.out.constants.push(name);
            }
            return self.push(*part);
        }
        if word.ends_with('.') {
            fail!(Syntax, "a name cannot end with a point; put it into quotes if it is a dataset's")
        }
        self.input(word)
    }

    fn input(&mut self, name: &str) -> Result<usize> {
        let names = &mut self.out.names;
        let at = match names.iter().position(|n| n == name) {
            Some(at) => at,
            None if names.len() >= MAX_INPUTS => fail!(Limit, "more than {MAX_INPUTS} datasets"),
            None => {
                names.push(name.to_owned());
                names.len() - 1
            }
        };
        let done = self.push(Part::Input(at))?;
        self.next += 1;
        Ok(done)
    }

    fn call(&mut self, name: &str, function: Function, depth: usize) -> Result<usize> {
        let mut arguments = Vec::new();
        let first_part = self.out.parts.len();
        while !self.take(")") {
            if !arguments.is_empty() && !self.take(",") {
                fail!(Syntax, "a comma or a closing parenthesis is missing here")
            }
            if !arguments.is_empty() && *self.peek() == Token::Sign(")") {
                continue;
            }
            arguments.push(self.expression(0, depth + 1)?);
        }
        let wrong_count = |wanted: &str| {
            let n = arguments.len();
            crate::error::Error::new(
                crate::error::ErrorKind::Syntax,
                format!("{name} takes {wanted}, got {n}"),
            )
        };
        match (function, arguments.as_slice()) {
            (Function::Plain(op, 1), &[a]) => self.call1(op, a),
            (Function::Plain(op, 2), &[a, b]) => self.call2(op, a, b),
            (Function::Plain(op, 3), &[a, b, c]) => self.push(Part::Call(op, [a, b, c], 3)),
            (Function::Plain(_, 1), _) => Err(wrong_count("one value")),
            (Function::Plain(_, n), _) => Err(wrong_count(&format!("{n} values"))),
            (Function::Fold(op), [first, rest @ ..]) if !rest.is_empty() => {
                let mut left = *first;
                for &right in rest {
                    left = self.call2(op, left, right)?;
                }
                Ok(left)
            }
            (Function::Fold(_), _) => Err(wrong_count("two values or more")),
            (Function::Clip, &[a, low, high]) => {
                let above = self.call2(Op::Maximum, a, low)?;
                self.call2(Op::Minimum, above, high)
            }
            (Function::Clip, _) => Err(wrong_count("three values: clip(x, low, high)")),
            (Function::Round, &[a]) => self.call1(Op::Rounding(Rounding::Nearest), a),
            (Function::Round, &[a, _]) => {
                let digits = self.whole_number(first_part)?;
                self.round(a, digits)
            }
            (Function::Round, _) => Err(wrong_count("a value, and optionally a number of digits")),
        }
    }

    /// Returns the last argument, which has to be an integer literal.
    fn whole_number(&mut self, first: usize) -> Result<i32> {
        let (sign, at) = match self.out.parts.last() {
            Some(&Part::Call(Op::Negative, [a, ..], 1)) => (-1, a),
            _ => (1, self.out.parts.len().saturating_sub(1)),
        };
        match self.out.parts.get(at) {
            Some(&Part::Number(Number::Integer(n))) if at > first && n <= 15 => {
                Ok(sign * i32::try_from(n).unwrap_or(0))
            }
            _ => fail!(Syntax, "round takes the number of digits as an integer from -15 to 15"),
        }
    }

    /// Rounds like NumPy: scales, rounds to integers, and scales back.
    fn round(&mut self, a: usize, digits: i32) -> Result<usize> {
        if digits == 0 {
            return self.call1(Op::Rounding(Rounding::Nearest), a);
        }
        let scale = self.push(Part::Number(Number::Real(10f64.powi(digits.abs()))))?;
        let (up, down) = if digits > 0 { (Op::Multiply, Op::Divide) } else { (Op::Divide, Op::Multiply) };
        let scaled = self.call2(up, a, scale)?;
        let rounded = self.call1(Op::Rounding(Rounding::Nearest), scaled)?;
        self.call2(down, rounded, scale)
    }
}
