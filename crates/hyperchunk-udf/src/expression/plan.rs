//! The steps of a computation, and where their values are kept.

use super::Kind;
use super::tree::{Float, Rounding};
use std::collections::HashMap;

/// A value: its index.
pub(super) type Id = usize;

/// An operator on values of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Another kind; integers saturate, and NaN has none.
    Cast,
    /// A `float64` as `float32` that is to be rounded to fewer bits: as if it had been rounded to these at once.
    Narrow,
    Negative,
    Absolute,
    Sign,
    /// Of all bits; of a bool, the other one.
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
    /// `int64 < uint64` without conversion, and its relatives: the left side has the sign.
    LessMixed,
    LessEqualMixed,
    GreaterMixed,
    GreaterEqualMixed,
    EqualMixed,
    /// By the first value, one of the others.
    Where,
    /// Of two floats, what the first operator makes of them divided by what the second does, each rounded: a normalised
    /// difference. Made by [`Program::new`] of three steps, since one pass reads the inputs while it divides.
    Ratio(Basic, Basic),
    /// Operators on `float64`, of two values of a narrower kind. Made by [`Arithmetic`](super::Arithmetic), as are the next two.
    Wide(Basic),
    WideDivide,
    /// A [`Step::Ratio`] in `float64` of two values of a narrower kind, as a [plain](Step::Plain) `float32`.
    WideRatio(Basic, Basic),
    /// A float from a `float64`; a NaN has no bits set but the first ones.
    Plain,
}

/// An operator of a [`Step::Ratio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Basic {
    Add,
    Subtract,
    Multiply,
}

impl Basic {
    pub(super) fn of(step: Step) -> Option<Self> {
        match step {
            Step::Add => Some(Basic::Add),
            Step::Subtract => Some(Basic::Subtract),
            Step::Multiply => Some(Basic::Multiply),
            _ => None,
        }
    }
}

impl Step {
    /// How many values it takes.
    pub(super) fn count(self) -> usize {
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
            | Step::IsFinite
            | Step::Plain => 1,
            Step::Where => 3,
            _ => 2,
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    Input(usize),
    /// The bytes of a constant, in the machine's order, in the low bytes.
    Constant(u64),
    Step(Step, [Id; 3]),
}

/// A value with its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Value {
    pub(super) origin: Origin,
    pub(super) kind: Kind,
}

/// Values, each after those that it is made from, none twice; the last that was pushed by [`result`](Steps::result)
/// is what is wanted.
#[derive(Debug, Default)]
pub(super) struct Steps {
    values: Vec<Value>,
    known: HashMap<Value, Id>,
    result: Id,
}

impl Steps {
    pub(super) fn push(&mut self, origin: Origin, kind: Kind) -> Id {
        let value = Value { origin, kind };
        let next = self.values.len();
        let id = *self.known.entry(value).or_insert(next);
        if id == next {
            self.values.push(value);
        }
        id
    }

    pub(super) fn step(&mut self, step: Step, arguments: &[Id], kind: Kind) -> Id {
        let mut three = [0; 3];
        for (to, from) in three.iter_mut().zip(arguments) {
            *to = *from;
        }
        self.push(Origin::Step(step, three), kind)
    }

    pub(super) fn cast(&mut self, id: Id, kind: Kind) -> Id {
        if self.kind_of(id) == kind { id } else { self.step(Step::Cast, &[id], kind) }
    }

    pub(super) fn origin(&self, id: Id) -> Option<Origin> {
        self.values.get(id).map(|v| v.origin)
    }

    pub(super) fn kind_of(&self, id: Id) -> Kind {
        self.values.get(id).map_or(Kind::Bool, |v| v.kind)
    }

    pub(super) fn finish(&mut self, result: Id) {
        self.result = result;
    }

    /// The kind of what is wanted.
    pub(super) fn kind(&self) -> Kind {
        self.kind_of(self.result)
    }

    /// Makes what is wanted an element of `kind`.
    pub(super) fn convert(&mut self, kind: Kind) {
        self.result = self.cast(self.result, kind);
    }

    /// Makes what is wanted a `float32` that becomes a float of 16 bits.
    pub(super) fn convert_to_half(&mut self) {
        self.result = match self.kind() {
            Kind::Float64 => self.step(Step::Narrow, &[self.result], Kind::Float32),
            // No integer that `float32` rounds is within what 16 bits hold.
            _ => self.cast(self.result, Kind::Float32),
        };
    }
}

/// The [`Step::Ratio`] that does what `value` and the two steps before it do, and its arguments: where both sides are made of the
/// same two floats, which are inputs or constants, and are needed `once`.
fn ratio_of(values: &[Value], value: &Value, once: impl Fn(Id) -> bool) -> Option<(Step, [Id; 3])> {
    let Origin::Step(Step::Divide, [over, under, _]) = value.origin else { return None };
    let side = |id: Id| match values.get(id)?.origin {
        Origin::Step(step, [a, b, _]) if once(id) => Some((Basic::of(step)?, [a, b, 0])),
        _ => None,
    };
    let ((first, of), (second, same)) = (side(over)?, side(under)?);
    let lies_still = |id: &Id| {
        values.get(*id).is_some_and(|v| v.kind == value.kind && !matches!(v.origin, Origin::Step(..)))
    };
    let fits = over != under && of == same && value.kind.is_float() && of.iter().take(2).all(lies_still);
    fits.then_some((Step::Ratio(first, second), of))
}

/// Where a value is while a block is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The register with this index.
    Register(usize),
    /// The bytes of an input, or the register if they are not fit to be used where they lie.
    Input(usize, usize),
    /// The output.
    Output,
}

/// One step, with its places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) step: Step,
    /// The kind of its values; for [`Step::Where`], of the last two.
    pub(super) from: Kind,
    pub(super) to: Kind,
    pub(super) arguments: [Place; 3],
    pub(super) result: Place,
}

/// An expression that is ready to compute.
#[derive(Debug)]
pub struct Program {
    pub(super) instructions: Vec<Instruction>,
    /// The constants: bytes, kind, register.
    pub(super) constants: Vec<(u64, Kind, usize)>,
    /// The inputs that are used: index, register for what cannot be used where it lies.
    pub(super) loads: Vec<(usize, usize)>,
    pub(super) inputs: Vec<Kind>,
    pub(super) output: Kind,
    /// Where the output is copied from when no step makes it.
    pub(super) copied: Option<Place>,
    pub(super) registers: usize,
}

impl Program {
    /// Gives each value that is needed a place. A register is used again after its value's last use.
    pub(super) fn new(steps: Steps, inputs: &[Kind], output: Kind) -> Self {
        let Steps { values, result, .. } = steps;
        let arguments = |v: &Value| match v.origin {
            Origin::Step(step, three) => (three, step.count()),
            _ => ([0; 3], 0),
        };
        let mut uses = vec![0_usize; values.len()];
        // The step after which a value is not needed any more; none for those that are never needed.
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
        let mut places: Vec<Place> = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            if last.get(at).copied().flatten().is_none() {
                places.push(Place::Output);
                continue;
            }
            let place = match value.origin {
                // These are filled before the first step, so their registers are theirs alone.
                Origin::Input(n) => {
                    let register = program.new_register();
                    program.loads.push((n, register));
                    Place::Input(n, register)
                }
                Origin::Constant(bytes) => {
                    let register = program.new_register();
                    program.constants.push((bytes, value.kind, register));
                    Place::Register(register)
                }
                Origin::Step(step, three) => {
                    let place = |id: usize| places.get(id).copied().unwrap_or(Place::Output);
                    let from = values.get(three[step.count() - 1]).map_or(value.kind, |v| v.kind);
                    let mut instruction = Instruction {
                        step,
                        from,
                        to: value.kind,
                        arguments: three.map(place),
                        result: Place::Output,
                    };
                    if at != result {
                        instruction.result =
                            Place::Register(free.pop().unwrap_or_else(|| program.new_register()));
                    }
                    for (n, &argument) in three.iter().enumerate().take(step.count()) {
                        let seen = three.get(..n).is_some_and(|t| t.contains(&argument));
                        let ends = last.get(argument).copied().flatten() == Some(at);
                        let computed =
                            values.get(argument).is_some_and(|v| matches!(v.origin, Origin::Step(..)));
                        if let (Place::Register(register), true, false, true) =
                            (place(argument), ends, seen, computed)
                        {
                            free.push(register);
                        }
                    }
                    let once = |id: usize| uses.get(id) == Some(&1);
                    if let Some((ratio, sides)) = ratio_of(&values, value, once) {
                        // What made the two sides, which nothing else takes.
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
            if at == result && !matches!(place, Place::Output) {
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

    /// How often it passes over the elements of a block.
    pub fn passes(&self) -> usize {
        self.instructions.len()
    }

    /// The kinds of its inputs.
    pub fn inputs(&self) -> &[Kind] {
        &self.inputs
    }

    /// The kind of its output.
    pub fn output(&self) -> Kind {
        self.output
    }
}
