//! The reader for browsers and Node: the engine as WebAssembly, without I/O of its own.
//!
//! JavaScript sends a request ([`session`]). If bytes are missing, the answer lists their ranges; JavaScript fetches
//! them, hands them over and sends the request again, which then runs further, until the answer is a result or an
//! error. The engine plans the ranges, so a request takes few and large fetches.
#![deny(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "a test may fail")
)]

mod columns;
mod describe;
pub mod ffi;
mod session;
mod source;
