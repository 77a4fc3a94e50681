//! Body of a loop over independent elements: its reads, computations and writes.

use super::syntax::{NumericLoop, Structure, Variable, is_name};
use crate::scan::token::{Kind, Tokens};
use std::collections::HashMap;

/// Maximum number of arrays and scalars of a loop, and of computed values.
const MAX_NAMES: usize = 32;
const MAX_VALUES: usize = 500;
/// Maximum nesting of parentheses.
const MAX_DEPTH: usize = 60;

/// Number of a value.
pub type Id = usize;

/// Binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Value of the body. Its operands precede it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Variable of the loop.
    Index,
    /// Loop-invariant input with this number: the value of a name, or a literal.
    Scalar(usize),
    /// Element of the array with this number.
    Element(usize, Offset),
    /// Negation of another value.
    Negative(Id),
    /// Result of an operator on two values.
    Of(Operator, Id, Id),
}

/// Offset from the loop's variable: loop-invariant values, each added or, if `true`, subtracted.
pub type Offset = Vec<(bool, Id)>;

/// Store of a value in an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Number of the array.
    pub array: usize,
    /// Offset of the index from the loop's variable.
    pub offset: Offset,
    /// Stored value.
    pub value: Id,
}

/// Loop as a computation on arrays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loop {
    /// Names of its arrays.
    pub arrays: Vec<String>,
    /// Names and literals of its scalars.
    pub scalars: Vec<String>,
    /// Computed values.
    pub values: Vec<Value>,
    /// Stores.
    pub stores: Vec<Store>,
}

/// Variables of its arrays, in their order, with the tokens that name them.
pub(super) type Arrays = Vec<(Variable, Vec<usize>)>;

/// Analyses a loop; `None` if its body does anything else.
pub(super) fn understand(
    tokens: &Tokens<'_>,
    structure: &Structure,
    from: &NumericLoop,
) -> Option<(Loop, Arrays)> {
    let mut reader = Reader {
        tokens,
        names: &structure.names,
        at: from.body.start,
        end: from.body.end,
        variable: from.variable,
        depth: 0,
        locals: HashMap::new(),
        arrays: Vec::new(),
        scalars: Vec::new(),
        found: Loop::default(),
    };
    while reader.at < reader.end {
        reader.statement()?;
    }
    reader.finish()
}

struct Reader<'a, 'b> {
    tokens: &'b Tokens<'a>,
    names: &'b HashMap<usize, Variable>,
    at: usize,
    end: usize,
    /// Variable of the loop.
    variable: Variable,
    depth: usize,
    /// Values of the body's locals.
    locals: HashMap<Variable, Id>,
    arrays: Arrays,
    /// Entries of `Loop::scalars` that are names.
    scalars: Vec<Option<Variable>>,
    found: Loop,
}

impl Reader<'_, '_> {
    fn is_op(&self, op: char) -> bool {
        self.at < self.end && self.tokens.is_op(self.at, op)
    }

    fn take_op(&mut self, op: char) -> bool {
        let there = self.is_op(op);
        self.at += usize::from(there);
        there
    }

    fn need_op(&mut self, op: char) -> Option<()> {
        self.take_op(op).then_some(())
    }

    fn text(&self, at: usize) -> Option<String> {
        String::from_utf8(self.tokens.bytes(at).to_vec()).ok()
    }

    fn push(&mut self, value: Value) -> Option<Id> {
        if let Some(known) = self.found.values.iter().position(|known| *known == value) {
            return Some(known);
        }
        self.found.values.push(value);
        (self.found.values.len() <= MAX_VALUES).then(|| self.found.values.len() - 1)
    }

    fn statement(&mut self) -> Option<()> {
        if self.tokens.is_word(self.at, "local") {
            self.at += 1;
            self.local()?;
        } else {
            let (array, offset) = self.element()?;
            self.need_op('=')?;
            let value = self.sum()?;
            self.found.stores.push(Store { array, offset, value });
        }
        // Any other token would continue the expression, and is not supported.
        let next_begins = is_name(self.tokens, self.at) || self.tokens.is_word(self.at, "local");
        (self.take_op(';') || self.at >= self.end || next_begins).then_some(())
    }

    fn local(&mut self) -> Option<()> {
        let mut variables = Vec::new();
        loop {
            variables.push(*self.names.get(&self.at)?);
            self.at += 1;
            if !self.take_op(',') {
                break;
            }
        }
        self.need_op('=')?;
        let mut values = vec![self.sum()?];
        while self.take_op(',') {
            values.push(self.sum()?);
        }
        self.locals.extend(variables.iter().copied().zip(values.iter().copied()));
        (variables.len() == values.len()).then_some(())
    }

    /// Parses `NAME[INDEX]`.
    fn element(&mut self) -> Option<(usize, Offset)> {
        let name = self.at;
        self.at += 1;
        self.need_op('[')?;
        if name >= self.end || !is_name(self.tokens, name) {
            return None;
        }
        let variable = *self.names.get(&name)?;
        if variable == self.variable || self.locals.contains_key(&variable) {
            return None;
        }
        let index = self.sum()?;
        self.need_op(']')?;
        let mut offset = Vec::new();
        self.add_offset(index, false, &mut offset)?;
        let known = self.arrays.iter().position(|(known, _)| *known == variable);
        let array = known.unwrap_or(self.arrays.len());
        if known.is_none() {
            if array >= MAX_NAMES {
                return None;
            }
            self.arrays.push((variable, Vec::new()));
            self.found.arrays.push(self.text(name)?);
        }
        self.arrays.get_mut(array)?.1.push(name);
        Some((array, offset))
    }

    /// Splits an index into the loop's variable, added exactly once, and loop-invariant values.
    fn add_offset(&self, index: Id, subtracted: bool, offset: &mut Offset) -> Option<()> {
        match *self.found.values.get(index)? {
            Value::Index if !subtracted => Some(()),
            Value::Of(Operator::Add, a, b) if self.varies(b) && !self.varies(a) => {
                offset.push((false, a));
                self.add_offset(b, subtracted, offset)
            }
            Value::Of(Operator::Add, a, b) if !self.varies(b) => {
                offset.push((false, b));
                self.add_offset(a, subtracted, offset)
            }
            Value::Of(Operator::Subtract, a, b) if !self.varies(b) => {
                offset.push((true, b));
                self.add_offset(a, subtracted, offset)
            }
            _ => None,
        }
    }

    /// Returns whether a value differs between iterations.
    fn varies(&self, id: Id) -> bool {
        self.found.varying().get(id).copied().unwrap_or(true)
    }

    fn sum(&mut self) -> Option<Id> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut left = self.product()?;
        loop {
            let operator = if self.take_op('+') {
                Operator::Add
            } else if self.take_op('-') {
                Operator::Subtract
            } else {
                self.depth -= 1;
                return Some(left);
            };
            let right = self.product()?;
            left = self.push(Value::Of(operator, left, right))?;
        }
    }

    fn product(&mut self) -> Option<Id> {
        let mut left = self.factor()?;
        loop {
            let operator = if self.take_op('*') {
                Operator::Multiply
            } else if self.take_op('/') {
                Operator::Divide
            } else {
                return Some(left);
            };
            let right = self.factor()?;
            left = self.push(Value::Of(operator, left, right))?;
        }
    }

    fn factor(&mut self) -> Option<Id> {
        let mut signs = 0;
        while self.take_op('-') {
            signs += 1;
        }
        let mut value = self.operand()?;
        for _ in 0..signs {
            value = self.push(Value::Negative(value))?;
        }
        Some(value)
    }

    fn operand(&mut self) -> Option<Id> {
        if self.take_op('(') {
            let inside = self.sum()?;
            self.need_op(')')?;
            return Some(inside);
        }
        let at = self.at;
        if at >= self.end {
            return None;
        }
        if self.tokens.kind(at) == Some(Kind::Other) && self.tokens.bytes(at) != b"..." {
            self.at += 1;
            return self.scalar(at, None);
        }
        if !is_name(self.tokens, at) {
            return None;
        }
        if self.tokens.is_op(at + 1, '[') {
            let (array, offset) = self.element()?;
            return self.push(Value::Element(array, offset));
        }
        self.at += 1;
        let variable = *self.names.get(&at)?;
        if variable == self.variable {
            return self.push(Value::Index);
        }
        match self.locals.get(&variable) {
            Some(value) => Some(*value),
            None => self.scalar(at, Some(variable)),
        }
    }

    fn scalar(&mut self, at: usize, variable: Option<Variable>) -> Option<Id> {
        let text = self.text(at)?;
        let known = self.found.scalars.iter().position(|scalar| *scalar == text);
        let number = known.unwrap_or(self.scalars.len());
        if known.is_none() {
            self.found.scalars.push(text);
            self.scalars.push(variable);
        }
        self.push(Value::Scalar(number))
    }

    fn finish(self) -> Option<(Loop, Arrays)> {
        let Reader { mut found, arrays, scalars, .. } = self;
        let is_scalar = |variable: &Variable| scalars.contains(&Some(*variable));
        if found.stores.is_empty()
            || arrays.len() + scalars.len() > MAX_NAMES
            || arrays.iter().any(|(variable, _)| is_scalar(variable))
        {
            return None;
        }
        for (at, store) in found.stores.iter().enumerate() {
            let again = found.stores.iter().skip(at + 1).any(|other| other.array == store.array);
            let read =
                found.values.iter().any(|v| matches!(v, Value::Element(array, _) if *array == store.array));
            if again || read {
                return None;
            }
        }
        found.values.shrink_to_fit();
        // The loop's variable may only be used as an index, not as an operand.
        let wanted = found.stores.iter().map(|store| store.value).collect();
        let uses_index =
            found.needed(wanted).into_iter().any(|id| found.values.get(id) == Some(&Value::Index));
        (!uses_index).then_some((found, arrays))
    }
}

impl Loop {
    /// Returns, for each value, whether it differs between iterations.
    pub fn varying(&self) -> Vec<bool> {
        let mut varying: Vec<bool> = Vec::with_capacity(self.values.len());
        for value in &self.values {
            let of = |id: &Id| varying.get(*id).copied().unwrap_or(true);
            varying.push(match value {
                Value::Index | Value::Element(..) => true,
                Value::Scalar(_) => false,
                Value::Negative(a) => of(a),
                Value::Of(_, a, b) => of(a) || of(b),
            });
        }
        varying
    }

    /// Returns these values and all their operands, except those of indexes.
    pub fn needed(&self, mut todo: Vec<Id>) -> Vec<Id> {
        let mut needed = vec![false; self.values.len()];
        while let Some(id) = todo.pop() {
            let Some(seen) = needed.get_mut(id) else { continue };
            if std::mem::replace(seen, true) {
                continue;
            }
            match self.values.get(id) {
                Some(Value::Negative(a)) => todo.push(*a),
                Some(Value::Of(_, a, b)) => todo.extend([*a, *b]),
                _ => {}
            }
        }
        needed.iter().enumerate().filter(|(_, needed)| **needed).map(|(id, _)| id).collect()
    }
}
