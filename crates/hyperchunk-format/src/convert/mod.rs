//! Datatype conversions: one table, for every pair that HDF5 converts.
//!
//! The rules are libhdf5's. Integers saturate, except between two integers of the same size and opposite byte
//! order, whose bytes are only reversed. Floating-point numbers become integers by truncation, saturating,
//! with NaN as 0. Integers round to floating-point numbers with ties to even. Floating-point numbers round to
//! others with ties to even between the processor's own little-endian types, which the library leaves to the
//! compiler, and otherwise with ties away from zero, which the library implements itself. Strings are
//! truncated or padded, enumerations are matched by name, compounds by the names of their members.
//!
//! Where the library's result is an accident, the right one is returned: numbers between -½ and 0 converted
//! in software become 0, not the least integer; integers beyond the largest 2-byte number become infinite,
//! not NaN; a fraction of all ones that is rounded up below the smallest normal number carries.

mod elements;
mod enumeration;
mod memory;
mod native;
mod number;
mod plan;
mod step;
mod text;
mod widen;

pub use memory::memory_type;
pub use plan::Conversion;

#[cfg(test)]
mod tests;
