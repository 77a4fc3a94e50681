//! Live datasets: small signed programs stored in an HDF5 file as datasets.
//!
//! This crate holds the [record](record::Record) and its [stubs](stub::Stub), signatures and keys, trust
//! profiles, the scanners that find a source's inputs, the worker in which functions run, and the host side
//! that starts it. It reads no HDF5 file: its caller provides the inputs.
//!
//! **Invariant:** nothing from a file is executed, loaded or compiled in the reading process.

pub mod attribute;
pub mod audit;
pub mod backend;
pub mod chunking;
pub mod cpp;
pub mod cuda;
pub mod datatype;
pub mod error;
pub mod escape;
pub mod expression;
pub mod host;
pub mod keys;
pub mod legacy;
pub mod memory;
pub mod network;
pub mod observe;
pub mod profile;
pub mod protocol;
pub mod record;
pub mod scan;
mod settings;
pub mod signature;
pub mod socket;
pub mod sources;
pub mod spec;
pub mod stored;
pub mod stub;
pub mod system;
pub mod trust;
pub mod wasm;
pub mod worker;
