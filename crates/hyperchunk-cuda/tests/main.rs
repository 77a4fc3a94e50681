//! This crate against the made-up driver of `hyperchunk-cuda-fake`, with kernels that NVRTC compiles where it is installed.
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
