//! Syntax tree of an expression.

use super::Kind;

/// Literal, or result of operations on literals. It takes the type of the other operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Real(f64),
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "the nearest number is meant")]
    pub(crate) fn real(self) -> f64 {
        match self {
            Number::Integer(n) => n as f64,
            Number::Real(x) => x,
        }
    }
}

/// Operator or function with one to three arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Negative,
    Positive,
    Invert,
    Not,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    Minimum,
    Maximum,
    Where,
    Absolute,
    SignOf,
    Rounding(Rounding),
    Float(Float),
    Atan2,
    Hypot,
    IsNan,
    IsInf,
    IsFinite,
    Cast(Kind),
}

/// Rounding of a float to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rounding {
    Floor,
    Ceil,
    Truncate,
    /// To the nearest, ties to even.
    Nearest,
}

/// Functions of one float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Float {
    Sqrt,
    Exp,
    Expm1,
    Log,
    Log1p,
    Log2,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
}

/// Node of the tree, stored after its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Number(Number),
    Truth(bool),
    /// Dataset with this index in the names.
    Input(usize),
    Call(Op, [usize; 3], u8),
}

/// Function with its number of arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Plain(Op, u8),
    /// Two or more arguments, combined in pairs.
    Fold(Op),
    Clip,
    Round,
}

/// Functions by name.
const FUNCTIONS: [(&str, Function); 45] = [
    ("where", Function::Plain(Op::Where, 3)),
    ("min", Function::Fold(Op::Minimum)),
    ("minimum", Function::Fold(Op::Minimum)),
    ("max", Function::Fold(Op::Maximum)),
    ("maximum", Function::Fold(Op::Maximum)),
    ("clip", Function::Clip),
    ("round", Function::Round),
    ("abs", Function::Plain(Op::Absolute, 1)),
    ("sign", Function::Plain(Op::SignOf, 1)),
    ("floor", Function::Plain(Op::Rounding(Rounding::Floor), 1)),
    ("ceil", Function::Plain(Op::Rounding(Rounding::Ceil), 1)),
    ("trunc", Function::Plain(Op::Rounding(Rounding::Truncate), 1)),
    ("rint", Function::Plain(Op::Rounding(Rounding::Nearest), 1)),
    ("sqrt", Function::Plain(Op::Float(Float::Sqrt), 1)),
    ("exp", Function::Plain(Op::Float(Float::Exp), 1)),
    ("expm1", Function::Plain(Op::Float(Float::Expm1), 1)),
    ("log", Function::Plain(Op::Float(Float::Log), 1)),
    ("log1p", Function::Plain(Op::Float(Float::Log1p), 1)),
    ("log2", Function::Plain(Op::Float(Float::Log2), 1)),
    ("log10", Function::Plain(Op::Float(Float::Log10), 1)),
    ("sin", Function::Plain(Op::Float(Float::Sin), 1)),
    ("cos", Function::Plain(Op::Float(Float::Cos), 1)),
    ("tan", Function::Plain(Op::Float(Float::Tan), 1)),
    ("asin", Function::Plain(Op::Float(Float::Asin), 1)),
    ("acos", Function::Plain(Op::Float(Float::Acos), 1)),
    ("atan", Function::Plain(Op::Float(Float::Atan), 1)),
    ("sinh", Function::Plain(Op::Float(Float::Sinh), 1)),
    ("cosh", Function::Plain(Op::Float(Float::Cosh), 1)),
    ("tanh", Function::Plain(Op::Float(Float::Tanh), 1)),
    ("atan2", Function::Plain(Op::Atan2, 2)),
    ("hypot", Function::Plain(Op::Hypot, 2)),
    ("isnan", Function::Plain(Op::IsNan, 1)),
    ("isinf", Function::Plain(Op::IsInf, 1)),
    ("isfinite", Function::Plain(Op::IsFinite, 1)),
    ("bool", Function::Plain(Op::Cast(Kind::Bool), 1)),
    ("int8", Function::Plain(Op::Cast(Kind::Int8), 1)),
    ("int16", Function::Plain(Op::Cast(Kind::Int16), 1)),
    ("int32", Function::Plain(Op::Cast(Kind::Int32), 1)),
    ("int64", Function::Plain(Op::Cast(Kind::Int64), 1)),
    ("uint8", Function::Plain(Op::Cast(Kind::UInt8), 1)),
    ("uint16", Function::Plain(Op::Cast(Kind::UInt16), 1)),
    ("uint32", Function::Plain(Op::Cast(Kind::UInt32), 1)),
    ("uint64", Function::Plain(Op::Cast(Kind::UInt64), 1)),
    ("float32", Function::Plain(Op::Cast(Kind::Float32), 1)),
    ("float64", Function::Plain(Op::Cast(Kind::Float64), 1)),
];

/// Alternative names of functions, from NumPy and from dataset descriptions.
const ALIASES: [(&str, &str); 6] = [
    ("arcsin", "asin"),
    ("arccos", "acos"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("float", "float32"),
    ("double", "float64"),
];

/// Returns the function of this name.
pub(crate) fn function(name: &str) -> Option<Function> {
    let name = ALIASES.iter().find(|(a, _)| *a == name).map_or(name, |(_, n)| n);
    FUNCTIONS.iter().find(|(n, _)| *n == name).map(|(_, f)| *f)
}

/// Lists the names of all functions, for messages.
pub(crate) fn function_names() -> String {
    FUNCTIONS.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(" ")
}
