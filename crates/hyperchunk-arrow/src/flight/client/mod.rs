//! The client of Flight servers.

mod local;
mod process;
mod source;
mod table;
mod url;

pub use table::{RemoteBatches, RemoteTable};

/// The URL schemes of Flight servers.
const SCHEMES: [&str; 4] = ["grpc", "grpc+tcp", "grpc+tls", "grpc+unix"];

/// Enables URLs of Flight servers in the engine, for the whole process: `grpc://`, `grpc+tls://`,
/// `grpc+unix://`.
pub fn enable() {
    hyperchunk::io::set_schemes(&SCHEMES, source::open);
}
