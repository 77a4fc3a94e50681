//! Live datasets: small signed programs stored in an HDF5 file as datasets.
//!
//! This crate holds the [record](record::Record) and its [stubs](stub::Stub), signatures and keys, trust
//! profiles, the scanners that find a source's inputs, the host side that starts workers, and the part that all
//! workers have in common. The languages are in the workers' own crates. This crate reads no HDF5 file: its
//! caller provides the inputs.
//!
//! Programs run on Linux only, in `worker` and `host`. Elsewhere `host` has the same functions, which refuse to start
//! one; records, keys, trust and expressions are the same everywhere.
//!
//! **Invariant:** nothing from a file is executed, loaded or compiled in the reading process.

pub mod attribute;
pub mod audit;
pub mod backend;
mod cache;
pub mod chunking;
pub mod cpp;
pub mod cuda;
pub mod datatype;
mod endpoint;
pub mod error;
pub mod escape;
pub mod expression;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(not(target_os = "linux"))]
#[path = "host/elsewhere.rs"]
pub mod host;
#[cfg(target_os = "linux")]
mod interrupt;
pub mod keys;
pub mod legacy;
#[cfg(target_os = "linux")]
pub mod memory;
pub mod network;
pub mod observe;
mod os;
pub mod profile;
pub mod protocol;
pub mod record;
pub mod scan;
mod settings;
mod shape;
pub mod signature;
#[cfg(target_os = "linux")]
pub mod socket;
pub mod sources;
pub mod spec;
pub mod stored;
pub mod stub;
pub mod system;
pub mod trust;
pub mod wasm;
#[cfg(target_os = "linux")]
pub mod worker;
