//! Expressions over arrays, such as `"(NIR - Red) / (NIR + Red)"`: parsed and computed in this process.
//!
//! An expression is data, not a program: no loops, no memory of its own, no access to anything except its
//! inputs. Its cost is bounded by its length times the number of elements. So it needs no worker and is
//! allowed in files of unknown origin.
//!
//! text → [tokens](lex) → [parts](tree) → [steps](plan), typed by NumPy's rules → [blocks](run) of elements.
//!
//! **Invariant:** computing reads no byte outside the inputs, writes the complete output or fails, and never
//! panics.

mod casts;
pub mod error;
mod kernels;
mod kind;
mod lanes;
mod lex;
mod lower;
mod number;
mod parse;
mod plan;
mod run;
#[cfg(test)]
mod tests;
mod tree;
mod wide;

pub use kind::Kind;
pub use lanes::as_output_bytes;
pub use lanes::copy;
pub use plan::Program;
pub use run::{InputBytes, Scratch};

pub use error::{Error, ErrorKind, Result};

use error::fail;

/// Maximum length of an expression in bytes.
pub const MAX_TEXT_BYTES: usize = 64 << 10;
/// Maximum number of values and operators in an expression.
pub const MAX_PARTS: usize = 4096;
/// Maximum nesting of parentheses and functions.
pub const MAX_DEPTH: usize = 100;
/// Maximum number of datasets.
pub const MAX_INPUTS: usize = 127;

/// Parsed expression, whose names are not yet resolved.
#[derive(Debug)]
pub struct Expression {
    parsed: parse::ParsedExpression,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// `Syntax` with the position, `Limit` when it is too long, too deep or names too many datasets.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_TEXT_BYTES {
            fail!(Limit, "the expression has {} bytes; at most {MAX_TEXT_BYTES} are allowed", text.len())
        }
        let parsed = parse::parse(text.strip_prefix('\u{feff}').unwrap_or(text))?;
        Ok(Expression { parsed })
    }

    /// Returns the names of the datasets, each once, in order of first use.
    pub fn inputs(&self) -> &[String] {
        &self.parsed.names
    }

    /// Returns the named constants in the expression, such as `e`, which could be mistaken for datasets.
    pub fn constants(&self) -> &[&'static str] {
        &self.parsed.constants
    }

    /// Returns the type of the expression's values for inputs of these types, by NumPy's rules.
    ///
    /// # Errors
    /// `Syntax` when an operator does not accept its operands, or a number does not fit.
    pub fn infer(&self, inputs: &[Kind]) -> Result<Kind> {
        Ok(lower::lower(&self.parsed, inputs)?.kind())
    }

    /// Returns whether the expression subtracts or negates unsigned integers, which wrap around below 0, as in
    /// NumPy.
    ///
    /// # Errors
    /// The errors of [`infer`](Expression::infer).
    ///
    /// # Examples
    /// ```
    /// use hyperchunk_expression::{Expression, Kind};
    ///
    /// let of_bands = |kind| Expression::parse("(NIR - Red) / (NIR + Red)")?.may_wrap_below_zero(&[kind; 2]);
    /// assert!(of_bands(Kind::UInt16)?);
    /// assert!(!of_bands(Kind::Float32)?);
    /// # Ok::<(), hyperchunk_expression::Error>(())
    /// ```
    pub fn may_wrap_below_zero(&self, inputs: &[Kind]) -> Result<bool> {
        Ok(lower::lower(&self.parsed, inputs)?.may_wrap_below_zero())
    }

    /// Compiles the expression for inputs of these types and elements of type `output`.
    ///
    /// # Errors
    /// The errors of [`infer`](Expression::infer).
    pub fn compile(&self, inputs: &[Kind], output: Kind) -> Result<Program> {
        let mut steps = lower::lower(&self.parsed, inputs)?;
        steps.convert(output);
        Ok(Program::new(steps, inputs, output))
    }

    /// Compiles the expression for 16-bit floats: the output is `float32`, for rounding to 16 bits, and the
    /// result is as if each element was rounded only once.
    ///
    /// # Errors
    /// The errors of [`infer`](Expression::infer).
    pub fn compile_for_half(&self, inputs: &[Kind]) -> Result<Program> {
        let mut steps = lower::lower(&self.parsed, inputs)?;
        steps.convert_to_half();
        Ok(Program::new(steps, inputs, Kind::Float32))
    }
}

/// Adds the line and column of byte `at` to `error`.
fn at_position(error: &Error, text: &str, at: usize) -> Error {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let place = if text.trim_end().contains('\n') {
        format!("line {line}, column {column}")
    } else {
        format!("column {column}")
    };
    Error::new(error.kind(), format!("{place}: {}", error.message()))
}
