//! Bindings to NVIDIA's libraries. All of them are found at run time: nothing is linked, and no part of CUDA
//! is needed to build. A missing library is an error that says how to get it.
//!
//! - [`Driver`], [`Context`], [`Stream`], [`Module`] and memory: the driver API, available on any machine
//!   with a GPU;
//! - [`nvrtc`]: CUDA C++ → PTX, without a GPU;
//! - [`ptx`]: the declarations in a PTX text;
//! - memory that two processes share ([`DeviceMemory::shareable`]), for results of a worker that the reader
//!   keeps;
//! - [`ingest`]: from storage to an array in the GPU's memory, with [`nvcomp`] and [`cufile`] if available.
#![cfg_attr(test, allow(clippy::cast_possible_truncation, reason = "a test may fail"))]

mod context;
pub mod cufile;
mod driver;
mod error;
pub mod ingest;
mod kernels;
mod library;
mod memory;
mod module;
pub mod nvcomp;
pub mod nvrtc;
pub mod ptx;
mod shared;
mod stream;

pub use context::Context;
pub use driver::{Device, Driver};
pub use error::{Error, ErrorKind, Result};
pub use memory::{DeviceMemory, PinnedMemory};
pub use module::{Argument, Function, Launch, Module};
pub use stream::{Event, Stream};
