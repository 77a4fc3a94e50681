//! Expressions of records: code shared by the readers.

use crate::backend::Backend;
use crate::datatype::{Datatype, ElementType};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::profile::Profile;
use crate::record::{MAX_SLOTS, Record, byte_size};
use crate::shape::is_single;
use hyperchunk_expression::{Expression, Kind, MAX_INPUTS, Program};

#[cfg(test)]
mod tests;

const _: () =
    assert!(MAX_INPUTS + 1 == MAX_SLOTS, "a record has the inputs of an expression, and its output");

impl From<hyperchunk_expression::Error> for Error {
    fn from(error: hyperchunk_expression::Error) -> Self {
        let kind = match error.kind() {
            hyperchunk_expression::ErrorKind::Syntax => ErrorKind::Syntax,
            hyperchunk_expression::ErrorKind::Limit => ErrorKind::Limit,
            hyperchunk_expression::ErrorKind::Failed => ErrorKind::Failed,
            _ => ErrorKind::Worker,
        };
        Error::new(kind, error.message())
    }
}

impl From<ElementType> for Kind {
    fn from(datatype: ElementType) -> Kind {
        match datatype {
            ElementType::Int8 => Kind::Int8,
            ElementType::Int16 => Kind::Int16,
            ElementType::Int32 => Kind::Int32,
            ElementType::Int64 => Kind::Int64,
            ElementType::UInt8 => Kind::UInt8,
            ElementType::UInt16 => Kind::UInt16,
            ElementType::UInt32 => Kind::UInt32,
            ElementType::UInt64 => Kind::UInt64,
            ElementType::Float32 => Kind::Float32,
            ElementType::Float64 => Kind::Float64,
        }
    }
}

impl From<Kind> for Datatype {
    /// Returns the datatype of a dataset for values of this kind.
    fn from(kind: Kind) -> Datatype {
        match kind {
            Kind::Bool => return Datatype::Bool,
            Kind::Int8 => ElementType::Int8,
            Kind::Int16 => ElementType::Int16,
            Kind::Int32 => ElementType::Int32,
            Kind::Int64 => ElementType::Int64,
            Kind::UInt8 => ElementType::UInt8,
            Kind::UInt16 => ElementType::UInt16,
            Kind::UInt32 => ElementType::UInt32,
            Kind::UInt64 => ElementType::UInt64,
            Kind::Float32 => ElementType::Float32,
            Kind::Float64 => ElementType::Float64,
        }
        .into()
    }
}

/// Returns the kind of an output's elements; `None` if they are not numbers.
pub fn output_kind(datatype: &Datatype) -> Option<Kind> {
    match datatype {
        Datatype::Bool => Some(Kind::Bool),
        other => other.number().map(Kind::from),
    }
}

/// Compiles an expression for elements that are then [stored](Datatype::store) as `output`: each is rounded
/// only once.
fn compile_for(expression: &Expression, inputs: &[Kind], output: &Datatype) -> Result<Program> {
    let Some(kind) = output_kind(output) else {
        fail!(Invalid, "the output of the expression is not a number")
    };
    Ok(match output {
        Datatype::Half => expression.compile_for_half(inputs)?,
        _ => expression.compile(inputs, kind)?,
    })
}

/// Compiles the expression of a record, for inputs that currently have these kinds.
///
/// # Errors
/// `Invalid` when the record contradicts its expression, and the errors of [`Expression::compile`].
pub fn compile(record: &Record, kinds: &[Kind]) -> Result<Program> {
    let expression = Expression::parse(&record.source)?;
    if !expression.inputs().iter().eq(record.inputs.iter().map(|i| &i.name)) {
        fail!(Invalid, "the record's inputs are not those of its expression")
    }
    if !record.scratch.is_empty() || record.compiled.is_some() {
        fail!(Invalid, "the record of an expression has one output, and no compiled form")
    }
    if let Some(input) = record.inputs.iter().find(|i| !is_single(&i.dims) && i.dims != record.output.dims) {
        fail!(Invalid, "input {:?} has neither the output's shape nor one element", escape(&input.name, 80))
    }
    compile_for(&expression, kinds, &record.output.datatype)
}

/// Returns whether the expression of a record subtracts or negates unsigned integers, which wrap around below
/// 0; false for functions in other languages.
pub fn may_wrap_below_zero(record: &Record) -> bool {
    let kinds: Option<Vec<Kind>> = record.inputs.iter().map(|input| output_kind(&input.datatype)).collect();
    record.backend == Backend::Expression
        && kinds.is_some_and(|kinds| {
            let expression = Expression::parse(&record.source);
            expression.is_ok_and(|expression| expression.may_wrap_below_zero(&kinds).unwrap_or(false))
        })
}

/// Checks that a block of this shape, with its inputs, is within the profile's limit.
///
/// # Errors
/// `Limit`.
pub fn check_data(record: &Record, shape: &[u64], profile: &Profile) -> Result<()> {
    let chunk = byte_size(&record.chunk, &record.output.datatype);
    let inputs =
        record.inputs.iter().map(|i| byte_size(if is_single(&i.dims) { &[] } else { shape }, &i.datatype));
    let bytes = inputs.fold(chunk, u64::saturating_add);
    if bytes > profile.limits.data {
        fail!(
            Limit,
            "one evaluation needs {} MiB for its inputs and outputs, over the limit of {} MiB (profile {}, `data`); attaching with `--chunks auto` makes evaluations small",
            bytes >> 20,
            profile.limits.data >> 20,
            profile.name
        )
    }
    Ok(())
}
