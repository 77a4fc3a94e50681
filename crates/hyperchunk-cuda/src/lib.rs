//! The room where Hyperchunk meets NVIDIA's libraries. All of them are found at run time: nothing is linked, and no part of
//! CUDA is needed to build. What is not there is an error that says so and what to do.
//!
//! - [`Driver`], [`Context`], [`Stream`], [`Module`] and memory: the driver API, what there is on any machine with a GPU;
//! - [`nvrtc`]: CUDA C++ → PTX, without a GPU;
//! - [`ptx`]: what a PTX text declares.

mod context;
mod driver;
mod error;
mod library;
mod memory;
mod module;
pub mod nvrtc;
pub mod ptx;
mod stream;

pub use context::Context;
pub use driver::{Device, Driver};
pub use error::{Error, ErrorKind, Result};
pub use memory::{DeviceMemory, PinnedMemory};
pub use module::{Argument, Function, Launch, Module};
pub use stream::{Event, Stream};
