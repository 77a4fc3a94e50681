//! The parts of an expression: what the parser makes.

use super::Kind;

/// A number that was written, or computed from such. It takes the type of what it meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i128),
    Real(f64),
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "the nearest number is meant")]
    pub(super) fn real(self) -> f64 {
        match self {
            Number::Integer(n) => n as f64,
            Number::Real(x) => x,
        }
    }
}

/// An operator or function, of one to three values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
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

/// How a float becomes whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rounding {
    Floor,
    Ceil,
    Truncate,
    /// To the nearest, halves to the even one.
    Nearest,
}

/// Functions of one float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Float {
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

/// A part; its arguments come before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Number(Number),
    Truth(bool),
    /// The dataset with this index in the names.
    Input(usize),
    Call(Op, [usize; 3], u8),
}

/// What a function's name stands for, and how many values it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    Plain(Op, u8),
    /// Any number from two on, taken in pairs.
    Fold(Op),
    Clip,
    Round,
}

/// name, meaning
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

/// Other names of functions: those of NumPy and of dataset descriptions.
const ALIASES: [(&str, &str); 6] = [
    ("arcsin", "asin"),
    ("arccos", "acos"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("float", "float32"),
    ("double", "float64"),
];

/// The function of this name.
pub(super) fn function(name: &str) -> Option<Function> {
    let name = ALIASES.iter().find(|(a, _)| *a == name).map_or(name, |(_, n)| n);
    FUNCTIONS.iter().find(|(n, _)| *n == name).map(|(_, f)| *f)
}

/// The names of all functions, for messages.
pub(super) fn function_names() -> String {
    FUNCTIONS.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(" ")
}
