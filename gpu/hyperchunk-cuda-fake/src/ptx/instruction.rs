//! Decoded instructions: names are resolved to registers, addresses and targets.

use std::collections::HashMap;

/// The interpretation of a value's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bits,
    Unsigned,
    Signed,
    Float,
    Predicate,
}

/// A type: its kind and its width in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    pub(crate) bits: u32,
}

impl Type {
    /// Parses a type name without the dot.
    pub(super) fn parse(name: &str) -> Option<Type> {
        let (kind, bits) = match name.as_bytes().first()? {
            _ if name == "pred" => return Some(Type { kind: Kind::Predicate, bits: 1 }),
            b'b' => (Kind::Bits, &name[1..]),
            b'u' => (Kind::Unsigned, &name[1..]),
            b's' => (Kind::Signed, &name[1..]),
            b'f' => (Kind::Float, &name[1..]),
            _ => return None,
        };
        let bits = match bits {
            "8" if kind != Kind::Float => 8,
            "16" => 16,
            "32" => 32,
            "64" => 64,
            _ => return None,
        };
        Some(Type { kind, bits })
    }

    pub(crate) fn bytes(self) -> usize {
        (self.bits as usize).div_ceil(8)
    }
}

/// A memory space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Constant,
    Shared,
    Local,
    Param,
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
    Lane,
    Warp,
    Warps,
    Zero,
    WarpSize,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(usize),
    /// A predicate, negated.
    Not(usize),
    Immediate(u64),
    Special(Special),
    /// A variable of the module, by its number.
    Global(usize),
    /// The address of a variable in the block's, thread's or call's memory.
    Place(Space, u64),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Both are numbers.
    Number,
    /// One is NaN.
    NaN,
}

/// A function of up to four values without other effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Move,
    Add,
    Sub,
    MulLow,
    MulHigh,
    MulWide,
    MadLow,
    MadHigh,
    MadWide,
    Fma,
    Div,
    Rem,
    Min,
    Max,
    Abs,
    Neg,
    And,
    Or,
    Xor,
    Not,
    LogicalNot,
    Shl,
    Shr,
    PopCount,
    LeadingZeros,
    FindHighest,
    FindHighestShift,
    Reverse,
    Extract,
    Insert,
    Permute,
    FunnelLeft,
    FunnelLeftClamp,
    FunnelRight,
    FunnelRightClamp,
    Lookup(u8),
    AbsoluteDifference,
    Select,
    SelectBySign,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
    CopySign,
}

/// The rounding of a conversion to a narrower float, or an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    None,
    /// To nearest, ties to even.
    Nearest,
    /// To an integral value: to nearest, towards zero, down, up.
    IntegralNearest,
    IntegralZero,
    IntegralDown,
    IntegralUp,
}

/// The direction of rounding of sums and products of floats, if not to nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundingDirection {
    Zero,
    Down,
    Up,
}

/// The modification by an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Alu(Operation),
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// An address in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Operand,
    pub(crate) offset: i64,
}

/// An operation of the lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpOperation {
    /// The lanes wait for each other.
    Wait,
    /// A value from the lane at a distance before.
    Up,
    Down,
    Butterfly,
    Index,
    All,
    Any,
    Uniform,
    Ballot,
}

/// The action of an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Alu {
        operation: Operation,
        ty: Type,
        flush: bool,
        saturate: bool,
        to: usize,
        from: [Operand; 4],
    },
    Convert {
        to_type: Type,
        from_type: Type,
        rounding: Rounding,
        flush: bool,
        saturate: bool,
        to: usize,
        from: Operand,
    },
    /// A sum or product of floats with directed rounding.
    Directed {
        operation: Operation,
        bits: u32,
        towards: RoundingDirection,
        to: usize,
        from: [Operand; 3],
    },
    /// A part of a multi-word sum: uses the last carry, and sets the next.
    Carry {
        operation: Operation,
        ty: Type,
        takes: bool,
        leaves: bool,
        to: usize,
        from: [Operand; 3],
    },
    /// `setp` and `set`: `to` and, for `setp`, the register of the opposite; combined with a predicate.
    Compare {
        compare: Compare,
        unordered: bool,
        ty: Type,
        to: usize,
        opposite: Option<usize>,
        from: [Operand; 2],
        with: Option<(Operation, Operand)>,
        full: Option<Type>,
    },
    Pack {
        bits: u32,
        to: usize,
        from: Vec<Operand>,
    },
    Unpack {
        bits: u32,
        to: Vec<Option<usize>>,
        from: Operand,
    },
    Load {
        space: Space,
        ty: Type,
        to: Vec<Option<usize>>,
        address: Address,
    },
    Store {
        space: Space,
        ty: Type,
        address: Address,
        from: Vec<Operand>,
    },
    Atomic {
        space: Space,
        atomic: Atomic,
        ty: Type,
        to: Option<usize>,
        address: Address,
        from: [Operand; 2],
    },
    Branch(usize),
    BranchIndexed {
        index: Operand,
        targets: Vec<usize>,
    },
    /// The function's name, and the places of its parameters and results in the caller's parameter memory.
    Call {
        function: String,
        arguments: Vec<u64>,
        results: Vec<u64>,
    },
    Return,
    Exit,
    Trap,
    Barrier,
    /// With the lanes of `mask`: a lane's result, and whether its source was within bounds; two or three
    /// values of its own.
    Warp {
        what: WarpOperation,
        to: Option<usize>,
        within: Option<usize>,
        from: [Operand; 3],
        mask: Operand,
    },
    Nothing,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// The predicate under which it runs, and whether that is negated.
    pub(crate) guard: Option<(usize, bool)>,
    pub(crate) action: Action,
    pub(crate) line: usize,
}

/// A parameter, or its memory: offset and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// A kernel or a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) is_kernel: bool,
    pub(crate) parameters: Vec<Slot>,
    pub(crate) results: Vec<Slot>,
    pub(crate) code: Vec<Instruction>,
    pub(crate) registers: usize,
    /// Bytes of parameter memory: its own parameters, followed by its callees' parameters.
    pub(crate) param_bytes: usize,
    pub(crate) local_bytes: usize,
    pub(crate) max_threads: Option<u32>,
}

/// A variable of a module.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) bytes: usize,
    pub(crate) initial: Vec<u8>,
}

/// A parsed PTX text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) functions: HashMap<String, Function>,
    pub(crate) variables: Vec<Variable>,
    /// Bytes of shared memory that are declared outside of functions.
    pub(crate) shared_bytes: usize,
}
