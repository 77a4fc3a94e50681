//! Expressions of `dynamic_dataset`: typed when parsed, and evaluated when a plan is made.

mod parse;

pub(super) use parse::number_type;

use super::kernel::Base;
use super::types::Number;
use super::value::{Binary, Rounding, Value};
use crate::error::{Result, fail};

/// Maximum nesting of brackets.
const MAX_DEPTH: usize = 64;
/// Maximum height of an expression tree: evaluation recurses.
const MAX_HEIGHT: usize = 256;
pub(super) const ADVICE: &str = "or write the kernel alone, whose parameters have the datasets' names, and leave dynamic_dataset out (docs: Live datasets, CUDA)";

/// Number that is computed when the plan is made.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    node: Node,
    pub(super) number: Number,
    line: u32,
    height: usize,
}

#[derive(Clone, Debug)]
enum Node {
    Constant(Value),
    /// Variable.
    Variable(usize),
    /// Element of a list.
    Element(List, Box<Expression>),
    /// Length of a list.
    Length(List),
    /// Component of a `dim3` variable.
    Part(usize, usize),
    Negative(Box<Expression>),
    Inverted(Box<Expression>),
    Not(Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    Both(Box<Expression>, Box<Expression>),
    Either(Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// Minimum and maximum of two.
    Smaller(Box<Expression>, Box<Expression>),
    Larger(Box<Expression>, Box<Expression>),
    Rounded(Rounding, Box<Expression>),
    Cast(Box<Expression>),
}

impl Node {
    fn height(&self) -> usize {
        match self {
            Node::Constant(_) | Node::Variable(_) | Node::Length(_) | Node::Part(..) => 0,
            Node::Element(_, a) | Node::Negative(a) | Node::Inverted(a) | Node::Not(a) => a.height,
            Node::Rounded(_, a) | Node::Cast(a) => a.height,
            Node::Binary(_, a, b) | Node::Both(a, b) | Node::Either(a, b) => a.height.max(b.height),
            Node::Smaller(a, b) | Node::Larger(a, b) => a.height.max(b.height),
            Node::Choice(a, b, c) => a.height.max(b.height).max(c.height),
        }
    }
}

/// List of numbers from `lib`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// `lib.getDims("x")`
    Dims(String),
    /// `lib.getOffset("x")`
    Start(String),
    /// `lib.getChunk()`
    Chunk,
    /// `lib.getOffset()`
    Offset,
}

/// Variable.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) kind: VariableKind,
    pub(super) constant: bool,
}

#[derive(Clone, Debug)]
pub(super) enum VariableKind {
    Number(Number),
    /// Elements of a dataset.
    Data(String, Base),
    List(List),
    Dim3,
}

/// Result of a call of `lib`.
#[derive(Clone, Debug)]
pub(super) enum LibResult {
    Data(String, Base),
    List(List),
}

/// Names in scope while `dynamic_dataset` is parsed.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) variables: Vec<Variable>,
    /// Datasets, in order of first use.
    pub(super) names: Vec<String>,
    depth: usize,
}

/// Values that a plan's expressions read.
pub(super) trait Source {
    /// Returns the numbers of a list.
    fn list(&self, list: &List) -> Result<&[u64]>;
    /// Returns the value of a variable that is a number.
    fn number(&self, variable: usize) -> Option<Value>;
    /// Returns the value of a variable that is a `dim3`.
    fn dim3(&self, variable: usize) -> Option<[u32; 3]>;
}

impl Expression {
    fn new(node: Node, number: Number, line: u32) -> Result<Self> {
        let height = node.height() + 1;
        if height > MAX_HEIGHT {
            fail!(Limit, "line {line}: an expression with more than {MAX_HEIGHT} nested operations")
        }
        Ok(Expression { node, number, line, height })
    }

    /// Returns the expression's value if it depends on no dataset and no variable.
    pub(super) fn constant(&self) -> Option<Value> {
        struct NoSource;
        impl Source for NoSource {
            fn list(&self, _: &List) -> Result<&[u64]> {
                fail!(Syntax, "not a constant")
            }
            fn number(&self, _: usize) -> Option<Value> {
                None
            }
            fn dim3(&self, _: usize) -> Option<[u32; 3]> {
                None
            }
        }
        self.value(&NoSource).ok()
    }

    /// Adds a conversion to another type.
    pub(super) fn into_number(self, number: Number) -> Result<Expression> {
        let line = self.line;
        Expression::new(Node::Cast(Box::new(self)), number, line)
    }

    /// Returns the expression's line in the source.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// `Syntax`, with the line: operations that are undefined in C++, and indices out of range.
    pub(super) fn value(&self, source: &dyn Source) -> Result<Value> {
        let line = self.line;
        let value = match &self.node {
            Node::Constant(value) => *value,
            Node::Variable(index) => match source.number(*index) {
                Some(value) => value,
                None => fail!(Syntax, "line {line}: a variable has no value yet"),
            },
            Node::Element(list, index) => {
                let numbers = source.list(list)?;
                let index = index.value(source)?.whole().and_then(|i| usize::try_from(i).ok());
                match index.and_then(|i| numbers.get(i)) {
                    Some(&number) => Value::integer(Number::UnsignedLong, i128::from(number)),
                    None => fail!(
                        Syntax,
                        "line {line}: an index out of range: the dataset has {} dimensions",
                        numbers.len()
                    ),
                }
            }
            Node::Length(list) => {
                let length = i128::try_from(source.list(list)?.len()).unwrap_or(0);
                Value::integer(Number::UnsignedLong, length)
            }
            Node::Part(index, part) => match source.dim3(*index).and_then(|d| d.get(*part).copied()) {
                Some(number) => Value::integer(Number::Unsigned, i128::from(number)),
                None => fail!(Syntax, "line {line}: a variable has no value yet"),
            },
            Node::Negative(inner) => inner.value(source)?.to(self.number, line)?.negative(line)?,
            Node::Inverted(inner) => inner.value(source)?.inverted(line)?,
            Node::Not(inner) => Value::truth(!inner.value(source)?.is_true()),
            Node::Binary(operator, a, b) => a.value(source)?.binary(*operator, b.value(source)?, line)?,
            Node::Both(a, b) => Value::truth(a.value(source)?.is_true() && b.value(source)?.is_true()),
            Node::Either(a, b) => Value::truth(a.value(source)?.is_true() || b.value(source)?.is_true()),
            Node::Choice(condition, yes, no) => match condition.value(source)?.is_true() {
                true => yes.value(source)?,
                false => no.value(source)?,
            },
            Node::Smaller(a, b) | Node::Larger(a, b) => {
                let (a, b) = (a.value(source)?, b.value(source)?);
                let smaller = matches!(self.node, Node::Smaller(..));
                let (low, high) = if smaller { (b, a) } else { (a, b) };
                if low.binary(Binary::Less, high, line)?.is_true() { b } else { a }
            }
            Node::Rounded(rounding, inner) => inner.value(source)?.rounded(*rounding),
            Node::Cast(inner) => inner.value(source)?,
        };
        value.to(self.number, line)
    }
}
