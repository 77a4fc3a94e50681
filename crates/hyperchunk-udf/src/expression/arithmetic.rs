//! Construction of programs by translators of other languages: arithmetic in `float64`, as in Lua.

use super::Kind;
use super::plan::{Basic, Id, Origin, Program, Step, Steps};
use crate::loops::Operator;

/// Program under construction.
#[derive(Debug, Default)]
pub struct Arithmetic {
    steps: Steps,
    inputs: Vec<Kind>,
}

impl Arithmetic {
    /// Adds an input. Values of `int64` and `uint64` are rounded.
    pub fn input(&mut self, kind: Kind) -> Id {
        let id = self.steps.push(Origin::Input(self.inputs.len()), kind);
        self.inputs.push(kind);
        self.steps.cast(id, Kind::Float64)
    }

    /// Returns `-a`.
    pub fn negative(&mut self, a: Id) -> Id {
        self.steps.step(Step::Negative, &[a], Kind::Float64)
    }

    /// Returns the result of an operator on two values.
    pub fn apply(&mut self, operator: Operator, a: Id, b: Id) -> Id {
        let step = match operator {
            Operator::Add => Step::Add,
            Operator::Subtract => Step::Subtract,
            Operator::Multiply => Step::Multiply,
            Operator::Divide => Step::Divide,
        };
        if let (Some(a), Some(b)) = (self.narrow(a), self.narrow(b))
            && self.steps.value_kind(a) == self.steps.value_kind(b)
        {
            let wide = Basic::from_step(step).map_or(Step::WideDivide, Step::Wide);
            return self.steps.step(wide, &[a, b], Kind::Float64);
        }
        self.steps.step(step, &[a, b], Kind::Float64)
    }

    /// Returns a value before its conversion to `float64`, if there are steps on the narrow kind.
    fn narrow(&self, id: Id) -> Option<Id> {
        let Some(Origin::Step(Step::Cast, [from, ..])) = self.steps.origin(id) else { return None };
        matches!(self.steps.value_kind(from), Kind::Float32 | Kind::Int16 | Kind::UInt16).then_some(from)
    }

    /// Finishes the program that computes `value` as elements of `output`, `float32` or `float64`.
    pub fn finish(mut self, value: Id, output: Kind) -> Program {
        let result = match self.ratio(value) {
            Some((ratio, sides)) if output == Kind::Float32 => self.steps.step(ratio, &sides, output),
            _ => self.steps.step(Step::Plain, &[value], output),
        };
        self.steps.finish(result);
        Program::new(self.steps, &self.inputs, output)
    }

    fn ratio(&self, value: Id) -> Option<(Step, [Id; 2])> {
        let side = |id: Id| match self.steps.origin(id)? {
            Origin::Step(Step::Wide(operator), [a, b, _]) => Some((operator, [a, b])),
            _ => None,
        };
        let Origin::Step(Step::Divide, [over, under, _]) = self.steps.origin(value)? else { return None };
        let ((over, of), (under, same)) = (side(over)?, side(under)?);
        (of == same).then_some((Step::WideRatio(over, under), of))
    }
}
