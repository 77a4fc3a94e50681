//! Worker process for WebAssembly functions of live datasets. It is started by the host, not by
//! hand. It is a separate program because its compiler is large: workers for other languages start faster
//! without it.

#![cfg_attr(not(test), no_main)]

mod functions;
mod memory;
mod runtime;
mod wasi;

use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::worker::entry::report;
use hyperchunk_udf::worker::{Runtime, serve};
use runtime::WasmRuntime;
use std::ffi::OsString;

hyperchunk_udf::worker_main!(program);

#[cfg_attr(test, allow(dead_code, reason = "a test has a `main` of its own"))]
fn program(arguments: &[OsString]) -> i32 {
    match arguments.first().and_then(|a| a.to_str()) {
        Some("serve") => {
            serve(arguments.get(1..).unwrap_or_default(), &mut |setup, backend, segments| match backend {
                Backend::Wasm => Ok(Box::new(WasmRuntime::new(setup, segments)?) as Box<dyn Runtime>),
                other => {
                    let message = format!("this worker does not run {}", other.short_name());
                    Err(Error::new(ErrorKind::Worker, message))
                }
            })
        }
        _ => {
            report(concat!(
                "hyperchunk-wasm-worker ",
                env!("CARGO_PKG_VERSION"),
                ": runs WebAssembly functions of live datasets in a sandbox; started by hyperchunk's plugin, not by hand"
            ));
            2
        }
    }
}

fn fail<T>(kind: ErrorKind, text: impl Into<String>) -> Result<T> {
    Err(Error::new(kind, text))
}
