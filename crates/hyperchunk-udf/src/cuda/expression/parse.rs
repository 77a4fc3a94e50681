//! Parser for expressions, which determines their types at once, since all names are declared before use.

use super::{ADVICE, Expression, LibResult, List, MAX_DEPTH, Node, Scope, Variable, VariableKind};
use crate::cuda::cursor::Cursor;
use crate::cuda::kernel::{Base, Type, parse_type};
use crate::cuda::lex::Kind;
use crate::cuda::types::Number;
use crate::cuda::value::{Binary, Rounding, Value};
use crate::error::{Result, fail};
use crate::escape::escape;

impl Scope {
    pub(in crate::cuda) fn find(&self, name: &str) -> Option<(usize, &Variable)> {
        self.variables.iter().enumerate().rev().find(|(_, v)| v.name == name)
    }

    fn add(&mut self, name: &str) {
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// Parses a call of `lib`.
    pub(in crate::cuda) fn lib(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<LibResult> {
        let line = cursor.line();
        cursor.next();
        if !cursor.take(".") {
            fail!(
                Syntax,
                "line {line}: write lib.getData<float>(\"NIR\") with a dot; lib cannot be passed on"
            )
        }
        let method = cursor.word().unwrap_or_default();
        let mut base = None;
        if method == "getData" {
            if !cursor.take("<") {
                fail!(Syntax, "line {line}: write the type of the elements: lib.getData<float>(\"NIR\")")
            }
            let datatype = parse_type(cursor)?;
            if datatype.pointer {
                fail!(Syntax, "line {line}: the elements of a dataset cannot be pointers")
            }
            cursor.need(">")?;
            base = Some(datatype.base);
        }
        if !["getData", "getDims", "getChunk", "getOffset"].contains(&method) {
            let what = match method {
                "seed" | "clock" => "there is no seed and no clock on a GPU",
                "getAttr" => {
                    "attributes are not supported in CUDA: read it in another language, as an expression's `@name`, or write its value in the source"
                }
                "connect" => "a kernel has no connections",
                _ => "only getData, getDims, getChunk and getOffset of lib are translated",
            };
            fail!(Unsupported, "line {line}: lib.{}: {what}; {ADVICE}", escape(method, 40))
        }
        cursor.need("(")?;
        let given = match (method, base, cursor.is(")")) {
            ("getChunk", _, true) => LibResult::List(List::Chunk),
            ("getOffset", _, true) => LibResult::List(List::Offset),
            (_, base, _) => {
                let name = cursor.dataset()?;
                self.add(&name);
                match (method, base) {
                    (_, Some(base)) => LibResult::Data(name, base),
                    ("getDims", None) => LibResult::List(List::Dims(name)),
                    ("getOffset", None) => LibResult::List(List::Start(name)),
                    _ => fail!(Syntax, "line {line}: lib.{method} has no arguments"),
                }
            }
        };
        cursor.need(")")?;
        Ok(given)
    }

    /// Parses an expression, up to a comma, a bracket or the end.
    pub(in crate::cuda) fn expression(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Expression> {
        self.nested(cursor, |scope, cursor| {
            let condition = scope.binary(cursor, 0)?;
            let line = cursor.line();
            if !cursor.take("?") {
                return Ok(condition);
            }
            let yes = scope.expression(cursor)?;
            cursor.need(":")?;
            let no = scope.expression(cursor)?;
            let number = if yes.number == no.number { yes.number } else { yes.number.common(no.number) };
            let node = Node::Choice(Box::new(condition), Box::new(yes), Box::new(no));
            Expression::new(node, number, line)
        })
    }

    fn nested<T>(
        &mut self,
        cursor: &mut Cursor<'_, '_>,
        parse: impl FnOnce(&mut Self, &mut Cursor<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            fail!(Limit, "line {}: more than {MAX_DEPTH} nested brackets", cursor.line())
        }
        self.depth += 1;
        let result = parse(self, cursor);
        self.depth -= 1;
        result
    }

    /// Parses operators of at least this precedence.
    fn binary(&mut self, cursor: &mut Cursor<'_, '_>, least: usize) -> Result<Expression> {
        let mut left = self.unary(cursor)?;
        while let Some((text, precedence)) = operator(cursor).filter(|(_, p)| *p >= least) {
            let line = cursor.line();
            cursor.take(text);
            let right = self.nested(cursor, |scope, cursor| scope.binary(cursor, precedence + 1))?;
            let (a, b) = (Box::new(left), Box::new(right));
            left = match text {
                "&&" => Expression::new(Node::Both(a, b), Number::Bool, line)?,
                "||" => Expression::new(Node::Either(a, b), Number::Bool, line)?,
                _ => {
                    let operator = parse_binary(text);
                    let number = operator.number(a.number, b.number, line)?;
                    Expression::new(Node::Binary(operator, a, b), number, line)?
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Expression> {
        let line = cursor.line();
        for text in ["++", "--"] {
            if cursor.is(text) {
                fail!(Unsupported, "line {line}: {text} is not translated; write n = n + 1, {ADVICE}")
            }
        }
        for (text, make) in [
            ("-", Node::Negative as fn(Box<Expression>) -> Node),
            ("~", Node::Inverted),
            ("!", Node::Not),
            ("+", Node::Cast),
        ] {
            if cursor.take(text) {
                let inner = self.nested(cursor, Scope::unary)?;
                if text == "~" && inner.number.is_float() {
                    fail!(Syntax, "line {line}: ~ needs an integer")
                }
                let number = if text == "!" { Number::Bool } else { inner.number.promoted() };
                return Expression::new(make(Box::new(inner)), number, line);
            }
        }
        self.primary(cursor)
    }

    fn primary(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Expression> {
        let line = cursor.line();
        let Some(token) = cursor.peek(0) else {
            fail!(Syntax, "line {line}: a number is missing at the end")
        };
        if token.kind == Kind::Number {
            cursor.next();
            let value = literal(token.text, line)?;
            return Expression::new(Node::Constant(value), value.number, line);
        }
        if cursor.take("(") {
            // A cast, or an expression in parentheses.
            if is_type(cursor) {
                let number = number_type(cursor)?;
                cursor.need(")")?;
                let inner = self.nested(cursor, Scope::unary)?;
                return inner.into_number(number);
            }
            let inner = self.expression(cursor)?;
            cursor.need(")")?;
            return Ok(inner);
        }
        if is_type(cursor) {
            let number = number_type(cursor)?;
            cursor.need("(")?;
            let inner = self.expression(cursor)?;
            cursor.need(")")?;
            return inner.into_number(number);
        }
        if cursor.is_word("std") {
            cursor.next();
            cursor.need("::")?;
        }
        let word = match token.kind {
            Kind::Unknown => fail!(
                Syntax,
                "line {line}: {} is a macro that is defined under a condition, twice or with arguments; write what it stands for",
                escape(token.text, 80)
            ),
            Kind::Word => cursor.peek(0).map_or("", |t| t.text),
            _ => fail!(Syntax, "line {line}: expected a number, got {}; {ADVICE}", cursor.describe_next()),
        };
        match word {
            "lib" => {
                let given = self.lib(cursor)?;
                match given {
                    LibResult::List(list) => self.list_access(cursor, list, line),
                    LibResult::Data(..) => fail!(
                        Unsupported,
                        "line {line}: the elements of a dataset are on the GPU, where only kernels see them; {ADVICE}"
                    ),
                }
            }
            "true" | "false" => {
                cursor.next();
                let value = Value::truth(word == "true");
                Expression::new(Node::Constant(value), Number::Bool, line)
            }
            "sizeof" => {
                cursor.next();
                cursor.need("(")?;
                let number = number_type(cursor)?;
                cursor.need(")")?;
                let size = i128::try_from(number.size()).unwrap_or(0);
                let value = Value::integer(Number::UnsignedLong, size);
                Expression::new(Node::Constant(value), Number::UnsignedLong, line)
            }
            "static_cast" => {
                cursor.next();
                cursor.need("<")?;
                let number = number_type(cursor)?;
                cursor.need(">")?;
                cursor.need("(")?;
                let inner = self.expression(cursor)?;
                cursor.need(")")?;
                inner.into_number(number)
            }
            _ if cursor.peek(1).is_some_and(|t| t.text == "(" && t.kind == Kind::Op) => {
                self.call(cursor, word, line)
            }
            _ => self.variable(cursor, word, line),
        }
    }

    /// Parses a variable, or a component of one.
    fn variable(&mut self, cursor: &mut Cursor<'_, '_>, word: &str, line: u32) -> Result<Expression> {
        let Some((index, variable)) = self.find(word) else {
            fail!(Syntax, "line {line}: {} is not declared; {ADVICE}", escape(word, 80))
        };
        let kind = variable.kind.clone();
        cursor.next();
        match kind {
            VariableKind::Number(number) => Expression::new(Node::Variable(index), number, line),
            VariableKind::List(list) => self.list_access(cursor, list, line),
            VariableKind::Dim3 => {
                cursor.need(".")?;
                let part = cursor.word().and_then(|w| ["x", "y", "z"].iter().position(|p| *p == w));
                let Some(part) = part else { fail!(Syntax, "line {line}: a dim3 has x, y and z") };
                Expression::new(Node::Part(index, part), Number::Unsigned, line)
            }
            VariableKind::Data(..) => fail!(
                Unsupported,
                "line {line}: the elements of a dataset are on the GPU, where only kernels see them; {ADVICE}"
            ),
        }
    }

    fn list_access(&mut self, cursor: &mut Cursor<'_, '_>, list: List, line: u32) -> Result<Expression> {
        if cursor.take("[") {
            let index = self.expression(cursor)?;
            cursor.need("]")?;
            if index.number.is_float() {
                fail!(Syntax, "line {line}: an index must be an integer")
            }
            return Expression::new(Node::Element(list, Box::new(index)), Number::UnsignedLong, line);
        }
        if cursor.take(".") && cursor.take_word("size") && cursor.take("(") {
            cursor.need(")")?;
            return Expression::new(Node::Length(list), Number::UnsignedLong, line);
        }
        fail!(Syntax, "line {line}: a list can only be used as in dims[0] or dims.size()")
    }

    fn call(&mut self, cursor: &mut Cursor<'_, '_>, word: &str, line: u32) -> Result<Expression> {
        let rounding = match word {
            "ceil" | "ceilf" => Some(Rounding::Ceil),
            "floor" | "floorf" => Some(Rounding::Floor),
            "round" | "roundf" => Some(Rounding::Round),
            "trunc" | "truncf" => Some(Rounding::Trunc),
            "sqrt" | "sqrtf" => Some(Rounding::Sqrt),
            _ => None,
        };
        let smaller = match word {
            "min" => Some(true),
            "max" => Some(false),
            _ => None,
        };
        cursor.next();
        match (rounding, smaller) {
            (Some(rounding), _) => {
                cursor.need("(")?;
                let mut inner = self.expression(cursor)?;
                cursor.need(")")?;
                if word.ends_with('f') {
                    inner = inner.into_number(Number::Float)?;
                }
                let number = if inner.number == Number::Float { Number::Float } else { Number::Double };
                Expression::new(Node::Rounded(rounding, Box::new(inner)), number, line)
            }
            (None, Some(smaller)) => {
                cursor.need("(")?;
                let a = self.expression(cursor)?;
                cursor.need(",")?;
                let b = self.expression(cursor)?;
                cursor.need(")")?;
                let number = if a.number == b.number { a.number } else { a.number.common(b.number) };
                let make = if smaller { Node::Smaller } else { Node::Larger };
                Expression::new(make(Box::new(a), Box::new(b)), number, line)
            }
            (None, None) => fail!(
                Unsupported,
                "line {line}: {} is not translated: the only functions are ceil, floor, round, trunc, sqrt, min and max; {ADVICE}",
                escape(word, 80)
            ),
        }
    }
}

/// Returns the next binary operator with its precedence.
fn operator(cursor: &Cursor<'_, '_>) -> Option<(&'static str, usize)> {
    const ASSIGNMENTS: [&str; 12] =
        ["<<<", ">>>", "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="];
    const OPERATORS: [(&str, usize); 18] = [
        ("||", 0),
        ("&&", 1),
        ("==", 5),
        ("!=", 5),
        ("<=", 6),
        (">=", 6),
        ("<<", 7),
        (">>", 7),
        ("|", 2),
        ("^", 3),
        ("&", 4),
        ("<", 6),
        (">", 6),
        ("+", 8),
        ("-", 8),
        ("*", 9),
        ("/", 9),
        ("%", 9),
    ];
    if ASSIGNMENTS.iter().any(|text| cursor.is(text)) {
        return None;
    }
    OPERATORS.into_iter().find(|(text, _)| cursor.is(text))
}

fn parse_binary(text: &str) -> Binary {
    match text {
        "*" => Binary::Multiply,
        "/" => Binary::Divide,
        "%" => Binary::Remainder,
        "+" => Binary::Add,
        "-" => Binary::Subtract,
        "<<" => Binary::Left,
        ">>" => Binary::Right,
        "<" => Binary::Less,
        "<=" => Binary::LessEqual,
        ">" => Binary::Greater,
        ">=" => Binary::GreaterEqual,
        "==" => Binary::Equal,
        "!=" => Binary::NotEqual,
        "&" => Binary::And,
        "^" => Binary::Xor,
        _ => Binary::Or,
    }
}

/// Returns whether a number type is next.
fn is_type(cursor: &Cursor<'_, '_>) -> bool {
    let standard = cursor.is_word("std")
        && cursor.peek(3).is_some_and(|t| t.kind == Kind::Word && Number::is_word(t.text));
    standard
        || cursor
            .peek(0)
            .is_some_and(|t| t.kind == Kind::Word && (t.text == "const" || Number::is_word(t.text)))
}

/// Parses a number type.
pub(in crate::cuda) fn number_type(cursor: &mut Cursor<'_, '_>) -> Result<Number> {
    let line = cursor.line();
    match parse_type(cursor)? {
        Type { base: Base::Number(number), pointer: false, .. } => Ok(number),
        other => fail!(
            Unsupported,
            "line {line}: {} is not a number type; {ADVICE}",
            escape(&other.spelling(), 80)
        ),
    }
}

/// Parses a number literal.
fn literal(text: &str, line: u32) -> Result<Value> {
    let plain = text.replace('\'', "").to_ascii_lowercase();
    let wrong = || {
        crate::error::Error::new(
            crate::error::ErrorKind::Syntax,
            format!("line {line}: cannot parse {} as a number", escape(text, 40)),
        )
    };
    let hexadecimal = plain.starts_with("0x");
    if !hexadecimal && plain.contains(['.', 'e', 'f']) {
        let (digits, number) = match plain.strip_suffix('f') {
            Some(digits) => (digits, Number::Float),
            None => (plain.as_str(), Number::Double),
        };
        if !digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-')) {
            return Err(wrong());
        }
        let value: f64 = digits.parse().map_err(|_| wrong())?;
        // A float is rounded directly, not through the nearest double.
        let value = match number {
            Number::Float => f64::from(digits.parse::<f32>().map_err(|_| wrong())?),
            _ => value,
        };
        return Ok(Value::float(number, value));
    }
    let digits = plain.trim_end_matches(['u', 'l']);
    let suffix = plain.get(digits.len()..).unwrap_or_default();
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16),
        None if digits.starts_with("0b") => i128::from_str_radix(digits.trim_start_matches("0b"), 2),
        None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    let value = value.ok().filter(|v| (0..1 << 64).contains(v)).ok_or_else(wrong)?;
    let unsigned = suffix.contains('u');
    let long = suffix.matches('l').count();
    if long > 2 || suffix.matches('u').count() > 1 {
        return Err(wrong());
    }
    let candidates: &[Number] = match (long, unsigned, hexadecimal) {
        (0, false, false) => &[Number::Int, Number::Long],
        (0, false, true) => &[Number::Int, Number::Unsigned, Number::Long, Number::UnsignedLong],
        (0, true, _) => &[Number::Unsigned, Number::UnsignedLong],
        (1, false, false) => &[Number::Long],
        (1, false, true) => &[Number::Long, Number::UnsignedLong],
        (1, true, _) => &[Number::UnsignedLong],
        (_, false, false) => &[Number::LongLong],
        (_, false, true) => &[Number::LongLong, Number::UnsignedLongLong],
        (_, true, _) => &[Number::UnsignedLongLong],
    };
    let fits = |n: &&Number| {
        let bits = n.size() * 8 - usize::from(n.is_signed());
        value < 1i128 << bits
    };
    match candidates.iter().find(fits) {
        Some(&number) => Ok(Value::integer(number, value)),
        None => Err(wrong()),
    }
}
