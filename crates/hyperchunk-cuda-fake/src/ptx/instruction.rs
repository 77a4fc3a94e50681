//! Instructions as they are run: names are resolved to registers, places and targets.

use std::collections::HashMap;

/// What the bits of a value are.
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
    /// The type behind its name without the point.
    pub(super) fn of(name: &str) -> Option<Type> {
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

/// Where memory is.
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

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(usize),
    /// A predicate, negated.
    Not(usize),
    Immediate(u64),
    Special(Special),
    /// A variable of the module, by its number.
    Global(usize),
    /// The place of a variable in the block's, thread's or call's memory.
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
    /// One is none.
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

/// How a float becomes one of fewer bits, or an integer.
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

/// Where sums and products of floats are rounded to, if not to nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    Zero,
    Down,
    Up,
}

/// How an atomic changes what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Alu(Operation),
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Operand,
    pub(crate) offset: i64,
}

/// What the lanes of a warp do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// They wait for each other.
    Wait,
    /// A value from the lane that many lanes before.
    Up,
    Down,
    Butterfly,
    Index,
    All,
    Any,
    Uniform,
    Ballot,
}

/// What an instruction does.
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
    /// A sum or product of floats that is rounded in a direction.
    Directed {
        operation: Operation,
        bits: u32,
        towards: Towards,
        to: usize,
        from: [Operand; 3],
    },
    /// A part of a sum of many words: with the carry of the last one, and leaving one for the next.
    Carry {
        operation: Operation,
        ty: Type,
        takes: bool,
        leaves: bool,
        to: usize,
        from: [Operand; 3],
    },
    /// `setp` and `set`: `to` and, of `setp`, what gets the opposite; combined with a predicate.
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
    /// The function's name, where its parameters come from and its result goes to in the caller's parameter memory.
    Call {
        function: String,
        arguments: Vec<u64>,
        results: Vec<u64>,
    },
    Return,
    Exit,
    Trap,
    Barrier,
    /// With the lanes of `mask`: what a lane gets and whether it came from within bounds; two or three values of its own.
    Warp {
        what: Together,
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

/// A parameter, or the memory for one: its place and size.
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
    /// Bytes of parameter memory: its own parameters first, then those of what it calls.
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

/// What a PTX text says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) functions: HashMap<String, Function>,
    pub(crate) variables: Vec<Variable>,
    /// Bytes of shared memory that are declared outside of functions.
    pub(crate) shared_bytes: usize,
}
