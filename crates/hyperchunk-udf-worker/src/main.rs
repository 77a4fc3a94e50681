//! Process in which a live dataset's function runs; also the connector, and the sandboxed start of compilers.
//! Started by the host, not by hand.

#![cfg_attr(not(test), no_main)]

mod compile;
mod connect;
mod cpp;
mod cuda;
mod lua;

use cpp::CppRuntime;
use cuda::CudaRuntime;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::error::{Error, ErrorKind};
use hyperchunk_udf::worker::entry::report;
use hyperchunk_udf::worker::{Runtime, serve};
use lua::LuaRuntime;
use std::ffi::OsString;

/// Returns an `Err` of `kind` with a formatted message from the calling function.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err(hyperchunk_udf::error::Error::new(
            hyperchunk_udf::error::ErrorKind::$kind,
            format!($($arg)*),
        ))
    };
}
use fail;

hyperchunk_udf::worker_main!(program);

#[cfg_attr(test, allow(dead_code, reason = "a test has a `main` of its own"))]
fn program(arguments: &[OsString]) -> i32 {
    let (verb, rest) =
        arguments.split_first().map_or((None, arguments), |(verb, rest)| (verb.to_str(), rest));
    match verb {
        Some("serve") => serve(rest, &mut |setup, backend, _| match backend {
            Backend::Lua => Ok(Box::new(LuaRuntime::new(setup)?) as Box<dyn Runtime>),
            Backend::Cpp => Ok(Box::new(CppRuntime::new(setup)?)),
            Backend::Cuda => Ok(Box::new(CudaRuntime::new(setup)?)),
            Backend::Wasm => Err(Error::new(ErrorKind::Worker, "WebAssembly runs in a separate worker")),
            Backend::Python => Err(Error::new(ErrorKind::Worker, "Python runs in a separate worker")),
            Backend::Expression => Err(Error::new(ErrorKind::Worker, "expressions need no worker")),
        }),
        Some("connect") => connect::run(rest),
        Some("compile") => match compile::run(rest) {
            Ok(()) => 0,
            Err(error) => {
                report(&format!("hyperchunk-udf-worker: {error}"));
                1
            }
        },
        _ => {
            report(concat!(
                "hyperchunk-udf-worker ",
                env!("CARGO_PKG_VERSION"),
                ": runs the functions of live datasets in a sandbox; started by hyperchunk's plugin, not by hand"
            ));
            2
        }
    }
}
