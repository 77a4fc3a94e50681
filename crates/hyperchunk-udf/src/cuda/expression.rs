//! Expressions of `dynamic_dataset`: parsed with their types, and computed.

mod parse;

pub(super) use parse::number_type;

use super::kernel::Base;
use super::types::Number;
use super::value::{Binary, Rounding, Value};
use crate::error::{Result, fail};

/// Brackets in brackets at most.
const MAX_DEPTH: usize = 64;
/// Operations on each other's results at most: computing them recurses.
const MAX_HEIGHT: usize = 256;
pub(super) const ADVICE: &str = "or write the kernel alone, whose parameters have the datasets' names, and leave dynamic_dataset out (docs: Live datasets, CUDA)";

/// A number that is computed when the plan is made.
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
    /// A variable.
    Variable(usize),
    /// An element of a list.
    Element(List, Box<Expression>),
    /// How many a list has.
    Length(List),
    /// A part of a `dim3` that is a variable.
    Part(usize, usize),
    Negative(Box<Expression>),
    Inverted(Box<Expression>),
    Not(Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    Both(Box<Expression>, Box<Expression>),
    Either(Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// The smaller or the larger of two.
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

/// Numbers that `lib` gives.
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

/// A variable.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) kind: VariableKind,
    pub(super) constant: bool,
}

#[derive(Clone, Debug)]
pub(super) enum VariableKind {
    Number(Number),
    /// The elements of a dataset.
    Data(String, Base),
    List(List),
    Dim3,
}

/// What `lib` gave.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Data(String, Base),
    List(List),
}

/// What names stand for while `dynamic_dataset` is parsed.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) variables: Vec<Variable>,
    /// The datasets, in the order in which they appear.
    pub(super) names: Vec<String>,
    depth: usize,
}

/// Where the numbers of a plan come from.
pub(super) trait Source {
    /// The numbers of a list.
    fn list(&self, list: &List) -> Result<&[u64]>;
    /// A variable that is a number.
    fn number(&self, variable: usize) -> Option<Value>;
    /// A variable that is a `dim3`.
    fn dim3(&self, variable: usize) -> Option<[u32; 3]>;
}

impl Expression {
    fn new(node: Node, number: Number, line: u32) -> Result<Self> {
        let height = node.height() + 1;
        if height > MAX_HEIGHT {
            fail!(
                Limit,
                "line {line}: an expression of more than {MAX_HEIGHT} operations on each other's results"
            )
        }
        Ok(Expression { node, number, line, height })
    }

    /// Whether it is computed of nothing that depends on datasets or variables, and what it is then.
    pub(super) fn constant(&self) -> Option<Value> {
        struct Nothing;
        impl Source for Nothing {
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
        self.value(&Nothing).ok()
    }

    /// The same in another type.
    pub(super) fn into_number(self, number: Number) -> Result<Expression> {
        let line = self.line;
        Expression::new(Node::Cast(Box::new(self)), number, line)
    }

    /// Its line.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Computes it.
    ///
    /// # Errors
    /// `Syntax`, with the line: what C++ leaves undefined, and indices outside.
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
                        "line {line}: an index outside: the dataset has {} dimensions",
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
