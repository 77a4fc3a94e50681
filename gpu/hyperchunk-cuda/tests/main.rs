//! Tests with the fake driver of `hyperchunk-cuda-fake`, and kernels that NVRTC compiles if it is installed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod driver;
mod ingest;
mod kernels;
mod nvrtc;
mod support;
