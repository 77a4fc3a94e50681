//! Steps of a computation, and register allocation.

use super::Kind;
use super::tree::{Float, Rounding};
use std::collections::HashMap;

/// Index of a value.
pub(crate) type Id = usize;

/// Operator on values of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Conversion to another kind; integers saturate, and NaN fails.
    Cast,
    /// Conversion of `float64` to `float32` before rounding to fewer bits: the result is as if rounded only
    /// once.
    Narrow,
    Negative,
    Absolute,
    Sign,
    /// Bitwise not; for a bool, logical not.
    Invert,
    Rounding(Rounding),
    Float(Float),
    IsNan,
    IsInf,
    IsFinite,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Atan2,
    Hypot,
    Minimum,
    Maximum,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Less,
    LessEqual,
    Equal,
    NotEqual,
    /// `int64 < uint64` without conversion, and the other comparisons: the left side is signed.
    LessMixed,
    LessEqualMixed,
    GreaterMixed,
    GreaterEqualMixed,
    EqualMixed,
    /// Selection of one of two values by a condition.
    Where,
    /// Quotient of two operators applied to the same two floats, each rounded: a normalised difference.
    /// [`Program::new`] fuses three steps into it, since one pass reads the inputs while it divides.
    Ratio(Basic, Basic),
}

/// Operator of a [`Step::Ratio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Basic {
    Add,
    Subtract,
    Multiply,
}

impl Basic {
    pub(crate) fn from_step(step: Step) -> Option<Self> {
        match step {
            Step::Add => Some(Basic::Add),
            Step::Subtract => Some(Basic::Subtract),
            Step::Multiply => Some(Basic::Multiply),
            _ => None,
        }
    }
}

impl Step {
    /// Returns the number of the step's arguments.
    pub(crate) fn count(self) -> usize {
        match self {
            Step::Cast
            | Step::Narrow
            | Step::Negative
            | Step::Absolute
            | Step::Sign
            | Step::Invert
            | Step::Rounding(_)
            | Step::Float(_)
            | Step::IsNan
            | Step::IsInf
            | Step::IsFinite => 1,
            Step::Where => 3,
            _ => 2,
        }
    }
}

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Input(usize),
    /// Bytes of a constant, in the machine's order, in the low bytes.
    Constant(u64),
    Step(Step, [Id; 3]),
}

/// Value with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
}

/// Values in an order in which each follows its arguments, without duplicates, and the one set by
/// [`finish`](Steps::finish) as the result.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    values: Vec<Value>,
    known: HashMap<Value, Id>,
    result: Id,
}

impl Steps {
    pub(crate) fn push(&mut self, origin: Origin, kind: Kind) -> Id {
        let value = Value { origin, kind };
        let next = self.values.len();
        let id = *self.known.entry(value).or_insert(next);
        if id == next {
            self.values.push(value);
        }
        id
    }

    pub(crate) fn step(&mut self, step: Step, arguments: &[Id], kind: Kind) -> Id {
        let mut three = [0; 3];
        for (to, from) in three.iter_mut().zip(arguments) {
            *to = *from;
        }
        self.push(Origin::Step(step, three), kind)
    }

    pub(crate) fn cast(&mut self, id: Id, kind: Kind) -> Id {
        if self.value_kind(id) == kind { id } else { self.step(Step::Cast, &[id], kind) }
    }

    pub(crate) fn value_kind(&self, id: Id) -> Kind {
        self.values.get(id).map_or(Kind::Bool, |v| v.kind)
    }

    pub(crate) fn finish(&mut self, result: Id) {
        self.result = result;
    }

    /// Returns whether unsigned integers are subtracted or negated.
    pub(crate) fn may_wrap_below_zero(&self) -> bool {
        self.values.iter().any(|value| {
            let below = matches!(value.origin, Origin::Step(Step::Subtract | Step::Negative, _));
            below && value.kind.is_unsigned()
        })
    }

    /// Returns the kind of the result.
    pub(crate) fn kind(&self) -> Kind {
        self.value_kind(self.result)
    }

    /// Converts the result to `kind`.
    pub(crate) fn convert(&mut self, kind: Kind) {
        self.result = self.cast(self.result, kind);
    }

    /// Converts the result to a `float32` that will be rounded to a 16-bit float.
    pub(crate) fn convert_to_half(&mut self) {
        self.result = match self.kind() {
            Kind::Float64 => self.step(Step::Narrow, &[self.result], Kind::Float32),
            // Integers that `float32` has to round are beyond the range of 16-bit floats.
            _ => self.cast(self.result, Kind::Float32),
        };
    }
}

/// Returns the [`Step::Ratio`] equivalent to `value` and the two steps before it, with its arguments. Both
/// sides must be operations on the same two floats, which are inputs or constants, and must have no other use
/// (`once`).
fn find_ratio(values: &[Value], value: &Value, once: impl Fn(Id) -> bool) -> Option<(Step, [Id; 3])> {
    let Origin::Step(Step::Divide, [over, under, _]) = value.origin else { return None };
    let side = |id: Id| match values.get(id)?.origin {
        Origin::Step(step, [a, b, _]) if once(id) => Some((Basic::from_step(step)?, [a, b, 0])),
        _ => None,
    };
    let ((first, of), (second, same)) = (side(over)?, side(under)?);
    let is_leaf = |id: &Id| {
        values.get(*id).is_some_and(|v| v.kind == value.kind && !matches!(v.origin, Origin::Step(..)))
    };
    let fits = over != under && of == same && value.kind.is_float() && of.iter().take(2).all(is_leaf);
    fits.then_some((Step::Ratio(first, second), of))
}

/// Location of a value while a block is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueLocation {
    /// Register with this index.
    Register(usize),
    /// Bytes of an input, or the register if they cannot be used in place.
    Input(usize, usize),
    /// Output.
    Output,
}

/// Step with the locations of its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub(crate) step: Step,
    /// Kind of its arguments; for [`Step::Where`], of the last two.
    pub(crate) from: Kind,
    pub(crate) to: Kind,
    pub(crate) arguments: [ValueLocation; 3],
    pub(crate) result: ValueLocation,
}

/// Expression ready for evaluation.
#[derive(Debug)]
pub struct Program {
    pub(crate) instructions: Vec<Instruction>,
    /// Constants: bytes, kind, register.
    pub(crate) constants: Vec<(u64, Kind, usize)>,
    /// Inputs in use: index, and the register for data that cannot be used in place.
    pub(crate) loads: Vec<(usize, usize)>,
    pub(crate) inputs: Vec<Kind>,
    pub(crate) output: Kind,
    /// Source of the output if no step produces it.
    pub(crate) copied: Option<ValueLocation>,
    pub(crate) registers: usize,
}

impl Program {
    /// Assigns each live value a location. A register is reused after its value's last use.
    pub(crate) fn new(steps: Steps, inputs: &[Kind], output: Kind) -> Self {
        let Steps { values, result, .. } = steps;
        let arguments = |v: &Value| match v.origin {
            Origin::Step(step, three) => (three, step.count()),
            _ => ([0; 3], 0),
        };
        let mut uses = vec![0_usize; values.len()];
        // The step of the last use; none for dead values.
        let mut last: Vec<Option<usize>> = vec![None; values.len()];
        if let Some(slot) = last.get_mut(result) {
            *slot = Some(usize::MAX);
        }
        for (at, value) in values.iter().enumerate().rev() {
            if last.get(at).copied().flatten().is_none() {
                continue;
            }
            let (three, count) = arguments(value);
            for &argument in three.iter().take(count) {
                if let Some(uses) = uses.get_mut(argument) {
                    *uses += 1;
                }
                if let Some(slot @ None) = last.get_mut(argument) {
                    *slot = Some(at);
                }
            }
        }
        let mut program = Program {
            instructions: Vec::new(),
            constants: Vec::new(),
            loads: Vec::new(),
            inputs: inputs.to_vec(),
            output,
            copied: None,
            registers: 0,
        };
        let mut free: Vec<usize> = Vec::new();
        let mut places: Vec<ValueLocation> = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            if last.get(at).copied().flatten().is_none() {
                places.push(ValueLocation::Output);
                continue;
            }
            let place = match value.origin {
                // Inputs and constants are loaded before the first step, so their registers are not shared.
                Origin::Input(n) => {
                    let register = program.new_register();
                    program.loads.push((n, register));
                    ValueLocation::Input(n, register)
                }
                Origin::Constant(bytes) => {
                    let register = program.new_register();
                    program.constants.push((bytes, value.kind, register));
                    ValueLocation::Register(register)
                }
                Origin::Step(step, three) => {
                    let place = |id: usize| places.get(id).copied().unwrap_or(ValueLocation::Output);
                    let from = values.get(three[step.count() - 1]).map_or(value.kind, |v| v.kind);
                    let mut instruction = Instruction {
                        step,
                        from,
                        to: value.kind,
                        arguments: three.map(place),
                        result: ValueLocation::Output,
                    };
                    if at != result {
                        instruction.result =
                            ValueLocation::Register(free.pop().unwrap_or_else(|| program.new_register()));
                    }
                    for (n, &argument) in three.iter().enumerate().take(step.count()) {
                        let seen = three.get(..n).is_some_and(|t| t.contains(&argument));
                        let ends = last.get(argument).copied().flatten() == Some(at);
                        let computed =
                            values.get(argument).is_some_and(|v| matches!(v.origin, Origin::Step(..)));
                        if let (ValueLocation::Register(register), true, false, true) =
                            (place(argument), ends, seen, computed)
                        {
                            free.push(register);
                        }
                    }
                    let once = |id: usize| uses.get(id) == Some(&1);
                    if let Some((ratio, sides)) = find_ratio(&values, value, once) {
                        // The fused steps, which have no other use.
                        for side in instruction.arguments.iter().take(2) {
                            if let Some(made) = program.instructions.iter().rposition(|i| i.result == *side) {
                                program.instructions.remove(made);
                            }
                        }
                        instruction.step = ratio;
                        instruction.arguments = sides.map(place);
                    }
                    program.instructions.push(instruction);
                    instruction.result
                }
            };
            if at == result && !matches!(place, ValueLocation::Output) {
                program.copied = Some(place);
            }
            places.push(place);
        }
        program
    }

    fn new_register(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }

    /// Returns the number of passes over the elements of a block.
    pub fn passes(&self) -> usize {
        self.instructions.len()
    }

    /// Returns the kinds of its inputs.
    pub fn inputs(&self) -> &[Kind] {
        &self.inputs
    }

    /// Returns the kind of its output.
    pub fn output(&self) -> Kind {
        self.output
    }
}
