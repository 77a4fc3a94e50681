//! The process in which a live dataset's function runs. Started by whoever reads the dataset; of no use by hand.

use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::error::{Error, ErrorKind};
use hyperchunk_udf::network::connect;
use hyperchunk_udf::worker::{Runtime, compile, cpp::CppRuntime, cuda::CudaRuntime, lua::LuaRuntime, serve};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let status = match arguments.next().as_deref().and_then(|a| a.to_str()) {
        Some("serve") => serve(&mut |setup, backend, _| match backend {
            Backend::Lua => Ok(Box::new(LuaRuntime::new(setup)?) as Box<dyn Runtime>),
            Backend::Cpp => Ok(Box::new(CppRuntime::new(setup)?)),
            Backend::Cuda => Ok(Box::new(CudaRuntime::new(setup)?)),
            Backend::Wasm => Err(Error::new(ErrorKind::Worker, "WebAssembly runs in a worker of its own")),
            Backend::Python => Err(Error::new(ErrorKind::Worker, "Python runs in a worker of its own")),
            Backend::Expression => Err(Error::new(ErrorKind::Worker, "expressions need no worker")),
        }),
        Some("connect") => connect::run(&arguments.collect::<Vec<_>>()),
        Some("compile") => match compile::run(&arguments.collect::<Vec<_>>()) {
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
    };
    std::process::exit(status);
}

#[expect(clippy::print_stderr, reason = "a program's own message")]
fn report(text: &str) {
    eprintln!("{text}");
}
