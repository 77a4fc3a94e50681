//! Decoding of one statement to one instruction.

use super::instruction::{
    Action, Address, Atomic, Compare, Kind, Operand, Operation, Rounding, RoundingDirection, Space, Special,
    Type, WarpOperation,
};
use super::parse::{Body, Parser, RawOperand, Result, immediate};

/// The parts of an opcode after its name: types, and the rest.
struct Parts<'a> {
    types: Vec<Type>,
    others: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn parse(opcode: &'a str) -> (&'a str, Parts<'a>) {
        let mut words = opcode.split('.');
        let name = words.next().unwrap_or_default();
        let mut parts = Parts { types: Vec::new(), others: Vec::new() };
        for word in words {
            match Type::parse(word) {
                Some(ty) => parts.types.push(ty),
                None => parts.others.push(word),
            }
        }
        (name, parts)
    }

    /// Removes a word; returns whether it was there.
    fn take(&mut self, word: &str) -> bool {
        let before = self.others.len();
        self.others.retain(|other| *other != word);
        self.others.len() != before
    }

    /// Removes one of several words.
    fn take_word<T: Copy>(&mut self, words: &[(&str, T)]) -> Option<T> {
        words.iter().find(|(word, _)| self.take(word)).map(|(_, value)| *value)
    }
}

const SPACES: [(&str, Space); 5] = [
    ("global", Space::Global),
    ("const", Space::Constant),
    ("shared", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
];

/// Cache and ordering modifiers, which have no effect: threads run one after another here.
const ORDERS: [&str; 19] = [
    "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "volatile", "weak", "relaxed", "acquire", "release",
    "acq_rel", "sys", "gpu", "cta", "mmio", "noftz",
];

/// Operations that are exact, or have only one rounding mode here.
const EXACT: [(&str, Operation, usize); 27] = [
    ("add", Operation::Add, 2),
    ("sub", Operation::Sub, 2),
    ("div", Operation::Div, 2),
    ("rem", Operation::Rem, 2),
    ("min", Operation::Min, 2),
    ("max", Operation::Max, 2),
    ("abs", Operation::Abs, 1),
    ("neg", Operation::Neg, 1),
    ("and", Operation::And, 2),
    ("or", Operation::Or, 2),
    ("xor", Operation::Xor, 2),
    ("not", Operation::Not, 1),
    ("cnot", Operation::LogicalNot, 1),
    ("shl", Operation::Shl, 2),
    ("shr", Operation::Shr, 2),
    ("popc", Operation::PopCount, 1),
    ("clz", Operation::LeadingZeros, 1),
    ("brev", Operation::Reverse, 1),
    ("bfe", Operation::Extract, 3),
    ("bfi", Operation::Insert, 4),
    ("fma", Operation::Fma, 3),
    ("sad", Operation::AbsoluteDifference, 3),
    ("selp", Operation::Select, 3),
    ("slct", Operation::SelectBySign, 3),
    ("sqrt", Operation::Sqrt, 1),
    ("rcp", Operation::Reciprocal, 1),
    ("copysign", Operation::CopySign, 2),
];

/// Functions that a GPU approximates, and that are exact here.
const APPROXIMATE: [(&str, Operation); 6] = [
    ("rsqrt", Operation::ReciprocalSqrt),
    ("ex2", Operation::Exp2),
    ("lg2", Operation::Log2),
    ("sin", Operation::Sin),
    ("cos", Operation::Cos),
    ("tanh", Operation::Tanh),
];

const B32: Type = Type { kind: Kind::Bits, bits: 32 };
const PREDICATE: Type = Type { kind: Kind::Predicate, bits: 1 };
const ZERO: Operand = Operand::Immediate(0);

impl<'a> Parser<'a> {
    /// Decodes an opcode with its operands.
    pub(super) fn decode(
        &self,
        body: &mut Body<'a>,
        opcode: &'a str,
        raw: Vec<RawOperand<'a>>,
    ) -> Result<Action> {
        let (name, mut parts) = Parts::parse(opcode);
        let unknown = |body: &Body<'a>| body.wrong(format!("the instruction {opcode} is not known"));
        match name {
            "bra" => {
                let [RawOperand::Word(target)] = raw[..] else { return body.wrong("bra without a label") };
                body.branch(target);
                return Ok(Action::Nothing);
            }
            "brx" => {
                let [RawOperand::Word(index), RawOperand::Word(table)] = raw[..] else {
                    return body.wrong("brx without a table");
                };
                body.indexed(table);
                let index = self.value(body, &RawOperand::Word(index), B32)?;
                return Ok(Action::BranchIndexed { index, targets: Vec::new() });
            }
            "call" => return self.call(body, &raw),
            "ret" => return Ok(Action::Return),
            "exit" => return Ok(Action::Exit),
            "trap" | "brkpt" => return Ok(Action::Trap),
            "shfl" | "vote" => {
                let Some(action) = self.warp(body, name, &mut parts, &raw)? else { return unknown(body) };
                return Ok(action);
            }
            "bar" if parts.others == ["warp", "sync"] => {
                let [mask] = &raw[..] else { return unknown(body) };
                let mask = self.value(body, mask, B32)?;
                let (to, within, from) = (None, None, [ZERO; 3]);
                return Ok(Action::Warp { what: WarpOperation::Wait, to, within, from, mask });
            }
            "bar" | "barrier" => {
                let plain = parts.take("sync");
                parts.take("cta");
                parts.take("aligned");
                let whole = matches!(raw[..], [RawOperand::Word("0")]);
                if !plain || !parts.others.is_empty() || !whole {
                    return unknown(body);
                }
                return Ok(Action::Barrier);
            }
            "membar" | "fence" | "prefetch" | "prefetchu" => return Ok(Action::Nothing),
            "ld" | "ldu" | "st" => {
                let Some(action) = self.access(body, name, &mut parts, &raw)? else { return unknown(body) };
                return Ok(action);
            }
            "atom" | "red" => {
                let Some(action) = self.atomic(body, name, &mut parts, &raw)? else { return unknown(body) };
                return Ok(action);
            }
            "setp" | "set" => {
                let Some(action) = self.comparison(body, name, &mut parts, &raw)? else {
                    return unknown(body);
                };
                return Ok(action);
            }
            "cvt" => {
                let Some(action) = self.conversion(body, &mut parts, &raw)? else { return unknown(body) };
                return Ok(action);
            }
            // Addresses of all spaces are in the generic address space.
            "cvta" => {
                parts.others.clear();
                let ty = parts.types.first().copied().unwrap_or(Type { kind: Kind::Unsigned, bits: 64 });
                return self.alu(body, Operation::Move, ty, &raw, 1);
            }
            "mov" => {
                if let Some(action) = self.move_vector(body, &parts, &raw)? {
                    return Ok(action);
                }
            }
            _ => {}
        }
        if let Some(action) = self.carry(body, name, &mut parts, &raw)? {
            return Ok(action);
        }
        let saturate = parts.take("sat");
        let flush = parts.take("ftz");
        let towards = parts.take_word(&[
            ("rz", RoundingDirection::Zero),
            ("rm", RoundingDirection::Down),
            ("rp", RoundingDirection::Up),
        ]);
        let Some((operation, inputs)) = arithmetic(name, &mut parts) else { return unknown(body) };
        let Some(ty) = parts.types.first().copied().or((name == "prmt").then_some(B32)) else {
            return unknown(body);
        };
        if !parts.others.is_empty() || (saturate && ty.kind != Kind::Float) {
            return unknown(body);
        }
        // Types with another meaning for this instruction, or floats of 16 bits, which need conversions.
        if (ty.kind == Kind::Float && ty.bits == 16 && operation != Operation::Move)
            || parts.types.len() > 1 && name != "slct"
        {
            return unknown(body);
        }
        let needs_floats = matches!(operation, Operation::Fma | Operation::Sqrt | Operation::Reciprocal)
            || APPROXIMATE.iter().any(|(_, of)| *of == operation);
        if needs_floats && ty.kind != Kind::Float {
            return unknown(body);
        }
        if let Some(towards) = towards {
            let wide = ty.bits == 64 && operation == Operation::Fma;
            let known =
                matches!(operation, Operation::Add | Operation::Sub | Operation::MulLow | Operation::Fma);
            if ty.kind != Kind::Float || !known || wide || saturate || flush {
                return unknown(body);
            }
            let Action::Alu { to, from: [a, b, c, _], .. } = self.alu(body, operation, ty, &raw, inputs)?
            else {
                return unknown(body);
            };
            return Ok(Action::Directed { operation, bits: ty.bits, towards, to, from: [a, b, c] });
        }
        if let Operation::Lookup(_) = operation {
            let Some(RawOperand::Word(table)) = raw.get(4) else { return unknown(body) };
            let Some(table) = super::parse::integer(table).and_then(|table| u8::try_from(table).ok()) else {
                return unknown(body);
            };
            return self.alu(body, Operation::Lookup(table), ty, &raw[..4], 3);
        }
        let mut action = self.alu(body, operation, ty, &raw, inputs)?;
        if let Action::Alu { saturate: to_saturate, flush: to_flush, .. } = &mut action {
            (*to_saturate, *to_flush) = (saturate, flush);
        }
        Ok(action)
    }

    fn alu(
        &self,
        body: &Body<'a>,
        operation: Operation,
        ty: Type,
        raw: &[RawOperand<'a>],
        inputs: usize,
    ) -> Result<Action> {
        if raw.len() != inputs + 1 {
            return body.wrong(format!(
                "{} operands for an instruction that takes {}",
                raw.len(),
                inputs + 1
            ));
        }
        let to = self.register(body, &raw[0])?;
        let mut from = [ZERO; 4];
        for (number, (to, raw)) in from.iter_mut().zip(&raw[1..]).enumerate() {
            // Shifts, bit positions and predicates have types of their own.
            let ty = match (operation, number) {
                (Operation::Shl | Operation::Shr, 1)
                | (Operation::Extract, 1..)
                | (Operation::Insert, 2..) => B32,
                (Operation::Select, 2) => PREDICATE,
                (Operation::MadWide, 2) => Type { bits: ty.bits * 2, ..ty },
                _ => ty,
            };
            *to = self.value(body, raw, ty)?;
        }
        Ok(Action::Alu { operation, ty, flush: false, saturate: false, to, from })
    }

    /// Decodes operations of the lanes of a warp.
    fn warp(
        &self,
        body: &Body<'a>,
        name: &str,
        parts: &mut Parts<'a>,
        raw: &[RawOperand<'a>],
    ) -> Result<Option<Action>> {
        if !parts.take("sync") {
            return Ok(None);
        }
        let what = match name {
            "shfl" => parts.take_word(&[
                ("up", WarpOperation::Up),
                ("down", WarpOperation::Down),
                ("bfly", WarpOperation::Butterfly),
                ("idx", WarpOperation::Index),
            ]),
            _ => parts.take_word(&[
                ("all", WarpOperation::All),
                ("any", WarpOperation::Any),
                ("uni", WarpOperation::Uniform),
                ("ballot", WarpOperation::Ballot),
            ]),
        };
        let (Some(what), true, [ty]) = (what, parts.others.is_empty(), &parts.types[..]) else {
            return Ok(None);
        };
        let fits = match what {
            WarpOperation::All | WarpOperation::Any | WarpOperation::Uniform => ty.kind == Kind::Predicate,
            _ => *ty == B32,
        };
        let (to, within) = match raw.first() {
            Some(RawOperand::Pair(to, within)) if name == "shfl" => (
                self.register(body, &RawOperand::Word(to))?,
                Some(self.register(body, &RawOperand::Word(within))?),
            ),
            Some(to) => (self.register(body, to)?, None),
            None => return Ok(None),
        };
        let (from, mask) = match (name, raw) {
            ("shfl", [_, a, b, c, mask]) => {
                ([self.value(body, a, B32)?, self.value(body, b, B32)?, self.value(body, c, B32)?], mask)
            }
            ("vote", [_, a, mask]) => ([self.value(body, a, PREDICATE)?, ZERO, ZERO], mask),
            _ => return Ok(None),
        };
        let mask = self.value(body, mask, B32)?;
        Ok(fits.then_some(Action::Warp { what, to: Some(to), within, from, mask }))
    }

    /// Decodes multi-word sums.
    fn carry(
        &self,
        body: &Body<'a>,
        name: &str,
        parts: &mut Parts<'a>,
        raw: &[RawOperand<'a>],
    ) -> Result<Option<Action>> {
        let (plain, takes) = match name {
            "addc" => ("add", true),
            "subc" => ("sub", true),
            "madc" => ("mad", true),
            _ => (name, false),
        };
        let leaves = parts.others.contains(&"cc");
        if !takes && !leaves {
            return Ok(None);
        }
        parts.take("cc");
        let operation = match plain {
            "add" => Operation::Add,
            "sub" => Operation::Sub,
            "mad" => match parts.take_word(&[("lo", Operation::MadLow), ("hi", Operation::MadHigh)]) {
                Some(operation) => operation,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let ([ty], true) = (&parts.types[..], parts.others.is_empty()) else { return Ok(None) };
        let inputs = if plain == "mad" { 3 } else { 2 };
        Ok(match self.alu(body, operation, *ty, raw, inputs)? {
            Action::Alu { to, from: [a, b, c, _], .. } => {
                Some(Action::Carry { operation, ty: *ty, takes, leaves, to, from: [a, b, c] })
            }
            _ => None,
        })
    }

    /// Decodes moves between a value and registers for its parts.
    fn move_vector(
        &self,
        body: &Body<'a>,
        parts: &Parts<'a>,
        raw: &[RawOperand<'a>],
    ) -> Result<Option<Action>> {
        let Some(ty) = parts.types.first() else { return Ok(None) };
        Ok(match raw {
            [to, RawOperand::Vector(from)] if !from.is_empty() => {
                let bits = ty.bits / u32::try_from(from.len()).unwrap_or(1);
                let part = Type { kind: Kind::Bits, bits };
                let from = from.iter().map(|raw| self.value(body, raw, part)).collect::<Result<_>>()?;
                Some(Action::Pack { bits, to: self.register(body, to)?, from })
            }
            [RawOperand::Vector(to), from] if !to.is_empty() => {
                let bits = ty.bits / u32::try_from(to.len()).unwrap_or(1);
                let to = self.targets(body, to)?;
                Some(Action::Unpack { bits, to, from: self.value(body, from, *ty)? })
            }
            _ => None,
        })
    }

    fn targets(&self, body: &Body<'a>, raw: &[RawOperand<'a>]) -> Result<Vec<Option<usize>>> {
        raw.iter()
            .map(
                |raw| {
                    if *raw == RawOperand::Word("_") { Ok(None) } else { self.register(body, raw).map(Some) }
                },
            )
            .collect()
    }

    fn access(
        &self,
        body: &Body<'a>,
        name: &str,
        parts: &mut Parts<'a>,
        raw: &[RawOperand<'a>],
    ) -> Result<Option<Action>> {
        parts.others.retain(|other| !ORDERS.contains(other) && !other.contains("::"));
        let space = parts.take_word(&SPACES).unwrap_or(Space::Generic);
        let count = parts.take_word(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
        let (Some(ty), true, [first, second]) = (parts.types.first().copied(), parts.others.is_empty(), raw)
        else {
            return Ok(None);
        };
        let (memory, values) = if name == "st" { (first, second) } else { (second, first) };
        let address = self.address(body, memory)?;
        let values = match values {
            RawOperand::Vector(values) => &values[..],
            one => std::slice::from_ref(one),
        };
        if values.len() != count {
            return body.wrong("the number of values differs from the instruction's");
        }
        Ok(Some(if name == "st" {
            let from = values.iter().map(|raw| self.value(body, raw, ty)).collect::<Result<_>>()?;
            Action::Store { space, ty, address, from }
        } else {
            Action::Load { space, ty, to: self.targets(body, values)?, address }
        }))
    }

    fn atomic(
        &self,
        body: &Body<'a>,
        name: &str,
        parts: &mut Parts<'a>,
        raw: &[RawOperand<'a>],
    ) -> Result<Option<Action>> {
        parts.others.retain(|other| !ORDERS.contains(other));
        let space = parts.take_word(&SPACES).unwrap_or(Space::Generic);
        let atomic = parts.take_word(&[
            ("add", Atomic::Alu(Operation::Add)),
            ("min", Atomic::Alu(Operation::Min)),
            ("max", Atomic::Alu(Operation::Max)),
            ("and", Atomic::Alu(Operation::And)),
            ("or", Atomic::Alu(Operation::Or)),
            ("xor", Atomic::Alu(Operation::Xor)),
            ("exch", Atomic::Exchange),
            ("cas", Atomic::CompareAndSwap),
            ("inc", Atomic::Increment),
            ("dec", Atomic::Decrement),
        ]);
        let (Some(atomic), Some(ty), true) = (atomic, parts.types.first().copied(), parts.others.is_empty())
        else {
            return Ok(None);
        };
        let (to, rest) = match raw {
            [RawOperand::Word("_"), rest @ ..] if name == "atom" => (None, rest),
            [to, rest @ ..] if name == "atom" => (Some(self.register(body, to)?), rest),
            _ => (None, raw),
        };
        let from = match rest {
            [_, value] if atomic != Atomic::CompareAndSwap => [self.value(body, value, ty)?, ZERO],
            [_, expected, value] if atomic == Atomic::CompareAndSwap => {
                [self.value(body, expected, ty)?, self.value(body, value, ty)?]
            }
            _ => return Ok(None),
        };
        let address = self.address(body, &rest[0])?;
        Ok(Some(Action::Atomic { space, atomic, ty, to, address, from }))
    }

    fn comparison(
        &self,
        body: &Body<'a>,
        name: &str,
        parts: &mut Parts<'a>,
        raw: &[RawOperand<'a>],
    ) -> Result<Option<Action>> {
        parts.take("ftz");
        let combine =
            parts.take_word(&[("and", Operation::And), ("or", Operation::Or), ("xor", Operation::Xor)]);
        let [word] = parts.others[..] else { return Ok(None) };
        let plain = match word {
            "lo" => "lt",
            "ls" => "le",
            "hi" => "gt",
            "hs" => "ge",
            "num" | "nan" => word,
            _ => word.strip_suffix('u').unwrap_or(word),
        };
        let compare = match plain {
            "eq" => Compare::Equal,
            "ne" => Compare::NotEqual,
            "lt" => Compare::Less,
            "le" => Compare::LessEqual,
            "gt" => Compare::Greater,
            "ge" => Compare::GreaterEqual,
            "num" => Compare::Number,
            "nan" => Compare::NaN,
            _ => return Ok(None),
        };
        let (full, ty) = match (name, &parts.types[..]) {
            ("setp", [ty]) => (None, *ty),
            ("set", [full, ty]) => (Some(*full), *ty),
            _ => return Ok(None),
        };
        let with = match (combine, raw.len()) {
            (None, 3) => None,
            (Some(operation), 4) => Some((operation, self.value(body, &raw[3], PREDICATE)?)),
            _ => return Ok(None),
        };
        let (to, opposite) = match &raw[0] {
            RawOperand::Pair(to, opposite) => (
                self.register(body, &RawOperand::Word(to))?,
                Some(self.register(body, &RawOperand::Word(opposite))?),
            ),
            one => (self.register(body, one)?, None),
        };
        let from = [self.value(body, &raw[1], ty)?, self.value(body, &raw[2], ty)?];
        let unordered = plain != word && word.ends_with('u');
        Ok(Some(Action::Compare { compare, unordered, ty, to, opposite, from, with, full }))
    }

    fn conversion(
        &self,
        body: &Body<'a>,
        parts: &mut Parts<'a>,
        raw: &[RawOperand<'a>],
    ) -> Result<Option<Action>> {
        let (saturate, flush) = (parts.take("sat"), parts.take("ftz"));
        let rounding = parts.take_word(&[
            ("rn", Rounding::Nearest),
            ("rni", Rounding::IntegralNearest),
            ("rzi", Rounding::IntegralZero),
            ("rmi", Rounding::IntegralDown),
            ("rpi", Rounding::IntegralUp),
        ]);
        let ([to_type, from_type], [to, from], true) = (&parts.types[..], raw, parts.others.is_empty())
        else {
            return Ok(None);
        };
        Ok(Some(Action::Convert {
            to_type: *to_type,
            from_type: *from_type,
            rounding: rounding.unwrap_or(Rounding::None),
            flush,
            saturate,
            to: self.register(body, to)?,
            from: self.value(body, from, *from_type)?,
        }))
    }

    fn call(&self, body: &Body<'a>, raw: &[RawOperand<'a>]) -> Result<Action> {
        let (results, function, arguments) = match raw {
            [RawOperand::Word(function)] => (&[][..], *function, &[][..]),
            [RawOperand::Word(function), RawOperand::List(arguments)] => (&[][..], *function, &arguments[..]),
            [RawOperand::List(results), RawOperand::Word(function)] => (&results[..], *function, &[][..]),
            [RawOperand::List(results), RawOperand::Word(function), RawOperand::List(arguments)] => {
                (&results[..], *function, &arguments[..])
            }
            _ => return body.wrong("a call through a pointer"),
        };
        let places = |raw: &[RawOperand<'a>]| {
            raw.iter()
                .map(|raw| match raw {
                    RawOperand::Word(name) => match body.look_up(name, self.globals()) {
                        Some(Operand::Place(Space::Param, offset)) => Ok(offset),
                        _ => body.wrong(format!("{name} is not a parameter of the call")),
                    },
                    _ => body.wrong("an operand of a call is not a name"),
                })
                .collect::<Result<Vec<_>>>()
        };
        Ok(Action::Call {
            function: function.to_owned(),
            arguments: places(arguments)?,
            results: places(results)?,
        })
    }

    fn register(&self, body: &Body<'a>, raw: &RawOperand<'a>) -> Result<usize> {
        if let RawOperand::Word(name) = raw
            && let Some(Operand::Register(register)) = body.look_up(name, self.globals())
        {
            return Ok(register);
        }
        body.wrong(format!("{raw:?} is not a register"))
    }

    fn value(&self, body: &Body<'a>, raw: &RawOperand<'a>, ty: Type) -> Result<Operand> {
        match raw {
            RawOperand::Word(word) => {
                if let Some(value) = immediate(word, ty) {
                    return Ok(Operand::Immediate(value));
                }
                match special(word).or_else(|| body.look_up(word, self.globals())) {
                    Some(operand) => Ok(operand),
                    None => body.wrong(format!("{word} is neither declared nor known")),
                }
            }
            RawOperand::Negative(word) => match immediate(word, ty) {
                Some(value) if ty.kind == Kind::Float => Ok(Operand::Immediate(value ^ 1 << (ty.bits - 1))),
                Some(value) => Ok(Operand::Immediate(value.wrapping_neg())),
                None => body.wrong(format!("-{word} is not a number")),
            },
            RawOperand::Not(word) => match body.look_up(word, self.globals()) {
                Some(Operand::Register(register)) => Ok(Operand::Not(register)),
                _ => body.wrong(format!("{word} is not a predicate")),
            },
            _ => body.wrong(format!("{raw:?} is not a value")),
        }
    }

    fn address(&self, body: &Body<'a>, raw: &RawOperand<'a>) -> Result<Address> {
        let RawOperand::Memory(base, offset) = raw else {
            return body.wrong(format!("{raw:?} is not an address"));
        };
        let base = self.value(body, &RawOperand::Word(base), Type { kind: Kind::Unsigned, bits: 64 })?;
        Ok(Address { base, offset: *offset })
    }
}

/// Returns the operation of an opcode and its number of inputs; removes the words that determine them.
fn arithmetic(name: &str, parts: &mut Parts<'_>) -> Option<(Operation, usize)> {
    // The machine rounds to nearest; approximations are computed exactly.
    let nearest = parts.take("rn");
    let approximate = parts.take("approx") || parts.take("full");
    let product = |parts: &mut Parts<'_>, of: [Operation; 3]| {
        parts.take_word(&[("lo", of[0]), ("hi", of[1]), ("wide", of[2])]).unwrap_or(of[0])
    };
    let is_float = parts.types.first().is_some_and(|ty| ty.kind == Kind::Float);
    Some(match name {
        "mov" => (Operation::Move, 1),
        "mul" => (product(parts, [Operation::MulLow, Operation::MulHigh, Operation::MulWide]), 2),
        "mad" if is_float => (Operation::Fma, 3),
        "mad" => (product(parts, [Operation::MadLow, Operation::MadHigh, Operation::MadWide]), 3),
        "bfind" if parts.take("shiftamt") => (Operation::FindHighestShift, 1),
        "bfind" => (Operation::FindHighest, 1),
        "prmt" => (Operation::Permute, 3),
        "lop3" => (Operation::Lookup(0), 3),
        "shf" => {
            let clamp = parts.take_word(&[("clamp", true), ("wrap", false)])?;
            let operation = match (parts.take_word(&[("l", true), ("r", false)])?, clamp) {
                (true, false) => Operation::FunnelLeft,
                (true, true) => Operation::FunnelLeftClamp,
                (false, false) => Operation::FunnelRight,
                (false, true) => Operation::FunnelRightClamp,
            };
            (operation, 3)
        }
        _ => {
            if let Some((_, operation)) = APPROXIMATE.iter().find(|(of, _)| *of == name) {
                return approximate.then_some((*operation, 1));
            }
            let (_, operation, inputs) = EXACT.iter().find(|(of, ..)| *of == name)?;
            // Divisions and roots of floats are exact or rounded to nearest; other roundings stay in
            // `others`, as unknown.
            let _ = nearest;
            (*operation, *inputs)
        }
    })
}

fn special(word: &str) -> Option<Operand> {
    let axis = |name: &str| match name {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    let special = match word {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%smid" | "%gridid" => Special::Zero,
        "WARP_SZ" => Special::WarpSize,
        _ => {
            let (register, of) = word.split_once('.')?;
            let axis = axis(of)?;
            match register {
                "%tid" => Special::Thread(axis),
                "%ntid" => Special::Threads(axis),
                "%ctaid" => Special::Block(axis),
                "%nctaid" => Special::Blocks(axis),
                _ => return None,
            }
        }
    };
    Some(Operand::Special(special))
}
