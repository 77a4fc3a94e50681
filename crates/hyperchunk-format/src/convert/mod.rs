//! Datatype conversions: one table, from any type to any other that HDF5 converts.
//!
//! The rules are libhdf5's. Integers saturate, but between two of one size and opposite byte order, whose bytes are only
//! reversed. Floating-point numbers become integers towards zero, saturating, NaN as 0.
//! Integers round to floating-point numbers with ties to even. Floating-point numbers round to others with ties to even
//! between the processor's own little-endian types, where the library leaves it to the compiler, and with ties away from zero
//! otherwise, where it does it itself. Strings are cut and filled up, enumerations go by name, compounds by the names of
//! their members.
//!
//! Where the library's result is an accident, the right one is given: numbers between -½ and 0 that are converted in
//! software are 0, not the least integer; integers beyond the largest 2-byte number are infinite, not NaN; a fraction
//! of all ones that is rounded up below the smallest normal number carries.

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
