//! The functions that WebAssembly exports. They exchange bytes through buffers that this module owns, so none of them
//! follows a pointer of the caller.
#![expect(unsafe_code, reason = "an exported name must be unique among all that is linked")]

use crate::session::{self, Answer};
use std::cell::RefCell;

thread_local! {
    /// Bytes from JavaScript: a request, or a range of a file.
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The last answer: JSON first, then buffers of values.
    static OUTPUT: RefCell<Answer> = RefCell::default();
}

/// Allocates `length` bytes for input; returns their address, or 0 if there is no memory.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hc_input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        *input = Vec::new();
        if input.try_reserve_exact(length).is_err() {
            return std::ptr::null_mut();
        }
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Stores the input as the range of file `file` from byte `offset` on, for operation `operation`.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hc_provide(file: u32, operation: u32, offset: f64) {
    session::provide(file, operation, offset, INPUT.take());
}

/// Answers the request in the input.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hc_call() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        drop(
            OUTPUT.try_with(|output| {
                output.try_borrow_mut().map(|mut output| *output = vec![text.into_bytes()])
            }),
        );
    }));
    let answer = session::call(&INPUT.take());
    OUTPUT.set(answer);
}

/// Returns the address of a part of the answer; 0 if there is no such part.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hc_output(number: usize) -> *const u8 {
    OUTPUT.with_borrow(|output| output.get(number).map_or(std::ptr::null(), |part| part.as_ptr()))
}

/// Returns the length of a part of the answer in bytes.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hc_output_length(number: usize) -> usize {
    OUTPUT.with_borrow(|output| output.get(number).map_or(0, Vec::len))
}

/// Frees the answer.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn hc_clear() {
    OUTPUT.set(Vec::new());
}
